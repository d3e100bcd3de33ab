"""PPO's front door."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from proximo.agents.on_policy import OnPolicyAlgorithm
from proximo.backends.choice import BackendChoice
from proximo.config import PPOConfig
from proximo.data import Metrics, Schedule
from proximo.functional.losses import UpdateSettings
from proximo.functional.schedules import FloatSchedule
from proximo.learners.ppo import PPOLearner
from proximo.networks.actor_critic import ActorCriticPolicy
from proximo.rollout.storage import RolloutBuffer


class PPO(OnPolicyAlgorithm):
    """Proximal policy optimisation, clipped form (https://arxiv.org/abs/1707.06347).

    Arguments, defaults and behaviour are those of Stable-Baselines3's PPO; :class:`PPOConfig` says what each
    hyperparameter means. ``env`` may be an id, a gymnasium environment or ``VectorEnv``, an EnvPool or a vector
    environment. ``backend`` forces "fused" or "torch"; ``model.backend`` tells which one runs and why.

    >>> model = PPO("MlpPolicy", "CartPole-v1", n_steps=64, seed=0).learn(64)
    >>> model.num_timesteps
    64
    """

    config_class: ClassVar[type[PPOConfig]] = PPOConfig
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

    def __init__(
        self,
        policy: str | type[ActorCriticPolicy],
        env: Any,
        learning_rate: float | Schedule = 3e-4,
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
    ) -> None:
        config = PPOConfig(
            learning_rate=learning_rate,
            n_steps=n_steps,
            batch_size=batch_size,
            n_epochs=n_epochs,
            gamma=gamma,
            gae_lambda=gae_lambda,
            clip_range=clip_range,
            clip_range_vf=clip_range_vf,
            normalize_advantage=normalize_advantage,
            ent_coef=ent_coef,
            vf_coef=vf_coef,
            max_grad_norm=max_grad_norm,
            target_kl=target_kl,
        )
        super().__init__(
            policy,
            env,
            config,
            use_sde=use_sde,
            sde_sample_freq=sde_sample_freq,
            rollout_buffer_class=rollout_buffer_class,
            rollout_buffer_kwargs=rollout_buffer_kwargs,
            stats_window_size=stats_window_size,
            tensorboard_log=tensorboard_log,
            policy_kwargs=policy_kwargs,
            verbose=verbose,
            seed=seed,
            device=device,
            backend=backend,
            _init_setup_model=_init_setup_model,
        )

    def _setup_model(self) -> None:
        super()._setup_model()
        self.clip_range = FloatSchedule(self.clip_range)
        if self.clip_range_vf is not None:
            self.clip_range_vf = FloatSchedule(self.clip_range_vf)

    def _settings(self) -> UpdateSettings:
        """The hyperparameters of this moment, schedules evaluated."""
        progress = self._current_progress_remaining
        return UpdateSettings(
            learning_rate=self.lr_schedule(progress),
            batch_size=self.batch_size,
            n_epochs=self.n_epochs,
            clip_range=FloatSchedule(self.clip_range)(progress),
            clip_range_vf=None if self.clip_range_vf is None else FloatSchedule(self.clip_range_vf)(progress),
            normalize_advantage=self.normalize_advantage,
            ent_coef=self.ent_coef,
            vf_coef=self.vf_coef,
            max_grad_norm=self.max_grad_norm,
            target_kl=self.target_kl,
            skip_non_finite=self.on_non_finite == "skip",
        )

    def train(self) -> None:
        """Update the policy from the rollout buffer and record the metrics."""
        learner = PPOLearner(self.policy, self._current_backend(), self.generator)
        metrics = learner.update(self.rollout_buffer, self._settings())
        self._record(metrics)

    def _record(self, metrics: Metrics) -> None:
        """Count and log an update."""
        epochs = int(metrics.pop("epochs"))
        self._n_updates += epochs
        if epochs < self.n_epochs and self.verbose >= 1:
            print(f"Early stopping in epoch {epochs}: approximate KL {metrics['approx_kl']:.3f}")  # noqa: T201
        for name, value in metrics.items():
            self.logger.record(f"train/{name}", value)
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
