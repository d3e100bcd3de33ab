"""What spaces mean for networks."""

from proximo.functional.spaces import check_for_nested_spaces as check_for_nested_spaces
from proximo.functional.spaces import get_action_dim as get_action_dim
from proximo.functional.spaces import get_flattened_obs_dim as get_flattened_obs_dim
from proximo.functional.spaces import get_obs_shape as get_obs_shape
from proximo.functional.spaces import is_image_space as is_image_space
from proximo.functional.spaces import is_image_space_channels_first as is_image_space_channels_first
from proximo.functional.spaces import maybe_transpose as maybe_transpose
from proximo.functional.spaces import preprocess_obs as preprocess_obs
