"""Intrinsic rewards: a number per step that says how new it was, for tasks whose own reward is rare.

The reward of a step is the novelty of what the step led to. Each class takes ``envs`` and ``device`` first and has
``compute(samples, sync=True)``, which gives [time, env] and trains, and a ``state_dict`` for checkpoints.
"""

from proximo.rllte.xplore.reward.base import BaseReward as BaseReward
from proximo.rllte.xplore.reward.base import total_reward as total_reward
from proximo.rllte.xplore.reward.disagreement import Disagreement as Disagreement
from proximo.rllte.xplore.reward.e3b import E3B as E3B
from proximo.rllte.xplore.reward.fabric import Fabric as Fabric
from proximo.rllte.xplore.reward.icm import ICM as ICM
from proximo.rllte.xplore.reward.ngu import NGU as NGU
from proximo.rllte.xplore.reward.pseudo_counts import PseudoCounts as PseudoCounts
from proximo.rllte.xplore.reward.re3 import RE3 as RE3
from proximo.rllte.xplore.reward.ride import RIDE as RIDE
from proximo.rllte.xplore.reward.rnd import RND as RND
