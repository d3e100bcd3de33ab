"""Exploration via elliptical episodic bonuses."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from proximo.config import POSITIVE_FINITE, hyperparameter
from proximo.exploration.base import Transitions
from proximo.exploration.icm import InverseDynamicsReward
from proximo.functional.novelty import elliptical_bonus


@dataclass(kw_only=True, eq=False)
class E3B(InverseDynamicsReward):
    """φᵀ C⁻¹ φ, C = ridge · I + Σ φφᵀ over the states that the episode led to before (Henaff et al. 2022)."""

    ridge: float = hyperparameter("Multiple of the identity that C begins with.", 0.1, POSITIVE_FINITE)

    def build(self) -> None:
        super().build()
        self.memory = [(torch.eye(self.latent_dim, device=self.device) / self.ridge).repeat(self.n_envs, 1, 1)]

    def novelty(self, transitions: Transitions, sync: bool) -> Tensor:
        features = self.features("encoder", transitions.next_observations)
        bonus, inverse = elliptical_bonus(features, transitions.ended, self.memory[0], self.ridge)
        if sync:
            self.memory = [inverse]
        return bonus
