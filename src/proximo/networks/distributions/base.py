"""What every action distribution offers."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from typing import Any, Literal, Self, TypeAlias

import torch
from torch import Tensor, nn

from proximo.data import Array

HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)

NoiseKind: TypeAlias = Literal["uniform", "normal"]
UNIFORM: NoiseKind = "uniform"
NORMAL: NoiseKind = "normal"


def sum_independent_dims(tensor: Tensor) -> Tensor:
    """Sum over the action dimension; a one-dimensional tensor is summed whole."""
    return tensor.sum(dim=1) if tensor.dim() > 1 else tensor.sum()


# far below any logit a network gives, and finite: −inf would make NaN of 0 · log 0 and of its gradient
MASKED_LOGIT = -1e8


def as_masks(masks: Tensor | Array, width: int, device: torch.device | None = None) -> Tensor:
    """[batch, width] bool, of masks in any form and shape; on a device, or where they are."""
    return torch.as_tensor(masks, dtype=torch.bool, device=device).reshape(-1, width)


def _detached(value: Any) -> Any:
    """Tensors without the graph that they are results of, also within lists and within distributions of torch."""
    if isinstance(value, Tensor):
        # not is_leaf: autograd refuses to tell it of a split tensor whose base has changed since
        return value if isinstance(value, nn.Parameter) else value.detach()
    if isinstance(value, list | tuple):
        return type(value)(map(_detached, value)) if type(value) in (list, tuple) else value
    if isinstance(value, torch.distributions.Distribution):
        plain = copy.copy(value)
        plain.__dict__ = {name: _detached(part) for name, part in vars(value).items()}
        return plain
    return value


class Distribution(ABC):
    """A distribution over the actions of one space."""

    parameter_width: int  # numbers that the action layer gives per sample
    mask_width: int = 0  # entries of an action mask, 0 where actions cannot be masked
    noise_kinds: tuple[NoiseKind, ...] = ()  # per action column, what a sample is made of; empty: only torch can draw
    noise: Tensor | None = None  # [batch, column]: random numbers for the next sample; None: torch draws

    def __getstate__(self) -> dict[str, Any]:
        """For copies: numbers alone. What the latest parameters were computed from belongs to the original."""
        return {name: _detached(value) for name, value in vars(self).items()}

    @abstractmethod
    def proba_distribution_net(self, latent_dim: int) -> Any:
        """The layer that maps the policy's latent to this distribution's parameters."""

    @abstractmethod
    def proba_distribution(self, *parameters: Any) -> Self:
        """Set the parameters for a batch; returns itself."""

    @abstractmethod
    def log_prob(self, actions: Tensor) -> Tensor:
        """[batch]"""

    @abstractmethod
    def entropy(self) -> Tensor | None:
        """[batch], or None when there is no closed form."""

    @abstractmethod
    def sample(self) -> Tensor:
        """A random action for each batch row, differentiable where the distribution allows it."""

    def take_noise(self) -> Tensor | None:
        """The random numbers that the caller has put in place for this sample, once."""
        noise, self.noise = self.noise, None
        return noise

    @abstractmethod
    def mode(self) -> Tensor:
        """The likeliest action for each batch row."""

    @property
    @abstractmethod
    def distribution(self) -> Any:
        """The equivalent ``torch.distributions`` object (a list of them for MultiDiscrete)."""

    def apply_masking(self, masks: Tensor | Array | None) -> None:
        """Forbid actions after :meth:`proba_distribution`: ``masks`` [batch, mask_width] is true where allowed.

        They take the place of earlier ones; None allows everything again.
        """
        raise ValueError(f"{type(self).__name__} has no discrete choices to mask")

    def get_actions(self, deterministic: bool = False) -> Tensor:
        """Samples, or the likeliest actions."""
        return self.mode() if deterministic else self.sample()

    def actions_from_params(self, *parameters: Any, deterministic: bool = False, **named: Any) -> Tensor:
        """Actions for the arguments of :meth:`proba_distribution`; ``deterministic`` may also come last by position."""
        if parameters and isinstance(parameters[-1], bool):
            *parameters, deterministic = parameters  # type: ignore[assignment]
        return self.proba_distribution(*parameters, **named).get_actions(deterministic=deterministic)

    def log_prob_from_params(self, *parameters: Any, **named: Any) -> tuple[Tensor, Tensor]:
        """Sampled actions of these parameters, and their log-probabilities."""
        actions = self.actions_from_params(*parameters, **named)
        return actions, self.log_prob(actions)


def frozen(distribution: Distribution) -> Distribution:
    """A copy that stays as it is when the policy reuses its distribution, or changes its parameters."""
    twin = copy.copy(distribution)
    for name, value in vars(distribution).items():
        if isinstance(value, Tensor):
            setattr(twin, name, value.detach().clone())
        elif isinstance(value, list) and value and isinstance(value[0], Distribution):
            setattr(twin, name, [frozen(part) for part in value])
    return twin
