"""Policies of on-policy agents."""

from typing import Any

from proximo.rllte.paths import absent
from proximo.rllte.xploit.policy.on_policy_decoupled_actor_critic import (
    OnPolicyDecoupledActorCritic as OnPolicyDecoupledActorCritic,
)
from proximo.rllte.xploit.policy.on_policy_shared_actor_critic import (
    OnPolicySharedActorCritic as OnPolicySharedActorCritic,
)


def __getattr__(name: str) -> Any:
    raise absent(__name__, name)
