"""Hsuanwu's PPG learner."""

from __future__ import annotations

import warnings
from typing import Any

import torch

from proximo.agents.standalone import StandalonePPG
from proximo.config import PPGConfig, UpdateSettings
from proximo.data import Metrics
from proximo.hsuanwu.described_spaces import SpaceLike
from proximo.hsuanwu.xploit.learner.actor_critic import ActorAuxiliaryCritic, ActorCritic
from proximo.hsuanwu.xploit.learner.base import BaseLearner
from proximo.hsuanwu.xploit.storage import VanillaRolloutStorage
from proximo.networks.phasic import PhasicPolicy


class PPGLearner(BaseLearner, StandalonePPG):
    """Phasic policy gradient (https://arxiv.org/abs/2009.04416) with Hsuanwu's arguments, defaults and methods.

    After ``policy_epochs`` rollouts comes an auxiliary phase: ``aux_epochs`` passes over all of them in
    ``num_aux_mini_batch`` minibatches, ``num_aux_grad_accum`` of which make one step.

    >>> learner = PPGLearner({"shape": (4,)}, {"shape": (2,), "type": "Discrete", "range": [0, 1]}, "cpu")
    >>> learner.get_value(torch.zeros(3, 4)).shape
    torch.Size([3, 1])
    """

    config_class = PPGConfig
    policy_class = PhasicPolicy
    other_names = {"learning_rate": "lr", "rollouts_per_phase": "policy_epochs"}  # noqa: RUF012
    num_mini_batch_name = "num_policy_mini_batch"

    policy_epochs: int

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
        num_policy_mini_batch: int = 8,
        num_aux_mini_batch: int = 4,
        vf_coef: float = 0.5,
        ent_coef: float = 0.01,
        max_grad_norm: float = 0.5,
        policy_epochs: int = 32,
        aux_epochs: int = 6,
        kl_coef: float = 1.0,
        num_aux_grad_accum: int = 1,
    ) -> None:
        super().__init__(locals())

    def _make_actor_critic(self) -> ActorCritic:
        return ActorAuxiliaryCritic(self.network)

    def update(self, rollout_storage: VanillaRolloutStorage, episode: int = 0) -> Metrics:
        """As the other learners', but Hsuanwu calls the entropy ``entropy_loss`` here.

        An update with an auxiliary phase also gives ``aux_value_loss`` and ``kl_loss``.
        """
        metrics = super().update(rollout_storage, episode)
        return {"entropy_loss" if name == "entropy" else name: value for name, value in metrics.items()}

    def _update(self, storage: VanillaRolloutStorage, config: Any, episode: int) -> Metrics:
        """``episode`` counts updates from 0: an auxiliary phase follows when ``policy_epochs`` divides the next one."""
        if self.learner is None:
            self.learner = self.make_learner(storage.buffer, config)
        learner, place = self.learner, episode % self.policy_epochs
        learner.optimizer.set_eps(self.eps)
        if place == 0:
            learner.phase.clear()
        if place == learner.phase.stored:
            return super()._update(storage, config, episode)
        warnings.warn(
            f"episode {episode} is number {place + 1} of {self.policy_epochs} of its phase, and {place} were expected "
            f"before it, not {learner.phase.stored}: this phase has no auxiliary part; count the updates from 0, one "
            "by one",
            stacklevel=3,
        )
        settings = UpdateSettings.of(config, 1.0, pessimistic_value=True, vf_coef=0.5 * self.vf_coef)
        metrics: Metrics = learner.policy_update(storage.buffer, settings, config.value_epochs)
        return metrics

    def check_storage(self, storage: VanillaRolloutStorage) -> None:
        super().check_storage(storage)
        if self.learner is None:
            return
        phase = self.learner.phase
        held = storage.num_steps, storage.num_envs, storage.buffer.observation_space.dtype
        begun = phase.steps, phase.environments, phase.observation_space.dtype
        if held != begun:
            raise ValueError(
                f"the storage holds {held[0]} steps of {held[1]} environments with observations of {held[2]}, the "
                f"learner has begun with {begun[0]} of {begun[1]} and {begun[2]}; go on with such a storage, or make "
                "a new learner"
            )
