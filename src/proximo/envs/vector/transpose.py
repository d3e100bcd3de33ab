"""Images from height × width × channel to channel × height × width."""

from __future__ import annotations

from gymnasium import spaces

from proximo.data import Array, Observation
from proximo.envs.vector.vec_env import ObservationTransform, VecEnv
from proximo.errors import ArgumentValueError
from proximo.functional.spaces import (
    Space,
    is_image_space,
    is_image_space_channels_first,
    transpose_image,
    transpose_image_space,
)
from proximo.other_libraries import stands_for


@stands_for("stable_baselines3.common.vec_env.vec_transpose", "VecTransposeImage")
class VecTransposeImage(ObservationTransform):
    """Show channels-last images, alone or in a ``Dict``, channels-first, as PyTorch's convolutions want them.

    ``skip=True`` leaves everything as it is: a way to keep the automatic wrapping off.
    """

    def __init__(self, venv: VecEnv, skip: bool = False) -> None:
        """Arguments:
        venv: The vector environment that is wrapped.
        skip: Whether to leave images as they are, which keeps the automatic wrapping off.
        """
        space = venv.observation_space
        if not isinstance(space, spaces.Dict) and not is_image_space(space):
            raise ArgumentValueError(f"VecTransposeImage needs image observations or a Dict with some, got {space}")
        self.skip = skip
        self.image_space_keys: list[str] = []
        if skip:
            super().__init__(venv)
        elif isinstance(space, spaces.Dict):
            self.image_space_keys = [key for key, part in space.spaces.items() if is_image_space(part)]
            images = {key: self.transpose_space(space[key], key) for key in self.image_space_keys}  # type: ignore[arg-type]
            super().__init__(venv, observation_space=spaces.Dict({**space.spaces, **images}))
        else:
            super().__init__(venv, observation_space=self.transpose_space(space))  # type: ignore[arg-type]

    @staticmethod
    def transpose_space(observation_space: spaces.Box, key: str = "") -> spaces.Box:
        """The space of the transposed image."""
        if not is_image_space(observation_space) or is_image_space_channels_first(observation_space):
            where = f" under key {key!r}" if key else ""
            raise ArgumentValueError(f"expected a channels-last image space{where}, got {observation_space}")
        return transpose_image_space(observation_space)

    @staticmethod
    def transpose_image(image: Array) -> Array:
        """An image, or a batch, with its channels first."""
        return transpose_image(image)

    def transpose_observations(self, observations: Observation) -> Observation:
        """Views with the axes moved, of one observation or a batch."""
        if self.skip:
            return observations
        if isinstance(observations, dict):
            return {
                key: transpose_image(value) if key in self.image_space_keys else value
                for key, value in observations.items()
            }
        return transpose_image(observations)

    def show(self, observations: Observation) -> Observation:
        return self.transpose_observations(observations)


def needs_transpose(space: Space) -> bool:
    """Whether a space is, or a ``Dict`` has, a channels-last image."""
    parts = space.spaces.values() if isinstance(space, spaces.Dict) else [space]
    return any(
        isinstance(part, spaces.Box) and is_image_space(part) and not is_image_space_channels_first(part)
        for part in parts
    )
