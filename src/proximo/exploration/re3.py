"""Random encoders for efficient exploration."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from proximo.exploration.base import NoveltyReward, Transitions
from proximo.exploration.model import ObservationEncoder
from proximo.functional.novelty import nearest_neighbour_novelty


class RE3(NoveltyReward):
    """log(1 + distance to the k-th nearest state) in the features of a fixed random encoder (Seo et al. 2021).

    Neighbours are the states of the same environment: those of this rollout, and before them as many as
    ``storage_size`` leaves room for. ``average_entropy`` takes the mean over the first k neighbours.
    """

    def __init__(
        self,
        envs: Any,
        device: str = "cpu",
        beta: float = 1.0,
        kappa: float = 0.0,
        gamma: float | None = None,
        rwd_norm_type: str = "rms",
        obs_norm_type: str = "rms",
        latent_dim: int = 128,
        storage_size: int = 1000,
        k: int = 5,
        average_entropy: bool = False,
        encoder_model: str = "mnih",
        weight_init: str = "orthogonal",
    ) -> None:
        super().__init__(envs, device, beta, kappa, gamma, rwd_norm_type, obs_norm_type)
        if not 1 <= k < storage_size:
            raise ValueError(f"k must be at least 1 and below storage_size={storage_size}, got {k}")
        self.storage_size, self.k, self.average_entropy = storage_size, k, average_entropy
        encoder = ObservationEncoder(self.obs_shape, latent_dim, encoder_model, weight_init).requires_grad_(False)
        self.networks["random_encoder"] = encoder.to(self.device)
        self.memory = [torch.zeros(0, self.n_envs, latent_dim, device=self.device)]

    def novelty(self, transitions: Transitions, sync: bool) -> Tensor:
        features = self.features("random_encoder", transitions.next_observations)
        # a rollout longer than the storage still finds all of itself there
        storage = torch.cat([self.memory[0], features])[-max(self.storage_size, len(features)) :]
        novelty = nearest_neighbour_novelty(features, storage, self.k, self.average_entropy)
        if sync:
            self.memory = [storage[-self.storage_size :]]
        return novelty
