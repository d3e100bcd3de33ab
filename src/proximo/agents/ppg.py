"""PPG's front door."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch

from proximo.agents.on_policy import MaybeCallback, OnPolicyAlgorithm
from proximo.agents.ppo import PPO
from proximo.backends.choice import BackendChoice
from proximo.config import PPGConfig
from proximo.data import Schedule
from proximo.functional.schedules import FloatSchedule
from proximo.learners.ppg import AuxiliarySettings, PPGLearner
from proximo.networks.actor_critic import ActorCriticPolicy
from proximo.networks.phasic import PHASIC_POLICY_ALIASES, PHASIC_TWINS, PhasicPolicy
from proximo.networks.recurrent import RECURRENT_POLICY_ALIASES
from proximo.rollout.phase import PhaseBuffer, in_gigabytes
from proximo.rollout.storage import RolloutBuffer
from proximo.training.callbacks import BaseCallback


class PPG(PPO):
    """Phasic policy gradient (https://arxiv.org/abs/2009.04416): PPO plus one short auxiliary phase.

    The value never disturbs the policy's network while the policy is trained; after ``policy_epochs`` rollouts an
    auxiliary phase teaches that network to predict the returns of them all. ``policy_kwargs`` with
    ``share_features_extractor`` True is the paper's single network, False its dual form. :class:`PPGConfig` says what
    each hyperparameter means.

    >>> model = PPG("MlpPolicy", "CartPole-v1", n_steps=64, batch_size=64, policy_epochs=2, seed=0).learn(128)
    >>> model.num_timesteps, model.backend, model.auxiliary_bytes
    (128, 'fused', 2688)
    """

    config_class: ClassVar[type[PPGConfig]] = PPGConfig
    run_name: ClassVar[str] = "PPG"
    policy_aliases: ClassVar[Mapping[str, type[ActorCriticPolicy]]] = {
        **PHASIC_POLICY_ALIASES,
        **RECURRENT_POLICY_ALIASES,  # known, to be refused in clear words
    }

    policy: PhasicPolicy
    learner: PPGLearner
    policy_epochs: int
    value_epochs: int
    aux_epochs: int
    kl_coef: float
    num_aux_mini_batch: int
    num_aux_grad_accum: int
    aux_learning_rate: float | Schedule | None

    def __init__(
        self,
        policy: str | type[ActorCriticPolicy],
        env: Any,
        learning_rate: float | Schedule = 5e-4,
        n_steps: int = 256,
        batch_size: int = 256,
        policy_epochs: int = 32,
        n_epochs: int = 1,
        value_epochs: int = 1,
        aux_epochs: int = 6,
        kl_coef: float = 1.0,
        num_aux_mini_batch: int = 4,
        num_aux_grad_accum: int = 1,
        gamma: float = 0.999,
        gae_lambda: float = 0.95,
        clip_range: float | Schedule = 0.2,
        clip_range_vf: float | Schedule | None = None,
        normalize_advantage: bool = True,
        ent_coef: float = 0.01,
        vf_coef: float = 0.5,
        max_grad_norm: float = 0.5,
        aux_learning_rate: float | Schedule | None = None,
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
        config = PPGConfig(
            learning_rate=learning_rate,
            n_steps=n_steps,
            batch_size=batch_size,
            policy_epochs=policy_epochs,
            n_epochs=n_epochs,
            value_epochs=value_epochs,
            aux_epochs=aux_epochs,
            kl_coef=kl_coef,
            num_aux_mini_batch=num_aux_mini_batch,
            num_aux_grad_accum=num_aux_grad_accum,
            gamma=gamma,
            gae_lambda=gae_lambda,
            clip_range=clip_range,
            clip_range_vf=clip_range_vf,
            normalize_advantage=normalize_advantage,
            ent_coef=ent_coef,
            vf_coef=vf_coef,
            max_grad_norm=max_grad_norm,
            aux_learning_rate=aux_learning_rate,
            target_kl=target_kl,
        )
        OnPolicyAlgorithm.__init__(  # not PPO's, which would make PPO's configuration
            self,
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
        name = policy if isinstance(policy, str) else policy.__name__
        if resolved.recurrent:
            raise ValueError(f"PPG cannot train {name}, a policy with memory; use RecurrentPPO for it")
        resolved = PHASIC_TWINS.get(resolved, resolved)
        if not issubclass(resolved, PhasicPolicy):
            raise TypeError(
                f"PPG cannot train {name}: it needs an auxiliary value; derive it from "
                "proximo.networks.phasic.PhasicPolicy instead of ActorCriticPolicy"
            )
        return resolved

    def _setup_model(self) -> None:
        super()._setup_model()
        if self.aux_learning_rate is not None:
            self.aux_learning_rate = FloatSchedule(self.aux_learning_rate)
        phase = PhaseBuffer(self.policy_epochs, self.n_steps, self.n_envs, self.observation_space)
        self.learner = PPGLearner(self.policy, self._current_backend(), self.generator, phase)
        self.companions["learner"] = self.learner  # a checkpoint holds the rollouts of the unfinished phase

    @property
    def auxiliary_bytes(self) -> int:
        """Memory of the rollouts that an auxiliary phase trains on."""
        return self.learner.phase.bytes

    def _setup_learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback,
        reset_num_timesteps: bool = True,
        tb_log_name: str = "run",
        progress_bar: bool = False,
    ) -> tuple[int, BaseCallback]:
        phase = self.learner.phase
        if self._required_collector().masks is not None:
            phase.mask_width = self.policy.action_dist.mask_width
        if self.verbose >= 1:
            print(f"auxiliary buffer: {in_gigabytes(self.auxiliary_bytes)}")  # noqa: T201
        phase.allocate()  # too little memory is an error now, not after hours
        return super()._setup_learn(total_timesteps, callback, reset_num_timesteps, tb_log_name, progress_bar)

    def _auxiliary_settings(self) -> AuxiliarySettings:
        """The hyperparameters of this moment, schedules evaluated."""
        progress = self._current_progress_remaining
        schedule = self.lr_schedule if self.aux_learning_rate is None else FloatSchedule(self.aux_learning_rate)
        return AuxiliarySettings(
            learning_rate=schedule(progress),
            value_epochs=self.value_epochs,
            epochs=self.aux_epochs,
            minibatches=self.num_aux_mini_batch,
            accumulate=self.num_aux_grad_accum,
            kl_coef=self.kl_coef,
            max_grad_norm=self.max_grad_norm,
            skip_non_finite=self.on_non_finite == "skip",
        )

    def _own_tensors(self) -> dict[str, torch.Tensor]:
        return self.learner.optimizer.moments()

    def _load_own_tensors(self, tensors: Mapping[str, torch.Tensor]) -> None:
        self.learner.optimizer.load_moments(tensors)

    def train(self) -> None:
        """Update the policy from the rollout buffer, after the last rollout of a phase the whole network."""
        self.learner.bind(self.policy, self._current_backend())
        self._record(self.learner.update(self.rollout_buffer, self._settings(), self._auxiliary_settings()))
