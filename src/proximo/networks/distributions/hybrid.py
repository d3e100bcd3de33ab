"""Hybrid actions: several distributions side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn

from proximo.data import Array
from proximo.functional.actions import leaves
from proximo.functional.spaces import Space, get_action_dim
from proximo.networks.distributions.base import Distribution, as_masks
from proximo.networks.distributions.discrete import share_noise
from proximo.networks.distributions.gaussian import DiagGaussianDistribution


class HybridDistribution(Distribution):
    """Independent parts: log-probabilities and entropies add up, masks reach the discrete parts."""

    def __init__(self, space: Space, make_part: Callable[[Space], Distribution]) -> None:
        """Arguments:
        space: A Dict or Tuple of action spaces, nested in any way.
        make_part: Makes the distribution of one part from its space.
        """
        self.parts = [make_part(leaf) for leaf in leaves(space)]
        self.widths = [get_action_dim(leaf) for leaf in leaves(space)]  # columns of the flat action
        self.parameter_widths = [part.parameter_width for part in self.parts]
        self.parameter_width = sum(self.parameter_widths)
        self.noise_kinds = tuple(kind for part in self.parts for kind in part.noise_kinds)
        self.mask_widths = [part.mask_width for part in self.parts]
        self.mask_width = sum(self.mask_widths)
        self.deviations = [part.action_dim if isinstance(part, DiagGaussianDistribution) else 0 for part in self.parts]

    def proba_distribution_net(self, latent_dim: int, log_std_init: float = 0.0) -> tuple[nn.Module, nn.Parameter]:
        """One linear layer for all parts, and the log-deviations of the continuous ones."""
        log_std = nn.Parameter(torch.ones(sum(self.deviations)) * log_std_init)
        return nn.Linear(latent_dim, self.parameter_width), log_std

    def proba_distribution(self, parameters: Tensor, log_std: Tensor) -> Self:
        pieces = parameters.split(self.parameter_widths, dim=1)
        for part, piece, deviation in zip(self.parts, pieces, log_std.split(self.deviations), strict=True):
            if isinstance(part, DiagGaussianDistribution):
                part.proba_distribution(piece, deviation)
            else:
                part.proba_distribution(piece)
        return self

    def apply_masking(self, masks: Tensor | Array | None) -> None:
        pieces: Sequence[Tensor | None] = [None] * len(self.parts)
        if masks is not None:
            if not self.mask_width:
                raise ValueError("the actions have no discrete choices to mask")
            pieces = as_masks(masks, self.mask_width).split(self.mask_widths, dim=1)
        for part, piece in zip(self.parts, pieces, strict=True):
            if part.mask_width:
                part.apply_masking(piece)

    def log_prob(self, actions: Tensor) -> Tensor:
        pieces = actions.split(self.widths, dim=1)
        return torch.stack([part.log_prob(piece) for part, piece in zip(self.parts, pieces, strict=True)]).sum(dim=0)

    def entropy(self) -> Tensor | None:
        entropies = [entropy for part in self.parts if (entropy := part.entropy()) is not None]
        return torch.stack(entropies).sum(dim=0) if len(entropies) == len(self.parts) else None

    def sample(self) -> Tensor:
        share_noise(self.parts, self.take_noise())
        return self._columns([part.sample() for part in self.parts])

    def mode(self) -> Tensor:
        return self._columns([part.mode() for part in self.parts])

    def _columns(self, actions: list[Tensor]) -> Tensor:
        return torch.cat([action.float().reshape(action.shape[0], -1) for action in actions], dim=1)

    @property
    def distribution(self) -> list[Any]:
        return [part.distribution for part in self.parts]
