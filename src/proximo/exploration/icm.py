"""The intrinsic curiosity module, and the inverse-dynamics features that it shares with others."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from proximo.config import other_default
from proximo.exploration.base import Transitions
from proximo.exploration.model import ForwardDynamicsModel, InverseDynamicsModel
from proximo.exploration.novelty import LearnedReward


@dataclass(kw_only=True, eq=False)
class InverseDynamicsReward(LearnedReward):
    """Base of rewards whose encoder φ learns to tell the action from two states, and so sees what an agent controls."""

    obs_norm_type: str = other_default(LearnedReward, "obs_norm_type", "none")

    def build(self) -> None:
        inverse = InverseDynamicsModel(self.latent_dim, self.policy_action_dim, self.encoder_model, self.weight_init)
        self.keep(encoder=self.make_encoder(), inverse_model=inverse)

    def encode_batch(self, batch: Transitions) -> tuple[Tensor, Tensor]:
        """Features before and after each step."""
        encoder = self.networks["encoder"]
        return encoder(self.normalize(batch.observations)), encoder(self.normalize(batch.next_observations))

    def losses(self, batch: Transitions) -> Tensor:
        latents, next_latents = self.encode_batch(batch)
        return self.action_losses(self.networks["inverse_model"](latents, next_latents), batch.actions)


@dataclass(kw_only=True, eq=False)
class ICM(InverseDynamicsReward):
    """Error of predicting φ(next state) from φ(state) and the action (Pathak et al. 2017, arXiv 1705.05363).

    The forward model does not shape φ: features that shrink would make every error small.
    """

    def build(self) -> None:
        super().build()
        forward = ForwardDynamicsModel(self.latent_dim, self.policy_action_dim, self.encoder_model, self.weight_init)
        self.keep(forward_model=forward)

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
