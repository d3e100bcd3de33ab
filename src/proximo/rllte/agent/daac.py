"""rllte's DAAC."""

from __future__ import annotations

from typing import Any

from proximo.agents import hosted
from proximo.config import DAACConfig
from proximo.data import Metrics
from proximo.rllte.agent.library_agent import LibraryAgent, rllte_metrics
from proximo.rllte.common.prototype.base_policy import BasePolicy
from proximo.rllte.xploit.policy import OnPolicyDecoupledActorCritic


class DAAC(LibraryAgent):
    """Decoupled advantage actor-critic (https://arxiv.org/abs/2102.10330) with rllte's arguments, defaults and methods.

    Policy and value share nothing; both names of ``policy.optimizers`` stand for one Adam, which steps the parameters
    of one or of the other.
    """

    model_class = hosted.DAAC
    config_class = DAACConfig
    other_names = {"n_epochs": "policy_epochs", "value_frequency": "value_freq"}  # noqa: RUF012
    policy_type = OnPolicyDecoupledActorCritic
    meanings = {"policy_epochs": "Times of updating the policy network with each rollout."}  # noqa: RUF012

    policy: OnPolicyDecoupledActorCritic

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
        hidden_dim: int = 256,
        clip_range: float = 0.2,
        clip_range_vf: float | None = 0.2,
        policy_epochs: int = 1,
        value_freq: int = 1,
        value_epochs: int = 9,
        vf_coef: float = 0.5,
        ent_coef: float = 0.01,
        adv_coef: float = 0.25,
        max_grad_norm: float = 0.5,
        discount: float = 0.999,
        init_fn: str = "xavier_uniform",
    ) -> None:
        super().__init__(locals())

    def _check_policy(self, policy: BasePolicy) -> None:
        super()._check_policy(policy)
        if not isinstance(policy, OnPolicyDecoupledActorCritic):
            raise TypeError(
                f"{type(self).__name__} needs a policy that shares nothing with its value, got "
                f"{type(policy).__name__}; make it with OnPolicyDecoupledActorCritic(…)"
            )

    def _make_model(self) -> hosted.Hosted:
        self.policy.share_optimizer()
        return super()._make_model()

    def update(self) -> Metrics:
        """Train policy and value on the storage's rollout.

        Returns ``train/policy_loss``, ``train/adv_loss``, ``train/value_loss`` and ``train/entropy``.
        """
        metrics = rllte_metrics(self.learner.update(self.storage.buffer, self._settings(), self._config()))
        metrics["train/entropy"] = metrics.pop("train/entropy_loss")  # as rllte calls it here
        return metrics
