"""Masked actions in the kernels: never chosen, never trained, and nothing else changed."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from fused_cases import (
    collected_rollout,
    empty_rollout,
    make_backend,
    make_policy,
    random_masks,
    settings_with,
    torch_epoch,
    torch_masks,
    twin,
)
from gymnasium import spaces

from proximo.networks.actor_critic import ActorCriticPolicy
from proximo.networks.maskable import MaskableActorCriticPolicy
from rounding import LOSSES, assert_same_training

BOX = spaces.Box(-np.inf, np.inf, (5,))
DISCRETE = [
    (spaces.Discrete(6, start=2), ActorCriticPolicy),
    (spaces.MultiDiscrete([3, 5]), ActorCriticPolicy),
    (spaces.MultiBinary(4), ActorCriticPolicy),
    (spaces.MultiBinary(4), MaskableActorCriticPolicy),
    (spaces.Discrete(5000), ActorCriticPolicy),
]


def chosen_entries(policy: ActorCriticPolicy, actions: np.ndarray, masks: np.ndarray) -> np.ndarray:
    """The entries of the masks that belong to the chosen actions, [row, choice]."""
    match policy.action_space:
        case spaces.MultiDiscrete():
            sizes = policy.action_space.nvec
        case spaces.MultiBinary():
            sizes = np.full(actions.shape[-1], 2)
        case _:
            sizes = np.array([policy.action_space.n])
    places = actions.reshape(-1, len(sizes)) + np.cumsum(sizes) - sizes
    return np.take_along_axis(masks.reshape(len(places), -1), places, axis=1)


@pytest.mark.parametrize(("actions", "kind"), DISCRETE)
@pytest.mark.parametrize("environments", [3, 20])
def test_forbidden_actions_are_never_chosen(actions, kind, environments):
    policy = make_policy(BOX, actions, [16], kind=kind)
    rollout = collected_rollout(make_backend(policy), 200, environments, allowed=0.15)
    assert chosen_entries(policy, rollout.actions, rollout.action_masks).all()
    unmasked = collected_rollout(make_backend(policy), 200, environments)
    assert not chosen_entries(policy, unmasked.actions, rollout.action_masks).all()


def test_frequencies_are_the_masked_probabilities():
    policy = make_policy(BOX, spaces.Discrete(5), [8])
    rollout = empty_rollout(40, 500, policy, np.random.default_rng(0))
    rollout.observations[:] = rollout.observations[0, 0]
    rollout.action_masks = np.tile(np.array([True, False, True, True, False]), (40, 500, 1))
    backend = make_backend(policy, seed=2)
    backend.start_rollout(40, 500)
    for step in range(40):
        backend.act(rollout.observations[step], rollout, step)
    with torch.no_grad():
        one = torch.from_numpy(rollout.observations[0, :1])
        probabilities = policy.get_distribution(one, torch_masks(rollout)[:1]).distribution.probs.numpy()[0]
    frequencies = np.bincount(rollout.actions.ravel(), minlength=5) / 20_000
    assert probabilities[[1, 4]].max() == 0.0
    assert np.all(np.abs(frequencies - probabilities) <= 4 * np.sqrt(probabilities * (1 - probabilities) / 20_000))


def test_masks_belong_to_one_rollout():
    """The next rollout may come without."""
    policy = make_policy(BOX, spaces.Discrete(6), [16])
    backend, reference = make_backend(policy), twin(policy)
    only_first = empty_rollout(30, 4, policy, np.random.default_rng(0))
    only_first.action_masks = np.zeros((30, 4, 6), np.bool_)
    only_first.action_masks[..., 0] = True
    free = empty_rollout(30, 4, policy, np.random.default_rng(0))
    for rollout in (only_first, free):
        backend.start_rollout(30, 4)
        for step in range(30):
            backend.act(rollout.observations[step], rollout, step)
    assert (only_first.actions == 0).all()
    assert len(np.unique(free.actions)) > 3
    for rollout in (only_first, free):  # and so may the next update
        rollout.advantages[:] = np.random.default_rng(1).standard_normal((30, 4))
        backend.start_update(rollout)
        backend.ppo_epochs(np.arange(120)[None], settings_with(batch_size=60))
        torch_epoch(reference, rollout, np.arange(120), settings_with(batch_size=60))
        assert_same_training(policy, reference)


@pytest.mark.parametrize("objective", ["clipped", "plain"])
@pytest.mark.parametrize(("actions", "kind"), DISCRETE)
def test_an_update_with_masks_equals_autograds(actions, kind, objective):
    policy = make_policy(BOX, actions, [16], kind=kind)
    backend, reference = make_backend(policy), twin(policy)
    rollout = collected_rollout(backend, 60, 3, allowed=0.3)
    order = np.random.default_rng(0).permutation(180)
    choices = settings_with(batch_size=140, ent_coef=0.05, objective=objective)
    backend.start_update(rollout)
    rows, status = backend.ppo_epochs(order[None], choices)
    expected, _ = torch_epoch(reference, rollout, order, choices)
    assert not status.non_finite
    np.testing.assert_allclose(rows, expected, **LOSSES)
    assert_same_training(policy, reference)


@pytest.mark.parametrize(("actions", "kind"), DISCRETE[:4])
def test_what_is_never_allowed_is_never_trained(actions, kind):
    policy = make_policy(BOX, actions, [16], kind=kind)
    backend = make_backend(policy)
    rollout = empty_rollout(40, 3, policy, np.random.default_rng(0))
    rollout.action_masks = np.tile(random_masks(policy, (1, 1), 0.3), (40, 3, 1))
    backend.start_rollout(40, 3)
    for step in range(40):
        backend.act(rollout.observations[step], rollout, step)
    rollout.advantages[:] = np.random.default_rng(1).standard_normal((40, 3))
    backend.start_update(rollout)
    backend.ppo_epochs(np.arange(120)[None], settings_with(batch_size=120, ent_coef=0.1))
    allowed, gradient = rollout.action_masks[0, 0], policy.action_net.bias.grad.numpy()
    if kind is ActorCriticPolicy and isinstance(actions, spaces.MultiBinary):  # one logit per switch
        allowed = allowed.reshape(-1, 2).all(axis=1)
    assert not allowed.all()
    assert np.all(gradient[~allowed] == 0.0)
    assert np.all(policy.action_net.weight.grad.numpy()[~allowed] == 0.0)


def test_nan_behind_a_mask_is_still_seen():
    policy = make_policy(BOX, spaces.Discrete(3), [])
    backend = make_backend(policy)
    rollout = collected_rollout(backend, 20, 2)
    rollout.action_masks = np.ones((20, 2, 3), np.bool_)
    rollout.action_masks[rollout.actions != np.arange(3)] = False
    with torch.no_grad():
        policy.action_net.weight[1] = torch.nan
    backend.start_update(rollout)
    _, status = backend.ppo_epochs(np.arange(40)[None], settings_with())
    assert status.non_finite


def test_masks_that_do_not_fit_are_errors():
    policy = make_policy(BOX, spaces.MultiDiscrete([3, 2]))
    backend = make_backend(policy)
    rollout = empty_rollout(4, 3, policy, np.random.default_rng(0))
    backend.start_rollout(4, 3)
    for masks in (np.ones((4, 3, 4), np.bool_), np.ones((4, 3, 5), np.float32), np.ones((3, 3, 5), np.bool_)):
        rollout.action_masks = masks
        with pytest.raises(ValueError, match=r"expected bool \(4, 3, 5\)"):
            backend.act(rollout.observations[0], rollout, 0)
        with pytest.raises(ValueError, match=r"expected bool \(4, 3, 5\)"):
            backend.start_update(rollout)
    continuous = make_backend(make_policy(BOX, spaces.Box(-1.0, 1.0, (2,))))
    rollout = empty_rollout(4, 3, continuous.policy, np.random.default_rng(0))
    rollout.action_masks = np.ones((4, 3, 2), np.bool_)
    continuous.start_rollout(4, 3)
    with pytest.raises(ValueError, match="no discrete choices"):
        continuous.act(rollout.observations[0], rollout, 0)
