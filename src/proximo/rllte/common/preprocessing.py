"""What rllte's classes tell about spaces."""

from proximo.functional import spaces
from proximo.functional.spaces import get_flattened_obs_dim as get_flattened_obs_dim
from proximo.functional.spaces import is_image_space as is_image_space
from proximo.functional.spaces import is_image_space_channels_first as is_image_space_channels_first
from proximo.functional.spaces import preprocess_obs as preprocess_obs

process_action_space = spaces.describe_action_space
process_observation_space = spaces.get_obs_shape
