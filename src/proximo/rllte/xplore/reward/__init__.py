"""Intrinsic rewards: a number per step that says how new it was, for tasks whose own reward is rare.

The reward of a step is the novelty of what the step led to. Each class takes ``envs`` and ``device`` first and has
``compute(samples, sync=True)``, which gives [time, env] and trains, and a ``state_dict`` for checkpoints.
"""

from __future__ import annotations

from proximo.rllte.xplore.reward.base import BaseReward, total_reward
from proximo.rllte.xplore.reward.disagreement import Disagreement
from proximo.rllte.xplore.reward.e3b import E3B
from proximo.rllte.xplore.reward.fabric import Fabric
from proximo.rllte.xplore.reward.icm import ICM
from proximo.rllte.xplore.reward.ngu import NGU
from proximo.rllte.xplore.reward.pseudo_counts import PseudoCounts
from proximo.rllte.xplore.reward.re3 import RE3
from proximo.rllte.xplore.reward.ride import RIDE
from proximo.rllte.xplore.reward.rnd import RND

__all__ = [
    "E3B",
    "ICM",
    "NGU",
    "RE3",
    "RIDE",
    "RND",
    "BaseReward",
    "Disagreement",
    "Fabric",
    "PseudoCounts",
    "total_reward",
]
