"""The wrappers that a preset may put around each environment: names from a list, so that a data file runs no code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from proximo.errors import MissingExtraError, near_matches

if TYPE_CHECKING:
    import gymnasium as gym

WrapperEntry: TypeAlias = str | dict[str, dict[str, Any]]
"""A wrapper's name, or the name with its arguments: ``{"FrameSkip": {"skip": 2}}``."""


class Wrapper(NamedTuple):
    """A wrapper that presets may name.

    Arguments:
        module: Where the class lives.
        arguments: What it may be given, by name.
    """

    module: str
    arguments: tuple[str, ...]


_OF_ATARI = "noop_max frame_skip screen_size terminal_on_life_loss clip_reward action_repeat_probability"
WRAPPERS = {
    "AtariWrapper": Wrapper("proximo.envs", tuple(_OF_ATARI.split())),
    "FlatObsWrapper": Wrapper("minigrid.wrappers", ("maxStrLen",)),
    "FrameSkip": Wrapper("proximo.envs", ("skip",)),
    "GrayscaleObservation": Wrapper("gymnasium.wrappers", ("keep_dim",)),
    "MaskVelocityWrapper": Wrapper("proximo.envs", ()),
    "ResizeObservation": Wrapper("gymnasium.wrappers", ("shape",)),
    "TimeFeatureWrapper": Wrapper("proximo.envs", ("max_steps", "test_mode")),
    "wrap_minigrid": Wrapper("proximo.envs", ("fully_observable", "fully_numerical")),
}
"""What ``env_wrapper`` may name, and the arguments that it may give."""


def check_wrappers(preset: str, entries: Any) -> tuple[WrapperEntry, ...]:
    """The wrappers of a preset as a tuple; anything but known names and arguments is refused."""
    listed = list(entries) if isinstance(entries, list | tuple) else [entries]
    for entry in listed:
        if not isinstance(entry, str) and not _is_name_with_arguments(entry):
            raise ValueError(
                f"env_wrapper of the preset {preset!r} is {entry!r}; expected a name such as 'AtariWrapper', or one "
                "with its arguments such as { FrameSkip = { skip = 2 } }"
            )
        name, arguments = name_and_arguments(entry)
        if name not in WRAPPERS:
            raise ValueError(
                f"the preset {preset!r} needs the wrapper {name}, which this version does not have; "
                f"{near_matches(name, WRAPPERS)}; or train without a preset (on the command line: --preset none)"
            )
        for argument in arguments:
            if argument not in WRAPPERS[name].arguments:
                raise ValueError(
                    f"the preset {preset!r} gives {name} the argument {argument!r}, which no preset may; "
                    f"{near_matches(argument, WRAPPERS[name].arguments)}"
                )
    return tuple(listed)


def name_and_arguments(entry: WrapperEntry) -> tuple[str, Mapping[str, Any]]:
    """
    >>> name_and_arguments("AtariWrapper"), name_and_arguments({"FrameSkip": {"skip": 2}})
    (('AtariWrapper', {}), ('FrameSkip', {'skip': 2}))
    """
    return (entry, {}) if isinstance(entry, str) else next(iter(entry.items()))


def wrapper_chain(entries: Sequence[WrapperEntry]) -> Callable[..., gym.Env[Any, Any]] | None:
    """A function that wraps an environment, the first entry innermost; None for none."""
    if not entries:
        return None

    def wrap(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
        for entry in entries:
            name, arguments = name_and_arguments(entry)
            plain = {key: tuple(value) if isinstance(value, list) else value for key, value in arguments.items()}
            env = _wrapper(name)(env, **plain)
        return env

    return wrap


def _wrapper(name: str) -> Callable[..., gym.Env[Any, Any]]:
    module = WRAPPERS[name].module
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        raise MissingExtraError(package, package, f"the wrapper {name}") from error


def _is_name_with_arguments(entry: Any) -> bool:
    return isinstance(entry, dict) and len(entry) == 1 and isinstance(next(iter(entry.values())), dict)
