"""A2C."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import torch

from proximo.agents.arguments import constructor_arguments
from proximo.agents.on_policy import MaybeCallback, OnNonFinite, OnPolicyAlgorithm
from proximo.agents.together import Distributed
from proximo.augmentation import Augmentation
from proximo.backends.base import BackendChoice, Precision
from proximo.config import A2CConfig, UpdateSettings
from proximo.data import Schedule
from proximo.exploration import IntrinsicReward
from proximo.learners.ppo import PPOLearner
from proximo.networks.actor_critic import ActorCriticPolicy
from proximo.rollout.storage import RolloutBuffer

# the learner's metrics that say nothing about one step without a ratio; Stable-Baselines3's A2C logs none of them
NOT_LOGGED = ("approx_kl", "clip_fraction", "clip_range", "loss", "epochs")
RENAMED = {"policy_gradient_loss": "policy_loss"}


class A2C(OnPolicyAlgorithm):
    """Advantage actor-critic, synchronous (https://arxiv.org/abs/1602.01783): one gradient step per short rollout.

    Arguments, defaults and behaviour are those of Stable-Baselines3's A2C.

    >>> model = A2C("MlpPolicy", "CartPole-v1", seed=0).learn(20)
    >>> model.num_timesteps, model.policy.optimizer.__class__.__name__
    (20, 'RMSprop')
    """

    config_class: ClassVar[type[A2CConfig]] = A2CConfig
    default_learner_class: ClassVar[type[Any]] = PPOLearner
    run_name: ClassVar[str] = "A2C"

    rms_prop_eps: float
    use_rms_prop: bool
    normalize_advantage: bool
    ent_coef: float
    vf_coef: float
    max_grad_norm: float
    aug_coef: float

    def __init__(
        self,
        policy: str | type[ActorCriticPolicy],
        env: Any,
        learning_rate: float | Schedule = 7e-4,
        n_steps: int = 5,
        gamma: float = 0.99,
        gae_lambda: float = 1.0,
        ent_coef: float = 0.0,
        vf_coef: float = 0.5,
        max_grad_norm: float = 0.5,
        rms_prop_eps: float = 1e-5,
        use_rms_prop: bool = True,
        use_sde: bool = False,
        sde_sample_freq: int = -1,
        rollout_buffer_class: type[RolloutBuffer] | None = None,
        rollout_buffer_kwargs: dict[str, Any] | None = None,
        normalize_advantage: bool = False,
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
        policy_kwargs = dict(policy_kwargs or {})
        if use_rms_prop and "optimizer_class" not in policy_kwargs:
            policy_kwargs["optimizer_class"] = torch.optim.RMSprop
            policy_kwargs["optimizer_kwargs"] = {"alpha": 0.99, "eps": rms_prop_eps, "weight_decay": 0}
        super().__init__(**constructor_arguments(locals(), A2CConfig))

    def _settings(self) -> UpdateSettings:
        config: Any = self.configuration()
        progress = self._current_progress_remaining
        return UpdateSettings.of(
            config,
            progress,
            learning_rate=float(self.lr_schedule(progress)),
            objective="plain",
            batch_size=self.n_steps * self.n_envs,
            n_epochs=1,
            clip_range=1.0,
            skip_non_finite=self.on_non_finite == "skip",
        )

    def train(self) -> None:
        """One gradient step on the whole rollout."""
        metrics = self.learner.update(self.rollout_buffer, self._settings())
        self._record({RENAMED.get(name, name): value for name, value in metrics.items() if name not in NOT_LOGGED})

    def learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        log_interval: int | None = 100,
        tb_log_name: str | None = None,
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
        use_masking: bool = False,
        on_non_finite: OnNonFinite = "raise",
    ) -> Self:
        return super().learn(
            total_timesteps,
            callback,
            log_interval,
            tb_log_name,
            reset_num_timesteps,
            progress_bar,
            use_masking,
            on_non_finite,
        )
