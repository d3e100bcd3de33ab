"""Closed-form distributions equal torch.distributions."""

import pytest
import torch
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from proximo.networks.distributions import (
    CategoricalDistribution,
    DiagGaussianDistribution,
    SquashedDiagGaussianDistribution,
    TanhBijector,
    kl_divergence,
    make_proba_distribution,
)

SPACES = [spaces.Box(-1, 1, (3,)), spaces.Discrete(5), spaces.MultiDiscrete([2, 4, 3]), spaces.MultiBinary(4)]


def given_parameters(distribution, seed, batch=7):
    """The distribution with random parameters of the right width."""
    generator = torch.Generator().manual_seed(seed)
    net = distribution.proba_distribution_net(6)
    width = (net[0] if isinstance(net, tuple) else net).out_features
    parameters = torch.randn(batch, width, generator=generator)
    if isinstance(net, tuple):
        return distribution.proba_distribution(parameters, torch.randn(width, generator=generator))
    return distribution.proba_distribution(parameters)


def torch_parts(distribution):
    parts = distribution.distribution
    return parts if isinstance(parts, list) else [parts]


@pytest.mark.parametrize("space", SPACES, ids=lambda space: type(space).__name__)
@given(seed=st.integers(0, 1000))
def test_log_prob_and_entropy_equal_torch(space, seed):
    distribution = given_parameters(make_proba_distribution(space), seed)
    actions = distribution.sample()
    parts = torch_parts(distribution)
    if len(parts) > 1:
        log_prob = sum(part.log_prob(actions[:, i]) for i, part in enumerate(parts))
        entropy = sum(part.entropy() for part in parts)
    elif isinstance(distribution, CategoricalDistribution):
        log_prob, entropy = parts[0].log_prob(actions), parts[0].entropy()
    else:
        log_prob, entropy = parts[0].log_prob(actions).sum(1), parts[0].entropy().sum(1)
    torch.testing.assert_close(distribution.log_prob(actions), log_prob, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(distribution.entropy(), entropy, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("space", SPACES, ids=lambda space: type(space).__name__)
def test_mode_is_the_likeliest_action(space):
    distribution = given_parameters(make_proba_distribution(space), seed=3)
    best = distribution.log_prob(distribution.mode())
    for _ in range(50):
        assert (distribution.log_prob(distribution.sample()) <= best + 1e-6).all()


@pytest.mark.parametrize("space", SPACES, ids=lambda space: type(space).__name__)
def test_kl_of_equal_distributions_is_zero_and_of_others_positive(space):
    same = kl_divergence(
        given_parameters(make_proba_distribution(space), 1), given_parameters(make_proba_distribution(space), 1)
    )
    other = kl_divergence(
        given_parameters(make_proba_distribution(space), 1), given_parameters(make_proba_distribution(space), 2)
    )
    assert same.abs().max() < 1e-6
    assert other.sum(dim=-1).min() > 0


def test_sampling_follows_the_probabilities():
    torch.manual_seed(0)
    logits = torch.log(torch.tensor([0.7, 0.2, 0.1])).repeat(20_000, 1)
    counts = torch.bincount(CategoricalDistribution(3).proba_distribution(logits).sample(), minlength=3)
    torch.testing.assert_close(counts / 20_000, torch.tensor([0.7, 0.2, 0.1]), atol=0.015, rtol=0)


def test_squashed_gaussian_accounts_for_the_squashing():
    torch.manual_seed(0)
    distribution = SquashedDiagGaussianDistribution(2).proba_distribution(torch.zeros(4, 2), torch.zeros(2))
    actions, log_prob = distribution.log_prob_from_params(torch.zeros(4, 2), torch.zeros(2))
    assert actions.abs().max() < 1
    plain = DiagGaussianDistribution(2).proba_distribution(torch.zeros(4, 2), torch.zeros(2))
    expected = plain.log_prob(TanhBijector.inverse(actions)) - torch.log(1 - actions**2 + 1e-6).sum(1)
    torch.testing.assert_close(log_prob, expected, atol=1e-4, rtol=1e-4)
    assert distribution.entropy() is None


def test_unknown_space_and_mixed_kl_are_refused():
    with pytest.raises(NotImplementedError, match="no distribution for action space"):
        make_proba_distribution(spaces.Text(3))
    with pytest.raises(TypeError, match="CategoricalDistribution and DiagGaussianDistribution"):
        kl_divergence(CategoricalDistribution(2), DiagGaussianDistribution(2))
