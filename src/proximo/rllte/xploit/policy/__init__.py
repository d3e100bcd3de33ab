"""Policies of on-policy agents."""

from typing import Any

from proximo.errors import absent_name
from proximo.rllte.xploit.policy.on_policy_decoupled_actor_critic import (
    OnPolicyDecoupledActorCritic as OnPolicyDecoupledActorCritic,
)
from proximo.rllte.xploit.policy.on_policy_shared_actor_critic import (
    OnPolicySharedActorCritic as OnPolicySharedActorCritic,
)


def __getattr__(name: str) -> Any:
    other = name.startswith("OffPolicy") or name == "DistributedActorLearner"
    raise absent_name(__name__, name, ", which has on-policy policies only" if other else "")
