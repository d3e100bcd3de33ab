"""What rllte's classes tell about spaces."""

from __future__ import annotations

from gymnasium import spaces

from proximo.functional.spaces import Space, get_action_dim, get_obs_shape
from proximo.networks.distributions import make_proba_distribution

process_observation_space = get_obs_shape


def process_action_space(action_space: Space) -> tuple[tuple[int, ...], int, int, str]:
    """Shape and width of one action, numbers that a policy gives for it, and the kind of space.

    >>> process_action_space(spaces.Discrete(3))
    ((), 1, 3, 'Discrete')
    >>> process_action_space(spaces.MultiDiscrete([2, 3]))
    ((2,), 2, 5, 'MultiDiscrete')
    """
    if not isinstance(action_space, spaces.Discrete | spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary):
        raise NotImplementedError(
            f"rllte's agents act in Discrete, Box, MultiDiscrete and MultiBinary spaces, got {action_space}; "
            "proximo.PPO takes Dict and Tuple actions too"
        )
    width = make_proba_distribution(action_space).parameter_width
    return action_space.shape or (), get_action_dim(action_space), width, type(action_space).__name__
