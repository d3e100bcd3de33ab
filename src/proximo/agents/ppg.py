"""PPG."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch

from proximo.agents.arguments import constructor_arguments
from proximo.agents.checks import checked_learner_class, checked_twin
from proximo.agents.on_policy import MaybeCallback, OnPolicyAlgorithm
from proximo.agents.ppo import PPO
from proximo.agents.together import Distributed
from proximo.augmentation import Augmentation
from proximo.backends.base import BackendChoice, Precision
from proximo.config import PPGConfig
from proximo.data import Schedule
from proximo.exploration import IntrinsicReward
from proximo.functional.return_moments import ReturnMoments
from proximo.learners.ppg import PPGLearner
from proximo.networks.actor_critic import ActorCriticPolicy
from proximo.networks.phasic import PHASIC_POLICY_ALIASES, PHASIC_TWINS, PhasicPolicy
from proximo.networks.recurrent import RECURRENT_POLICY_ALIASES
from proximo.rollout.exchange import RolloutExchange
from proximo.rollout.phase import PhaseBuffer, in_gigabytes
from proximo.rollout.storage import RolloutBuffer
from proximo.training.callbacks import BaseCallback


class PPG(PPO):
    """Phasic policy gradient (https://arxiv.org/abs/2009.04416): PPO plus one short auxiliary phase.

    The value never disturbs the policy's network while the policy is trained; after ``rollouts_per_phase`` rollouts an
    auxiliary phase teaches that network to predict the returns of them all. ``policy_kwargs`` with
    ``share_features_extractor`` True is the paper's single network, False its dual form.

    >>> model = PPG("MlpPolicy", "CartPole-v1", n_steps=64, batch_size=64, rollouts_per_phase=2, seed=0).learn(128)
    >>> model.num_timesteps, model.backend, model.auxiliary_bytes
    (128, 'fused', 2688)
    """

    config_class: ClassVar[type[PPGConfig]] = PPGConfig
    default_learner_class: ClassVar[type[Any]] = PPGLearner
    run_name: ClassVar[str] = "PPG"
    one_value: ClassVar[str | None] = "its auxiliary phase distils one value"
    policy_aliases: ClassVar[Mapping[str, type[ActorCriticPolicy]]] = {
        **PHASIC_POLICY_ALIASES,
        **RECURRENT_POLICY_ALIASES,  # known, to be refused in clear words
    }

    learner: PPGLearner
    rollouts_per_phase: int
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
        learning_rate: float | Schedule | str = 5e-4,
        n_steps: int = 256,
        batch_size: int = 256,
        rollouts_per_phase: int = 32,
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
        precision: Precision = "float32",
        learner_class: type[PPGLearner] | None = None,
        intrinsic_reward: IntrinsicReward | None = None,
        augmentation: Augmentation | None = None,
        aug_coef: float = 0.1,
        distributed: Distributed = True,
        normalize_returns: bool = False,
    ) -> None:
        OnPolicyAlgorithm.__init__(self, **constructor_arguments(locals(), PPGConfig))

    def _resolve_policy(self, policy: str | type[ActorCriticPolicy]) -> type[ActorCriticPolicy]:
        resolved = super()._resolve_policy(policy)
        return checked_twin("PPG", policy, resolved, PHASIC_TWINS, PhasicPolicy, "it needs an auxiliary value")

    def _setup_model(self) -> None:
        super()._setup_model()
        self.companions["learner"] = self.learner  # a checkpoint holds the rollouts of the unfinished phase

    def _make_learner(self) -> PPGLearner:
        phase = PhaseBuffer(self.rollouts_per_phase, self.n_steps, self.n_envs, self.observation_space)
        kind: type[PPGLearner] = checked_learner_class(self.learner_class, self.default_learner_class)
        return kind(self.runtime, phase)

    def _distribute(self, exchange: RolloutExchange) -> None:
        super()._distribute(exchange)
        if (share := exchange.share if self._own_buffer is None else None) != self.learner.phase.share:
            self.learner.phase = PhaseBuffer(
                self.rollouts_per_phase, self.n_steps, self.n_envs, self.observation_space, share=share
            )

    @property
    def auxiliary_bytes(self) -> int:
        """Memory of the rollouts that an auxiliary phase trains on."""
        return self.learner.phase.bytes

    def _setup_learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback = None,
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

    def _own_tensors(self) -> dict[str, torch.Tensor]:
        return {**super()._own_tensors(), **self.learner.optimizer.moments()}

    def _load_algorithm_tensors(self, tensors: Mapping[str, torch.Tensor]) -> None:
        self.learner.optimizer.load_moments(tensors)

    def _change_units(self, new: ReturnMoments) -> None:
        old = self.return_moments
        super()._change_units(new)
        self.learner.phase.change_returns(lambda returns: new.normalize(old.restore(returns)))

    def train(self) -> None:
        """Update the policy from the rollout buffer, after the last rollout of a phase the whole network."""
        settings = self._settings()
        phases: Any = self.configuration().at(self._current_progress_remaining)
        phases = phases.changed(learning_rate=settings.learning_rate)
        self.learner.resize_phase(self.rollouts_per_phase)
        self._record_update(self.learner.update(self.rollout_buffer, settings, phases))
