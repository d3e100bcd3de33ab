"""Soft counts of visits within an episode."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from proximo.exploration.base import Transitions
from proximo.exploration.icm import InverseDynamicsReward
from proximo.functional.novelty import episodic_distances, soft_counts
from proximo.functional.statistics import RunningMeanStd

# states of one open episode that are remembered; older ones are forgotten
EPISODE_CAPACITY = 5_000


class EpisodicCounts(InverseDynamicsReward):
    """Base of rewards that count how often the state a step led to was seen before in its episode, softly, in φ."""

    def remember_episodes(self, latent_dim: int, k: int, kernel_cluster_distance: float, kernel_epsilon: float) -> None:
        if k < 1 or kernel_epsilon <= 0.0:
            raise ValueError(f"k and kernel_epsilon must be positive, got {k} and {kernel_epsilon}")
        self.k, self.kernel_cluster_distance, self.kernel_epsilon = k, kernel_cluster_distance, kernel_epsilon
        self.statistics["squared_distances"] = RunningMeanStd()
        self.memory = [torch.zeros(0, latent_dim, device=self.device) for _ in range(self.n_envs)]

    def earlier_visits(self, departures: Tensor, arrivals: Tensor, ended: Tensor, sync: bool) -> Tensor:
        """Σ K [time, env] over the k nearest; the kernel's unit is the running mean of squared distances."""
        squared, memory = episodic_distances(arrivals, departures, ended, self.memory, self.k)
        statistics = self.statistics["squared_distances"].copy()
        statistics.update(squared[torch.isfinite(squared)].double().cpu().numpy())
        if sync:
            self.statistics["squared_distances"] = statistics
            self.memory = [rows[-EPISODE_CAPACITY:] for rows in memory]
        return soft_counts(squared, float(statistics.mean), self.kernel_cluster_distance, self.kernel_epsilon)


class PseudoCounts(EpisodicCounts):
    """1 / (√ΣK + c) with the soft count ΣK of the state in its episode, 0 when √ΣK + c > sm (arXiv 2002.06038).

    K = ε / (max(d²/d̄² − ξ, 0) + ε) over the ``k`` nearest states that the episode had seen; ε is ``kernel_epsilon``,
    ξ ``kernel_cluster_distance``, d̄² the running mean of d². The memory is emptied where an episode ends.
    """

    def __init__(
        self,
        envs: Any,
        device: str = "cpu",
        beta: float = 1.0,
        kappa: float = 0.0,
        gamma: float | None = None,
        rwd_norm_type: str = "rms",
        obs_norm_type: str = "none",
        latent_dim: int = 32,
        lr: float = 0.001,
        batch_size: int = 256,
        k: int = 10,
        kernel_cluster_distance: float = 0.008,
        kernel_epsilon: float = 0.0001,
        c: float = 0.001,
        sm: float = 8.0,
        update_proportion: float = 1.0,
        encoder_model: str = "mnih",
        weight_init: str = "orthogonal",
    ) -> None:
        super().__init__(envs, device, beta, kappa, gamma, rwd_norm_type, obs_norm_type)
        self.c, self.sm = c, sm
        self.remember_episodes(latent_dim, k, kernel_cluster_distance, kernel_epsilon)
        self.build_encoder(latent_dim, encoder_model, weight_init)
        self.train_networks(lr, batch_size, update_proportion)

    def novelty(self, transitions: Transitions, sync: bool) -> Tensor:
        departures = self.features("encoder", transitions.observations)
        arrivals = self.features("encoder", transitions.next_observations)
        similarity = self.earlier_visits(departures, arrivals, transitions.ended, sync).sqrt() + self.c
        return torch.where(similarity > self.sm, 0.0, 1.0 / similarity)
