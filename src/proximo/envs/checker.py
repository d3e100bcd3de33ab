"""Check that a user's environment keeps gymnasium's contract and suits this library."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from proximo.data import Array
from proximo.envs.vector.check_nan import VecCheckNan
from proximo.envs.vector.dummy import DummyVecEnv
from proximo.functional.actions import leaves
from proximo.functional.spaces import NestedObservation, Space, is_image_space_channels_first

_SMALLEST_IMAGE = 36  # what the three convolutions of the Nature network need
_STEPS_FOR_NAN = 10


def check_env(env: gym.Env[Any, Any], warn: bool = True, skip_render_check: bool = True) -> None:
    """Raise ``AssertionError`` where the environment breaks the contract; warn of what will not train well.

    It is reset and stepped a few times with random actions. ``skip_render_check=False`` renders once and closes it.
    """
    _require(isinstance(env, gym.Env), f"the environment must derive from gymnasium.Env, got {type(env)}")
    _check_spaces(env)
    try:
        env.reset(seed=0)
    except TypeError as error:
        raise TypeError("reset() must take the keyword argument `seed`") from error
    if warn:
        _warn_of_spaces(env.observation_space, env.action_space)
        if _has_no_fixed_shape(env.observation_space):
            warnings.warn("what reset() and step() return is not checked for such observations", stacklevel=2)
            return
    _check_returned_values(env)
    if not skip_render_check:
        _check_render(env, warn)
    _check_finite(env)


def _require(condition: Any, message: str) -> None:
    if not condition:
        raise AssertionError(message)


def _check_spaces(env: gym.Env[Any, Any]) -> None:
    for name in ("observation_space", "action_space"):
        _require(hasattr(env, name), f"the environment has no {name}; set it in __init__")
        space = getattr(env, name)
        _require(isinstance(space, spaces.Space), f"{name} must be a gymnasium space, got {type(space)}")
    if _is_goal_env(env):
        _require(
            isinstance(env.observation_space, spaces.Dict),
            "an environment with compute_reward() is taken for a goal environment, which has Dict observations; "
            "rename the method if it is none",
        )


def _is_goal_env(env: gym.Env[Any, Any]) -> bool:
    return hasattr(env.unwrapped, "compute_reward")


def _parts(space: Space) -> dict[str, Space]:
    """The plain spaces of a Dict or Tuple by name; any other space under an empty name."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        return dict(NestedObservation(space).space.spaces)
    return {"": space}


def _has_no_fixed_shape(space: Space) -> bool:
    unshaped = tuple(getattr(spaces, name) for name in ("Sequence", "Graph", "OneOf") if hasattr(spaces, name))
    return any(isinstance(part, unshaped) for part in (space, *_parts(space).values()))


def _warn_of_spaces(observation_space: Space, action_space: Space) -> None:
    for key, part in _parts(observation_space).items():
        _warn_of_observation(part, f"observation {key!r}" if key else "observation")
    for part in leaves(action_space):
        _warn_of_action(part)


def _warn_of_observation(space: Space, name: str) -> None:
    if _has_no_fixed_shape(space):
        _warn(f"{name}: {type(space).__name__} spaces are not supported; pad to a fixed shape")
    _warn_of_discrete(space, name)
    if isinstance(space, spaces.Box):
        if len(space.shape) == 3:
            _warn_of_image(space, name)
        elif len(space.shape) != 1:
            _warn(f"{name} of shape {space.shape} is neither a vector nor an image; flatten it or use an own extractor")


def _warn_of_discrete(space: Space, name: str) -> None:
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete) and np.any(np.asarray(space.start) != 0):
        _warn(f"{name}: {type(space).__name__} spaces must start at 0 in Stable-Baselines3, this one: {space.start}")
    if isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim > 1:
        _warn(f"{name}: MultiDiscrete of shape {space.nvec.shape} is not supported; flatten it to one dimension")


def _warn_of_image(space: spaces.Box, name: str) -> None:
    if space.dtype != np.uint8:
        _warn(f"{name} looks like an image but has dtype {space.dtype} instead of uint8; flatten it if it is none")
    if np.any(space.low != 0) or np.any(space.high != 255):
        _warn(f"{name} looks like an image but its bounds are not 0 and 255, by which CnnPolicy scales it")
    height, width = space.shape[1:] if is_image_space_channels_first(space) else space.shape[:2]
    if min(height, width) < _SMALLEST_IMAGE:
        _warn(
            f"{name} of {height} x {width} is too small for CnnPolicy ({_SMALLEST_IMAGE} x {_SMALLEST_IMAGE} at least)"
        )


def _warn_of_action(space: Space) -> None:
    _warn_of_discrete(space, "action")
    if not isinstance(space, spaces.Box):
        return
    _require(
        np.all(np.isfinite(space.low)) and np.all(np.isfinite(space.high)),
        f"a Box action space must have finite bounds, got {space}",
    )
    if np.any(space.low != -1) or np.any(space.high != 1):
        _warn(f"action bounds should be -1 and 1 (policies start around 0 with deviation 1), these are {space}")
    if space.dtype != np.float32:
        _warn(f"action dtype should be float32, it is {space.dtype}")


def _warn(message: str) -> None:
    warnings.warn(message, stacklevel=5)


def _check_returned_values(env: gym.Env[Any, Any]) -> None:
    outcome = env.reset()
    _require(
        isinstance(outcome, tuple) and len(outcome) == 2, f"reset() must return (observation, info), got {outcome!r}"
    )
    observation, info = outcome
    _require(isinstance(info, dict), f"the info from reset() must be a dictionary, got {type(info)}")
    _check_observation(env, observation, "reset")

    data: Any = env.step(env.action_space.sample())
    _require(
        isinstance(data, tuple) and len(data) == 5,
        f"step() must return (observation, reward, terminated, truncated, info), got {data!r}",
    )
    observation, reward, terminated, truncated, info = data
    _check_observation(env, observation, "step")
    _require(isinstance(reward, float | int), f"the reward from step() must be a float, got {type(reward)}")
    _require(isinstance(terminated, bool), f"`terminated` from step() must be a bool, got {type(terminated)}")
    _require(isinstance(truncated, bool), f"`truncated` from step() must be a bool, got {type(truncated)}")
    _require(isinstance(info, dict), f"the info from step() must be a dictionary, got {type(info)}")
    if _is_goal_env(env):
        _check_goal_reward(env, observation, float(reward), info)


def _check_observation(env: gym.Env[Any, Any], observation: Any, method: str) -> None:
    space = env.observation_space
    if not isinstance(space, spaces.Dict):
        _check_one_observation(observation, space, f"the observation from {method}()")
        return
    _require(isinstance(observation, dict), f"the observation from {method}() must be a dictionary for {space}")
    _require(
        observation.keys() == space.spaces.keys(),
        f"the observation from {method}() has keys {sorted(observation)}, its space {sorted(space.spaces)}",
    )
    if _is_goal_env(env):
        missing = {"observation", "achieved_goal", "desired_goal"} - space.spaces.keys()
        _require(not missing, f"a goal environment's observations need the keys {sorted(missing)} too")
    for key, part in space.spaces.items():
        _check_one_observation(observation[key], part, f"the observation {key!r} from {method}()")


def _check_one_observation(observation: Any, space: Space, name: str) -> None:
    if isinstance(space, spaces.Discrete):
        _require(np.issubdtype(type(observation), np.integer), f"{name} must be an int, got {type(observation)}")
    elif not isinstance(space, spaces.Dict | spaces.Tuple):
        _require(isinstance(observation, np.ndarray), f"{name} must be a NumPy array, got {type(observation)}")
    if isinstance(observation, np.ndarray):
        _require(observation.shape == space.shape, f"{name} has shape {observation.shape}, its space {space.shape}")
        _require(
            space.dtype is None or np.can_cast(observation.dtype, space.dtype),
            f"{name} has dtype {observation.dtype}, which does not fit its space's {space.dtype}",
        )
        if isinstance(space, spaces.Box):
            _check_bounds(observation, space, name)
    _require(space.contains(observation), f"{name}, {observation!r}, is not in its space {space}")


def _check_bounds(observation: Array, space: spaces.Box, name: str) -> None:
    outside = np.argwhere((observation < space.low) | (observation > space.high))
    wrong = [
        f"[{', '.join(map(str, index))}] is {observation[index]}, bounds {space.low[index]} to {space.high[index]}"
        for index in map(tuple, outside.tolist())
    ]
    _require(not wrong, f"{name} leaves its space's bounds in {len(wrong)} places: {'; '.join(wrong)}")


def _check_goal_reward(
    env: gym.Env[Any, Any], observation: dict[str, Any], reward: float, info: dict[str, Any]
) -> None:
    """The reward must come from ``compute_reward``, which must also take batches."""
    compute = env.unwrapped.compute_reward  # type: ignore[attr-defined]
    achieved, desired = observation["achieved_goal"], observation["desired_goal"]
    _require(reward == compute(achieved, desired, info), "the reward from step() must equal compute_reward(…)")
    batch = [np.stack([np.atleast_1d(goal)] * 2) for goal in (achieved, desired)]
    rewards = compute(*batch, np.array([info, info]))
    _require(np.shape(rewards) == (2,), f"compute_reward() of two goals must have shape (2,), got {np.shape(rewards)}")
    _require(rewards[0] == reward, f"compute_reward() of a batch gives {rewards[0]}, of one goal {reward}")


def _check_render(env: gym.Env[Any, Any], warn: bool) -> None:
    if warn and env.metadata.get("render_modes") is None:
        _warn("the environment's metadata lacks 'render_modes'")
    if env.render_mode:
        env.render()
    env.close()


def _check_finite(env: gym.Env[Any, Any]) -> None:
    """Look for NaN and infinity over a few random steps."""
    if _has_no_fixed_shape(env.observation_space):
        return
    vec_env = VecCheckNan(DummyVecEnv([lambda: env]))
    vec_env.reset()
    for _ in range(_STEPS_FOR_NAN):
        vec_env.step([env.action_space.sample()])
