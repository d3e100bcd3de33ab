"""What rllte's classes tell about spaces."""

from proximo.functional.spaces import describe_action_space as process_action_space
from proximo.functional.spaces import get_obs_shape as process_observation_space
from proximo.functional.spaces import get_flattened_obs_dim as get_flattened_obs_dim
from proximo.functional.spaces import is_image_space as is_image_space
from proximo.functional.spaces import is_image_space_channels_first as is_image_space_channels_first
from proximo.functional.spaces import preprocess_obs as preprocess_obs
