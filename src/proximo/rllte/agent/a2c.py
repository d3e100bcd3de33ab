"""rllte's A2C."""

from __future__ import annotations

from typing import Any

from proximo.config import UpdateSettings
from proximo.rllte.agent.library_agent import LibraryAgent


class A2C(LibraryAgent):
    """Advantage actor-critic (https://arxiv.org/abs/1602.01783) with rllte's arguments, defaults and methods.

    The plain objective, in minibatches and epochs; the library calls that PPO, and its files say so.
    """

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

    def _settings(self, **special: Any) -> UpdateSettings:
        return super()._settings(objective="plain", clip_range_vf=None, **special)
