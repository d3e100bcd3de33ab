"""The terms of a learner's loss, each one number per minibatch of shape [batch]."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional


class LossTerms(NamedTuple):
    """Terms of the loss of one minibatch; only ``loss`` carries gradients that matter.

    Arguments:
        policy_loss: The policy's objective, negative.
        value_loss: The value's squared error.
        entropy_loss: The mean entropy, negative.
        approx_kl: Estimate of the divergence from the old policy.
        clip_fraction: Share of probability ratios outside the clip range.
        loss: What is descended.
    """

    policy_loss: Tensor
    value_loss: Tensor
    entropy_loss: Tensor
    approx_kl: Tensor
    clip_fraction: Tensor
    loss: Tensor
    extra: Mapping[str, Tensor] = {}  # further terms to be logged, by name; the loss holds them already


TERMS = len(LossTerms._fields) - 1  # numbers per minibatch, without the extra ones


def normalize(advantages: Tensor) -> Tensor:
    """Zero mean and unit deviation over a minibatch; a single sample has no deviation and stays as it is."""
    if advantages.numel() < 2:
        return advantages
    return (advantages - advantages.mean()) / (advantages.std() + 1e-8)


def clipped_surrogate(advantages: Tensor, ratio: Tensor, clip_range: float) -> Tensor:
    """PPO's pessimistic objective (Schulman et al. 2017, eq. 7): −E[min(r·A, clip(r, 1 ± ε)·A)]."""
    clipped = torch.clamp(ratio, 1.0 - clip_range, 1.0 + clip_range)
    return -torch.min(advantages * ratio, advantages * clipped).mean()


def plain_objective(advantages: Tensor, log_prob: Tensor) -> Tensor:
    """The policy gradient's objective: −E[A · log π]."""
    return -(advantages * log_prob).mean()


def clipped_values(values: Tensor, old_values: Tensor, clip_range: float | None) -> Tensor:
    """Predictions kept within ``clip_range`` of the ones made while collecting."""
    return values if clip_range is None else old_values + torch.clamp(values - old_values, -clip_range, clip_range)


def value_error(
    values: Tensor, old_values: Tensor, returns: Tensor, clip_range: float | None = None, pessimistic: bool = False
) -> Tensor:
    """E[(V − R)²] with V clipped around its old value; the pessimistic form is E[max((V − R)², (clip(V) − R)²)]."""
    clipped = clipped_values(values, old_values, clip_range)
    if clip_range is None or not pessimistic:
        return functional.mse_loss(clipped, returns)
    return torch.max((values - returns).square(), (clipped - returns).square()).mean()


def value_columns(values: Tensor) -> Tensor:
    """[batch] of a policy's [batch, 1]; [batch, 2] where an intrinsic reward has a value of its own."""
    return values.flatten() if values.numel() == len(values) else values


def value_errors(
    values: Tensor, old_values: Tensor, returns: Tensor, clip_range: float | None = None, pessimistic: bool = False
) -> Tensor:
    """:func:`value_error`, summed over the columns where there are two values."""
    if values.dim() == 1:
        return value_error(values, old_values, returns, clip_range, pessimistic)
    columns = zip(values.unbind(1), old_values.unbind(1), returns.unbind(1), strict=True)
    return torch.stack([value_error(*column, clip_range, pessimistic) for column in columns]).sum()


def entropy_loss(entropy: Tensor | None, log_prob: Tensor) -> Tensor:
    """−E[H]; without a closed form, −log p of the sampled actions estimates the entropy."""
    return torch.mean(log_prob) if entropy is None else -torch.mean(entropy)


def clip_fraction(ratio: Tensor, clip_range: float) -> Tensor:
    """How many probability ratios lie outside 1 ± ε."""
    return torch.mean((torch.abs(ratio - 1.0) > clip_range).float())


def approximate_kl(log_ratio: Tensor) -> Tensor:
    """KL(old ‖ new) from samples of old, low in variance and never negative: E[r − 1 − log r]."""
    return torch.mean(torch.exp(log_ratio) - 1.0 - log_ratio)
