"""Policies of on-policy agents."""

from __future__ import annotations

from proximo.rllte.xploit.policy.actor_critic import OnPolicyDecoupledActorCritic as OnPolicyDecoupledActorCritic
from proximo.rllte.xploit.policy.actor_critic import OnPolicySharedActorCritic as OnPolicySharedActorCritic
