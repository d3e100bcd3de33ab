"""MiniGrid's observations in shapes that networks take: as they come they hold a sentence."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from proximo.data import Array
from proximo.errors import MissingExtraError


class MiniGridImage(gym.ObservationWrapper[Any, Any, Any]):
    """Only the grid, as an image [3, width, height] uint8 whose channels are object, colour and state."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        """Arguments:
        env: The MiniGrid environment that is wrapped.
        """
        super().__init__(env)
        self.observation_space = _channels_first(_grid_space(env))

    def observation(self, observation: dict[str, Any]) -> Array:
        return np.moveaxis(observation["image"], -1, 0)


class MiniGridNumbers(gym.ObservationWrapper[Any, Any, Any]):
    """The whole dictionary with the grid's channels first; the sentence must have been turned into numbers before."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        """Arguments:
        env: The MiniGrid environment that is wrapped.
        """
        super().__init__(env)
        parts = dict(env.observation_space.items())  # type: ignore[attr-defined]
        self.observation_space = spaces.Dict({**parts, "image": _channels_first(_grid_space(env))})

    def observation(self, observation: dict[str, Any]) -> dict[str, Any]:
        image = np.moveaxis(observation["image"], -1, 0)
        return {**observation, "image": image, "mission": np.array(observation["mission"])}


def wrap_minigrid(
    env: gym.Env[Any, Any], fully_observable: bool = True, fully_numerical: bool = False
) -> gym.Env[Any, Any]:
    """A MiniGrid environment that shows the whole grid as an image, [3, width, height].

    With ``fully_observable=False`` it shows what the agent sees: with ``fully_numerical`` a dictionary of image,
    direction and the mission's words as numbers, else one flat vector of the image and the mission's letters.

    >>> from proximo.envs import make_vec_env
    >>> make_vec_env("MiniGrid-Empty-5x5-v0", wrapper_class=wrap_minigrid).observation_space.shape
    (3, 5, 5)
    """
    try:
        from minigrid import wrappers
    except ModuleNotFoundError as error:
        raise MissingExtraError("minigrid", "minigrid", "a MiniGrid environment") from error
    if fully_observable:
        return MiniGridImage(wrappers.FullyObsWrapper(env))
    if fully_numerical:
        return MiniGridNumbers(wrappers.DictObservationSpaceWrapper(env))
    return wrappers.FlatObsWrapper(env)


def with_numbers(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    """What the agent sees and its mission as one vector, where MiniGrid still shows a sentence; others as they are.

    As the zoo's presets have it; the whole grid would be another task.
    """
    space = env.observation_space
    if isinstance(space, spaces.Dict) and type(space.spaces.get("mission")).__name__ == "MissionSpace":
        return wrap_minigrid(env, fully_observable=False)
    return env


def _grid_space(env: gym.Env[Any, Any]) -> spaces.Box:
    space = env.observation_space
    image = space.spaces.get("image") if isinstance(space, spaces.Dict) else None
    if not isinstance(image, spaces.Box) or len(image.shape) != 3:
        raise ValueError(f"expected a MiniGrid environment, whose observations have an 'image' [w, h, 3]; got {space}")
    return image


def _channels_first(space: spaces.Box) -> spaces.Box:
    width, height, channels = space.shape
    return spaces.Box(0, 255, (channels, width, height), dtype=np.uint8)
