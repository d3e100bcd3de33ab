"""Hsuanwu's PPO and DrAC learners."""

from __future__ import annotations

import torch

from proximo.augmentation import usual_augmentation
from proximo.hsuanwu.described_spaces import SpaceLike
from proximo.hsuanwu.xploit.learner.base import BaseLearner


class PPOLearner(BaseLearner):
    """Proximal policy optimisation (https://arxiv.org/abs/1707.06347) with Hsuanwu's arguments and methods.

    ``num_mini_batch`` minibatches in each of ``n_epochs`` passes over a rollout.
    """

    def __init__(
        self,
        observation_space: SpaceLike,
        action_space: SpaceLike,
        device: torch.device | str,
        feature_dim: int = 256,
        lr: float = 5e-4,
        eps: float = 1e-5,
        hidden_dim: int = 256,
        clip_range: float = 0.2,
        n_epochs: int = 3,
        num_mini_batch: int = 8,
        vf_coef: float = 0.5,
        ent_coef: float = 0.01,
        max_grad_norm: float = 0.5,
    ) -> None:
        super().__init__(locals())


class DrACLearner(BaseLearner):
    """Data-regularised actor-critic (https://arxiv.org/abs/2006.12862): PPO, and policy and value of augmented
    observations pulled to those of the plain ones with weight ``aug_coef``.

    Images are shifted by RandomCrop, vectors get GaussianNoise, until another augmentation is assigned to ``aug``.
    """

    def __init__(
        self,
        observation_space: SpaceLike,
        action_space: SpaceLike,
        device: torch.device | str,
        feature_dim: int = 256,
        lr: float = 5e-4,
        eps: float = 1e-5,
        hidden_dim: int = 256,
        clip_range: float = 0.2,
        n_epochs: int = 3,
        num_mini_batch: int = 8,
        vf_coef: float = 0.5,
        ent_coef: float = 0.01,
        aug_coef: float = 0.1,
        max_grad_norm: float = 0.5,
    ) -> None:
        super().__init__(locals())
        self.aug = usual_augmentation(self.observation_space)
