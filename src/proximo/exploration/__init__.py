"""Intrinsic rewards: a number per step that says how new it was, for tasks whose own reward is rare.

``PPO(…, intrinsic_reward=RND())``; the reward of a step is the novelty of what the step led to. Every class is an
:class:`IntrinsicReward`, in whose terms you write one of your own.
"""

from textwrap import indent

from proximo.config import describe_fields
from proximo.exploration.base import IntrinsicReward as IntrinsicReward
from proximo.exploration.base import total_reward as total_reward
from proximo.exploration.disagreement import Disagreement as Disagreement
from proximo.exploration.e3b import E3B as E3B
from proximo.exploration.fabric import Fabric as Fabric
from proximo.exploration.icm import ICM as ICM
from proximo.exploration.ngu import NGU as NGU
from proximo.exploration.pseudo_counts import PseudoCounts as PseudoCounts
from proximo.exploration.re3 import RE3 as RE3
from proximo.exploration.reward_size import check_reward_size as check_reward_size
from proximo.exploration.ride import RIDE as RIDE
from proximo.exploration.rnd import RND as RND
from proximo.files.encoding import register, register_arguments

REWARDS: dict[str, type[IntrinsicReward]] = {
    "rnd": RND,
    "icm": ICM,
    "re3": RE3,
    "ride": RIDE,
    "ngu": NGU,
    "pseudo_counts": PseudoCounts,
    "e3b": E3B,
    "disagreement": Disagreement,
}
"""By the names that flags and presets use."""

for _class in REWARDS.values():
    _class.__doc__ = f"{_class.__doc__}\n    Arguments:\n{indent(describe_fields(_class), ' ' * 8)}\n    "
    register_arguments(_class, IntrinsicReward.arguments)
register(
    "Fabric",
    Fabric,
    lambda mix: [mix.rewards, mix.arguments()],
    lambda plain: Fabric(*plain[0], **plain[1]),
)
