"""What rllte's distributions share: the call, and the library's distribution behind it."""

from __future__ import annotations

import math
from copy import copy
from typing import Any, Self

import torch
from torch import Tensor
from torch.distributions import Distribution as TorchDistribution
from torch.distributions import register_kl

from proximo.networks.distributions import Distribution, kl_divergence


class BaseDistribution(TorchDistribution):
    """Calling it with parameters gives the distribution of a batch.

    Each call gives a new object, so that an old policy's distribution stays what it was and
    ``torch.distributions.kl_divergence(old, new)`` compares two. Log-probabilities, entropies and divergences are
    [batch]: independent dimensions are summed.
    """

    arg_constraints = {}  # noqa: RUF012 - torch's name; its repr reads them

    def __init__(self) -> None:
        super().__init__(validate_args=False)
        self._inner: Distribution | None = None

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


@register_kl(BaseDistribution, BaseDistribution)
def _kl(p: BaseDistribution, q: BaseDistribution) -> Tensor:
    divergence = kl_divergence(p.inner, q.inner)
    return divergence.sum(dim=-1) if divergence.dim() > 1 else divergence
