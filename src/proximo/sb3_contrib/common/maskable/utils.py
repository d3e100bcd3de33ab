"""Ask environments for their action masks."""

from proximo.envs.wrappers.action_masker import EXPECTED_METHOD_NAME, get_action_masks, is_masking_supported
from proximo.sb3.common.type_aliases import GymEnv

__all__ = ["EXPECTED_METHOD_NAME", "GymEnv", "get_action_masks", "is_masking_supported"]
