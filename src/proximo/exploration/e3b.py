"""Exploration via elliptical episodic bonuses."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from proximo.exploration.base import Transitions
from proximo.exploration.icm import InverseDynamicsReward
from proximo.functional.novelty import elliptical_bonus


class E3B(InverseDynamicsReward):
    """φᵀ C⁻¹ φ, C = ridge · I + Σ φφᵀ over the states that the episode led to before (Henaff et al. 2022)."""

    def __init__(
        self,
        envs: Any,
        device: str = "cpu",
        beta: float = 1.0,
        kappa: float = 0.0,
        gamma: float | None = None,
        rwd_norm_type: str = "rms",
        obs_norm_type: str = "none",
        ridge: float = 0.1,
        latent_dim: int = 128,
        lr: float = 0.001,
        batch_size: int = 256,
        update_proportion: float = 1.0,
        encoder_model: str = "mnih",
        weight_init: str = "orthogonal",
    ) -> None:
        super().__init__(envs, device, beta, kappa, gamma, rwd_norm_type, obs_norm_type)
        if ridge <= 0.0:
            raise ValueError(f"ridge must be positive, got {ridge}")
        self.ridge = ridge
        self.memory = [(torch.eye(latent_dim, device=self.device) / ridge).repeat(self.n_envs, 1, 1)]
        self.build_encoder(latent_dim, encoder_model, weight_init)
        self.train_networks(lr, batch_size, update_proportion)

    def novelty(self, transitions: Transitions, sync: bool) -> Tensor:
        features = self.features("encoder", transitions.next_observations)
        bonus, inverse = elliptical_bonus(features, transitions.ended, self.memory[0], self.ridge)
        if sync:
            self.memory = [inverse]
        return bonus
