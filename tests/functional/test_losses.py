"""The PPO loss on numbers worked out by hand."""

import math

import pytest
import torch

from proximo.config import UpdateSettings
from proximo.data import Minibatch
from proximo.functional.losses import (
    approximate_kl,
    clipped_surrogate,
    clipped_values,
    normalize,
)
from proximo.learners.ppo import PPOLearner

SETTINGS = UpdateSettings(
    learning_rate=1e-3,
    batch_size=2,
    n_epochs=1,
    clip_range=0.2,
    clip_range_vf=None,
    normalize_advantage=False,
    ent_coef=0.1,
    vf_coef=0.5,
    max_grad_norm=0.5,
    target_kl=None,
)


def test_surrogate_is_pessimistic_on_both_sides():
    ratio = torch.tensor([1.5, 0.5, 1.5, 0.5])
    advantages = torch.tensor([1.0, 1.0, -1.0, -1.0])
    # min(1.5, 1.2), min(.5, .8), min(-1.5, -1.2), min(-.5, -.8)
    assert clipped_surrogate(advantages, ratio, 0.2) == pytest.approx(-(1.2 + 0.5 - 1.5 - 0.8) / 4)


def test_normalize_uses_the_sample_deviation_and_spares_a_single_sample():
    torch.testing.assert_close(normalize(torch.tensor([1.0, 3.0])), torch.tensor([-1.0, 1.0]) / math.sqrt(2))
    assert normalize(torch.tensor([5.0])) == 5.0


def test_values_are_clipped_around_the_old_ones():
    values, old = torch.tensor([1.0, 5.0, -5.0]), torch.zeros(3)
    torch.testing.assert_close(clipped_values(values, old, 2.0), torch.tensor([1.0, 2.0, -2.0]))
    assert clipped_values(values, old, None) is values


def test_approximate_kl_is_zero_only_for_equal_policies():
    assert approximate_kl(torch.zeros(3)) == 0
    assert approximate_kl(torch.tensor([math.log(2.0)])) == pytest.approx(2 - 1 - math.log(2))


def test_terms_add_up():
    batch = Minibatch(
        observations=torch.zeros(2, 1),
        actions=torch.zeros(2, 1),
        old_values=torch.zeros(2),
        old_log_prob=torch.tensor([0.0, 0.0]),
        advantages=torch.tensor([1.0, -1.0]),
        returns=torch.tensor([1.0, 2.0]),
    )
    log_prob = torch.log(torch.tensor([1.5, 1.0]))
    terms = PPOLearner.combine(torch.tensor([0.0, 0.0]), log_prob, torch.tensor([0.3, 0.5]), batch, SETTINGS)
    assert terms.policy_loss == pytest.approx(-(1.2 - 1.0) / 2)
    assert terms.value_loss == pytest.approx((1 + 4) / 2)
    assert terms.entropy_loss == pytest.approx(-0.4)
    assert terms.clip_fraction == pytest.approx(0.5)
    assert terms.loss == pytest.approx(-0.1 + 0.1 * -0.4 + 0.5 * 2.5)
    without_entropy = PPOLearner.combine(torch.tensor([0.0, 0.0]), log_prob, None, batch, SETTINGS)
    assert without_entropy.entropy_loss == pytest.approx(math.log(1.5) / 2)
