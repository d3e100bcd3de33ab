"""Action distributions as objects of torch: made from the parameters of a batch, and comparable with each other.

``Categorical(logits=logits)`` is the distribution of a batch, as in torch and in Hsuanwu; ``Categorical()`` is none yet
and makes one when it is called, ``Categorical()(logits)``, as in rllte. The arithmetic is that of
:mod:`proximo.networks.distributions`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from typing import Any, Self

import torch
from torch import Tensor
from torch.distributions import Distribution as TorchDistribution
from torch.distributions import register_kl

from proximo.networks.distributions import (
    BernoulliDistribution,
    CategoricalDistribution,
    DiagGaussianDistribution,
    Distribution,
    MultiCategoricalDistribution,
    SquashedDiagGaussianDistribution,
    kl_divergence,
)


class BaseDistribution(TorchDistribution):
    """The distribution of a batch: given parameters at once, or when it is called.

    Each call gives a new object, so that an old policy's distribution stays what it was and
    ``torch.distributions.kl_divergence(old, new)`` compares two. Log-probabilities, entropies and divergences are
    [batch]: independent dimensions are summed.
    """

    arg_constraints = {}  # noqa: RUF012 - torch's name; its repr reads them

    def __init__(self, *parameters: Any, **named: Any) -> None:
        super().__init__(validate_args=False)
        given = bool(parameters or named)
        self._inner: Distribution | None = self._make(*parameters, **named) if given else None

    def __call__(self, *parameters: Any, **named: Any) -> Self:
        made = copy(self)
        made._inner = self._make(*parameters, **named)
        return made

    def _make(self, *parameters: Any, **named: Any) -> Distribution:
        raise NotImplementedError(f"{type(self).__name__} does not say which distribution it is")

    @property
    def inner(self) -> Any:
        """The distribution of :mod:`proximo.networks.distributions` that does the arithmetic."""
        if self._inner is None:
            raise ValueError(f"{type(self).__name__} has no parameters yet; call it with those of a batch first")
        return self._inner

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Random actions [batch, …], or [*sample_shape, batch, …]."""
        with torch.no_grad():
            return self._draw(sample_shape)

    def _draw(self, sample_shape: Any) -> Tensor:
        if len(sample_shape) == 0:
            return self.inner.sample()
        draws = [self.inner.sample() for _ in range(math.prod(sample_shape))]
        return torch.stack(draws).unflatten(0, tuple(sample_shape))

    def log_prob(self, actions: Tensor) -> Tensor:
        return self.inner.log_prob(actions)

    def entropy(self) -> Tensor:
        entropy = self.inner.entropy()
        if entropy is None:
            raise NotImplementedError(f"the entropy of {type(self).__name__} has no closed form; use -log_prob(sample)")
        return entropy

    @property
    def mode(self) -> Tensor:
        return self.inner.mode()

    @property
    def mean(self) -> Tensor:
        """The deterministic action: for discrete distributions the likeliest, as in rllte."""
        return self.inner.mode()


class Categorical(BaseDistribution):
    """One choice; parameters: ``logits`` [batch, choice]."""

    def _make(self, logits: Tensor) -> Distribution:
        return CategoricalDistribution(logits.shape[-1]).proba_distribution(logits)

    @property
    def logits(self) -> Tensor:
        """Normalised: the log-probabilities."""
        return self.inner.log_probs

    @property
    def probs(self) -> Tensor:
        """Probabilities, [batch, action]."""
        return self.logits.exp()


class MultiCategorical(BaseDistribution):
    """Several choices; parameters: a sequence of logits, one [batch, choice] for each."""

    def _make(self, logits: Sequence[Tensor]) -> Distribution:
        if isinstance(logits, Tensor):
            raise TypeError(
                f"MultiCategorical takes a sequence of logits, one tensor per choice, got one of shape "
                f"{tuple(logits.shape)}; split it: logits.split(sizes, dim=1)"
            )
        sizes = [part.shape[-1] for part in logits]
        return MultiCategoricalDistribution(sizes).proba_distribution(torch.cat(list(logits), dim=-1))

    @property
    def logits(self) -> tuple[Tensor, ...]:
        """Logits of all choices, side by side."""
        return tuple(part.log_probs for part in self.inner.parts)

    @property
    def probs(self) -> tuple[Tensor, ...]:
        """Probabilities of all choices, side by side."""
        return tuple(part.exp() for part in self.logits)


class Bernoulli(BaseDistribution):
    """Switches; parameters: ``logits`` [batch, switch]."""

    def _make(self, logits: Tensor) -> Distribution:
        return BernoulliDistribution(logits.shape[-1]).proba_distribution(logits)

    @property
    def logits(self) -> Tensor:
        """The logit of each switch."""
        return self.inner.action_logits

    @property
    def probs(self) -> Tensor:
        """The probability that each switch is on."""
        return torch.sigmoid(self.logits)


class DiagonalGaussian(BaseDistribution):
    """Independent normals; parameters: ``mu`` [batch, action] and ``sigma`` of that shape or one
    that broadcasts to it."""

    distribution_class = DiagGaussianDistribution

    def _make(self, mu: Tensor, sigma: Tensor) -> Distribution:
        return self.distribution_class(mu.shape[-1]).proba_distribution(
            mu, torch.as_tensor(sigma, device=mu.device).log()
        )

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """As ``sample``, with gradients to the parameters."""
        return self._draw(sample_shape)

    @property
    def mu(self) -> Tensor:
        """Means."""
        return self.inner.mean_actions

    @property
    def sigma(self) -> Tensor:
        """Deviations."""
        return self.inner.log_std.exp()

    @property
    def stddev(self) -> Tensor:
        return self.sigma.expand_as(self.mu)

    @property
    def variance(self) -> Tensor:
        return self.stddev.square()


class SquashedNormal(DiagonalGaussian):
    """The tanh of independent normals, so that actions lie in (−1, 1); ``mean`` is the tanh of ``mu``.

    ``stddev`` and ``variance`` are those before the tanh. A divergence of two is that of their normals, which the same
    tanh leaves unchanged.
    """

    distribution_class = SquashedDiagGaussianDistribution


@register_kl(BaseDistribution, BaseDistribution)
def _kl(p: BaseDistribution, q: BaseDistribution) -> Tensor:
    divergence = kl_divergence(p.inner, q.inner)
    return divergence.sum(dim=-1) if divergence.dim() > 1 else divergence
