"""Hyperparameters are attributes that a callback may change: what it sets is what the next update uses."""

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np
import pytest
import torch

from proximo import A2C, PPG, PPO, TRPO, MaskablePPO, make_vec_env
from proximo.functional.schedules import LinearSchedule
from proximo.rollout.storage import RolloutBuffer
from proximo.training.callbacks import BaseCallback

SMALL: dict[str, Any] = {"n_steps": 32, "seed": 0}


class Setter(BaseCallback):
    """Sets attributes of the model before its second rollout."""

    def __init__(self, **values: Any) -> None:
        super().__init__()
        self.values = values

    def _on_rollout_start(self) -> None:
        if self.num_timesteps:
            for name, value in self.values.items():
                setattr(self.model, name, value)


def weights(model: Any) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.policy.parameters()])


@pytest.mark.parametrize("algorithm", [PPO, A2C, PPG, TRPO])
def test_the_learning_rate_follows(algorithm: Any) -> None:
    model = algorithm("MlpPolicy", "CartPole-v1", **SMALL)
    model.learn(64, callback=Setter(learning_rate=1e-9), log_interval=None)
    assert model.logger.name_to_value["train/learning_rate"] == 1e-9
    assert model.policy.optimizer.param_groups[0]["lr"] == 1e-9


def test_a_schedule_may_take_the_place_of_a_number() -> None:
    model = PPO("MlpPolicy", "CartPole-v1", **SMALL)
    model.learn(64, callback=Setter(learning_rate=LinearSchedule(1e-3, 5e-4, 1.0)), log_interval=None)
    assert model.logger.name_to_value["train/learning_rate"] == pytest.approx(5e-4)


def test_a_schedule_of_ones_own_stays_until_the_learning_rate_changes() -> None:
    model = PPO("MlpPolicy", "CartPole-v1", **SMALL)
    model.lr_schedule = lambda progress: 1e-5
    model.learn(64, log_interval=None)
    assert model.logger.name_to_value["train/learning_rate"] == 1e-5


class Asked(RolloutBuffer):
    """Remembers the discounts that its advantages were estimated with."""

    def compute_returns_and_advantage(self, last_values: torch.Tensor, dones: np.ndarray) -> None:
        self.asked = [*getattr(self, "asked", []), (self.gamma, self.gae_lambda)]
        super().compute_returns_and_advantage(last_values, dones)


def test_discounts_follow() -> None:
    """With γ = 0 the return of a step is its reward, 1 in CartPole; the buffers of users are told too."""
    model = PPO("MlpPolicy", "CartPole-v1", **SMALL)
    model.learn(64, callback=Setter(gamma=0.0))
    np.testing.assert_allclose(model.rollout_buffer.returns, 1.0, atol=1e-6)
    own = PPO("MlpPolicy", "CartPole-v1", rollout_buffer_class=Asked, **SMALL)
    own.learn(64, callback=Setter(gamma=0.5, gae_lambda=0.25))
    assert own.rollout_buffer.asked == [(0.99, 0.95), (0.5, 0.25)]


def test_a_changed_value_is_checked() -> None:
    model = PPO("MlpPolicy", "CartPole-v1", **SMALL)
    with pytest.raises(ValueError, match=r"gamma is 1.5; expected a number from 0 to 1"):
        model.learn(64, callback=Setter(gamma=1.5))


class Undecided(BaseCallback):
    """Wants steps only while a rollout is being collected, or only outside."""

    def __init__(self, during: bool) -> None:
        super().__init__()
        self.during, self.collecting = during, False

    def wants_steps(self) -> bool:
        return self.collecting == self.during

    def _on_rollout_start(self) -> None:
        self.collecting = True
        self.model.env.env_method("reset")  # any other work between the two questions

    def _on_rollout_end(self) -> None:
        self.collecting = False


@pytest.mark.parametrize("during", [True, False])
def test_steps_are_counted_once_whoever_asks(during: bool) -> None:
    callback = Undecided(during)
    model = PPO("MlpPolicy", make_vec_env("CartPole-v1", n_envs=2, seed=0), **SMALL)
    collect = model._required_collector().collect

    def changing(*arguments: Any) -> bool:
        complete = collect(*arguments)
        callback.collecting = not callback.collecting  # the answer after the rollout is another one
        return complete

    model._required_collector().collect = changing
    model.learn(192, callback=callback)
    assert model.num_timesteps == 192
    assert model._iteration == 3


def test_setting_up_needs_no_callback() -> None:
    model = PPO("MlpPolicy", "CartPole-v1", **SMALL)
    total, callback = model._setup_learn(1000)
    assert total == 1000
    assert isinstance(callback, BaseCallback)


@pytest.mark.parametrize("algorithm", [PPO, A2C, PPG, TRPO, MaskablePPO])
def test_constructors_have_the_defaults_of_their_configuration(algorithm: Any) -> None:
    """And every argument is described in the class's own help."""
    parameters = inspect.signature(algorithm).parameters
    for name, field in algorithm.config_class.__dataclass_fields__.items():
        assert parameters[name].default == field.default, name
    for name in parameters:
        assert re.search(rf"^ +{name}\b", algorithm.__doc__, re.MULTILINE), name


@pytest.mark.parametrize(
    ("name", "value"),
    [("n_epochs", np.int64(2)), ("ent_coef", np.array(0.1)), ("ent_coef", torch.tensor(0.1)),
     ("gamma", np.float32(0.5)), ("clip_range", np.float32(0.1)), ("learning_rate", np.float32(1e-3))],
)  # fmt: skip
def test_numbers_of_numpy_and_torch_are_numbers(name: str, value: Any) -> None:
    model = PPO("MlpPolicy", "CartPole-v1", **SMALL).learn(64, callback=Setter(**{name: value}))
    assert getattr(model.configuration(), name) == pytest.approx(float(value))


def test_a_schedule_may_end_at_zero_and_give_numbers_of_numpy() -> None:
    """Checks are for how a training begins; a schedule's own values are used as they come."""

    class Own(PPG):
        def _setup_lr_schedule(self) -> None:
            self.lr_schedule = lambda progress: np.float32(1e-3) * progress

    model = Own(
        "MlpPolicy", "CartPole-v1", rollouts_per_phase=2, batch_size=16, clip_range_vf=lambda p: 0.2 * p, **SMALL
    )
    model.learn(128, log_interval=None)
    assert model.logger.name_to_value["train/learning_rate"] == 0.0
    assert "train/kl_loss" in model.logger.name_to_value


def test_the_length_of_a_phase_changes_with_the_next_one() -> None:
    model = PPG("MlpPolicy", "CartPole-v1", rollouts_per_phase=2, batch_size=32, **SMALL)
    model.learn(32)
    model.rollouts_per_phase = 1
    model.learn(32, reset_num_timesteps=False)  # the phase that has begun ends as it is
    assert model.learner.phase.rollouts == 2
    model.learn(32, reset_num_timesteps=False)
    assert model.learner.phase.rollouts == 1


class WhileCollecting(BaseCallback):
    """Loads other weights at every step, and asks who runs them."""

    def _on_step(self) -> bool:
        parameters = self.model.get_parameters()
        parameters["policy"]["value_net.weight"].zero_()
        parameters["policy"]["value_net.bias"].fill_(100.0 * self.n_calls)
        self.model.set_parameters({name: dict(part) for name, part in parameters.items()})
        self.model.policy.optimizer.load_state_dict(self.model.policy.optimizer.state_dict())
        assert self.model.backend.startswith(("fused", "torch"))
        return True


@pytest.mark.parametrize("backend", ["fused", "torch"])
def test_weights_loaded_within_a_rollout_act_at_once(backend: Any) -> None:
    model = PPO("MlpPolicy", "CartPole-v1", n_steps=5, batch_size=5, seed=0, backend=backend)
    model.learn(5, callback=WhileCollecting())
    assert model.rollout_buffer.values[1:, 0].tolist() == [100.0, 200.0, 300.0, 400.0]


def test_epochs_of_a_users_buffer_may_differ_in_length() -> None:
    class Growing(RolloutBuffer):
        passes = 0

        def get(self, batch_size: int | None = None) -> Any:
            self.passes += 1
            return super().get(self.buffer_size if self.passes == 1 else 8)

    model = PPO("MlpPolicy", "CartPole-v1", rollout_buffer_class=Growing, n_epochs=2, **SMALL).learn(32)
    assert model._n_updates == 2


def test_another_distribution_is_noticed() -> None:
    model = PPO("MlpPolicy", "Pendulum-v1", **SMALL)
    assert model.backend == "fused"
    kind = type(model.policy.action_dist)
    model.policy.action_dist = type("Still", (kind,), {"sample": lambda self: self.mode()})(1)
    assert model.backend == "torch: action distribution is Still"


def test_a_parameter_frozen_after_a_phase_stays() -> None:
    model = PPG("MlpPolicy", "CartPole-v1", rollouts_per_phase=1, batch_size=32, **SMALL).learn(32)
    layer = model.policy.mlp_extractor.policy_net[0]
    layer.weight.requires_grad_(False)
    before = layer.weight.clone()
    model.learn(64, reset_num_timesteps=False)
    assert torch.equal(before, layer.weight)
