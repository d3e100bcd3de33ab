"""Random network distillation."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from proximo.exploration.base import Transitions
from proximo.exploration.model import Distillation
from proximo.exploration.novelty import LearnedReward


@dataclass(kw_only=True, eq=False)
class RND(LearnedReward):
    """Error of a network that learns the features of a fixed random one (Burda et al. 2018, arXiv 1810.12894).

    The paper's two streams, with its discounts and coefficients::

        PPO("CnnPolicy", env, gamma=0.999, intrinsic_reward=RND(own_value=True, discount=0.99, extrinsic_coef=2.0))
    """

    def build(self) -> None:
        self.keep(distillation=Distillation(self.make_encoder(), self.make_encoder()))

    def novelty(self, transitions: Transitions, sync: bool) -> Tensor:
        return self.features("distillation", transitions.next_observations)

    def losses(self, batch: Transitions) -> Tensor:
        return self.networks["distillation"](self.normalize(batch.next_observations))
