"""How new a state is: nearest neighbours, soft visit counts, elliptical bonuses. Tensors in, tensors out.

Features are [time, env, feature] of one rollout; ``ended`` [time, env] is true at the last step of an episode.
What must be remembered between rollouts goes in and comes out, so nothing here keeps a state.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def pairwise_distances(one: Tensor, other: Tensor) -> Tensor:
    """Euclidean distances [..., row of one, row of other] by matrix products, in double precision where there is one:
    several times faster than by differences, and equal states come out at distance 0 up to 1e-7."""
    precision = torch.float32 if one.device.type == "mps" else torch.float64
    exact = torch.cdist(one.to(precision), other.to(precision), compute_mode="use_mm_for_euclid_dist")
    return exact.to(one.dtype)


def nearest_neighbour_novelty(features: Tensor, memory: Tensor, k: int, average: bool = False) -> Tensor:
    """log(1 + distance to the k-th nearest other row of ``memory``), [time, env]; RE3's estimate of state entropy.

    ``memory`` [row, env, feature] holds the features themselves too: each finds itself at distance 0, and that is not a
    neighbour. ``average`` takes the mean over the first k neighbours instead.
    """
    if memory.shape[0] <= k:
        raise ValueError(
            f"k={k} neighbours need at least {k + 1} states per environment, got {memory.shape[0]}; "
            "lower k or take longer rollouts"
        )
    distances = pairwise_distances(features.transpose(0, 1), memory.transpose(0, 1))
    nearest = distances.topk(k + 1, dim=-1, largest=False).values[..., 1:]  # [env, time, k]
    novelty = torch.log1p(nearest)
    return (novelty.mean(dim=-1) if average else novelty[..., -1]).T


def episodic_distances(
    arrivals: Tensor, departures: Tensor, ended: Tensor, memory: list[Tensor], k: int
) -> tuple[Tensor, list[Tensor]]:
    """Squared distances from where each step led to the k nearest states that its episode had seen before.

    A step goes from ``departures[t]`` to ``arrivals[t]`` (features [time, env, feature]); ``memory[env]``
    [row, feature] holds what an episode that was open at the rollout's start had seen. Gives [time, env, k], infinite
    where fewer than k states were seen, and the memory for the next rollout.
    """
    time = torch.arange(len(ended), device=ended.device)
    distances, remembered = [], []
    for env, past in enumerate(memory):
        # the steps before the first end belong to episode 0, as does the memory
        episode = torch.cumsum(ended[:, env], dim=0) - ended[:, env].long()
        seen = torch.cat([past, departures[:, env]])
        seen_episode = torch.cat([episode.new_zeros(len(past)), episode])
        seen_at = torch.cat([time.new_full((len(past),), -1), time])
        squared = pairwise_distances(arrivals[:, env], seen).square()
        comparable = (seen_at <= time[:, None]) & (seen_episode == episode[:, None])
        squared = squared.masked_fill(~comparable, torch.inf)
        squared = functional.pad(squared, (0, max(0, k - len(seen))), value=torch.inf)
        distances.append(squared.topk(k, dim=1, largest=False).values)
        remembered.append(seen[:0] if ended[-1, env] else seen[seen_episode == episode[-1]])
    return torch.stack(distances, dim=1), remembered


def soft_counts(squared_distances: Tensor, scale: float, cluster_distance: float, epsilon: float) -> Tensor:
    """Σ K over the neighbours, K = ε / (max(d²/scale − ξ, 0) + ε): about how often a state was seen before.

    A state at distance 0 counts 1, a far one about 0, an infinitely far one (no neighbour) exactly 0.
    Badia et al. 2020, "Never Give Up"; ``scale`` is the running mean of d².

    >>> soft_counts(torch.tensor([[0.0, 2.0, torch.inf]]), scale=1.0, cluster_distance=0.0, epsilon=1.0)
    tensor([1.3333])
    """
    relative = squared_distances / max(scale, 1e-8)
    return (epsilon / ((relative - cluster_distance).clamp(min=0.0) + epsilon)).sum(dim=-1)


def elliptical_bonus(features: Tensor, ended: Tensor, inverse: Tensor, ridge: float) -> tuple[Tensor, Tensor]:
    """b = φᵀ C⁻¹ φ with C = ridge · I + Σ φφᵀ over the earlier states of the episode; E3B (Henaff et al. 2022).

    ``inverse`` [env, feature, feature] is C⁻¹ at the rollout's first step, kept up by Sherman and Morrison's formula
    and set back where an episode ends. Gives the bonus [time, env] and C⁻¹ after the last step.
    """
    fresh = torch.eye(features.shape[-1], device=features.device) / ridge
    bonuses = []
    for state, over in zip(features, ended, strict=True):
        direction = torch.einsum("nij,nj->ni", inverse, state)
        # never negative but for rounding
        bonus = (state * direction).sum(dim=-1).clamp(min=0.0)
        outer = direction[:, :, None] * direction[:, None, :]
        inverse = inverse - outer / (1.0 + bonus)[:, None, None]
        inverse = torch.where(over[:, None, None], fresh, inverse)
        bonuses.append(bonus)
    return torch.stack(bonuses), inverse
