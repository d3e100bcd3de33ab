"""Self-supervised exploration via disagreement."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from proximo.exploration.base import NoveltyReward, Transitions
from proximo.exploration.model import ForwardDynamicsModel, ObservationEncoder


class Disagreement(NoveltyReward):
    """Variance of what several forward models predict, in the features of a fixed random encoder (arXiv 1906.04161).

    What is random but known makes no disagreement: all models learn the same mean.
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
        ensemble_size: int = 4,
        latent_dim: int = 128,
        lr: float = 0.001,
        batch_size: int = 256,
        update_proportion: float = 1.0,
        encoder_model: str = "mnih",
        weight_init: str = "orthogonal",
    ) -> None:
        super().__init__(envs, device, beta, kappa, gamma, rwd_norm_type, obs_norm_type)
        if ensemble_size < 2:
            raise ValueError(f"disagreement needs at least two models, got ensemble_size={ensemble_size}")
        self.ensemble_size = ensemble_size
        encoder = ObservationEncoder(self.obs_shape, latent_dim, encoder_model, weight_init).requires_grad_(False)
        models = [
            ForwardDynamicsModel(latent_dim, self.policy_action_dim, encoder_model, weight_init)
            for _ in range(ensemble_size)
        ]
        self.networks["random_encoder"] = encoder.to(self.device)
        self.networks["ensemble"] = nn.ModuleList(models).to(self.device)
        self.train_networks(lr, batch_size, update_proportion)

    def predictions(self, latents: Tensor, actions: Tensor) -> Tensor:
        """[model, batch, feature]"""
        encoded = self.encode_actions(actions)
        return torch.stack([model(latents, encoded) for model in self.networks["ensemble"].children()])

    def novelty(self, transitions: Transitions, sync: bool) -> Tensor:
        latents = self.features("random_encoder", transitions.observations).flatten(0, 1)
        predictions = self.predictions(latents, transitions.actions.flatten(0, 1))
        return predictions.var(dim=0).mean(dim=-1).view_as(transitions.ended)

    def losses(self, batch: Transitions) -> Tensor:
        encoder = self.networks["random_encoder"]
        latents, targets = encoder(self.normalize(batch.observations)), encoder(self.normalize(batch.next_observations))
        return (self.predictions(latents, batch.actions) - targets).square().mean(dim=-1)
