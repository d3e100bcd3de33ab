"""rllte's module path of BaseReward."""

from proximo.rllte.xplore.reward import BaseReward as BaseReward
