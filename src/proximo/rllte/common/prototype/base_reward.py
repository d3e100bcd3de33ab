"""rllte's module path of BaseReward."""

from proximo.rllte.xplore.reward.base import BaseReward as BaseReward
