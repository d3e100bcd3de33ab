"""Never Give Up."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from proximo.exploration.base import Transitions
from proximo.exploration.model import Distillation
from proximo.exploration.pseudo_counts import PseudoCounts
from proximo.functional.statistics import RunningMeanStd


class NGU(PseudoCounts):
    """Episodic novelty · min(max(α, 1), mrs), α = 1 + (e − ē)/σₑ the life-long novelty (arXiv 2002.06038).

    The episodic part is that of ``PseudoCounts``; e is the distillation error of ``RND``, ē and σₑ its running mean and
    deviation.
    """

    def __init__(
        self,
        envs: Any,
        device: str = "cpu",
        beta: float = 1.0,
        kappa: float = 0.0,
        gamma: float | None = None,
        rwd_norm_type: str = "rms",
        obs_norm_type: str = "rms",
        latent_dim: int = 32,
        lr: float = 0.001,
        batch_size: int = 256,
        k: int = 10,
        kernel_cluster_distance: float = 0.008,
        kernel_epsilon: float = 0.0001,
        c: float = 0.001,
        sm: float = 8.0,
        mrs: float = 5.0,
        update_proportion: float = 1.0,
        encoder_model: str = "mnih",
        weight_init: str = "default",
    ) -> None:
        common = (envs, device, beta, kappa, gamma, rwd_norm_type, obs_norm_type, latent_dim, lr, batch_size)
        kernel = (k, kernel_cluster_distance, kernel_epsilon, c, sm)
        super().__init__(*common, *kernel, update_proportion, encoder_model, weight_init)
        if mrs < 1.0:
            raise ValueError(f"mrs is the largest factor of the episodic reward, at least 1; got {mrs}")
        self.mrs = mrs
        self.statistics["distillation_errors"] = RunningMeanStd()
        distillation = Distillation(self.obs_shape, latent_dim, encoder_model, weight_init)
        self.networks["distillation"] = distillation.to(self.device)
        self.train_networks(lr, batch_size, update_proportion)

    def lifelong_factor(self, transitions: Transitions, sync: bool) -> Tensor:
        """[time, env], from 1 to ``mrs``."""
        errors = self.features("distillation", transitions.next_observations)
        statistics = self.statistics["distillation_errors"].copy()
        statistics.update(errors.double().flatten().cpu().numpy())
        if sync:
            self.statistics["distillation_errors"] = statistics
        standardized = (errors - float(statistics.mean)) / float(np.sqrt(statistics.var) + 1e-8)
        return (1.0 + standardized).clamp(1.0, self.mrs)

    def novelty(self, transitions: Transitions, sync: bool) -> Tensor:
        return super().novelty(transitions, sync) * self.lifelong_factor(transitions, sync)

    def losses(self, batch: Transitions) -> Tensor:
        return super().losses(batch) + self.networks["distillation"](self.normalize(batch.next_observations))
