"""rllte's PPG."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from proximo.config import PPGConfig
from proximo.data import Metrics
from proximo.learners.ppg import PPGLearner
from proximo.rllte.agent.learner_agent import LearnerAgent, rllte_metrics
from proximo.rllte.xploit.policy.actor_critic import OnPolicySharedActorCritic
from proximo.rllte.xploit.policy.base import BasePolicy
from proximo.rollout.phase import PhaseBuffer, in_gigabytes


class PPG(LearnerAgent):
    """Phasic policy gradient (https://arxiv.org/abs/2009.04416) with rllte's arguments, defaults and methods.

    ``policy_epochs`` is the number of rollouts between auxiliary phases, each of ``aux_epochs`` passes in
    ``num_aux_mini_batch`` minibatches, ``num_aux_grad_accum`` of which make one step.
    """

    _config: PPGConfig

    def __init__(
        self,
        env: Any,
        eval_env: Any = None,
        tag: str = "default",
        seed: int = 1,
        device: str = "cpu",
        pretraining: bool = False,
        num_steps: int = 128,
        feature_dim: int = 512,
        batch_size: int = 256,
        lr: float = 2.5e-4,
        eps: float = 1e-5,
        hidden_dim: int = 512,
        clip_range: float = 0.2,
        clip_range_vf: float | None = 0.2,
        vf_coef: float = 0.5,
        ent_coef: float = 0.01,
        max_grad_norm: float = 0.5,
        policy_epochs: int = 32,
        aux_epochs: int = 6,
        kl_coef: float = 1.0,
        num_aux_mini_batch: int = 4,
        num_aux_grad_accum: int = 1,
        discount: float = 0.999,
        init_fn: str = "xavier_uniform",
    ) -> None:
        if not isinstance(policy_epochs, int) or policy_epochs < 1:
            raise ValueError(f"policy_epochs is {policy_epochs!r}; expected a positive whole number")
        super().__init__(locals(), PPGConfig, aux_critic=True)
        self.clip_range, self.clip_range_vf = clip_range, clip_range_vf
        self.policy_epochs, self.aux_epochs, self.kl_coef = policy_epochs, aux_epochs, kl_coef
        self.num_aux_mini_batch, self.num_aux_grad_accum = num_aux_mini_batch, num_aux_grad_accum

    def _check_policy(self, policy: BasePolicy) -> None:
        super()._check_policy(policy)
        if not isinstance(policy, OnPolicySharedActorCritic) or not policy.has_aux_critic:
            raise TypeError(
                f"PPG needs a policy with an auxiliary value, got {type(policy).__name__}; make it with "
                "OnPolicySharedActorCritic(…, aux_critic=True)"
            )

    def _bind(self) -> None:
        super()._bind()
        phase = PhaseBuffer(self.policy_epochs, self.num_steps, self.num_envs, self.observation_space)
        self.announce(f"auxiliary buffer: {in_gigabytes(phase.bytes)}")
        phase.allocate()  # too little memory is an error now, not after hours
        self.learner = PPGLearner(self.runtime, phase)

    def update(self) -> Metrics:
        """Train on the storage's rollout, and after the last rollout of a phase on all of the phase.

        Returns ``train/policy_loss``, ``train/value_loss``, ``train/entropy_loss``, and after an auxiliary phase
        ``train/aux_value_loss`` and ``train/kl_loss``.
        """
        settings = self._settings(n_epochs=1, clip_range=self.clip_range, clip_range_vf=self.clip_range_vf)
        phases = replace(
            self._config,
            learning_rate=settings.learning_rate,
            max_grad_norm=self.max_grad_norm,
            aux_epochs=self.aux_epochs,
            num_aux_mini_batch=self.num_aux_mini_batch,
            num_aux_grad_accum=self.num_aux_grad_accum,
            kl_coef=self.kl_coef,
        )
        return rllte_metrics(self.learner.update(self._batches(), settings, phases))

    def _state(self) -> dict[str, Any]:
        # without the rollouts of an unfinished phase, which may be gigabytes: a loaded agent begins a new phase
        return super()._state() | {"auxiliary_optimizer": dict(self.learner.optimizer.moments())}

    def _load_state(self, state: dict[str, Any]) -> None:
        super()._load_state(state)
        self.learner.optimizer.load_moments(state["auxiliary_optimizer"])
        self.learner.phase.clear()
