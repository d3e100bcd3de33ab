"""MaskablePPO."""

from proximo.agents.maskable_ppo import MaskablePPO
from proximo.envs.wrappers.action_masker import get_action_masks, is_masking_supported
from proximo.sb3.common.type_aliases import GymEnv, MaybeCallback, Schedule

__all__ = ["GymEnv", "MaskablePPO", "MaybeCallback", "Schedule", "get_action_masks", "is_masking_supported"]
