"""What spaces mean for networks."""

from __future__ import annotations

from proximo.functional.spaces import (
    check_for_nested_spaces,
    get_action_dim,
    get_flattened_obs_dim,
    get_obs_shape,
    is_image_space,
    is_image_space_channels_first,
    maybe_transpose,
    preprocess_obs,
)

__all__ = [
    "check_for_nested_spaces",
    "get_action_dim",
    "get_flattened_obs_dim",
    "get_obs_shape",
    "is_image_space",
    "is_image_space_channels_first",
    "maybe_transpose",
    "preprocess_obs",
]
