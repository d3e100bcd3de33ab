"""Updates with kernels: the same terms and the same parameters as autograd's, whatever the network and the options."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from fused_cases import (
    NearThreshold,
    collected_rollout,
    make_backend,
    make_policy,
    parameter_distance,
    policies,
    settings_with,
    torch_epoch,
    twin,
)
from gymnasium import spaces
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import nn

from proximo.backends.fused import FusedBackend
from proximo.networks.flat_parameters import FlatParameters
from proximo.networks.optimizers import RMSpropTFLike
from rounding import LOSSES, assert_same_gradients, assert_same_training

BOX = spaces.Box(-np.inf, np.inf, (5,))
options = st.builds(
    settings_with,
    batch_size=st.integers(1, 70) | st.sampled_from([128, 200, 300]),
    clip_range=st.sampled_from([0.1, 0.2]),
    clip_range_vf=st.none() | st.sampled_from([0.2, 0.5]),
    pessimistic_value=st.booleans(),
    normalize_advantage=st.booleans(),
    ent_coef=st.sampled_from([0.0, 0.05]),
    vf_coef=st.sampled_from([0.5, 1.0]),
    max_grad_norm=st.sampled_from([0.1, 0.5, 1e9]),
)


@settings(max_examples=120, derandomize=True)
@given(
    policy=policies(),
    options=options,
    minibatches=st.integers(1, 3),
    seed=st.integers(0, 99),
    allowed=st.none() | st.sampled_from([0.1, 0.6]),
)
def test_an_epoch_equals_autograds(policy, options, minibatches, seed, allowed):
    backend, reference = make_backend(policy), twin(policy)
    rollout = collected_rollout(backend, 110, 3, seed, allowed)
    order = np.random.default_rng(seed).permutation(330)[: options.batch_size * minibatches + 2]
    backend.start_update(rollout)
    rows, status = backend.ppo_epochs(order[None], options)
    try:
        expected, _ = torch_epoch(reference, rollout, order, options)
    except NearThreshold:
        assume(False)
    assert not status.stopped
    assert not status.non_finite
    assert status.minibatch == len(rows) == len(expected)
    np.testing.assert_allclose(rows, expected, **LOSSES)
    assert_same_training(policy, reference)


@pytest.mark.parametrize(
    "observations",
    [spaces.Discrete(6), spaces.MultiDiscrete([3, 4]), spaces.MultiBinary(4), spaces.Box(0, 9, (2, 2), np.int64)],
)
def test_an_update_from_encoded_observations(observations):
    policy = make_policy(observations, spaces.Discrete(3), [16])
    backend, reference = make_backend(policy), twin(policy)
    rng = np.random.default_rng(0)
    observations.seed(0)
    shape = observations.shape or (1,)
    samples = np.stack([np.reshape(observations.sample(), shape) for _ in range(120)])
    flat = make_policy(BOX, spaces.Discrete(3), [16])
    rollout = collected_rollout(make_backend(flat), 40, 3)
    rollout.observations = samples.reshape(40, 3, *shape)
    with torch.no_grad():
        actions = torch.from_numpy(rollout.actions.reshape(-1))
        _, log_probs, _ = reference.evaluate_actions(torch.from_numpy(samples), actions)
    rollout.log_probs = log_probs.numpy().reshape(40, 3) + rng.normal(0, 0.05, (40, 3)).astype(np.float32)
    order = rng.permutation(120)
    backend.start_update(rollout)
    rows, _ = backend.ppo_epochs(order[None], settings_with(batch_size=50))
    for start in range(0, 120, 50):
        batch = torch.from_numpy(order[start : start + 50])
        values, log_probs, entropy = reference.evaluate_actions(torch.from_numpy(samples)[batch], actions[batch])
        advantages = torch.from_numpy(rollout.advantages.reshape(-1))[batch]
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        ratio = (log_probs - torch.from_numpy(rollout.log_probs.reshape(-1))[batch]).exp()
        value_loss = (values.flatten() - torch.from_numpy(rollout.returns.reshape(-1))[batch]).square().mean()
        loss = -torch.min(advantages * ratio, advantages * ratio.clamp(0.8, 1.2)).mean()
        loss = loss - 0.01 * entropy.mean() + 0.5 * value_loss
        reference.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(reference.parameters(), 0.5)
        reference.optimizer.step()
        assert rows[start // 50, 5] == pytest.approx(loss.item(), rel=LOSSES["rtol"], abs=LOSSES["atol"])
    assert_same_training(policy, reference)


def test_gradients_are_autograds():
    policy = make_policy(BOX, spaces.Box(-1.0, 1.0, (3,)), {"pi": [20, 7], "vf": [33]}, nn.SiLU)
    backend, reference = make_backend(policy), twin(policy)
    rollout = collected_rollout(backend, 70, 2)
    order = np.arange(140)
    backend.start_update(rollout)
    backend.ppo_epochs(order[None], settings_with(batch_size=140, max_grad_norm=1e9))
    torch_epoch(reference, rollout, order, settings_with(batch_size=140, max_grad_norm=1e9))
    pairs = zip(policy.named_parameters(), reference.parameters(), strict=True)
    assert_same_gradients({name: (one.grad, other.grad) for (name, one), other in pairs})


def test_torchs_adam_and_the_kernels_share_one_state():
    policy = make_policy(BOX, spaces.Discrete(3))
    backend, reference = make_backend(policy), twin(policy)
    rollout = collected_rollout(backend, 60, 2)
    order, choices = np.random.default_rng(0).permutation(120), settings_with(batch_size=30)
    backend.start_update(rollout)
    for first in (True, False, True):  # kernels, torch, kernels
        if first:
            backend.ppo_epochs(order[None], choices)
        else:
            torch_epoch(policy, rollout, order, choices)
        torch_epoch(reference, rollout, order, choices)
    assert policy.optimizer.state_dict()["state"][0]["step"] == 12
    assert_same_training(policy, reference)


@pytest.mark.parametrize("actions", [spaces.Discrete(3), spaces.Box(-1.0, 1.0, (2,))])
def test_epochs_in_one_call_and_two_threads_give_the_same_bits(actions):
    policies = [make_policy(BOX, actions, {"pi": [24], "vf": [64, 64]}) for _ in range(3)]
    backends = [make_backend(policies[0]), make_backend(policies[1], threads=1), make_backend(policies[2], threads=2)]
    rollout = collected_rollout(backends[0], 80, 2)
    orders = np.stack([np.random.default_rng(seed).permutation(160) for seed in range(4)])
    choices, results = settings_with(batch_size=50), []
    for backend in backends:
        backend.start_update(rollout)
    results.append([backends[0].ppo_epochs(order[None], choices)[0] for order in orders])
    results += [[backend.ppo_epochs(orders, choices)[0]] for backend in backends[1:]]
    for policy, result in zip(policies, results, strict=True):
        np.testing.assert_array_equal(np.concatenate(result), np.concatenate(results[0]))
        assert parameter_distance(policy, policies[0]) == 0.0
    assert np.concatenate(results[0]).shape == (16, 6)


@pytest.mark.parametrize("threads", [1, 2])
def test_two_threads_stop_together(threads):
    policy = make_policy(BOX, spaces.Discrete(3))
    backend = make_backend(policy, threads=threads)
    rollout = collected_rollout(backend, 100, 2)
    backend.start_update(rollout)
    orders = np.stack([np.random.default_rng(seed).permutation(200) for seed in range(3)])
    choices = settings_with(batch_size=20, learning_rate=3e-2, target_kl=0.03)
    rows, status = backend.ppo_epochs(orders, choices)
    assert status.stopped
    assert len(rows) == status.minibatch + 1 < 30
    rollout.returns[:] = np.nan
    backend.start_update(rollout)
    rows, status = backend.ppo_epochs(orders, settings_with(batch_size=20))
    assert (status.non_finite, status.minibatch, len(rows)) == (True, 0, 0)


@pytest.mark.parametrize("kind", [torch.optim.RMSprop, RMSpropTFLike])
def test_rmsprop(kind):
    policy = make_policy(BOX, spaces.Discrete(3), optimizer_class=kind, optimizer_kwargs={"alpha": 0.99, "eps": 1e-5})
    backend, reference = make_backend(policy), twin(policy)
    rollout = collected_rollout(backend, 60, 2)
    order, choices = np.random.default_rng(0).permutation(120), settings_with(batch_size=30)
    backend.start_update(rollout)
    backend.ppo_epochs(order[None], choices)
    torch_epoch(reference, rollout, order, choices)
    assert_same_training(policy, reference)


def test_kl_stops_before_the_step():
    policy = make_policy(BOX, spaces.Discrete(3))
    backend, reference = make_backend(policy), twin(policy)
    rollout = collected_rollout(backend, 100, 2)
    order = np.random.default_rng(0).permutation(200)
    choices = settings_with(batch_size=20, learning_rate=3e-2, target_kl=0.03)
    backend.start_update(rollout)
    rows, status = backend.ppo_epochs(order[None], choices)
    expected, stopped_at = torch_epoch(reference, rollout, order, choices)
    assert 0 < stopped_at < 9
    assert (status.stopped, status.minibatch, len(rows)) == (True, stopped_at, stopped_at + 1)
    assert rows[-1, 3] > 1.5 * 0.03 > rows[-2, 3]
    assert_same_training(policy, reference)
    np.testing.assert_allclose(rows, expected, atol=1e-3)  # a learning rate of 0.03 magnifies rounding


@pytest.mark.parametrize("field", ["observations", "advantages", "returns", "log_probs", "actions"])
@pytest.mark.parametrize("activation", [nn.Tanh, nn.ReLU])
def test_a_minibatch_with_nan_is_not_applied(field, activation):
    policy = make_policy(BOX, spaces.Box(-1.0, 1.0, (2,)), activation=activation)
    backend, reference = make_backend(policy), twin(policy)
    rollout = collected_rollout(backend, 50, 2)
    order, choices = np.random.default_rng(0).permutation(100), settings_with(batch_size=20)
    getattr(rollout, field).reshape(100, -1)[order[47]] = np.nan  # in the third minibatch
    backend.start_update(rollout)
    rows, status = backend.ppo_epochs(order[None], choices)
    assert (status.non_finite, status.minibatch, len(rows)) == (True, 2, 2)
    torch_epoch(reference, rollout, order[:40], choices)
    assert_same_training(policy, reference)


def test_infinite_gradients_are_not_applied():
    policy = make_policy(BOX, spaces.Discrete(3))
    backend, reference = make_backend(policy), twin(policy)
    rollout = collected_rollout(backend, 50, 2)
    rollout.returns[3] = 3e38
    backend.start_update(rollout)
    _, status = backend.ppo_epochs(np.arange(100)[None], settings_with(batch_size=100))
    assert status.non_finite
    assert parameter_distance(policy, reference) == 0.0


def test_a_large_but_finite_gradient_is_clipped():
    policy = make_policy(BOX, spaces.Discrete(3))
    backend = make_backend(policy)
    rollout = collected_rollout(backend, 50, 2)
    rollout.returns[:] = 1e15
    before = twin(policy)
    backend.start_update(rollout)
    _, status = backend.ppo_epochs(np.arange(100)[None], settings_with(batch_size=100))
    assert not status.non_finite
    assert 1e-4 < parameter_distance(policy, before) < 1.1e-3


def test_samples_outside_of_the_rollout_are_an_error():
    policy = make_policy(BOX, spaces.Discrete(3))
    backend = make_backend(policy)
    rollout = collected_rollout(backend, 10, 2)
    backend.start_update(rollout)
    for order in ([20], [-1], []):
        with pytest.raises(ValueError, match="the 20 samples"):
            backend.ppo_epochs(np.array(order, np.int64)[None], settings_with())
    with pytest.raises(ValueError, match="minibatches of 0"):
        backend.ppo_epochs(np.arange(20)[None], settings_with(batch_size=0))


@pytest.mark.parametrize("action_space", ["discrete", "box", "multidiscrete", "multibinary"])
def test_train_of_stable_baselines3_gives_the_same_parameters(action_space):
    sb3 = pytest.importorskip("stable_baselines3")
    from stable_baselines3.common.envs import (
        IdentityEnv,
        IdentityEnvBox,
        IdentityEnvMultiBinary,
        IdentityEnvMultiDiscrete,
    )
    from stable_baselines3.common.logger import Logger

    env = {
        "discrete": IdentityEnv, "box": IdentityEnvBox, "multidiscrete": IdentityEnvMultiDiscrete,
        "multibinary": IdentityEnvMultiBinary,
    }[action_space]()  # fmt: skip
    steps, batch_size = 96, 40
    model = sb3.PPO(
        "MlpPolicy", env, n_steps=steps, batch_size=batch_size, n_epochs=1, ent_coef=0.02, clip_range_vf=0.3, seed=3,
        device="cpu",
    )  # fmt: skip
    model.set_logger(Logger(None, []))
    policy = make_policy(env.observation_space, env.action_space)
    policy.load_state_dict(model.policy.state_dict())
    backend = make_backend(policy)
    rng = np.random.default_rng(0)
    rollout = collected_rollout(make_backend(make_policy(BOX, env.action_space)), steps, 1)
    env.observation_space.seed(1)
    shape = env.observation_space.shape or (1,)
    rollout.observations = np.stack([np.reshape(env.observation_space.sample(), (1, *shape)) for _ in range(steps)])
    buffer = model.rollout_buffer
    buffer.observations[:] = rollout.observations
    for name in ("actions", "values", "log_probs", "advantages", "returns"):
        getattr(buffer, name)[:] = getattr(rollout, name)
    with torch.no_grad():
        flat = torch.from_numpy(buffer.actions.reshape(steps, -1))
        flat = flat.long().flatten() if action_space == "discrete" else flat.float()
        _, log_probs, _ = model.policy.evaluate_actions(
            torch.from_numpy(rollout.observations.reshape(steps, *shape)), flat
        )
    rollout.log_probs[:] = buffer.log_probs[:] = log_probs.numpy()[:, None] + rng.normal(0, 0.1, (steps, 1))
    buffer.full = True

    np.random.seed(5)
    order = np.random.permutation(steps)
    np.random.seed(5)
    model.train()
    backend.start_update(rollout)
    choices = settings_with(learning_rate=3e-4, batch_size=batch_size, ent_coef=0.02, clip_range_vf=0.3)
    backend.ppo_epochs(order[None], choices)
    assert_same_training(policy, model.policy)


def reduced_twin(policy, reduce):
    """The same policy and memory, updated in two halves with a reduction between them."""
    other = twin(policy)
    flat = FlatParameters(other, other.optimizer)
    return other, FusedBackend(other, flat, np.random.default_rng(0), reduce=reduce)


@pytest.mark.parametrize("optimizer", [torch.optim.Adam, torch.optim.RMSprop])
@pytest.mark.parametrize("target_kl", [None, 1e-3])
def test_two_halves_equal_one_call(optimizer, target_kl):
    """Gradient and apply, with a reduction that changes nothing: the same to the bit."""
    policy = make_policy(BOX, spaces.MultiDiscrete([3, 2]), optimizer_class=optimizer)
    calls = []
    other, halves = reduced_twin(policy, lambda _: calls.append(1))
    whole = make_backend(policy)
    rollout = collected_rollout(whole, 20, 4)
    orders = np.stack([np.random.default_rng(seed).permutation(80) for seed in range(3)])
    options = settings_with(batch_size=32, target_kl=target_kl)
    for backend in (whole, halves):
        backend.start_update(rollout)
    rows, status = whole.ppo_epochs(orders, options)
    other_rows, other_status = halves.ppo_epochs(orders, options)
    assert status == other_status
    assert status.stopped == (target_kl is not None)
    np.testing.assert_array_equal(rows, other_rows)
    assert len(calls) == len(rows)
    assert parameter_distance(policy, other) == 0.0


def test_a_reduction_reaches_the_step():
    policy = make_policy(BOX, spaces.Discrete(3))
    other, halves = reduced_twin(policy, lambda gradients: gradients.zero_())
    halves.start_update(collected_rollout(halves, 20, 4))
    halves.ppo_epochs(np.arange(80)[None], settings_with())
    assert parameter_distance(policy, other) == 0.0  # without a gradient, Adam's first steps go nowhere
