"""rllte's A2C."""

from __future__ import annotations

from typing import Any

from proximo.data import Metrics
from proximo.rllte.agent.learner_agent import LearnerAgent


class A2C(LearnerAgent):
    """Advantage actor-critic with rllte's arguments, defaults and methods: the plain objective, in minibatches."""

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
        n_epochs: int = 4,
        vf_coef: float = 0.5,
        ent_coef: float = 0.01,
        max_grad_norm: float = 0.5,
        discount: float = 0.99,
        init_fn: str = "orthogonal",
    ) -> None:
        super().__init__(locals())
        self.n_epochs = n_epochs

    def update(self) -> Metrics:
        """Train on the storage's rollout; returns ``train/policy_loss``, ``…value_loss``, ``…entropy_loss``."""
        return self._update(
            self._settings(objective="plain", n_epochs=self.n_epochs, clip_range=0.2, clip_range_vf=None)
        )
