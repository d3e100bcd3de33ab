"""Hide velocities, so that what happened must be remembered."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium as gym
import numpy as np

from proximo.data import Array
from proximo.errors import near_matches


class MaskVelocityWrapper(gym.ObservationWrapper[Any, Any, Any]):
    """Shows the velocities of a known environment as 0; a policy with memory can make up for them.

    >>> env = MaskVelocityWrapper(gym.make("Pendulum-v1"))
    >>> env.reset(seed=0)[0][2].item()
    0.0
    """

    VELOCITIES: ClassVar[dict[str, tuple[int, ...]]] = {
        "CartPole-v1": (1, 3),
        "MountainCar-v0": (1,),
        "MountainCarContinuous-v0": (1,),
        "Pendulum-v1": (2,),
        "LunarLander-v3": (2, 3, 5),
        "LunarLanderContinuous-v3": (2, 3, 5),
    }
    """Places in the observation, by environment."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        """Arguments:
        env: An environment whose velocities are known, such as CartPole-v1 or Pendulum-v1.
        """
        super().__init__(env)
        env_id = "" if env.unwrapped.spec is None else env.unwrapped.spec.id
        if env_id not in self.VELOCITIES:
            raise ValueError(
                f"MaskVelocityWrapper does not know where {env_id or env.unwrapped} shows velocities; "
                f"{near_matches(env_id, self.VELOCITIES)}"
            )
        self._hidden = list(self.VELOCITIES[env_id])

    def observation(self, observation: Array) -> Array:
        masked = np.array(observation)
        masked[self._hidden] = 0.0
        return masked
