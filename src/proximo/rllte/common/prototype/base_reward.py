"""rllte's module path of BaseReward."""

from __future__ import annotations

from proximo.rllte.xplore.reward.base import BaseReward as BaseReward
