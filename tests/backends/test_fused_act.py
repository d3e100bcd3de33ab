"""Acting with kernels: the same distribution and the same value as the module's, sampled from numbers we know."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from fused_cases import (
    collected_rollout,
    draw_actions,
    empty_rollout,
    make_backend,
    make_policy,
    policies,
    random_masks,
    settings_with,
    torch_actions,
    torch_masks,
)
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from proximo.data import Share
from proximo.errors import NonFiniteError
from rounding import LOSSES, OUTPUTS

BOX = spaces.Box(-np.inf, np.inf, (5,))


@settings(max_examples=80, derandomize=True)
@given(
    policy=policies(),
    environments=st.integers(1, 8) | st.sampled_from([16, 17, 130]),
    allowed=st.none() | st.sampled_from([0.1, 0.6]),
)
def test_log_prob_and_value_are_the_modules(policy, environments, allowed):
    backend = make_backend(policy)
    rollout = empty_rollout(3, environments, policy, np.random.default_rng(0))
    rollout.action_masks = None if allowed is None else random_masks(policy, (3, environments), allowed)
    backend.start_rollout(3, environments)
    for step in range(3):
        backend.act(rollout.observations[step], rollout, step)
    with torch.no_grad():
        observations = torch.from_numpy(rollout.observations.reshape(3 * environments, -1))
        actions = torch_actions(policy, rollout.actions)
        values, log_probs, _ = policy.evaluate_actions(observations, actions, torch_masks(rollout))
    np.testing.assert_allclose(rollout.values.ravel(), values.numpy().ravel(), **OUTPUTS)
    np.testing.assert_allclose(rollout.log_probs.ravel(), log_probs.numpy(), **LOSSES)
    np.testing.assert_allclose(backend.values(rollout.observations[1]), rollout.values[1], **OUTPUTS)


@pytest.mark.parametrize("actions", [spaces.Discrete(5), spaces.MultiDiscrete([3, 4]), spaces.MultiBinary(3)])
def test_discrete_actions_invert_the_cumulated_probabilities(actions):
    policy = make_policy(BOX, actions, [16])
    backend = make_backend(policy)
    rollout = empty_rollout(50, 3, policy, np.random.default_rng(0))
    uniform = np.random.default_rng(0).random(rollout.actions.shape, dtype=np.float32)
    backend.start_rollout(50, 3)
    for step in range(50):
        backend.act(rollout.observations[step], rollout, step)
    with torch.no_grad():
        observations = torch.from_numpy(rollout.observations.reshape(150, -1))
        parameters = policy.action_net(policy.mlp_extractor.forward_actor(observations))
    expected = np.empty((150, rollout.actions.shape[-1]), np.int64)
    for row, numbers in enumerate(uniform.reshape(150, -1)):
        if isinstance(actions, spaces.MultiBinary):
            expected[row] = numbers < torch.sigmoid(parameters[row]).numpy()
        else:
            sizes = [actions.n] if isinstance(actions, spaces.Discrete) else list(actions.nvec)
            for index, logits in enumerate(parameters[row].split(sizes)):
                expected[row, index] = np.searchsorted(torch.softmax(logits, 0).cumsum(0).numpy(), numbers[index])
    np.testing.assert_array_equal(rollout.actions.reshape(150, -1), expected)


def test_gaussian_actions_are_mean_plus_deviation_times_noise_and_reach_the_environment_within_bounds():
    policy = make_policy(BOX, spaces.Box(np.float32([-0.5, -2.0]), np.float32([0.5, 0.1])), [16], log_std_init=0.3)
    backend = make_backend(policy)
    rollout = empty_rollout(40, 2, policy, np.random.default_rng(0))
    noise = np.random.default_rng(0).standard_normal((40, 2, 2), dtype=np.float32)
    backend.start_rollout(40, 2)
    sent = np.stack([backend.act(rollout.observations[step], rollout, step) for step in range(40)])
    with torch.no_grad():
        distribution = policy.get_distribution(torch.from_numpy(rollout.observations.reshape(80, -1))).distribution
    mean, deviation = distribution.mean.numpy().reshape(40, 2, 2), distribution.stddev.numpy().reshape(40, 2, 2)
    np.testing.assert_allclose(rollout.actions, mean + deviation * noise, **OUTPUTS)
    np.testing.assert_array_equal(sent, np.clip(rollout.actions, policy.action_space.low, policy.action_space.high))
    assert np.any(sent != rollout.actions)


@pytest.mark.parametrize(
    ("actions", "start", "shape"),
    [
        (spaces.Discrete(3, start=7), [7], (4,)),
        (spaces.MultiDiscrete([3, 2], start=[-1, 5]), [-1, 5], (4, 2)),
        (spaces.Discrete(4, dtype=np.int32), [0], (4,)),
        (spaces.MultiBinary(3), [0, 0, 0], (4, 3)),
        (spaces.Box(-1.0, 1.0, (2, 3)), None, (4, 2, 3)),
        (spaces.Box(-1.0, 1.0, (2,), np.float64), None, (4, 2)),
    ],
)
def test_environments_get_actions_that_their_space_contains(actions, start, shape):
    policy = make_policy(BOX, actions, [8])
    backend = make_backend(policy)
    rollout = empty_rollout(30, 4, policy, np.random.default_rng(0))
    if start is None:
        rollout.actions = np.zeros((30, 4, int(np.prod(actions.shape))), np.float32)
    backend.start_rollout(30, 4)
    sent = [backend.act(rollout.observations[step], rollout, step) for step in range(30)]
    assert sent[0].shape == shape
    assert all(actions.contains(action) for row in sent for action in row)
    if start is not None:
        np.testing.assert_array_equal(np.stack(sent).reshape(rollout.actions.shape), rollout.actions + np.array(start))
    assert rollout.actions.min() == (0 if start is not None else rollout.actions.min())


@pytest.mark.parametrize(
    ("observations", "values"),
    [
        (spaces.Discrete(4), np.array([[0], [3], [1]])),
        (spaces.Discrete(4, start=-1), np.array([[-1], [2], [0]])),
        (spaces.MultiDiscrete([2, 3]), np.array([[0, 2], [1, 1], [1, 0]])),
        (spaces.MultiDiscrete([2, 3], start=[1, -7]), np.array([[1, -5], [2, -6], [2, -7]])),
        (spaces.MultiBinary(3), np.array([[0, 1, 1], [1, 0, 0], [0, 0, 0]], np.int8)),
        (spaces.Box(-1.0, 1.0, (2, 3), np.float64), np.linspace(-1, 1, 18).reshape(3, 2, 3)),
        (spaces.Box(0, 9, (2,), np.int64), np.array([[3, 1], [0, 9], [5, 5]])),
        (spaces.Box(-9.0, 9.0, ()), np.array([3.0, -1.0, 0.5], np.float32)),
    ],
)
def test_observations_are_encoded_as_the_module_does(observations, values):
    policy = make_policy(observations, spaces.Discrete(2), [8])
    backend = make_backend(policy)
    with torch.no_grad():
        expected = policy.predict_values(torch.from_numpy(values)).numpy().ravel()
    np.testing.assert_allclose(backend.values(values), expected, **OUTPUTS)


def test_discrete_observation_outside_of_its_space_is_an_error():
    backend = make_backend(make_policy(spaces.Discrete(4), spaces.Discrete(2), [8]))
    with pytest.raises(ValueError, match="outside"):
        backend.values(np.array([4]))
    backend = make_backend(make_policy(spaces.Discrete(4, start=2), spaces.Discrete(2), [8]))
    for outside in (1, 6):
        with pytest.raises(ValueError, match=rf"outside of \[2\] … \[5\]: \[{outside}\]"):
            backend.values(np.array([outside]))


@pytest.mark.parametrize("actions", [spaces.Discrete(4), spaces.MultiDiscrete([3, 4]), spaces.MultiBinary(3)])
def test_frequencies_of_discrete_actions_are_their_probabilities(actions):
    policy = make_policy(BOX, actions, [8])
    observation = np.tile(np.random.default_rng(3).standard_normal(5, dtype=np.float32), (20_000, 1))
    chosen = draw_actions(make_backend(policy, seed=5), observation).reshape(20_000, -1)
    with torch.no_grad():
        distribution = policy.get_distribution(torch.from_numpy(observation[:1])).distribution
    parts = distribution if isinstance(distribution, list) else [distribution]
    probabilities = torch.cat([part.probs.flatten() for part in parts]).numpy()
    if isinstance(actions, spaces.MultiBinary):
        frequencies = chosen.mean(0)
    else:
        sizes = [actions.n] if isinstance(actions, spaces.Discrete) else actions.nvec
        counts = [np.bincount(column, minlength=size) for column, size in zip(chosen.T, sizes, strict=True)]
        frequencies = np.concatenate(counts) / 20_000
    four_sigma = 4 * np.sqrt(probabilities * (1 - probabilities) / 20_000)
    assert np.all(np.abs(frequencies - probabilities) < four_sigma)


def test_moments_of_gaussian_actions():
    policy = make_policy(BOX, spaces.Box(-50.0, 50.0, (2,)), [8], log_std_init=-0.5)
    observation = np.tile(np.random.default_rng(3).standard_normal(5, dtype=np.float32), (20_000, 1))
    chosen = draw_actions(make_backend(policy, seed=5), observation)
    with torch.no_grad():
        normal = policy.get_distribution(torch.from_numpy(observation[:1])).distribution
    mean, deviation = normal.mean.numpy()[0], normal.stddev.numpy()[0]
    assert np.all(np.abs(chosen.mean(0) - mean) < 4 * deviation / np.sqrt(20_000))
    assert np.all(np.abs(chosen.std(0) / deviation - 1) < 4 / np.sqrt(2 * 20_000))
    assert abs(np.corrcoef(chosen.T)[0, 1]) < 4 / np.sqrt(20_000)


def test_sure_actions_are_chosen_and_impossible_ones_never():
    policy = make_policy(BOX, spaces.Discrete(3), [])
    with torch.no_grad():
        policy.action_net.weight.zero_()
        policy.action_net.bias.copy_(torch.tensor([-200.0, 5.0, -200.0]))
    observations = np.zeros((5000, 5), np.float32)
    assert np.all(draw_actions(make_backend(policy), observations) == 1)


def test_the_same_generator_gives_the_same_rollout():
    policy = make_policy(BOX, spaces.Discrete(3))
    first, second = (collected_rollout(make_backend(policy, seed=8), 20, 3) for _ in range(2))
    other = collected_rollout(make_backend(policy, seed=9), 20, 3)
    np.testing.assert_array_equal(first.actions, second.actions)
    assert np.any(first.actions != other.actions)


def test_a_change_of_the_module_is_seen_at_once():
    policy = make_policy(BOX, spaces.Discrete(3), activation=nn.ReLU)
    backend = make_backend(policy)
    observations = np.random.default_rng(0).standard_normal((6, 5), dtype=np.float32)
    before = backend.values(observations)
    with torch.no_grad():
        policy.value_net.bias.add_(1.0)
    np.testing.assert_allclose(backend.values(observations), before + 1.0, **OUTPUTS)


@pytest.mark.parametrize("rows", [2, 20])
def test_an_update_leaves_nothing_behind_that_acting_reads(rows):
    """Widths that fill no vector, and a short last minibatch: both leave old numbers in the margins of the memory."""
    policy = make_policy(BOX, spaces.Discrete(3), [10, 7])
    backend = make_backend(policy)
    rollout = collected_rollout(backend, 74, 2)
    backend.start_update(rollout)
    backend.ppo_epochs(np.arange(148)[None], settings_with(batch_size=128))
    observations = np.random.default_rng(0).standard_normal((rows, 5), dtype=np.float32)
    with torch.no_grad():
        expected = policy.predict_values(torch.from_numpy(observations)).numpy().ravel()
    np.testing.assert_allclose(backend.values(observations), expected, **OUTPUTS)


def test_nan_in_an_observation_names_step_and_environment():
    policy = make_policy(BOX, spaces.Discrete(3))
    backend = make_backend(policy)
    rollout = empty_rollout(4, 3, policy, np.random.default_rng(0))
    rollout.observations[2, 1, 4] = np.nan
    backend.start_rollout(4, 3)
    backend.act(rollout.observations[1], rollout, 1)
    with pytest.raises(NonFiniteError, match="2"):
        backend.act(rollout.observations[2], rollout, 2)


def test_wrong_shapes_are_errors_before_a_kernel_runs():
    policy = make_policy(BOX, spaces.Discrete(3))
    backend = make_backend(policy)
    rollout = empty_rollout(4, 3, policy, np.random.default_rng(0))
    with pytest.raises(ValueError, match="start_rollout"):
        backend.act(rollout.observations[0], rollout, 0)
    backend.start_rollout(4, 3)
    with pytest.raises(ValueError, match="start_rollout"):
        backend.act(rollout.observations[0], rollout, 4)
    with pytest.raises(ValueError, match="features"):
        backend.act(rollout.observations[0, :2], rollout, 0)
    with pytest.raises(ValueError, match=r"rollout\.actions"):
        backend.act(rollout.observations[0], empty_rollout(5, 3, policy, np.random.default_rng(0)), 0)
    with pytest.raises(ValueError, match="features"):
        backend.values(np.zeros((2, 6), np.float32))


@settings(max_examples=40, derandomize=True)
@given(
    policy=policies(), counts=st.sampled_from([(1, 3), (2, 3), (3, 5), (1, 15), (9, 8), (1, 127), (127, 4), (70, 62)])
)
def test_a_row_rounds_alike_wherever_it_is_run(policy, counts):
    """Two processes act and value as one does with all rows, to the last bit."""
    total = sum(counts)
    alone, rng = make_backend(policy), np.random.default_rng(0)
    whole = empty_rollout(2, total, policy, rng)
    alone.start_rollout(2, total)
    for step in range(2):
        alone.act(whole.observations[step], whole, step)
    last = alone.values(whole.observations[0])
    for first, count in zip((0, counts[0]), counts, strict=True):
        share, backend = Share(first, count, total), make_backend(policy)
        own = empty_rollout(2, count, policy, rng)
        own.observations = np.ascontiguousarray(whole.observations[:, share.rows])
        backend.start_rollout(2, count, share)
        for step in range(2):
            backend.act(own.observations[step], own, step)
        for name in ("actions", "values", "log_probs"):
            np.testing.assert_array_equal(getattr(own, name), getattr(whole, name)[:, share.rows], err_msg=name)
        np.testing.assert_array_equal(backend.values(own.observations[0], share=share), last[share.rows])
