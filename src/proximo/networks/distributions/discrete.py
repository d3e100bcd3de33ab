"""Discrete actions: one choice, several choices, switches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor, nn
from torch import distributions as torch_distributions
from torch.nn import functional

from proximo.data import Array
from proximo.networks.distributions.base import MASKED_LOGIT, UNIFORM, Distribution, as_masks


def _log_softmax_entropy(log_probs: Tensor) -> Tensor:
    # 0 · log 0 = 0: an action with probability zero adds nothing
    safe = log_probs.clamp(min=torch.finfo(log_probs.dtype).min)
    return -(safe.exp() * safe).sum(dim=-1)


def _inverse_cumulative(probabilities: Tensor, uniform: Tensor) -> Tensor:
    """The first choice whose cumulated probability exceeds a uniform number in [0, 1): [batch, choice] → [batch]."""
    before = probabilities.cumsum(dim=-1).roll(1, dims=-1)
    before[..., 0] = 0.0
    # rounding may leave the sum below the uniform number: then the last possible choice
    reached = (uniform.unsqueeze(-1) >= before) & (probabilities > 0.0)
    choices = torch.arange(probabilities.shape[-1], device=probabilities.device)
    return torch.where(reached, choices, 0).amax(dim=-1)


def share_noise(parts: Sequence[Distribution], noise: Tensor | None) -> None:
    """Give each part of a distribution its columns of the random numbers."""
    if noise is not None:
        widths = [len(part.noise_kinds) for part in parts]
        for part, columns in zip(parts, noise.split(widths, dim=1), strict=True):
            part.noise = columns


class CategoricalDistribution(Distribution):
    """One choice among ``action_dim``: log p(a) = logits[a] − logsumexp(logits)."""

    log_probs: Tensor  # [batch, choice]
    _unmasked: Tensor
    noise_kinds = (UNIFORM,)

    def __init__(self, action_dim: int) -> None:
        """Arguments:
        action_dim: Number of actions.
        """
        self.action_dim = self.parameter_width = self.mask_width = action_dim

    def proba_distribution_net(self, latent_dim: int) -> nn.Module:
        return nn.Linear(latent_dim, self.action_dim)

    def proba_distribution(self, action_logits: Tensor) -> Self:
        self.log_probs = self._unmasked = functional.log_softmax(action_logits, dim=-1)
        return self

    def apply_masking(self, masks: Tensor | Array | None) -> None:
        self.log_probs = self._unmasked
        if masks is None:
            return
        forbidden = ~as_masks(masks, self.mask_width, self.log_probs.device)
        # normalised without the forbidden ones: an allowed action may be less likely than any finite stand-in for them
        allowed = functional.log_softmax(self.log_probs.masked_fill(forbidden, -torch.inf), dim=-1)
        self.log_probs = allowed.masked_fill(forbidden, MASKED_LOGIT)

    def log_prob(self, actions: Tensor) -> Tensor:
        return self.log_probs.gather(-1, actions.long().reshape(-1, 1)).squeeze(-1)

    def entropy(self) -> Tensor:
        return _log_softmax_entropy(self.log_probs)

    def sample(self) -> Tensor:
        probabilities = self.log_probs.exp()
        if (uniform := self.take_noise()) is None:
            return torch.multinomial(probabilities, 1).squeeze(-1)
        return _inverse_cumulative(probabilities, uniform[:, 0])

    def mode(self) -> Tensor:
        return self.log_probs.argmax(dim=-1)

    @property
    def distribution(self) -> torch_distributions.Categorical:
        return torch_distributions.Categorical(logits=self.log_probs)


class MultiCategoricalDistribution(Distribution):
    """Several independent choices; the logits of all of them stand side by side."""

    parts: list[CategoricalDistribution]

    def __init__(self, action_dims: Sequence[int]) -> None:
        """Arguments:
        action_dims: Actions of each choice.
        """
        self.action_dims = list(action_dims)
        self.parameter_width = self.mask_width = sum(self.action_dims)
        self.parts = [CategoricalDistribution(size) for size in self.action_dims]
        self.noise_kinds = (UNIFORM,) * len(self.parts)

    def proba_distribution_net(self, latent_dim: int) -> nn.Module:
        return nn.Linear(latent_dim, sum(self.action_dims))

    def proba_distribution(self, action_logits: Tensor) -> Self:
        for part, logits in zip(self.parts, action_logits.split(self.action_dims, dim=1), strict=True):
            part.proba_distribution(logits)
        return self

    def apply_masking(self, masks: Tensor | Array | None) -> None:
        pieces: Sequence[Tensor | None] = [None] * len(self.parts)
        if masks is not None:
            pieces = as_masks(masks, self.mask_width, self.parts[0].log_probs.device).split(self.action_dims, dim=1)
        for part, piece in zip(self.parts, pieces, strict=True):
            part.apply_masking(piece)

    def log_prob(self, actions: Tensor) -> Tensor:
        columns = actions.reshape(-1, len(self.parts)).unbind(dim=1)
        return torch.stack(
            [part.log_prob(column) for part, column in zip(self.parts, columns, strict=True)], dim=1
        ).sum(dim=1)

    def entropy(self) -> Tensor:
        return torch.stack([part.entropy() for part in self.parts], dim=1).sum(dim=1)

    def sample(self) -> Tensor:
        share_noise(self.parts, self.take_noise())
        return torch.stack([part.sample() for part in self.parts], dim=1)

    def mode(self) -> Tensor:
        return torch.stack([part.mode() for part in self.parts], dim=1)

    @property
    def distribution(self) -> list[torch_distributions.Categorical]:
        return [part.distribution for part in self.parts]

    distributions = distribution  # sb3-contrib's name for it


class MaskableBernoulliDistribution(MultiCategoricalDistribution):
    """Switches as choices between off and on, each with a logit of its own: sb3-contrib's form."""

    def __init__(self, action_dim: int) -> None:
        """Arguments:
        action_dim: Number of switches.
        """
        super().__init__([2] * action_dim)


class BernoulliDistribution(Distribution):
    """Independent switches: log p(a) = Σᵢ aᵢ·logitᵢ − softplus(logitᵢ)."""

    action_logits: Tensor  # [batch, switch]
    _unmasked: Tensor

    def __init__(self, action_dims: int) -> None:
        """Arguments:
        action_dims: Number of switches.
        """
        self.action_dims = self.parameter_width = action_dims
        self.mask_width = 2 * action_dims  # may each switch be off, may it be on
        self.noise_kinds = (UNIFORM,) * action_dims

    def proba_distribution_net(self, latent_dim: int) -> nn.Module:
        return nn.Linear(latent_dim, self.action_dims)

    def proba_distribution(self, action_logits: Tensor) -> Self:
        self.action_logits = self._unmasked = action_logits
        return self

    def apply_masking(self, masks: Tensor | Array | None) -> None:
        self.action_logits = self._unmasked
        if masks is None:
            return
        pairs = as_masks(masks, self.mask_width, self.action_logits.device).view(-1, self.action_dims, 2)
        may_be_off, may_be_on = pairs.unbind(dim=-1)
        logits = self.action_logits.masked_fill(~may_be_on, MASKED_LOGIT)
        self.action_logits = logits.masked_fill(~may_be_off, -MASKED_LOGIT)

    def log_prob(self, actions: Tensor) -> Tensor:
        return (actions * self.action_logits - functional.softplus(self.action_logits)).sum(dim=1)

    def entropy(self) -> Tensor:
        logits = self.action_logits
        return (functional.softplus(logits) - logits * torch.sigmoid(logits)).sum(dim=1)

    def sample(self) -> Tensor:
        probabilities = torch.sigmoid(self.action_logits)
        if (uniform := self.take_noise()) is None:
            return torch.bernoulli(probabilities)
        return (uniform < probabilities).to(probabilities.dtype)

    def mode(self) -> Tensor:
        return torch.round(torch.sigmoid(self.action_logits))

    @property
    def distribution(self) -> torch_distributions.Bernoulli:
        return torch_distributions.Bernoulli(logits=self.action_logits)
