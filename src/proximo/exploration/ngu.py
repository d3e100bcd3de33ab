"""Never Give Up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from proximo.config import hyperparameter, numeric, other_default
from proximo.exploration.base import Transitions
from proximo.exploration.model import Distillation
from proximo.exploration.pseudo_counts import PseudoCounts
from proximo.functional.statistics import RunningMeanStd


@dataclass(kw_only=True, eq=False)
class NGU(PseudoCounts):
    """Episodic novelty · min(max(α, 1), mrs), α = 1 + (e − ē)/σₑ the life-long novelty (arXiv 2002.06038).

    The episodic part is that of ``PseudoCounts``; e is the distillation error of ``RND``, ē and σₑ its running mean and
    deviation.
    """

    obs_norm_type: str = other_default(PseudoCounts, "obs_norm_type", "rms")
    weight_init: str = other_default(PseudoCounts, "weight_init", "default")
    mrs: float = hyperparameter(
        "Largest factor of the episodic reward.", 5.0, numeric(lambda value: value >= 1, "a number of at least 1")
    )

    def build(self) -> None:
        super().build()
        self.statistics["distillation_errors"] = RunningMeanStd()
        self.keep(distillation=Distillation(self.make_encoder(), self.make_encoder()))

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
