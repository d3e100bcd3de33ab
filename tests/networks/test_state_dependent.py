"""State-dependent exploration, against plain formulas."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from proximo.networks.distributions import StateDependentNoiseDistribution


def make(actions: int = 2, latent: int = 3, log_std_init: float = -0.5, **options: Any) -> tuple[Any, torch.Tensor]:
    distribution = StateDependentNoiseDistribution(actions, **options)
    _, log_std = distribution.proba_distribution_net(latent, log_std_init)
    return distribution, log_std.detach()


def test_deviation_grows_with_the_latent() -> None:
    """Variance of an action: Σ latent² · σ² (+ 10⁻⁶)."""
    distribution, log_std = make(log_std_init=math.log(0.5))
    latent = torch.tensor([[1.0, 2.0, 0.0], [0.0, 0.0, 0.0]])
    distribution.proba_distribution(torch.zeros(2, 2), log_std, latent)
    torch.testing.assert_close(distribution.std[0], torch.full((2,), math.sqrt(0.25 * 5.0 + 1e-6)))
    torch.testing.assert_close(distribution.std[1], torch.full((2,), 1e-3))


@given(seed=st.integers(0, 1000), full_std=st.booleans())
def test_density_is_that_of_a_normal(seed: int, full_std: bool) -> None:
    torch.manual_seed(seed)
    distribution, log_std = make(full_std=full_std)
    mean, latent = torch.randn(5, 2), torch.randn(5, 3)
    distribution.proba_distribution(mean, log_std, latent)
    normal = torch.distributions.Normal(mean, distribution.std)
    actions = torch.randn(5, 2)
    torch.testing.assert_close(distribution.log_prob(actions), normal.log_prob(actions).sum(1), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(distribution.entropy(), normal.entropy().sum(1), atol=1e-5, rtol=1e-5)


def test_noise_is_a_function_of_the_state_until_redrawn() -> None:
    torch.manual_seed(0)
    distribution, log_std = make()
    distribution.sample_weights(log_std, batch_size=4)
    latent = torch.randn(1, 3).repeat(4, 1)
    distribution.proba_distribution(torch.zeros(4, 2), log_std, latent)
    first, again = distribution.sample(), distribution.sample()
    assert torch.equal(first, again)
    assert len({tuple(row.tolist()) for row in first}) == 4  # every environment has its own matrix
    distribution.proba_distribution(torch.zeros(7, 2), log_std, latent[:1].repeat(7, 1))
    shared = distribution.sample()
    assert len({tuple(row.tolist()) for row in shared}) == 1  # a batch of another size shares one
    distribution.sample_weights(log_std, batch_size=4)
    distribution.proba_distribution(torch.zeros(4, 2), log_std, latent)
    assert not torch.equal(first, distribution.sample())


def test_noise_over_many_matrices_has_the_density_s_deviation() -> None:
    torch.manual_seed(0)
    distribution, log_std = make(log_std_init=-1.0)
    latent = torch.tensor([[0.5, -1.0, 2.0]]).repeat(30_000, 1)
    distribution.sample_weights(log_std, batch_size=30_000)
    distribution.proba_distribution(torch.ones(30_000, 2), log_std, latent)
    actions = distribution.sample()
    torch.testing.assert_close(actions.std(dim=0), distribution.std[0], rtol=0.02, atol=0.0)
    torch.testing.assert_close(actions.mean(dim=0), torch.ones(2), rtol=0.0, atol=0.03)


def test_squashed_actions_stay_inside_and_keep_their_density() -> None:
    torch.manual_seed(0)
    distribution, log_std = make(squash_output=True, log_std_init=0.0)
    distribution.sample_weights(log_std, batch_size=50)
    distribution.proba_distribution(torch.randn(50, 2), log_std, torch.randn(50, 3))
    actions = distribution.sample()
    assert actions.abs().max() <= 1.0
    assert distribution.entropy() is None
    inner = actions.clamp(-0.99, 0.99)
    normal = torch.distributions.Normal(distribution.mean_actions, distribution.std)
    expected = normal.log_prob(torch.atanh(inner)).sum(1) - torch.log(1 - inner**2 + 1e-6).sum(1)
    torch.testing.assert_close(distribution.log_prob(inner), expected, atol=1e-3, rtol=1e-4)


@pytest.mark.parametrize("value", [-3.0, -1e-6, 0.0, 1e-6, 2.0, 50.0])
def test_expln_is_smooth_and_slow(value: float) -> None:
    """exp below zero, 1 + log(1 + x) above; its gradient is finite everywhere."""
    distribution, _ = make(use_expln=True)
    log_std = torch.full((3, 2), value, requires_grad=True)
    std = distribution.get_std(log_std)
    expected = math.exp(value) if value <= 0 else 1.0 + math.log1p(value)
    assert std[0, 0].item() == pytest.approx(expected, rel=1e-5)
    std.sum().backward()
    slope = math.exp(value) if value <= 0 else 1.0 / (1.0 + value)
    assert log_std.grad[0, 0].item() == pytest.approx(slope, rel=1e-4)


@pytest.mark.parametrize("learn_features", [False, True])
def test_latent_learns_from_the_noise_only_if_asked(learn_features: bool) -> None:
    distribution, log_std = make(learn_features=learn_features)
    latent = torch.randn(4, 3, requires_grad=True)
    distribution.proba_distribution(torch.zeros(4, 2), log_std, latent).log_prob(torch.ones(4, 2)).sum()
    log_prob = distribution.log_prob(torch.ones(4, 2)).sum()
    assert log_prob.requires_grad is learn_features
