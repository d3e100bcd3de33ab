"""Distributions of a user as the library's: the standard ones by their kind, others through an adapter."""

from __future__ import annotations

from typing import Any, Self

import torch
from gymnasium import spaces
from torch import Tensor

from proximo.functional.spaces import Space, get_action_dim
from proximo.networks.distributions import (
    BernoulliDistribution,
    CategoricalDistribution,
    DiagGaussianDistribution,
    Distribution,
    MultiCategoricalDistribution,
    SquashedDiagGaussianDistribution,
    batches,
    sum_independent_dims,
)

STANDARD: dict[type[Any], type[Any]] = {
    batches.Categorical: spaces.Discrete,
    batches.MultiCategorical: spaces.MultiDiscrete,
    batches.Bernoulli: spaces.MultiBinary,
    batches.DiagonalGaussian: spaces.Box,
    batches.SquashedNormal: spaces.Box,
}


def adapt_distribution(given: Any, action_space: Space) -> Distribution | None:
    """The library's distribution for one of a user's; None where it is the one that the space has anyway."""
    if given is None:
        return None
    space_type = STANDARD.get(type(given))
    if space_type is not None and not isinstance(action_space, space_type):
        raise ValueError(
            f"{type(given).__name__} is a distribution of {space_type.__name__} actions, this environment takes "
            f"{action_space}; leave the distribution out to get the fitting one"
        )
    if type(given) is batches.SquashedNormal:
        return SquashedDiagGaussianDistribution(get_action_dim(action_space))
    if space_type is not None:
        return None
    match action_space:
        case spaces.Box():
            return AdaptedGaussian(given, get_action_dim(action_space))
        case spaces.Discrete():
            return AdaptedCategorical(given, int(action_space.n))
        case spaces.MultiDiscrete():
            return AdaptedMultiCategorical(given, action_space.nvec.tolist())
    return AdaptedBernoulli(given, get_action_dim(action_space))


class Adapted(Distribution):
    """A user's distribution: ``given(*parameters)`` makes it for a batch, and it samples and scores itself."""

    def __init__(self, given: Any, *sizes: Any) -> None:
        """Arguments:
        given: Makes the distribution of a batch from its parameters.
        """
        super().__init__(*sizes)
        self.given = given
        self.current: Any = None

    def proba_distribution(self, *parameters: Any) -> Self:
        self.current = self.given(*self._arguments(*parameters))
        return self

    def _arguments(self, *parameters: Any) -> tuple[Any, ...]:
        return parameters

    def log_prob(self, actions: Tensor) -> Tensor:
        log_prob = self.current.log_prob(actions)
        return log_prob if log_prob.dim() == 1 else sum_independent_dims(log_prob)

    def entropy(self) -> Tensor | None:
        try:
            entropy: Tensor = self.current.entropy()
        except NotImplementedError:
            return None
        return entropy if entropy.dim() == 1 else sum_independent_dims(entropy)

    def sample(self) -> Tensor:
        return self.current.sample()

    def mode(self) -> Tensor:
        mode = getattr(self.current, "mode", None)
        return self.current.mean if mode is None else mode

    @property
    def distribution(self) -> Any:
        return self.current


class AdaptedGaussian(Adapted, DiagGaussianDistribution):
    """Called with means and deviations, [batch, action] each."""

    def _arguments(self, *parameters: Any) -> tuple[Any, ...]:
        means, log_std = parameters
        return means, log_std.exp().expand_as(means)


class AdaptedCategorical(Adapted, CategoricalDistribution):  # type: ignore[misc]
    """Called with logits [batch, action]."""


class AdaptedBernoulli(Adapted, BernoulliDistribution):  # type: ignore[misc]
    """Called with logits [batch, action]."""


class AdaptedMultiCategorical(Adapted, MultiCategoricalDistribution):  # type: ignore[misc]
    """Called with a tuple of logits, one entry per choice."""

    def _arguments(self, *parameters: Any) -> tuple[Any, ...]:
        return (torch.split(parameters[0], self.action_dims, dim=1),)
