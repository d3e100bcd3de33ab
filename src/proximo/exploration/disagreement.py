"""Self-supervised exploration via disagreement."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from proximo.config import COUNT, Check, hyperparameter
from proximo.exploration.base import Transitions
from proximo.exploration.model import ForwardDynamicsModel
from proximo.exploration.novelty import LearnedReward


@dataclass(kw_only=True, eq=False)
class Disagreement(LearnedReward):
    """Variance of what several forward models predict, in the features of a fixed random encoder (arXiv 1906.04161).

    What is random but known makes no disagreement: all models learn the same mean.
    """

    ensemble_size: int = hyperparameter(
        "Forward models.",
        4,
        Check(lambda value: COUNT.fits(value) and 2 <= value <= 256, "at least two models and at most 256"),
    )

    def build(self) -> None:
        sizes = (self.latent_dim, self.policy_action_dim, self.encoder_model, self.weight_init)
        encoder = self.make_encoder().requires_grad_(False)
        models = nn.ModuleList(ForwardDynamicsModel(*sizes) for _ in range(self.ensemble_size))
        self.keep(random_encoder=encoder, ensemble=models)

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
