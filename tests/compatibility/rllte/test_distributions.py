"""rllte's distributions against torch's own."""

from __future__ import annotations

import pytest
import torch
from torch import distributions as oracle
from torch.distributions import kl_divergence

from proximo.rllte.xplore.distribution import Bernoulli, Categorical, DiagonalGaussian, MultiCategorical, SquashedNormal

close = torch.testing.assert_close


def logits(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_categorical_is_torchs() -> None:
    first, second = logits(5, 3), logits(5, 3, seed=1)
    ours, reference = Categorical()(first), oracle.Categorical(logits=first)
    actions = ours.sample()
    assert actions.shape == (5,)
    close(ours.log_prob(actions), reference.log_prob(actions))
    close(ours.entropy(), reference.entropy())
    close(ours.probs, reference.probs)
    close(ours.mode, first.argmax(dim=-1))
    close(ours.mean, first.argmax(dim=-1))
    close(kl_divergence(ours, Categorical()(second)), kl_divergence(reference, oracle.Categorical(logits=second)))


def test_a_call_leaves_the_former_distribution_alone() -> None:
    """One object for old and new policy is why rllte's KL is always 0."""
    made = Categorical()
    old = made(logits(4, 3))
    before = old.probs.clone()
    new = made(logits(4, 3, seed=1))
    assert old is not new
    close(old.probs, before)
    assert (kl_divergence(old, new) > 1e-3).all()


def test_multi_categorical_sums_its_choices() -> None:
    parts = (logits(4, 2), logits(4, 5, seed=1))
    ours, references = MultiCategorical()(parts), [oracle.Categorical(logits=part) for part in parts]
    actions = ours.sample()
    assert actions.shape == (4, 2)
    close(ours.log_prob(actions), sum(one.log_prob(actions[:, i]) for i, one in enumerate(references)))
    close(ours.entropy(), sum(one.entropy() for one in references))
    close(ours.mode, torch.stack([part.argmax(dim=-1) for part in parts], dim=1))
    others = (logits(4, 2, seed=2), logits(4, 5, seed=3))
    wanted = sum(
        kl_divergence(one, oracle.Categorical(logits=other)) for one, other in zip(references, others, strict=True)
    )
    close(kl_divergence(ours, MultiCategorical()(others)), wanted)
    with pytest.raises(TypeError, match="split"):
        MultiCategorical()(logits(4, 7))


def test_bernoulli_sums_its_switches() -> None:
    first, second = logits(6, 3), logits(6, 3, seed=1)
    ours, reference = Bernoulli()(first), oracle.Bernoulli(logits=first)
    actions = ours.sample()
    assert set(actions.unique().tolist()) <= {0.0, 1.0}
    close(ours.log_prob(actions), reference.log_prob(actions).sum(-1))
    close(ours.entropy(), reference.entropy().sum(-1))
    close(ours.mode, (first > 0).float())
    wanted = kl_divergence(reference, oracle.Bernoulli(logits=second)).sum(-1)
    close(kl_divergence(ours, Bernoulli()(second)), wanted)


@pytest.mark.parametrize("sigma", [torch.tensor([0.5, 2.0, 1.0]), 0.1 + logits(4, 3).abs()])
def test_diagonal_gaussian_sums_entropy_over_dimensions(sigma: torch.Tensor) -> None:
    mu = logits(4, 3, seed=2)
    ours, reference = DiagonalGaussian()(mu, sigma), oracle.Normal(mu, sigma.expand_as(mu))
    actions = ours.sample()
    close(ours.log_prob(actions), reference.log_prob(actions).sum(-1))
    close(ours.entropy(), reference.entropy().sum(-1))
    close(ours.mean, mu)
    close(ours.variance, reference.variance)
    other = oracle.Normal(mu + 1.0, 2.0 * torch.ones_like(mu))
    close(
        kl_divergence(ours, DiagonalGaussian()(mu + 1.0, torch.full((3,), 2.0))),
        kl_divergence(reference, other).sum(-1),
    )


def test_samples_follow_the_parameters() -> None:
    torch.manual_seed(0)
    draws = DiagonalGaussian()(torch.tensor([[1.0, -2.0]]), torch.tensor([[0.5, 2.0]])).sample((20_000,))
    assert draws.shape == (20_000, 1, 2)
    close(draws.mean(dim=(0, 1)), torch.tensor([1.0, -2.0]), atol=0.06, rtol=0.0)
    close(draws.std(dim=(0, 1)), torch.tensor([0.5, 2.0]), atol=0.04, rtol=0.0)


def test_only_rsample_carries_gradients() -> None:
    mu = torch.zeros(2, 3, requires_grad=True)
    made = DiagonalGaussian()(mu, torch.ones(3))
    assert not made.sample().requires_grad
    made.rsample().sum().backward()
    close(mu.grad, torch.ones(2, 3))


def test_squashed_normal_is_the_tanh_of_a_normal() -> None:
    torch.manual_seed(0)
    mu, sigma = logits(8, 2), torch.full((8, 2), 0.7)
    ours = SquashedNormal()(mu, sigma)
    reference = oracle.TransformedDistribution(oracle.Normal(mu, sigma), oracle.TanhTransform())
    actions = ours.sample()
    assert (actions.abs() < 1.0).all()
    close(ours.log_prob(actions), reference.log_prob(actions).sum(-1), atol=1e-3, rtol=1e-3)
    close(ours.mean, torch.tanh(mu))
    with pytest.raises(NotImplementedError, match="closed form"):
        ours.entropy()


def test_a_distribution_without_parameters_says_so() -> None:
    with pytest.raises(ValueError, match="call it"):
        Categorical().sample()
    assert "Categorical" in repr(Categorical())
