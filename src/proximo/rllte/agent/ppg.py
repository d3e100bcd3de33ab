"""rllte's PPG."""

from __future__ import annotations

from typing import Any

from proximo.agents import hosted
from proximo.config import PPGConfig
from proximo.data import Metrics
from proximo.rllte.agent.library_agent import LibraryAgent, rllte_metrics
from proximo.rllte.common.prototype.base_policy import BasePolicy


class PPG(LibraryAgent):
    """Phasic policy gradient (https://arxiv.org/abs/2009.04416) with rllte's arguments, defaults and methods.

    After ``policy_epochs`` rollouts comes an auxiliary phase: ``aux_epochs`` passes over all of them in
    ``num_aux_mini_batch`` minibatches, ``num_aux_grad_accum`` of which make one step.
    """

    model_class = hosted.PPG
    config_class = PPGConfig
    other_names = {"rollouts_per_phase": "policy_epochs"}  # noqa: RUF012
    policy_options = {"aux_critic": True}  # noqa: RUF012

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
        super().__init__(locals())

    def _check_policy(self, policy: BasePolicy) -> None:
        super()._check_policy(policy)
        if not getattr(policy, "has_aux_critic", False):
            raise TypeError(
                f"PPG needs a policy with an auxiliary value, got {type(policy).__name__}; make it with "
                "OnPolicySharedActorCritic(…, aux_critic=True)"
            )

    def update(self) -> Metrics:
        """Train on the storage's rollout, and after the last rollout of a phase on all of the phase.

        Returns ``train/policy_loss``, ``train/value_loss``, ``train/entropy_loss``, and after an auxiliary phase
        ``train/aux_value_loss`` and ``train/kl_loss``.
        """
        settings = self._settings()
        self.learner.resize_phase(self.policy_epochs)  # type: ignore[attr-defined]
        phases = self._config().changed(learning_rate=settings.learning_rate)
        return rllte_metrics(self.learner.update(self.storage.buffer, settings, phases))
