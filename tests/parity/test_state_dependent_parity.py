"""State-dependent exploration: the same weights and noise give Stable-Baselines3's numbers."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3.common import policies as their_policies

from proximo.networks.actor_critic import ActorCriticPolicy
from rounding import OUTPUTS, assert_same_gradients

OBSERVATIONS, ACTIONS = spaces.Box(-1.0, 1.0, (5,)), spaces.Box(-2.0, 2.0, (3,))
OPTIONS = [
    {},
    {"full_std": False},
    {"use_expln": True},
    {"use_expln": True, "log_std_init": 0.5},
    {"squash_output": True, "log_std_init": -1.0},
]


def pair(options):
    """Ours and theirs with equal weights and equal noise matrices."""
    arguments = {"use_sde": True, "net_arch": [8], **options}
    ours = ActorCriticPolicy(OBSERVATIONS, ACTIONS, lambda _: 1e-3, **arguments)
    theirs = their_policies.ActorCriticPolicy(OBSERVATIONS, ACTIONS, lambda _: 1e-3, **arguments)
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    theirs.load_state_dict(ours.state_dict())
    ours.reset_noise(4)
    theirs.action_dist.exploration_mat = ours.action_dist.exploration_mat
    theirs.action_dist.exploration_matrices = ours.action_dist.exploration_matrices
    return ours, theirs


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("rows", [1, 4, 7])  # one matrix for all, one each, one for all again
def test_actions_and_log_probs(options, rows):
    torch.manual_seed(rows)
    ours, theirs = pair(options)
    observations = torch.randn(rows, 5)
    with torch.no_grad():
        for mine, other in zip(ours(observations), theirs(observations), strict=True):
            torch.testing.assert_close(mine, other, **OUTPUTS)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_gradients(options):
    torch.manual_seed(0)
    ours, theirs = pair(options)
    observations, actions = torch.randn(6, 5), torch.randn(6, 3).clamp(-0.9, 0.9)
    for policy in (ours, theirs):
        values, log_prob, entropy = policy.evaluate_actions(observations, actions)
        loss = (values.square().mean() - log_prob.mean()) + (0.0 if entropy is None else entropy.mean())
        loss.backward()
    pairs = zip(ours.named_parameters(), theirs.parameters(), strict=True)
    assert_same_gradients({name: (mine.grad, other.grad) for (name, mine), other in pairs})


def test_predict_is_within_bounds_and_repeats_until_noise_is_redrawn():
    ours, _ = pair({"squash_output": True})
    observation = np.ones(5, np.float32)
    first, second = ours.predict(observation)[0], ours.predict(observation)[0]
    np.testing.assert_array_equal(first, second)
    ours.reset_noise()
    assert not np.array_equal(first, ours.predict(observation)[0])
    assert np.abs(first).max() <= 2.0
