"""PPO."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from proximo.agents.arguments import constructor_arguments
from proximo.agents.on_policy import OnPolicyAlgorithm
from proximo.agents.together import Distributed
from proximo.augmentation import Augmentation
from proximo.backends.base import BackendChoice, Precision
from proximo.config import PPOConfig, UpdateSettings
from proximo.data import Schedule
from proximo.exploration import IntrinsicReward
from proximo.functional.schedules import FloatSchedule
from proximo.learners.ppo import PPOLearner
from proximo.networks.actor_critic import ActorCriticPolicy
from proximo.rollout.storage import RolloutBuffer


class PPO(OnPolicyAlgorithm):
    """Proximal policy optimisation, clipped form (https://arxiv.org/abs/1707.06347).

    Arguments, defaults and behaviour are those of Stable-Baselines3's PPO. ``model.backend`` tells which backend runs
    the policy, and why.

    >>> model = PPO("MlpPolicy", "CartPole-v1", n_steps=64, seed=0).learn(64)
    >>> model.num_timesteps
    64
    """

    config_class: ClassVar[type[PPOConfig]] = PPOConfig
    default_learner_class: ClassVar[type[Any]] = PPOLearner
    run_name: ClassVar[str] = "PPO"

    batch_size: int
    n_epochs: int
    clip_range: float | Schedule
    clip_range_vf: float | Schedule | None
    normalize_advantage: bool
    ent_coef: float
    vf_coef: float
    max_grad_norm: float
    target_kl: float | None
    aug_coef: float

    def __init__(
        self,
        policy: str | type[ActorCriticPolicy],
        env: Any,
        learning_rate: float | Schedule | str = 3e-4,
        n_steps: int = 2048,
        batch_size: int = 64,
        n_epochs: int = 10,
        gamma: float = 0.99,
        gae_lambda: float = 0.95,
        clip_range: float | Schedule = 0.2,
        clip_range_vf: float | Schedule | None = None,
        normalize_advantage: bool = True,
        ent_coef: float = 0.0,
        vf_coef: float = 0.5,
        max_grad_norm: float = 0.5,
        use_sde: bool = False,
        sde_sample_freq: int = -1,
        rollout_buffer_class: type[RolloutBuffer] | None = None,
        rollout_buffer_kwargs: dict[str, Any] | None = None,
        target_kl: float | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        policy_kwargs: dict[str, Any] | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: torch.device | str = "auto",
        _init_setup_model: bool = True,
        *,
        backend: BackendChoice = "auto",
        precision: Precision = "float32",
        learner_class: type[PPOLearner] | None = None,
        intrinsic_reward: IntrinsicReward | None = None,
        augmentation: Augmentation | None = None,
        aug_coef: float = 0.1,
        distributed: Distributed = True,
        normalize_returns: bool = False,
    ) -> None:
        super().__init__(**constructor_arguments(locals(), PPOConfig))

    def _setup_model(self) -> None:
        # schedules, as subclasses with a train() of their own call them
        self.clip_range = FloatSchedule(self.clip_range)
        if self.clip_range_vf is not None:
            self.clip_range_vf = FloatSchedule(self.clip_range_vf)
        super()._setup_model()

    def _settings(self) -> UpdateSettings:
        """The hyperparameters of this moment, schedules evaluated."""
        config: Any = self.configuration()
        progress = self._current_progress_remaining
        rate, skip = float(self.lr_schedule(progress)), self.on_non_finite == "skip"
        return UpdateSettings.of(config, progress, learning_rate=rate, skip_non_finite=skip)

    def train(self) -> None:
        """Update the policy from the rollout buffer and record the metrics."""
        self._record_update(self.learner.update(self.rollout_buffer, self._settings()))

    def _record_update(self, metrics: dict[str, float]) -> None:
        epochs = int(metrics.pop("epochs"))
        if epochs < self.n_epochs and self.verbose >= 1:
            print(f"Early stopping in epoch {epochs}: approximate KL {metrics['approx_kl']:.3f}")  # noqa: T201
        self._record(metrics, updates=epochs)
