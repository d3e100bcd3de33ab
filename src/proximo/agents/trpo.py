"""TRPO's front door."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from proximo.agents.on_policy import OnPolicyAlgorithm
from proximo.backends.choice import BackendChoice
from proximo.config import TRPOConfig
from proximo.data import Schedule
from proximo.learners.trpo import TRPOLearner, TrustRegionSettings
from proximo.networks.actor_critic import ActorCriticPolicy
from proximo.rollout.storage import RolloutBuffer


class TRPO(OnPolicyAlgorithm):
    """Trust-region policy optimisation (https://arxiv.org/abs/1502.05477): one natural-gradient step per rollout.

    Arguments, defaults and behaviour are those of sb3-contrib's TRPO; :class:`TRPOConfig` says what each
    hyperparameter means.

    >>> model = TRPO("MlpPolicy", "CartPole-v1", n_steps=128, seed=0).learn(128)
    >>> model.num_timesteps, model.target_kl
    (128, 0.01)
    """

    config_class: ClassVar[type[TRPOConfig]] = TRPOConfig
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
    ) -> None:
        config = TRPOConfig(
            learning_rate=learning_rate,
            n_steps=n_steps,
            batch_size=batch_size,
            gamma=gamma,
            cg_max_steps=cg_max_steps,
            cg_damping=cg_damping,
            line_search_shrinking_factor=line_search_shrinking_factor,
            line_search_max_iter=line_search_max_iter,
            n_critic_updates=n_critic_updates,
            gae_lambda=gae_lambda,
            normalize_advantage=normalize_advantage,
            target_kl=target_kl,
            sub_sampling_factor=sub_sampling_factor,
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

    def _resolve_policy(self, policy: str | type[ActorCriticPolicy]) -> type[ActorCriticPolicy]:
        resolved = super()._resolve_policy(policy)
        if resolved.recurrent:
            name = policy if isinstance(policy, str) else policy.__name__
            raise ValueError(f"TRPO cannot train {name}, a policy with memory; use RecurrentPPO for it")
        return resolved

    def _settings(self) -> TrustRegionSettings:
        """The hyperparameters of this moment, schedules evaluated."""
        return TrustRegionSettings(
            learning_rate=self.lr_schedule(self._current_progress_remaining),
            batch_size=self.batch_size,
            n_critic_updates=self.n_critic_updates,
            target_kl=self.target_kl,
            cg_max_steps=self.cg_max_steps,
            cg_damping=self.cg_damping,
            line_search_shrinking_factor=self.line_search_shrinking_factor,
            line_search_max_iter=self.line_search_max_iter,
            sub_sampling_factor=self.sub_sampling_factor,
            normalize_advantage=self.normalize_advantage,
            skip_non_finite=self.on_non_finite == "skip",
        )

    def train(self) -> None:
        """One step of the policy, then the value network's, from the rollout buffer; records the metrics."""
        self._current_backend()  # back into flat memory, which the kernels of collecting read
        metrics = TRPOLearner(self.policy, self.generator).update(self.rollout_buffer, self._settings())
        self._n_updates += 1
        for name, value in metrics.items():
            self.logger.record(f"train/{name}", value)
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
