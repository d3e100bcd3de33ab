"""Soft counts of visits within an episode."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from proximo.config import COUNT, NOT_NEGATIVE, POSITIVE, POSITIVE_FINITE, hyperparameter, other_default
from proximo.exploration.base import Transitions
from proximo.exploration.icm import InverseDynamicsReward
from proximo.functional.novelty import episodic_distances, soft_counts
from proximo.functional.statistics import RunningMeanStd

# states of one open episode that are remembered; older ones are forgotten
EPISODE_CAPACITY = 5_000


@dataclass(kw_only=True, eq=False)
class EpisodicCounts(InverseDynamicsReward):
    """Base of rewards that count how often the state a step led to was seen before in its episode, softly, in φ."""

    k: int = hyperparameter("Neighbours that are counted.", 10, COUNT)
    kernel_cluster_distance: float = hyperparameter(
        "Squared distance, in units of its mean, below which states are the same.", 0.008, NOT_NEGATIVE
    )
    kernel_epsilon: float = hyperparameter("How soon farther states stop counting.", 0.0001, POSITIVE_FINITE)
    c: float = hyperparameter("Added to the root of the count.", 0.001, NOT_NEGATIVE)
    sm: float = hyperparameter("Largest divisor that is rewarded; beyond it the reward is 0.", 8.0, POSITIVE)

    def build(self) -> None:
        super().build()
        self.statistics["squared_distances"] = RunningMeanStd()
        self.memory = [torch.zeros(0, self.latent_dim, device=self.device) for _ in range(self.n_envs)]

    def earlier_visits(self, departures: Tensor, arrivals: Tensor, ended: Tensor, sync: bool) -> Tensor:
        """Σ K [time, env] over the k nearest; the kernel's unit is the running mean of squared distances."""
        squared, memory = episodic_distances(arrivals, departures, ended, self.memory, self.k)
        statistics = self.statistics["squared_distances"].copy()
        statistics.update(squared[torch.isfinite(squared)].double().cpu().numpy())
        if sync:
            self.statistics["squared_distances"] = statistics
            self.memory = [rows[-EPISODE_CAPACITY:] for rows in memory]
        return soft_counts(squared, float(statistics.mean), self.kernel_cluster_distance, self.kernel_epsilon)


@dataclass(kw_only=True, eq=False)
class PseudoCounts(EpisodicCounts):
    """1 / (√ΣK + c) with the soft count ΣK of the state in its episode, 0 when √ΣK + c > sm (arXiv 2002.06038).

    K = ε / (max(d²/d̄² − ξ, 0) + ε) over the ``k`` nearest states that the episode had seen; ε is ``kernel_epsilon``,
    ξ ``kernel_cluster_distance``, d̄² the running mean of d². The memory is emptied where an episode ends.
    """

    latent_dim: int = other_default(EpisodicCounts, "latent_dim", 32)

    def novelty(self, transitions: Transitions, sync: bool) -> Tensor:
        departures = self.features("encoder", transitions.observations)
        arrivals = self.features("encoder", transitions.next_observations)
        similarity = self.earlier_visits(departures, arrivals, transitions.ended, sync).sqrt() + self.c
        return torch.where(similarity > self.sm, 0.0, 1.0 / similarity)
