"""Random network distillation."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from proximo.exploration.base import NoveltyReward, Transitions
from proximo.exploration.model import Distillation


class RND(NoveltyReward):
    """Error of a network that learns the features of a fixed random one (Burda et al. 2018, arXiv 1810.12894)."""

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
        lr: float = 0.001,
        batch_size: int = 256,
        update_proportion: float = 1.0,
        encoder_model: str = "mnih",
        weight_init: str = "orthogonal",
    ) -> None:
        super().__init__(envs, device, beta, kappa, gamma, rwd_norm_type, obs_norm_type)
        distillation = Distillation(self.obs_shape, latent_dim, encoder_model, weight_init)
        self.networks["distillation"] = distillation.to(self.device)
        self.train_networks(lr, batch_size, update_proportion)

    def novelty(self, transitions: Transitions, sync: bool) -> Tensor:
        return self.features("distillation", transitions.next_observations)

    def losses(self, batch: Transitions) -> Tensor:
        return self.networks["distillation"](self.normalize(batch.next_observations))
