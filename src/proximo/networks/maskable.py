"""Policies of sb3-contrib's shape for masked actions.

Every policy of the house takes masks; these differ only for MultiBinary actions, where each switch has two logits, off
and on, instead of one.
"""

from __future__ import annotations

from collections.abc import Mapping

from gymnasium import spaces

from proximo.files.encoding import register_class
from proximo.functional.distributions import Distribution, MaskableBernoulliDistribution
from proximo.functional.spaces import get_action_dim
from proximo.networks.actor_critic import ActorCriticCnnPolicy, ActorCriticPolicy, MultiInputActorCriticPolicy


class MaskableActorCriticPolicy(ActorCriticPolicy):
    """An actor-critic whose MultiBinary actions are pairs of logits."""

    def _make_distribution(self) -> Distribution:
        if isinstance(self.action_space, spaces.MultiBinary):
            return MaskableBernoulliDistribution(get_action_dim(self.action_space))
        return super()._make_distribution()


class MaskableActorCriticCnnPolicy(MaskableActorCriticPolicy, ActorCriticCnnPolicy):
    """The same for images."""


class MaskableMultiInputActorCriticPolicy(MaskableActorCriticPolicy, MultiInputActorCriticPolicy):
    """The same for Dict observations."""


MASKABLE_POLICY_ALIASES: Mapping[str, type[ActorCriticPolicy]] = {
    "MlpPolicy": MaskableActorCriticPolicy,
    "CnnPolicy": MaskableActorCriticCnnPolicy,
    "MultiInputPolicy": MaskableMultiInputActorCriticPolicy,
}

for _class in MASKABLE_POLICY_ALIASES.values():
    register_class(_class.__name__, _class)
