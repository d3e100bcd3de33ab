"""Random encoders for efficient exploration."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from proximo.config import COUNT, hyperparameter
from proximo.exploration.base import Transitions
from proximo.exploration.novelty import NoveltyReward
from proximo.functional.novelty import nearest_neighbour_novelty


@dataclass(kw_only=True, eq=False)
class RE3(NoveltyReward):
    """log(1 + distance to the k-th nearest state) in the features of a fixed random encoder (Seo et al. 2021).

    Neighbours are the states of the same environment: those of this rollout, and before them as many as
    ``storage_size`` leaves room for.
    """

    storage_size: int = hyperparameter("States of each environment to compare with.", 1000, COUNT)
    k: int = hyperparameter("Which neighbour's distance counts.", 5, COUNT)
    average_entropy: bool = hyperparameter("Take the mean over the first k neighbours instead of the k-th.", False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.k >= self.storage_size:
            raise ValueError(f"k is {self.k}; expected a number below storage_size {self.storage_size}")

    def build(self) -> None:
        self.keep(random_encoder=self.make_encoder().requires_grad_(False))
        self.memory = [torch.zeros(0, self.n_envs, self.latent_dim, device=self.device)]

    def novelty(self, transitions: Transitions, sync: bool) -> Tensor:
        features = self.features("random_encoder", transitions.next_observations)
        # a rollout longer than the storage still finds all of itself there
        storage = torch.cat([self.memory[0], features])[-max(self.storage_size, len(features)) :]
        novelty = nearest_neighbour_novelty(features, storage, self.k, self.average_entropy)
        if sync:
            self.memory = [storage[-self.storage_size :]]
        return novelty
