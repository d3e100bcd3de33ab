"""The intrinsic curiosity module, and the inverse-dynamics features that it shares with others."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from proximo.exploration.base import NoveltyReward, Transitions
from proximo.exploration.model import ForwardDynamicsModel, InverseDynamicsModel, ObservationEncoder


class InverseDynamicsReward(NoveltyReward):
    """Base of rewards whose encoder φ learns to tell the action from two states, and so sees what an agent controls."""

    def build_encoder(self, latent_dim: int, encoder_model: str, weight_init: str) -> None:
        encoder = ObservationEncoder(self.obs_shape, latent_dim, encoder_model, weight_init)
        inverse = InverseDynamicsModel(latent_dim, self.policy_action_dim, encoder_model, weight_init)
        self.networks["encoder"] = encoder.to(self.device)
        self.networks["inverse_model"] = inverse.to(self.device)

    def encode_batch(self, batch: Transitions) -> tuple[Tensor, Tensor]:
        encoder = self.networks["encoder"]
        return encoder(self.normalize(batch.observations)), encoder(self.normalize(batch.next_observations))

    def losses(self, batch: Transitions) -> Tensor:
        latents, next_latents = self.encode_batch(batch)
        return self.action_losses(self.networks["inverse_model"](latents, next_latents), batch.actions)


class ICM(InverseDynamicsReward):
    """Error of predicting φ(next state) from φ(state) and the action (Pathak et al. 2017, arXiv 1705.05363).

    The forward model does not shape φ: features that shrink would make every error small.
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
        update_proportion: float = 1.0,
        encoder_model: str = "mnih",
        weight_init: str = "orthogonal",
    ) -> None:
        super().__init__(envs, device, beta, kappa, gamma, rwd_norm_type, obs_norm_type)
        self.build_encoder(latent_dim, encoder_model, weight_init)
        forward = ForwardDynamicsModel(latent_dim, self.policy_action_dim, encoder_model, weight_init)
        self.networks["forward_model"] = forward.to(self.device)
        self.train_networks(lr, batch_size, update_proportion)

    def prediction_errors(self, latents: Tensor, actions: Tensor, next_latents: Tensor) -> Tensor:
        """[batch]"""
        predicted = self.networks["forward_model"](latents, self.encode_actions(actions))
        return (predicted - next_latents).square().mean(dim=-1)

    def novelty(self, transitions: Transitions, sync: bool) -> Tensor:
        latents = self.features("encoder", transitions.observations).flatten(0, 1)
        next_latents = self.features("encoder", transitions.next_observations).flatten(0, 1)
        errors = self.prediction_errors(latents, transitions.actions.flatten(0, 1), next_latents)
        return errors.view_as(transitions.ended)

    def losses(self, batch: Transitions) -> Tensor:
        latents, next_latents = self.encode_batch(batch)
        inverse = self.action_losses(self.networks["inverse_model"](latents, next_latents), batch.actions)
        return inverse + self.prediction_errors(latents.detach(), batch.actions, next_latents.detach())
