"""Intrinsic rewards: a number per step that says how new it was, for tasks whose own reward is rare.

The reward of a step is the novelty of what the step led to. Each class takes ``envs`` and ``device`` first and has
``compute(samples, sync=True)``, which gives [time, env] and trains, and a ``state_dict`` for checkpoints.
"""

from proximo.exploration.base import BaseReward as BaseReward
from proximo.exploration.base import total_reward as total_reward
from proximo.exploration.disagreement import Disagreement as Disagreement
from proximo.exploration.e3b import E3B as E3B
from proximo.exploration.fabric import Fabric as Fabric
from proximo.exploration.icm import ICM as ICM
from proximo.exploration.ngu import NGU as NGU
from proximo.exploration.pseudo_counts import PseudoCounts as PseudoCounts
from proximo.exploration.re3 import RE3 as RE3
from proximo.exploration.ride import RIDE as RIDE
from proximo.exploration.rnd import RND as RND
