"""Presets: how to make the environments and the model for a task, read from plain data files."""

from __future__ import annotations

import inspect
import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib import resources
from typing import Any

from proximo.errors import near_matches

NAMED_PARTS = ("intrinsic_reward", "augmentation")
"""Arguments of an algorithm that a preset names, with what they are made with in ``…_kwargs``."""
_LINEAR = re.compile(r"^lin_(?P<start>.+)$")


@dataclass(frozen=True, kw_only=True)
class Preset:
    """How to train on a task, as data: everything in it can be written to a TOML file and read back.

    >>> preset = load_preset("ppo", "CartPole-v1")
    >>> preset.n_envs, preset.arguments["learning_rate"]
    (8, 'lin_0.001')
    >>> preset.model_arguments()["learning_rate"]
    LinearSchedule(start=0.001, end=0.0, end_fraction=1.0)
    """

    name: str
    n_envs: int = 1
    n_timesteps: int = 1_000_000
    policy: str | None = None  # None: chosen by the observation space
    normalize: bool | dict[str, Any] = False  # True, or the arguments of VecNormalize
    env_wrapper: tuple[str, ...] = ()  # applied to each environment, the first innermost
    frame_stack: int = 1
    env_kwargs: dict[str, Any] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)  # of the algorithm, in the words of the data file

    @classmethod
    def from_row(cls, name: str, row: Mapping[str, Any]) -> Preset:
        """A preset from a table of a data file; what is not about environments is an argument of the algorithm."""
        own = {item.name for item in fields(cls)} - {"name", "arguments"}
        values = {key: value for key, value in row.items() if key in own}
        wrappers = values.pop("env_wrapper", ())
        return cls(
            name=name,
            env_wrapper=(wrappers,) if isinstance(wrappers, str) else tuple(wrappers),
            arguments={key: value for key, value in row.items() if key not in own},
            **values,
        )

    def as_row(self) -> dict[str, Any]:
        """The table that :meth:`from_row` reads; values at their defaults are left out."""
        own = [item.name for item in fields(self) if item.name not in ("name", "arguments", "env_wrapper")]
        plain = Preset(name=self.name)
        row = {key: getattr(self, key) for key in own if getattr(self, key) != getattr(plain, key)}
        wrappers = {"env_wrapper": list(self.env_wrapper)} if self.env_wrapper else {}
        return {"n_envs": self.n_envs, "n_timesteps": self.n_timesteps, **row, **wrappers, **self.arguments}

    def changed(self, arguments: Mapping[str, Any] | None = None, **settings: Any) -> Preset:
        """This preset with other settings, and other arguments of the algorithm."""
        return replace(self, arguments={**self.arguments, **(arguments or {})}, **settings)

    def model_arguments(self) -> dict[str, Any]:
        """The algorithm's keyword arguments, with schedules and classes in place of their names."""
        from proximo.config import scheduled_names

        arguments = dict(self.arguments)
        for name in scheduled_names() & arguments.keys():
            arguments[name] = schedule_from_text(name, arguments[name])
        if "policy_kwargs" in arguments:
            arguments["policy_kwargs"] = _policy_arguments(arguments["policy_kwargs"])
        for key in NAMED_PARTS:
            name, options = arguments.pop(key, None), arguments.pop(f"{key}_kwargs", None)
            if name is not None:
                arguments[key] = _named_part(key, name, options or {})
            elif options:
                raise ValueError(f"{key}_kwargs are {options}, but no {key} is named that they could belong to")
        return arguments


def load_preset(algo: str, env_id: str) -> Preset:
    """The preset of ``algo`` for an environment: by its id, else ``atari`` for Atari games, else ``default``.

    Ids may name their module (``"my_envs:Maze-v0"``); a name from :func:`available_presets` works too.
    A preset that needs what this version lacks is an error that says so.

    >>> load_preset("ppo", "BreakoutNoFrameskip-v4").name, load_preset("ppo", "MyOwn-v0").name
    ('atari', 'default')
    """
    from proximo.envs.make import ATARI_IDS

    rows = _rows(algo)
    name = env_id if env_id in rows else env_id.rpartition(":")[2]
    if name not in rows:
        name = "atari" if ATARI_IDS.search(name) and "-ram" not in name else "default"
    preset = Preset.from_row(name, _resolved_row(rows, name))
    _check_available(preset)
    return preset


def named_preset(algo: str, name: str) -> Preset:
    """The preset of exactly that name."""
    if name not in _rows(algo):
        raise ValueError(f"{algo} has no preset {name!r}; {near_matches(name, _rows(algo))}")
    return load_preset(algo, name)


def available_presets(algo: str) -> list[str]:
    """Names of all presets: environment ids, ``atari``, ``default``, and variants as ``id:variant``.

    >>> "CartPole-v1" in available_presets("ppo")
    True
    """
    return sorted(_rows(algo))


def schedule_from_text(name: str, value: Any) -> Any:
    """``"lin_0.001"`` as a schedule falling from 0.001 to 0; numbers, None and schedules as they are."""
    if not isinstance(value, str):
        return value
    from proximo.functional.schedules import LinearSchedule

    match = _LINEAR.match(value)
    try:
        start = float(match["start"] if match else value)
    except ValueError:
        start = math.nan
    if not math.isfinite(start):
        raise ValueError(f"{name} is {value!r}; expected a number such as 3e-4, or lin_3e-4 to fall linearly to 0")
    return LinearSchedule(start, 0.0, 1.0) if match else start


@cache
def _rows(algo: str) -> dict[str, dict[str, Any]]:
    folder = resources.files(__package__)
    known = [entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml")]
    if algo not in known:
        raise ValueError(f"there are no presets for the algorithm {algo!r}; {near_matches(algo, known)}")
    return tomllib.loads((folder / f"{algo}.toml").read_text(encoding="utf-8"))


def _resolved_row(rows: Mapping[str, Mapping[str, Any]], name: str) -> dict[str, Any]:
    row = dict(rows[name])
    like = row.pop("like", None)
    return row if like is None else {**_resolved_row(rows, like), **row}


def _check_available(preset: Preset) -> None:
    from proximo.zoo.environments import WRAPPERS

    for wrapper in preset.env_wrapper:
        if wrapper not in WRAPPERS:
            raise ValueError(
                f"the preset {preset.name!r} needs the wrapper {wrapper}, which this version does not have; "
                "train with the library's defaults instead (on the command line: --preset none)"
            )


def _policy_arguments(policy_kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """``policy_kwargs`` with the classes of activation and optimiser in place of their names."""
    from proximo.files.encoding import ACTIVATIONS, OPTIMIZERS
    from proximo.networks.optimizers import RMSpropTFLike

    arguments = dict(policy_kwargs)
    for key, known in (
        ("activation_fn", ACTIVATIONS),
        ("optimizer_class", {**OPTIMIZERS, "RMSpropTFLike": RMSpropTFLike}),
    ):
        if isinstance(arguments.get(key), str):
            arguments[key] = _named_class(key, arguments[key], known)
    return arguments


def _named_part(key: str, name: Any, options: Mapping[str, Any]) -> Any:
    """An intrinsic reward or an augmentation; what a name cannot say is an error."""
    from proximo.augmentation import AUGMENTATIONS
    from proximo.exploration import REWARDS

    known: Mapping[str, type[Any]] = REWARDS if key == "intrinsic_reward" else AUGMENTATIONS
    if not isinstance(name, str) or not isinstance(options, Mapping):
        raise ValueError(f"{key} is {name!r} with {options!r}; expected a name such as {next(iter(known))} and a table")
    by_letters = {_letters(word): word for word in known}
    if _letters(name) == "fabric":
        raise ValueError(
            "a mix of several intrinsic rewards has no name; write it in Python: PPO(…, intrinsic_reward=Fabric(RND(), "
            "ICM()))"
        )
    if _letters(name) not in by_letters:
        raise ValueError(f"there is no {key} {name!r}; {near_matches(name, known)}")
    kind = known[by_letters[_letters(name)]]
    arguments = inspect.signature(kind).parameters
    for option in options:
        if option not in arguments:
            raise ValueError(f"{kind.__name__} has no argument {option!r}; {near_matches(option, arguments)}")
    try:
        return kind(**options)
    except TypeError as error:  # a value of the wrong kind
        raise ValueError(f"{key}_kwargs do not fit {kind.__name__}: {error}") from error


def _letters(name: str) -> str:
    """``RandomCrop``, ``random_crop`` and ``random-crop`` are one name."""
    return name.lower().replace("_", "").replace("-", "")


def _named_class(key: str, name: str, known: Mapping[str, type]) -> type:
    by_lower_case = {known_name.lower(): value for known_name, value in known.items()}
    if name.lower() not in by_lower_case:
        raise ValueError(f"{key} is {name!r}, which is none that a preset may name; {near_matches(name, known)}")
    return by_lower_case[name.lower()]
