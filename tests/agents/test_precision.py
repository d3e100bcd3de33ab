"""bfloat16: forward pass and loss under autocast, parameters and optimiser in float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from proximo import DAAC, PPG, PPO, TRPO, RecurrentPPO, evaluate, make_vec_env
from proximo.learners.ppo import PPOLearner


def test_cartpole_is_learnt() -> None:
    env = make_vec_env("CartPole-v1", n_envs=8, seed=0)
    model = PPO(
        "MlpPolicy", env, n_steps=128, batch_size=256, n_epochs=10, learning_rate=2e-3, gamma=0.98, seed=1,
        precision="bf16",
    )  # fmt: skip
    assert model.backend == "torch: precision is bf16"
    model.learn(30_000)
    assert evaluate(model, make_vec_env("CartPole-v1", seed=100), 10).mean > 300.0


@pytest.mark.parametrize(
    ("algorithm", "policy", "options"),
    [(PPO, "MlpPolicy", {}), (RecurrentPPO, "MlpLstmPolicy", {"policy_kwargs": {"lstm_hidden_size": 8}})],
)
def test_gradients_are_finite_and_everything_stays_float32(algorithm: Any, policy: str, options: Any) -> None:
    model = algorithm(policy, "CartPole-v1", n_steps=64, batch_size=32, n_epochs=2, seed=0, precision="bf16", **options)
    seen: list[torch.Tensor] = []
    model.policy.optimizer.register_step_pre_hook(lambda *_: seen.append(model.runtime.flat.gradients.clone()))
    model.learn(64)
    assert len(seen) >= 4
    assert all(torch.isfinite(gradient).all() for gradient in seen)
    assert any(gradient.abs().max() > 0.0 for gradient in seen)
    kept = [
        *model.policy.parameters(),
        *(part for state in model.policy.optimizer.state.values() for part in state.values()),
    ]
    assert {part.dtype for part in kept} == {torch.float32}


def test_the_forward_pass_is_of_lower_precision() -> None:
    """The same weights and observations give values that differ by bfloat16's rounding, and by no more."""
    values = {}
    for precision in ("float32", "bf16"):
        model = PPO("MlpPolicy", "CartPole-v1", n_steps=64, seed=0, backend="torch", precision=precision)
        with torch.no_grad():
            model.policy.value_net.weight.normal_(generator=torch.Generator().manual_seed(0))
        observations = torch.linspace(-1.0, 1.0, 40).reshape(10, 4).numpy()
        values[precision] = torch.as_tensor(model.runtime.backend.values(observations))
    difference = (values["float32"] - values["bf16"]).abs().max()
    assert 1e-4 < float(difference) < 0.1


def test_state_dependent_noise_and_terms_of_ones_own() -> None:
    class Extra(PPOLearner):
        def loss_terms(self, batch: Any, settings: Any) -> Any:
            terms = super().loss_terms(batch, settings)
            return terms._replace(extra={"value": self.policy.predict_values(batch.observations).mean()})

    model = PPO(
        "MlpPolicy", "Pendulum-v1", n_steps=32, batch_size=16, seed=0, use_sde=True, precision="bf16",
        learner_class=Extra,
    )  # fmt: skip
    model.learn(32, log_interval=None)
    assert isinstance(model.logger.name_to_value["train/value"], float)
    assert model.rollout_buffer.actions.dtype == "float32"


@pytest.mark.parametrize(
    ("algorithm", "options", "layers"),
    [
        (PPG, {"rollouts_per_phase": 1, "value_epochs": 2}, ("value_net", "auxiliary_value_net")),
        (DAAC, {}, ("value_net", "action_net")),
    ],
)
def test_updates_beside_ppos_run_in_it_too(algorithm: Any, options: Any, layers: Any) -> None:
    model = algorithm(
        "MlpPolicy", "CartPole-v1", n_steps=32, batch_size=16, seed=0, precision="bf16", **options
    )  # fmt: skip
    trained: dict[str, set[torch.dtype]] = {name: set() for name in layers}
    for name, dtypes in trained.items():
        layer = getattr(model.policy, name)
        layer.register_forward_hook(lambda _, __, output, dtypes=dtypes: dtypes.add(output.dtype))
    before = model.policy.parameters_to_vector()
    model.learn(32)
    assert trained == {name: {torch.bfloat16} for name in layers}
    after = model.policy.parameters_to_vector()
    assert np.isfinite(after).all()
    assert not np.array_equal(before, after)


def test_trpo_refuses_it() -> None:
    with pytest.raises(ValueError, match=r"TRPO .* float32; leave precision out, or use PPO"):
        TRPO("MlpPolicy", "CartPole-v1", precision="bf16")


def test_another_word_is_refused() -> None:
    with pytest.raises(ValueError, match="precision is 'fp16'; expected 'float32' or 'bf16'"):
        PPO("MlpPolicy", "CartPole-v1", precision="fp16")  # type: ignore[arg-type]
