"""Policies of on-policy agents."""

from proximo.rllte.xploit.policy.actor_critic import OnPolicyDecoupledActorCritic as OnPolicyDecoupledActorCritic
from proximo.rllte.xploit.policy.actor_critic import OnPolicySharedActorCritic as OnPolicySharedActorCritic
