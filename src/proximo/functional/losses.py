"""The losses of the learners, one number per minibatch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from proximo.data import Minibatch


@dataclass(frozen=True, kw_only=True)
class UpdateSettings:
    """What one update needs to know: the hyperparameters with their schedules already evaluated.

    A2C is PPO with the plain objective and one epoch over one batch (Huang et al. 2022, arXiv 2205.09123).
    """

    objective: Literal["clipped", "plain"] = "clipped"
    learning_rate: float
    batch_size: int
    n_epochs: int
    clip_range: float
    clip_range_vf: float | None
    pessimistic_value: bool = False  # with clip_range_vf: the larger of the clipped and the plain squared error counts
    normalize_advantage: bool
    ent_coef: float
    vf_coef: float
    max_grad_norm: float
    target_kl: float | None
    skip_non_finite: bool = False  # pass by a minibatch whose loss or gradient is no number, instead of stopping


class LossTerms(NamedTuple):
    """Terms of the loss of one minibatch; only ``loss`` carries gradients that matter."""

    policy_loss: Tensor
    value_loss: Tensor
    entropy_loss: Tensor
    approx_kl: Tensor
    clip_fraction: Tensor
    loss: Tensor


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


def value_error(values: Tensor, batch: Minibatch, settings: UpdateSettings) -> Tensor:
    """E[(V − R)²] with V clipped around its old value; the pessimistic form is E[max((V − R)², (clip(V) − R)²)]."""
    clipped = clipped_values(values, batch.old_values, settings.clip_range_vf)
    if settings.clip_range_vf is None or not settings.pessimistic_value:
        return functional.mse_loss(clipped, batch.returns)
    return torch.max((values - batch.returns).square(), (clipped - batch.returns).square()).mean()


def approximate_kl(log_ratio: Tensor) -> Tensor:
    """KL(old ‖ new) from samples of old, low in variance and never negative: E[r − 1 − log r]."""
    return torch.mean(torch.exp(log_ratio) - 1.0 - log_ratio)


def actor_critic_loss(
    values: Tensor, log_prob: Tensor, entropy: Tensor | None, batch: Minibatch, settings: UpdateSettings
) -> LossTerms:
    """L = L_policy + ent_coef · L_entropy + vf_coef · L_value over one minibatch of shape [batch]."""
    advantages = normalize(batch.advantages) if settings.normalize_advantage else batch.advantages
    log_ratio = log_prob - batch.old_log_prob
    ratio = torch.exp(log_ratio)
    if settings.objective == "clipped":
        policy_loss = clipped_surrogate(advantages, ratio, settings.clip_range)
    else:
        policy_loss = plain_objective(advantages, log_prob)
    value_loss = value_error(values, batch, settings)
    # without a closed form, −log p of the sampled actions estimates the entropy
    entropy_loss = torch.mean(log_prob) if entropy is None else -torch.mean(entropy)
    with torch.no_grad():
        approx_kl = approximate_kl(log_ratio)
        clip_fraction = torch.mean((torch.abs(ratio - 1.0) > settings.clip_range).float())
    loss = policy_loss + settings.ent_coef * entropy_loss + settings.vf_coef * value_loss
    return LossTerms(policy_loss, value_loss, entropy_loss, approx_kl, clip_fraction, loss)
