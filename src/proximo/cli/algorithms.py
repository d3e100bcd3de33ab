"""The algorithms that the command line knows by name."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from proximo.errors import near_matches

if TYPE_CHECKING:
    from proximo.agents.on_policy import OnPolicyAlgorithm
    from proximo.envs import VecEnv
    from proximo.zoo import Preset

ALGORITHMS = ("ppo",)


def algorithm_class(name: str) -> type[OnPolicyAlgorithm]:
    if name not in ALGORITHMS:
        raise ValueError(f"there is no algorithm {name!r}; {near_matches(name, ALGORITHMS)}")
    import proximo

    agent: type[OnPolicyAlgorithm] = getattr(proximo, name.upper())
    return agent


def make_model(algorithm: str, preset: Preset, env: VecEnv, **settings: Any) -> OnPolicyAlgorithm:
    """The model that ``preset`` describes; ``settings`` are further arguments (seed, device, …)."""
    agent = algorithm_class(algorithm)
    arguments = preset.model_arguments()
    known = inspect.signature(agent).parameters
    for name in arguments:
        if name not in known:
            raise ValueError(f"{algorithm} has no argument {name!r}; {near_matches(name, known)}")
    policy = preset.policy or fitting_policy(env)
    try:
        return agent(policy, env, **arguments, **settings)
    except TypeError as error:  # a value of the wrong kind, from a flag or a file
        raise ValueError(f"the arguments do not fit {algorithm}: {error}") from error


def fitting_policy(env: VecEnv) -> str:
    """The policy for an observation space, where nobody chose one."""
    from gymnasium import spaces

    from proximo.functional.spaces import is_image_space

    if isinstance(env.observation_space, spaces.Dict):
        return "MultiInputPolicy"
    return "CnnPolicy" if is_image_space(env.observation_space) else "MlpPolicy"
