"""Rewarding impact-driven exploration."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from proximo.exploration.base import Transitions
from proximo.exploration.icm import ICM
from proximo.exploration.pseudo_counts import EpisodicCounts


class RIDE(EpisodicCounts, ICM):
    """‖φ(next state) − φ(state)‖ / (√N + c), N the visits to the next state in this episode (arXiv 2002.12292).

    N is 1 for this visit plus the soft count of those before it (as in ``PseudoCounts``); the reward is 0 where the
    divisor exceeds ``sm``. φ is trained as in ICM.
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
        latent_dim: int = 128,
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
        common = (envs, device, beta, kappa, gamma, rwd_norm_type, obs_norm_type)
        super().__init__(*common, latent_dim, lr, batch_size, update_proportion, encoder_model, weight_init)
        self.c, self.sm = c, sm
        self.remember_episodes(latent_dim, k, kernel_cluster_distance, kernel_epsilon)

    def novelty(self, transitions: Transitions, sync: bool) -> Tensor:
        departures = self.features("encoder", transitions.observations)
        arrivals = self.features("encoder", transitions.next_observations)
        visits = 1.0 + self.earlier_visits(departures, arrivals, transitions.ended, sync)
        divisor = visits.sqrt() + self.c
        impact = torch.linalg.vector_norm(arrivals - departures, dim=-1)
        return torch.where(divisor > self.sm, 0.0, impact / divisor)
