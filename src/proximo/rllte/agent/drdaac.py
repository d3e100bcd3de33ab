"""rllte's DrDAAC."""

from __future__ import annotations

from typing import Any

from proximo.rllte.agent.daac import DAAC
from proximo.rllte.agent.library_agent import AugmentedAgent, LibraryAgent


class DrDAAC(AugmentedAgent, DAAC):
    """DAAC (https://arxiv.org/abs/2102.10330) with DrAC's augmentation (https://arxiv.org/abs/2006.12862), as in rllte.

    Images are shifted by RandomCrop, vectors get GaussianNoise, unless ``set(augmentation=…)`` says otherwise.
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
        hidden_dim: int = 256,
        clip_range: float = 0.2,
        clip_range_vf: float | None = 0.2,
        policy_epochs: int = 1,
        value_freq: int = 1,
        value_epochs: int = 9,
        vf_coef: float = 0.5,
        ent_coef: float = 0.01,
        aug_coef: float = 0.1,
        adv_coef: float = 0.25,
        max_grad_norm: float = 0.5,
        discount: float = 0.999,
        init_fn: str = "xavier_uniform",
    ) -> None:
        LibraryAgent.__init__(self, locals())
