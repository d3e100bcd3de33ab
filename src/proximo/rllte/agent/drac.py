"""rllte's DrAC."""

from __future__ import annotations

from typing import Any

from proximo.rllte.agent.library_agent import AugmentedAgent


class DrAC(AugmentedAgent):
    """Data-regularised actor-critic (https://arxiv.org/abs/2006.12862) with rllte's arguments, defaults and methods.

    PPO whose policy and value of augmented observations are pulled to those of the plain ones: images are shifted by
    RandomCrop, vectors get GaussianNoise, unless ``set(augmentation=…)`` says otherwise.
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
        clip_range: float = 0.1,
        clip_range_vf: float | None = 0.1,
        n_epochs: int = 4,
        vf_coef: float = 0.5,
        ent_coef: float = 0.01,
        aug_coef: float = 0.1,
        max_grad_norm: float = 0.5,
        discount: float = 0.999,
        init_fn: str = "orthogonal",
    ) -> None:
        super().__init__(locals())
