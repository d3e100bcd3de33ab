"""Intrinsic rewards, those of :mod:`proximo.exploration`: made without an environment, bound by who trains."""

from proximo.exploration import E3B as E3B
from proximo.exploration import ICM as ICM
from proximo.exploration import NGU as NGU
from proximo.exploration import RE3 as RE3
from proximo.exploration import RIDE as RIDE
from proximo.exploration import RND as RND
from proximo.exploration import Disagreement as Disagreement
from proximo.exploration import Fabric as Fabric
from proximo.exploration import IntrinsicReward as IntrinsicReward
from proximo.exploration import PseudoCounts as PseudoCounts
