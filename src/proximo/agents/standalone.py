"""A network and its learner without an environment: for loops and storages of one's own."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from proximo.augmentation import Augmentation, check_augmentation
from proximo.backends.runtime import Runtime
from proximo.config import PPOConfig, UpdateSettings
from proximo.data import Metrics
from proximo.learners.ppg import PPGLearner
from proximo.learners.ppo import PPOLearner
from proximo.networks.actor_critic import ActorCriticPolicy
from proximo.rollout.phase import PhaseBuffer
from proximo.rollout.storage import RolloutBuffer


class StandaloneLearner:
    """Acts with a network, values observations, and updates it from rollout buffers with advantages.

    ``runtime`` and ``learner`` are the library's, and may be replaced by those of an agent that trains the same
    network. Noise and minibatches follow torch's global generator, so that seeding that one makes a run repeatable.
    """

    pessimistic_value: ClassVar[bool] = (
        True  # of the clipped and the plain squared error of the value the larger counts
    )

    def __init__(self, network: ActorCriticPolicy) -> None:
        """Arguments:
        network: The policy that is trained; its parameters move into flat memory.
        """
        self.network: Any = network
        self.runtime = Runtime(np.random.default_rng(int(torch.randint(2**31, ()).item())))
        self.runtime.policy = network
        self.learner: Any = None  # made with the first rollout, whose sizes PPG's memory has
        self._augmentation: Augmentation | None = None
        self.train()

    @property
    def generator(self) -> np.random.Generator:
        """What noise and minibatches are drawn from."""
        return self.runtime.generator

    @property
    def augmentation(self) -> Augmentation | None:
        """With one, DrAC's terms are part of the loss."""
        return self._augmentation

    @augmentation.setter
    def augmentation(self, augmentation: Augmentation | None) -> None:
        if augmentation is not None:
            check_augmentation(augmentation, self.network.observation_space)
        self._augmentation = augmentation

    def train(self, training: bool = True) -> None:
        """Training or evaluation mode of the network's layers."""
        self.training = training
        self.network.train(training)

    @torch.no_grad()
    def act(self, obs: Tensor, training: bool = True, step: int = 0) -> tuple[Tensor, dict[str, Tensor]]:
        """Sampled actions, and their log-probabilities and values, [batch, 1] each; else the likeliest actions."""
        obs = self._checked(obs)
        if training:
            actions, values, log_probs = self.network(obs)
            return actions, {"log_probs": log_probs.unsqueeze(1), "values": values}
        likeliest = self.network.get_distribution(obs).mode()
        bounded = self.network.bound_actions(likeliest.cpu().numpy().reshape(-1, *self.network.action_shape))
        return torch.as_tensor(bounded, device=likeliest.device), {}

    def get_value(self, obs: Tensor) -> Tensor:
        """Estimated values [batch, 1]."""
        values: Tensor = self.network.predict_values(self._checked(obs))
        return values

    def _checked(self, obs: Tensor) -> Tensor:
        shape = self.network.observation_space.shape
        if tuple(obs.shape[1:]) != shape:
            raise ValueError(f"obs has shape {tuple(obs.shape)}; expected [batch, {', '.join(map(str, shape))}]")
        return obs.to(self.network.device)

    def update_from(self, buffer: RolloutBuffer, config: PPOConfig, **settings: Any) -> Metrics:
        """Train on one rollout with its advantages, under the library's names; ``settings`` are further ones."""
        if self.learner is None:
            self.learner = self.make_learner(buffer, config)
        self.learner.augmentation = self.augmentation
        chosen = UpdateSettings.of(config, 1.0, pessimistic_value=self.pessimistic_value, **settings)
        return self.train_on(buffer, chosen, config)

    def make_learner(self, buffer: RolloutBuffer, config: PPOConfig) -> Any:
        """The library's learner of this network."""
        return PPOLearner(self.runtime)

    def train_on(self, buffer: RolloutBuffer, settings: UpdateSettings, config: PPOConfig) -> Metrics:
        """Update the network from a rollout with advantages, and return the metrics."""
        metrics: Metrics = self.learner.update(buffer, settings)
        return metrics


class StandalonePPG(StandaloneLearner):
    """The same for PPG, whose auxiliary phase follows when ``rollouts_per_phase`` rollouts are in."""

    def make_learner(self, buffer: RolloutBuffer, config: Any) -> PPGLearner:
        phase = PhaseBuffer(config.rollouts_per_phase, buffer.buffer_size, buffer.n_envs, buffer.observation_space)
        phase.allocate()  # too little memory is an error now, not after hours
        return PPGLearner(self.runtime, phase)

    def train_on(self, buffer: RolloutBuffer, settings: UpdateSettings, config: Any) -> Metrics:
        self.learner.resize_phase(config.rollouts_per_phase)
        metrics: Metrics = self.learner.update(buffer, settings, config)
        return metrics
