"""Rewarding impact-driven exploration."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from proximo.exploration.base import Transitions
from proximo.exploration.icm import ICM
from proximo.exploration.pseudo_counts import EpisodicCounts


@dataclass(kw_only=True, eq=False)
class RIDE(EpisodicCounts, ICM):
    """‖φ(next state) − φ(state)‖ / (√N + c), N the visits to the next state in this episode (arXiv 2002.12292).

    N is 1 for this visit plus the soft count of those before it (as in ``PseudoCounts``); the reward is 0 where the
    divisor exceeds ``sm``. φ is trained as in ICM.
    """

    def novelty(self, transitions: Transitions, sync: bool) -> Tensor:
        departures = self.features("encoder", transitions.observations)
        arrivals = self.features("encoder", transitions.next_observations)
        visits = 1.0 + self.earlier_visits(departures, arrivals, transitions.ended, sync)
        divisor = visits.sqrt() + self.c
        impact = torch.linalg.vector_norm(arrivals - departures, dim=-1)
        return torch.where(divisor > self.sm, 0.0, impact / divisor)
