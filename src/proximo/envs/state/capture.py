"""The state of one environment, through all its wrappers, as plain data that another process can go on from.

A wrapper or environment that has ``get_state()`` and ``set_state(state)`` tells its own state, a wrapper without that
of what it wraps; for others :mod:`proximo.envs.state.known_states` knows what to take. The random generators of the
environment and of its spaces are always part of the state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

import gymnasium as gym

from proximo.envs.state.known_states import StateMethods, class_name, known_methods, missing_attributes, stable_name
from proximo.envs.state.plain import generator_at, generator_state, plain_copy, set_space_states, space_states
from proximo.errors import EnvironmentStateError

_SPACES = ("action_space", "observation_space")


def get_environment_state(env: gym.Env[Any, Any]) -> list[dict[str, Any]]:
    """The state of each layer from the outermost wrapper to the environment itself."""
    return [_layer_state(layer) for layer in _layers(env)]


def set_environment_state(env: gym.Env[Any, Any], state: Sequence[Mapping[str, Any]]) -> list[str]:
    """Go on from what :func:`get_environment_state` gave of an environment that was made in the same way.

    Gives the attributes that a state should have and this one, or the environment here, has not: of another version of
    its package, then, in which they are called otherwise.
    """
    layers = list(_layers(env))
    here, then = [class_name(layer) for layer in layers], [stable_name(part["class"]) for part in state]
    if here != then:
        raise EnvironmentStateError(
            f"the state is of {' around '.join(then)}, the environment is {' around '.join(here)}; make it as it was "
            "when the state was taken"
        )
    gaps = [name for layer, part in zip(layers, state, strict=True) for name in _left_out(layer, part)]
    if any(map(_lacking, layers)):
        env.reset()  # some have their attributes only then
        gaps += [name for layer in layers for name in _lacking(layer)]
    for layer, part in zip(layers, state, strict=True):
        _set_layer_state(layer, part)
    return sorted(set(gaps))


def has_environment_state(env: gym.Env[Any, Any]) -> bool:
    """Whether every layer's state can be taken."""
    return all(_own_methods(layer) or known_methods(layer) for layer in _layers(env))


def get_vector_state(vector_env: Any) -> dict[str, Any]:
    """What a gymnasium vector environment keeps beside its single environments."""
    return _layer_state(vector_env)


def set_vector_state(vector_env: Any, state: Mapping[str, Any]) -> None:
    if stable_name(state["class"]) != class_name(vector_env):
        raise EnvironmentStateError(f"the state is of {state['class']}, this is {class_name(vector_env)}")
    _set_layer_state(vector_env, state)


def has_vector_state(vector_env: Any) -> bool:
    return bool(_own_methods(vector_env) or known_methods(vector_env))


def no_state(thing: Any) -> EnvironmentStateError:
    """The error that says whose state cannot be taken, and what to do about it."""
    return EnvironmentStateError(
        f"the state of {class_name(thing)} cannot be taken: give it get_state() and set_state(state) (plain "
        "values and arrays), or resume in boundary mode, where environments are seeded and reset at every "
        "checkpoint"
    )


def _layers(env: gym.Env[Any, Any]) -> Iterator[gym.Env[Any, Any]]:
    while isinstance(env, gym.Wrapper):
        yield env
        env = env.env
    yield env


def _own_methods(layer: Any) -> StateMethods | None:
    kind = type(layer)
    if not (hasattr(kind, "get_state") and hasattr(kind, "set_state")):
        return None
    return StateMethods(kind.get_state, kind.set_state)


def _lacking(layer: Any) -> list[str]:
    """Attributes of the state table that a layer does not have."""
    methods = None if _own_methods(layer) else known_methods(layer)
    missing = [] if methods is None else missing_attributes(methods.expected, layer)
    return [f"{class_name(layer)}.{name}" for name in missing]


def _left_out(layer: Any, part: Mapping[str, Any]) -> list[str]:
    """Attributes of the state table that a saved state does not have."""
    methods = None if _own_methods(layer) else known_methods(layer)
    expected = () if methods is None else methods.expected
    return [f"{class_name(layer)}.{name}" for name in expected if name not in part["state"]]


def _layer_state(layer: Any) -> dict[str, Any]:
    name = class_name(layer)
    own = _own_methods(layer)
    methods = own or known_methods(layer)
    if methods is None:
        raise no_state(layer)
    state = methods.take(layer)
    if own is not None:
        state = plain_copy(state, f"the state of {name}")
    part: dict[str, Any] = {"class": name, "state": state, "spaces": {}}
    for which, space in _own_spaces(layer).items():
        part["spaces"][which] = space_states(space, f"{name}.{which}")
    if _has_generator(layer):
        part["random"] = generator_state(layer._np_random, f"{name}.np_random")
        part["seed"] = plain_copy(layer._np_random_seed, f"{name}.np_random_seed")
    return part


def _set_layer_state(layer: Any, part: Mapping[str, Any]) -> None:
    own = _own_methods(layer)
    methods = own or known_methods(layer)
    if methods is None:
        raise no_state(layer)
    methods.put(layer, part["state"] if own is None else deepcopy(part["state"]))
    for which, space in _own_spaces(layer).items():
        set_space_states(space, part["spaces"][which])
    if "random" in part:  # last: what comes before may have drawn numbers
        layer._np_random = generator_at(part["random"], layer._np_random)
        layer._np_random_seed = deepcopy(part["seed"])


def _has_generator(layer: Any) -> bool:
    """Wrappers show the generator of the environment inside, and a vector environment may show those of many."""
    return not isinstance(layer, gym.Wrapper) and (isinstance(layer, gym.Env) or "_np_random" in vars(layer))


def _own_spaces(layer: Any) -> dict[str, gym.Space[Any]]:
    """The spaces that the layer itself defines."""
    prefix = "_" if isinstance(layer, gym.Wrapper) else ""
    spaces = {which: getattr(layer, prefix + which, None) for which in _SPACES}
    return {which: space for which, space in spaces.items() if space is not None}
