"""What every action distribution offers."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, Self

from torch import Tensor

HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)


def sum_independent_dims(tensor: Tensor) -> Tensor:
    """Sum over the action dimension; a one-dimensional tensor is summed whole."""
    return tensor.sum(dim=1) if tensor.dim() > 1 else tensor.sum()


# far below any logit a network gives, and finite: −inf would make NaN of 0 · log 0 and of its gradient
MASKED_LOGIT = -1e8


class Distribution(ABC):
    """A distribution over the actions of one space."""

    parameter_width: int  # numbers that the action layer gives per sample
    mask_width: int = 0  # entries of an action mask, 0 where actions cannot be masked

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

    @abstractmethod
    def mode(self) -> Tensor:
        """The likeliest action for each batch row."""

    @property
    @abstractmethod
    def distribution(self) -> Any:
        """The equivalent ``torch.distributions`` object (a list of them for MultiDiscrete)."""

    def apply_masking(self, masks: Tensor) -> None:
        """Forbid actions after :meth:`proba_distribution`: ``masks`` [batch, mask_width] is true where allowed."""
        raise ValueError(f"{type(self).__name__} has no discrete choices to mask")

    def get_actions(self, deterministic: bool = False) -> Tensor:
        return self.mode() if deterministic else self.sample()

    def actions_from_params(self, *parameters: Any, deterministic: bool = False) -> Tensor:
        return self.proba_distribution(*parameters).get_actions(deterministic=deterministic)

    def log_prob_from_params(self, *parameters: Any) -> tuple[Tensor, Tensor]:
        actions = self.actions_from_params(*parameters)
        return actions, self.log_prob(actions)
