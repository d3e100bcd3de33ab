"""The algorithms that the command line knows by name."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import proximo
from proximo import ALGORITHMS
from proximo.errors import near_matches

if TYPE_CHECKING:
    from proximo.agents.on_policy import OnPolicyAlgorithm
    from proximo.envs import VecEnv
    from proximo.zoo import Preset


PRESET_ARGUMENTS = ("policy_kwargs", "use_sde", "sde_sample_freq", "precision", "intrinsic_reward", "augmentation")
"""What a preset or a run's configuration may say besides hyperparameters; where to write is not among it."""
GIVEN_BY_THE_AGENT = {"self", "observation_space", "action_space", "lr_schedule"}
"""What a policy is made with that no preset may say."""


def algorithm_class(name: str) -> type[OnPolicyAlgorithm]:
    if name not in ALGORITHMS:
        raise ValueError(f"there is no algorithm {name!r}; {near_matches(name, ALGORITHMS)}")
    agent: type[OnPolicyAlgorithm] = getattr(proximo, ALGORITHMS[name])
    return agent


def algorithm_title(name: str) -> str:
    """What people call an algorithm; a name that this version does not know stays as it is."""
    return ALGORITHMS.get(name, name)


def algorithm_of_file(path: Path) -> tuple[str, bool]:
    """The algorithm that a model file is of, and whether it was trained on normalised observations."""
    from proximo.persistence.inspection import inspect_file

    inspection = inspect_file(path)
    title = inspection.facts.get("algorithm", inspection.kind)
    names = [name for name, known in ALGORITHMS.items() if known == title]
    if not names:
        raise ValueError(
            f"{path} holds {title!r}, which is none of the algorithms that can be played: {', '.join(ALGORITHMS)}"
        )
    return names[0], "normalizer.safetensors" in inspection.members


def masks_actions(algorithm: str) -> bool:
    """Whether training and play ask the environments which actions are allowed."""
    return algorithm_class(algorithm).masks_actions


def default_arguments(agent: type[OnPolicyAlgorithm]) -> dict[str, Any]:
    """The hyperparameters with the constructor's defaults: RecurrentPPO has other ones than PPO."""
    arguments = inspect.signature(agent).parameters
    return {name: arguments[name].default for name in agent.config_class.__dataclass_fields__}


def known_arguments(agent: type[OnPolicyAlgorithm]) -> dict[str, Any]:
    """What a preset may say of the algorithm, with the constructor's defaults."""
    taken = inspect.signature(agent).parameters  # TRPO takes no augmentation, say
    return {name: taken[name].default for name in (*agent.config_class.names(), *PRESET_ARGUMENTS) if name in taken}


def make_model(algorithm: str, preset: Preset, env: VecEnv, **settings: Any) -> OnPolicyAlgorithm:
    """The model that ``preset`` describes; ``settings`` are further arguments (seed, device, …)."""
    agent = algorithm_class(algorithm)
    policy = preset.policy or fitting_policy(algorithm, env)
    arguments = check_arguments(agent, policy, preset)
    if masks_actions(algorithm):
        from proximo.rollout.masks import MaskReader

        MaskReader(env)  # refuses an environment without masks before a run folder is made for it
    try:
        return agent(policy, env, **arguments, **settings)
    except TypeError as error:  # a value of the wrong kind, from a flag or a file
        raise ValueError(f"the arguments do not fit {algorithm}: {error}") from error


def check_arguments(agent: type[OnPolicyAlgorithm], policy: str, preset: Preset) -> dict[str, Any]:
    """The arguments of the model that ``preset`` describes; names that it does not take are refused."""
    arguments = preset.model_arguments()
    known = known_arguments(agent)
    for name in arguments:
        if name not in known:
            raise ValueError(f"{agent.__name__} has no argument {name!r}; {near_matches(name, known)}")
    check_policy_arguments(agent, policy, arguments.get("policy_kwargs") or {})
    return arguments


def check_policy_arguments(agent: type[OnPolicyAlgorithm], policy: str, given: Mapping[str, Any]) -> None:
    """Refuse names that neither the policy nor a class it extends takes; an unknown policy is the agent's to refuse."""
    if policy not in agent.policy_aliases:
        return
    constructors = [vars(cls)["__init__"] for cls in agent.policy_aliases[policy].__mro__ if "__init__" in vars(cls)]
    known = {name for constructor in constructors for name in inspect.signature(constructor).parameters}
    known -= GIVEN_BY_THE_AGENT
    for name in given:
        if name not in known:
            raise ValueError(f"{policy} has no argument {name!r}; {near_matches(name, known)}")


def fitting_policy(algorithm: str, env: VecEnv) -> str:
    """The policy for an observation space, where nobody chose one."""
    from gymnasium import spaces

    from proximo.functional.spaces import is_image_space

    memory = "Lstm" if algorithm == "recurrent_ppo" else ""
    space = env.observation_space
    if isinstance(space, spaces.Dict):
        return f"MultiInput{memory}Policy"
    # the encoder of images wants 36 pixels each way; the grids of MiniGrid have fewer, and channels are fewest
    large = is_image_space(space) and sorted(space.shape or ())[1] >= 36
    return f"Cnn{memory}Policy" if large else f"Mlp{memory}Policy"
