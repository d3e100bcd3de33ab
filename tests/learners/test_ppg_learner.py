"""The two phases of PPG: what each changes, what the auxiliary phase keeps in place, and how it gathers gradients."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from proximo.backends.runtime import Runtime
from proximo.config import PPGConfig, UpdateSettings
from proximo.data import Rollout
from proximo.errors import NonFiniteError, NotEnoughMemoryError
from proximo.functional.spaces import Space
from proximo.learners.ppg import PPGLearner, normalized
from proximo.networks.distributions.divergence import kl_from_rows, parameter_rows
from proximo.networks.encoders import NatureCNN
from proximo.networks.phasic import PhasicPolicy
from proximo.rollout import phase as phase_module
from proximo.rollout.phase import PhaseBuffer
from proximo.rollout.storage import RolloutBuffer, allocate_rollout
from rounding import LOSSES, assert_same_training

STEPS, ENVIRONMENTS = 8, 4
VECTOR = spaces.Box(-1.0, 1.0, (3,), np.float32)
IMAGE = spaces.Box(0, 255, (1, 36, 36), np.uint8)
AUXILIARY = PPGConfig(learning_rate=1e-3, aux_epochs=3, num_aux_mini_batch=4)
UPDATE = UpdateSettings(
    learning_rate=1e-3,
    batch_size=8,
    n_epochs=1,
    clip_range=0.2,
    clip_range_vf=None,
    normalize_advantage=True,
    ent_coef=0.01,
    vf_coef=0.5,
    max_grad_norm=0.5,
    target_kl=None,
)


def fill(rollout: Rollout, action_space: Space, seed: int) -> None:
    """Random observations; the return is something that can be predicted from them."""
    generator = np.random.default_rng(seed)
    observations: Any = rollout.observations
    if observations.dtype == np.uint8:
        observations[:] = generator.integers(0, 256, observations.shape)
        rollout.returns[:] = observations.reshape(STEPS, ENVIRONMENTS, -1)[..., :500].mean(axis=-1) / 50.0
    else:
        observations[:] = generator.uniform(-1.0, 1.0, observations.shape)
        rollout.returns[:] = observations.sum(axis=-1) + 1.0
    action_space.seed(seed)
    for index in np.ndindex(STEPS, ENVIRONMENTS):
        rollout.actions[index] = action_space.sample()
    rollout.advantages[:] = generator.normal(size=rollout.advantages.shape)


def make_learner(
    observation_space: Space = VECTOR,
    action_space: Space | None = None,
    rollouts: int = 2,
    backend: Any = "torch",
    share: bool = True,
) -> tuple[PPGLearner, RolloutBuffer]:
    torch.manual_seed(0)
    action_space = action_space or spaces.Discrete(3)
    encoder = {"features_extractor_class": NatureCNN} if observation_space is IMAGE else {"net_arch": [16]}
    policy = PhasicPolicy(
        observation_space,
        action_space,
        lambda _: 1e-3,
        share_features_extractor=share,
        features_extractor_kwargs={"features_dim": 16} if observation_space is IMAGE else None,
        **encoder,
    )
    generator = np.random.default_rng(0)
    runtime = Runtime(generator, backend)
    runtime.policy = policy
    phase = PhaseBuffer(rollouts, STEPS, ENVIRONMENTS, observation_space)
    buffer = RolloutBuffer(STEPS, observation_space, action_space, device="cpu", n_envs=ENVIRONMENTS)
    fill(buffer.rollout, action_space, 0)
    return PPGLearner(runtime, phase), buffer


def fill_phase(learner: PPGLearner, buffer: RolloutBuffer) -> None:
    for seed in range(learner.phase.rollouts):
        fill(buffer.rollout, learner.policy.action_space, seed)
        learner.phase.add(buffer.rollout)


def weights(module: torch.nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in module.parameters()]).clone()


def old_rows(learner: PPGLearner) -> torch.Tensor:
    return learner._old_rows().clone()


def divergence(learner: PPGLearner, rows: torch.Tensor) -> float:
    """Mean KL(rows ‖ policy) over the phase."""
    everything = np.arange(learner.phase.samples)
    with torch.no_grad():
        parts = [
            kl_from_rows(rows[chunk.rows], learner.policy.evaluate_auxiliary(chunk.observations).distribution)
            for chunk in learner.phase.chunks(everything, torch.device("cpu"))
        ]
    return float(torch.cat(parts).mean())


# -- each phase changes its own parameters


@pytest.mark.parametrize("share", [True, False], ids=["single", "dual"])
def test_auxiliary_phase_moves_encoder_and_auxiliary_head(share: bool) -> None:
    learner, buffer = make_learner(IMAGE, share=share)
    policy = learner.policy
    fill_phase(learner, buffer)
    encoder, auxiliary, value = (
        weights(module) for module in (policy.pi_features_extractor, policy.auxiliary_value_net, policy.value_net)
    )
    metrics = learner.auxiliary_update(AUXILIARY)
    assert not torch.equal(encoder, weights(policy.pi_features_extractor))
    assert not torch.equal(auxiliary, weights(policy.auxiliary_value_net))
    assert not torch.equal(value, weights(policy.value_net))
    assert metrics["kl_loss"] > 0.0
    assert metrics["aux_value_loss"] > 0.0


@pytest.mark.parametrize("backend", ["fused", "torch"])
def test_policy_phase_leaves_the_auxiliary_head_alone(backend: str) -> None:
    """Before an auxiliary phase and after one, whose gradients must not linger in the shared memory."""
    learner, buffer = make_learner(rollouts=2, backend=backend)
    head = learner.policy.auxiliary_value_net
    for auxiliary in (False, True, False, True):
        before, others = weights(head), weights(learner.policy.mlp_extractor)
        metrics = learner.update(buffer, UPDATE, AUXILIARY)
        assert ("aux_value_loss" in metrics) == ("kl_loss" in metrics) == auxiliary
        assert torch.equal(before, weights(head)) != auxiliary
        assert not torch.equal(others, weights(learner.policy.mlp_extractor))
    assert {"policy_gradient_loss", "value_loss", "entropy_loss", "approx_kl", "clip_fraction"} <= metrics.keys()


def test_phase_begins_again_after_the_auxiliary_phase() -> None:
    learner, buffer = make_learner(rollouts=3)
    counts = []
    for _ in range(7):
        learner.update(buffer, UPDATE, AUXILIARY)
        counts.append(learner.phase.stored)
    assert counts == [1, 2, 0, 1, 2, 0, 1]


@pytest.mark.parametrize("share", [True, False], ids=["single", "dual"])
def test_policy_phase_value_loss_does_not_move_the_policys_encoder(share: bool) -> None:
    """With no policy loss there is nothing left to move it; the value itself does move."""
    learner, buffer = make_learner(IMAGE, share=share)
    buffer.advantages = np.zeros_like(buffer.advantages)
    policy = learner.policy
    encoder, value = weights(policy.pi_features_extractor), weights(policy.value_net)
    learner.update(buffer, replace(UPDATE, normalize_advantage=False, ent_coef=0.0), AUXILIARY)
    assert torch.equal(encoder, weights(policy.pi_features_extractor))
    assert not torch.equal(value, weights(policy.value_net))


def test_fused_policy_phase_equals_torch() -> None:
    results = []
    for backend in ("fused", "torch"):
        learner, buffer = make_learner(rollouts=2, backend=backend)
        assert learner.runtime.description.startswith(backend)
        for _ in range(5):  # two auxiliary phases among them
            metrics = learner.update(buffer, UPDATE, AUXILIARY)
        results.append((learner.policy, metrics))
    (fused, found), (reference, expected) = results
    steps = 5 * 4 + 2 * 3 * 4  # minibatches of the policy phases and of the auxiliary phases
    assert_same_training(fused, reference, steps=steps)
    for name in ("policy_gradient_loss", "value_loss"):
        assert found[name] == pytest.approx(expected[name], rel=LOSSES["rtol"], abs=LOSSES["atol"])


# -- the auxiliary phase


@pytest.mark.parametrize("spread", [0.5, 30.0])
def test_one_step_is_the_gradient_of_the_papers_loss(spread: float) -> None:
    """½(V_aux − R)² + ½(V − R)², the divergence having no gradient where it is 0; Adam's first step is ±lr.

    R is seen from the mean by the auxiliary head, and both in units of the deviation where that is above 1.
    """
    learner, buffer = make_learner()
    policy = learner.policy
    fill_phase(learner, buffer)
    learner.phase.returns[:] = 7.0 + spread * np.random.default_rng(0).standard_normal(learner.phase.returns.shape)
    observations = torch.as_tensor(np.asarray(learner.phase.observations).reshape(-1, 3))
    returns = torch.as_tensor(learner.phase.returns.reshape(-1))
    unit = max(1.0, float(returns.std(correction=0)))
    with policy.auxiliary_phase():
        found = policy.evaluate_auxiliary(observations)
    auxiliary_errors = found.auxiliary_values - (returns - returns.mean()) / unit
    loss = 0.5 * (auxiliary_errors**2 + ((found.values - returns) / unit) ** 2).mean()
    chosen = (policy.auxiliary_value_net.weight, policy.value_net.weight)
    expected = torch.autograd.grad(loss, chosen)
    before = [parameter.detach().clone() for parameter in chosen]
    metrics = learner.auxiliary_update(replace(AUXILIARY, aux_epochs=1, num_aux_mini_batch=1, max_grad_norm=1e9))
    assert metrics["aux_value_loss"] == pytest.approx(0.5 * float((auxiliary_errors.detach() ** 2).mean()), rel=1e-4)
    for parameter, old, gradient in zip(chosen, before, expected, strict=True):
        torch.testing.assert_close(parameter.detach() - old, -1e-3 * gradient.sign(), rtol=1e-3, atol=1e-6)


def test_large_returns_do_not_drown_the_divergence() -> None:
    """The policy strays as little with returns around 500 as with returns around 0."""
    found = []
    for shift, scale in ((0.0, 1.0), (500.0, 100.0)):
        learner, buffer = make_learner()
        learner.policy.action_net.weight.data.normal_(generator=torch.Generator().manual_seed(0))
        fill_phase(learner, buffer)
        learner.phase.returns[:] = shift + scale * learner.phase.returns
        before = old_rows(learner)
        learner.auxiliary_update(replace(AUXILIARY, aux_epochs=30, learning_rate=3e-3))
        found.append(divergence(learner, before))
    assert found[1] < 2.0 * found[0] + 1e-3


def test_policy_stays_close_and_closer_with_a_larger_coefficient() -> None:
    found = {}
    for coefficient in (0.0, 1.0, 100.0):
        learner, buffer = make_learner()
        learner.policy.action_net.weight.data.normal_()  # a policy that a moving encoder changes
        fill_phase(learner, buffer)
        before = old_rows(learner)
        assert divergence(learner, before) == pytest.approx(0.0, abs=1e-6)
        settings = replace(AUXILIARY, kl_coef=coefficient, aux_epochs=30, learning_rate=3e-3)
        metrics = learner.auxiliary_update(settings)
        found[coefficient] = divergence(learner, before)
        assert metrics["kl_loss"] > 0.0
    assert found[0.0] > 2.0 * found[1.0] > 4.0 * found[100.0]
    assert found[1.0] < 0.01


def test_auxiliary_value_learns_the_returns() -> None:
    learner, buffer = make_learner()
    fill_phase(learner, buffer)
    first = learner.auxiliary_update(replace(AUXILIARY, aux_epochs=1))["aux_value_loss"]
    learner.auxiliary_update(replace(AUXILIARY, aux_epochs=100, learning_rate=1e-2))
    last = learner.auxiliary_update(replace(AUXILIARY, aux_epochs=1))["aux_value_loss"]
    assert last < 0.1 * first


@pytest.mark.parametrize("space", [VECTOR, IMAGE], ids=["vector", "image"])
@pytest.mark.parametrize("accumulate", [2, 4])
def test_accumulation_equals_one_step_over_a_larger_batch(space: Space, accumulate: int) -> None:
    def result(minibatches: int, accumulate: int) -> torch.Tensor:
        learner, buffer = make_learner(space)
        fill_phase(learner, buffer)
        learner.phase.valid[3, 1] = learner.phase.valid[9, 2] = False  # batches of unequal size
        learner.auxiliary_update(replace(AUXILIARY, num_aux_mini_batch=minibatches, num_aux_grad_accum=accumulate))
        return weights(learner.policy)

    whole = result(4 // accumulate, 1)
    torch.testing.assert_close(result(4, accumulate), whole, rtol=1e-4, atol=1e-6)
    assert not torch.allclose(result(4, 1), whole, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("space", [VECTOR, IMAGE], ids=["vector", "image"])
def test_chunks_that_fit_the_memory_change_no_gradient(space: Space, monkeypatch: pytest.MonkeyPatch) -> None:
    gradients = []
    for size in (5, 17, 1000):
        monkeypatch.setattr(phase_module, "LARGEST_CHUNK", size)
        learner, buffer = make_learner(space)
        fill_phase(learner, buffer)
        rows = np.random.default_rng(0).permutation(learner.phase.samples)[:50]
        old = torch.randn(learner.phase.samples, 3, generator=torch.Generator().manual_seed(0)).log_softmax(dim=1)
        step = learner.runtime.gradient_step(learner.optimizer.adam)
        learner._auxiliary_step(step, rows, old, learner._unit_of_returns(), AUXILIARY)
        gradients.append(learner.optimizer.flat.gradients.clone())
    for found in gradients[:2]:
        torch.testing.assert_close(found, gradients[2], rtol=1e-3, atol=1e-6)
    assert float(gradients[2].norm()) == pytest.approx(0.5, abs=1e-3)  # cut once, over the whole batch


def test_optimisers_are_two() -> None:
    """The auxiliary phase leaves the policy phase's moments alone, and the other way round."""
    learner, buffer = make_learner(rollouts=2)
    learner.update(buffer, UPDATE, AUXILIARY)
    flat = learner.runtime.flat
    moments = flat.state["exp_avg"].clone()
    fill(buffer.rollout, learner.policy.action_space, 1)
    learner.phase.add(buffer.rollout)
    learner.auxiliary_update(AUXILIARY)
    assert torch.equal(moments, flat.state["exp_avg"])
    own = {name: value.clone() for name, value in learner.optimizer.moments().items()}
    assert float(own["step"]) == 12  # 3 epochs of 4 minibatches
    assert float(own["auxiliary_value_net.weight.exp_avg"].abs().sum()) > 0.0
    learner.policy_phase.update(buffer, replace(UPDATE, normalize_advantage=False))
    for name, value in learner.optimizer.moments().items():
        assert torch.equal(own[name], value)


def test_non_finite_auxiliary_step_is_not_applied() -> None:
    learner, buffer = make_learner()
    fill_phase(learner, buffer)
    learner.phase.returns[0, 0] = np.nan
    before = weights(learner.policy)
    with pytest.raises(NonFiniteError, match="auxiliary phase; the step was not applied"):
        learner.auxiliary_update(replace(AUXILIARY, num_aux_mini_batch=1))
    assert torch.equal(before, weights(learner.policy))
    metrics = learner.auxiliary_update(AUXILIARY, skip_non_finite=True)
    assert torch.isfinite(weights(learner.policy)).all()
    assert not torch.equal(before, weights(learner.policy))
    assert np.isfinite(metrics["aux_value_loss"])


# -- epochs of policy and value


@pytest.mark.parametrize(("n_epochs", "value_epochs"), [(1, 3), (3, 1)])
def test_surplus_epochs_move_one_side_only(n_epochs: int, value_epochs: int) -> None:
    def result(n_epochs: int, value_epochs: int) -> tuple[torch.Tensor, torch.Tensor, float]:
        learner, buffer = make_learner(rollouts=9)
        settings = replace(UPDATE, n_epochs=n_epochs)
        metrics = learner.update(buffer, settings, replace(AUXILIARY, value_epochs=value_epochs))
        networks = learner.policy.mlp_extractor
        return weights(networks.policy_net), weights(networks.value_net), metrics["epochs"]

    policy, value, _ = result(1, 1)
    longer_policy, longer_value, epochs = result(n_epochs, value_epochs)
    assert torch.equal(policy, longer_policy) == (n_epochs == 1)
    assert torch.equal(value, longer_value) == (value_epochs == 1)
    assert epochs == n_epochs


def test_advantages_are_normalised_over_the_rollout() -> None:
    learner, buffer = make_learner()
    buffer.advantages = 5.0 + 3.0 * buffer.advantages
    learner.update(buffer, UPDATE, AUXILIARY)
    assert buffer.advantages.mean() == pytest.approx(0.0, abs=1e-5)
    assert buffer.advantages.std(ddof=1) == pytest.approx(1.0, abs=1e-5)
    advantages = np.array([[1.0, 3.0, 100.0]], np.float32)
    assert normalized(advantages, np.array([[True, True, False]]))[0, :2] == pytest.approx([-(0.5**0.5), 0.5**0.5])


# -- the buffer


def test_images_stay_bytes() -> None:
    learner, buffer = make_learner(IMAGE)
    fill_phase(learner, buffer)
    stored: Any = learner.phase.observations
    assert stored.dtype == np.uint8
    assert learner.phase.bytes == 2 * STEPS * ENVIRONMENTS * (36 * 36 + 4 + 1)
    assert np.array_equal(stored[STEPS:], buffer.observations)
    chunk = next(learner.phase.chunks(np.arange(3), torch.device("cpu")))
    assert isinstance(chunk.observations, torch.Tensor)
    assert chunk.observations.dtype == torch.uint8


def test_procgens_buffer_is_as_large_as_stated() -> None:
    """32 rollouts of 256 steps in 64 environments: 6.4 GB as bytes, a quarter of what floats would take."""
    phase = PhaseBuffer(32, 256, 64, spaces.Box(0, 255, (3, 64, 64), np.uint8))
    assert phase_module.in_gigabytes(phase.bytes) == "6.4 GB"


def test_too_little_memory_is_said_before_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phase_module, "available_memory", lambda: 2_000_000_000)
    phase = PhaseBuffer(32, 256, 64, spaces.Box(0, 255, (3, 64, 64), np.uint8))
    with pytest.raises(
        NotEnoughMemoryError, match=r"needs 6.4 GB, 2.0 GB of memory are free.*smaller rollouts_per_phase"
    ):
        phase.allocate()
    assert not hasattr(phase, "returns")


def test_minibatches_hold_whole_rollouts_where_possible() -> None:
    phase = PhaseBuffer(2, 6, 4, VECTOR)
    phase.allocate()
    assert [phase.piece_length(count) for count in (1, 2, 4, 8, 16, 24, 48)] == [6, 6, 6, 6, 3, 2, 1]
    minibatches = list(phase.epoch(4, np.random.default_rng(0)))
    assert np.array_equal(np.sort(np.concatenate(minibatches)), np.arange(48))
    for rows in minibatches:  # two columns of six steps of one environment each
        for column in rows.reshape(2, 6):
            assert np.array_equal(np.diff(column), np.full(5, 4))
            assert column[0] // 4 in (0, 6)
    with pytest.raises(ValueError, match="num_aux_mini_batch 5 does not divide the 48 samples"):
        phase.piece_length(5)


def test_rollout_of_another_shape_is_refused() -> None:
    phase = PhaseBuffer(2, 6, 4, VECTOR)
    with pytest.raises(ValueError, match="6 steps of 3 environments; the auxiliary buffer was made for 6 of 4"):
        phase.add(allocate_rollout(6, 3, VECTOR, spaces.Discrete(2)))


# -- going on


@pytest.mark.parametrize("space", [VECTOR, IMAGE], ids=["vector", "image"])
def test_state_goes_on_exactly(space: Space) -> None:
    """Taken in the middle of the second phase, with moments of the first auxiliary phase."""
    learner, buffer = make_learner(space, rollouts=2)
    for _ in range(3):
        learner.update(buffer, UPDATE, AUXILIARY)
    twin, twin_buffer = make_learner(space, rollouts=2)
    twin.policy.load_state_dict(learner.policy.state_dict())
    twin.policy.optimizer.load_state_dict(learner.policy.optimizer.state_dict())
    twin.runtime.generator.bit_generator.state = learner.runtime.generator.bit_generator.state
    twin_buffer.advantages = buffer.advantages
    state = learner.state_dict()
    assert state["phase"]["stored"] == 1
    assert len(state["phase"]["returns"]) == STEPS
    twin.load_state_dict(state)
    for each, rollouts in ((learner, buffer), (twin, twin_buffer)):
        assert "kl_loss" in each.update(rollouts, UPDATE, AUXILIARY)
    assert torch.equal(weights(learner.policy), weights(twin.policy))


def test_state_that_does_not_fit_is_refused() -> None:
    learner, buffer = make_learner(rollouts=2)
    learner.update(buffer, UPDATE, AUXILIARY)
    state = learner.state_dict()["phase"]
    with pytest.raises(ValueError, match="holds 3 rollouts, the auxiliary buffer has room for 2"):
        learner.phase.load_state(state | {"stored": 3})
    with pytest.raises(
        ValueError, match=r"returns of the auxiliary buffer is \(3, 4\) in the state, expected \(8, 4\)"
    ):
        learner.phase.load_state(state | {"returns": state["returns"][:3]})
    with pytest.raises(ValueError, match=r"exp_avg of .* is None"):
        learner.optimizer.load_moments({"step": torch.tensor(1.0)})


def test_moments_follow_the_parameters_into_new_memory() -> None:
    learner, buffer = make_learner(rollouts=1)
    learner.update(buffer, UPDATE, AUXILIARY)
    before = {name: value.clone() for name, value in learner.optimizer.moments().items()}
    policy = learner.policy
    earlier = learner.runtime.flat
    learner.runtime.bind()
    assert learner.optimizer.flat is learner.runtime.flat is not earlier
    for name, value in learner.optimizer.moments().items():
        assert torch.equal(before[name], value)
    head = weights(policy.auxiliary_value_net)
    learner.update(buffer, UPDATE, AUXILIARY)
    assert not torch.equal(head, weights(policy.auxiliary_value_net))
    assert parameter_rows(policy.evaluate_auxiliary(torch.zeros(1, 3)).distribution).shape == (1, 3)
