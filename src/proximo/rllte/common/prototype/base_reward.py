"""rllte's module path of BaseReward."""

from proximo.exploration.base import BaseReward as BaseReward
