"""TRPO."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from proximo.agents.arguments import constructor_arguments
from proximo.agents.on_policy import OnPolicyAlgorithm
from proximo.agents.together import Distributed
from proximo.backends.base import BackendChoice, Precision
from proximo.config import TRPOConfig
from proximo.data import Schedule
from proximo.errors import ArgumentValueError
from proximo.exploration import IntrinsicReward
from proximo.learners.trpo import TRPOLearner
from proximo.networks.actor_critic import ActorCriticPolicy
from proximo.rollout.storage import RolloutBuffer


class TRPO(OnPolicyAlgorithm):
    """Trust-region policy optimisation (https://arxiv.org/abs/1502.05477): one natural-gradient step per rollout.

    Arguments, defaults and behaviour are those of sb3-contrib's TRPO.

    >>> model = TRPO("MlpPolicy", "CartPole-v1", n_steps=128, seed=0).learn(128)
    >>> model.num_timesteps, model.target_kl
    (128, 0.01)
    """

    config_class: ClassVar[type[TRPOConfig]] = TRPOConfig
    default_learner_class: ClassVar[type[Any]] = TRPOLearner
    run_name: ClassVar[str] = "TRPO"

    batch_size: int
    cg_max_steps: int
    cg_damping: float
    line_search_shrinking_factor: float
    line_search_max_iter: int
    n_critic_updates: int
    normalize_advantage: bool
    target_kl: float
    sub_sampling_factor: int

    def __init__(
        self,
        policy: str | type[ActorCriticPolicy],
        env: Any,
        learning_rate: float | Schedule = 1e-3,
        n_steps: int = 2048,
        batch_size: int = 128,
        gamma: float = 0.99,
        cg_max_steps: int = 15,
        cg_damping: float = 0.1,
        line_search_shrinking_factor: float = 0.8,
        line_search_max_iter: int = 10,
        n_critic_updates: int = 10,
        gae_lambda: float = 0.95,
        use_sde: bool = False,
        sde_sample_freq: int = -1,
        rollout_buffer_class: type[RolloutBuffer] | None = None,
        rollout_buffer_kwargs: dict[str, Any] | None = None,
        normalize_advantage: bool = True,
        target_kl: float = 0.01,
        sub_sampling_factor: int = 1,
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
        learner_class: type[TRPOLearner] | None = None,
        intrinsic_reward: IntrinsicReward | None = None,
        distributed: Distributed = True,
        normalize_returns: bool = False,
    ) -> None:
        super().__init__(**constructor_arguments(locals(), TRPOConfig))

    def _resolve_policy(self, policy: str | type[ActorCriticPolicy]) -> type[ActorCriticPolicy]:
        resolved = super()._resolve_policy(policy)
        if resolved.recurrent:
            name = policy if isinstance(policy, str) else policy.__name__
            raise ValueError(f"TRPO cannot train {name}, a policy with memory; use RecurrentPPO for it")
        return resolved

    def _setup_model(self) -> None:
        if self.precision != "float32":
            raise ArgumentValueError(
                f"precision is {self.precision!r}, but TRPO inverts second derivatives, which need float32; leave "
                "precision out, or use PPO"
            )
        super()._setup_model()

    def _settings(self) -> TRPOConfig:
        """The hyperparameters of this moment, schedules evaluated."""
        config: Any = self.configuration()
        progress = self._current_progress_remaining
        evaluated: TRPOConfig = config.at(progress).changed(learning_rate=float(self.lr_schedule(progress)))
        return evaluated

    def train(self) -> None:
        """One step of the policy, then the value network's, from the rollout buffer; records the metrics."""
        self._record(self.learner.update(self.rollout_buffer, self._settings(), self.on_non_finite == "skip"))
