"""rllte's PPO."""

from __future__ import annotations

from typing import Any

from proximo.rllte.agent.library_agent import LibraryAgent


class PPO(LibraryAgent):
    """Proximal policy optimisation (https://arxiv.org/abs/1707.06347) with rllte's arguments, defaults and methods."""

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
        clip_range: float = 0.1,
        clip_range_vf: float | None = 0.1,
        n_epochs: int = 4,
        vf_coef: float = 0.5,
        ent_coef: float = 0.01,
        max_grad_norm: float = 0.5,
        discount: float = 0.999,
        init_fn: str = "orthogonal",
    ) -> None:
        super().__init__(locals())
