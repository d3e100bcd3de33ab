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
from pathlib import Path
from typing import Any, NamedTuple

from proximo import ALGORITHMS
from proximo.errors import ModelFileError, near_matches
from proximo.files.plain_text import brief, read_toml
from proximo.zoo.wrappers import WrapperEntry, check_wrappers

NAMED_PARTS = ("intrinsic_reward", "augmentation")
"""Arguments of an algorithm that a preset names, with what they are made with in ``…_kwargs``."""
FAMILIES = ("atari", "minatar", "procgen")
"""Presets for environments of a kind, where an algorithm has them."""
MOST_FRAMES, LARGEST_COUNT = 1024, 2**53  # a file that says more would only fill the memory
_LINEAR = re.compile(r"^lin_(?P<start>.+)$")


@dataclass(frozen=True, kw_only=True)
class Preset:
    """How to train on a task, as data: everything in it can be written to a TOML file and read back.

    >>> preset = load_preset("ppo", "CartPole-v1")
    >>> preset.n_envs, preset.arguments["learning_rate"]
    (8, 'lin_0.001')
    >>> preset.model_arguments()["learning_rate"]
    LinearSchedule(start=0.001, end=0.0, end_fraction=1.0)

    Arguments:
        name: The preset's name, an environment's id or one with a variant behind a colon.
        n_envs: Parallel environments.
        n_timesteps: Steps of the training.
        frame_stack: Observations stacked over steps; None stacks none.
        env_kwargs: Arguments of the environment.
    """

    name: str
    n_envs: int = 1
    n_timesteps: int = 1_000_000
    policy: str | None = None  # None: chosen by the observation space
    normalize: bool | dict[str, Any] = False  # True, or the arguments of VecNormalize
    env_wrapper: tuple[WrapperEntry, ...] = ()  # applied to each environment, the first innermost
    frame_stack: int = 1
    atari_native: bool = False  # the games of AtariWrapper, stepped by ale-py's own vector environment
    env_kwargs: dict[str, Any] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)  # of the algorithm, in the words of the data file

    @classmethod
    def from_row(cls, name: str, row: Mapping[str, Any]) -> Preset:
        """A preset from a table of a data file; what is not about environments is an argument of the algorithm."""
        own = {item.name for item in fields(cls)} - {"name", "arguments"}
        values = {key: _checked(name, key, value) for key, value in row.items() if key in own}
        return cls(name=name, arguments={key: value for key, value in row.items() if key not in own}, **values)

    def as_row(self) -> dict[str, Any]:
        """The table that :meth:`from_row` reads; values at their defaults are left out."""
        plain = Preset(name=self.name).settings()
        row = {key: value for key, value in self.settings().items() if value != plain[key]}
        if self.env_wrapper:
            row["env_wrapper"] = list(self.env_wrapper)
        return {"n_envs": self.n_envs, "n_timesteps": self.n_timesteps, **row, **self.arguments}

    def settings(self) -> dict[str, Any]:
        """What is not an argument of the algorithm, by name."""
        return {item.name: getattr(self, item.name) for item in fields(self) if item.name not in ("name", "arguments")}

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
    """The preset of ``algo`` for an environment: by its id, else by its family (``atari``), else ``default``.

    Ids may name their module (``"my_envs:Maze-v0"``); a name from :func:`available_presets` works too.

    >>> load_preset("ppo", "BreakoutNoFrameskip-v4").name, load_preset("ppo", "MyOwn-v0").name
    ('atari', 'default')
    """
    rows = _rows(algo)
    name = env_id if env_id in rows else env_id.rpartition(":")[2]
    if name not in rows:
        family = _family(env_id)
        name = family if family in rows else "default"
    return Preset.from_row(name, _resolved(rows, name, algo))


def named_preset(algo: str, name: str) -> Preset:
    """The preset of exactly that name."""
    if name not in _rows(algo):
        raise ValueError(f"{algo} has no preset {name!r}; {near_matches(name, _rows(algo))}")
    return load_preset(algo, name)


def preset_by_name(name: str, algo: str, env_id: str) -> Preset:
    """What ``--preset`` names: ``auto`` the environment's, ``none`` the defaults, else the preset of that name."""
    if name == "auto":
        return load_preset(algo, env_id)
    if name.endswith(".toml"):
        raise ValueError(f"there is no file {name}; give one, or the name of a preset (`proximo presets` lists them)")
    return named_preset(algo, "default" if name == "none" else name)


def available_presets(algo: str) -> list[str]:
    """Names of all presets: environment ids, ``atari``, ``default``, and variants as ``id:variant``.

    >>> "CartPole-v1" in available_presets("ppo")
    True
    """
    return sorted(_rows(algo))


def without_preset(algo: str, env_id: str) -> str:
    """What to say of an environment that gets the defaults, with the names that are near.

    >>> without_preset("ppo", "CartPole-v0")
    "ppo has no preset for CartPole-v0: training with the defaults; did you mean 'CartPole-v1'?"
    """
    known = [name for name in _rows(algo) if name != "default" and name not in FAMILIES]
    near = near_matches(env_id.rpartition(":")[2], known)
    return f"{algo} has no preset for {env_id}: training with the defaults; {near}"


class PresetFile(NamedTuple):
    """A user's TOML file: the keys of one preset, or tables of them by environment as the library's own files.

    Arguments:
        path: The file.
        rows: Its presets by environment; default stands for all others.
        env: The environment that it names, if it does.
    """

    path: Path
    rows: dict[str, dict[str, Any]]
    algo: str | None = None  # a file of one preset may say for which algorithm and environment it is
    env: str | None = None
    of_run: dict[str, Any] | None = None  # the whole file, where it is the configuration of a run

    @classmethod
    def read(cls, path: Path) -> PresetFile:
        """Read and check a file."""
        try:
            content = read_toml(path)
        except ModelFileError as error:
            raise ValueError(str(error)) from error
        if not content:
            raise ValueError(f"{path} is empty; expected keys of a preset, such as n_steps = 128")
        tables_of_a_preset = {item.name for item in fields(Preset)} | {"policy_kwargs"}
        if all(isinstance(value, dict) and name not in tables_of_a_preset for name, value in content.items()):
            return cls(path, _separate(content))
        for name in ("algo", "env"):
            if not isinstance(content.get(name, ""), str):
                raise ValueError(f"{name} in {path} is {brief(content[name])}; expected a name")
        row = {key: value for key, value in content.items() if key not in ("algo", "env")}
        of_run = content if "preset" in content else None
        return cls(path, {"default": row}, content.get("algo"), content.get("env"), of_run)

    def preset(self, algo: str, env_id: str) -> Preset:
        """The preset for an environment: by its id, else ``default``; ``like`` may name tables of the library's."""
        name = next((name for name in (env_id, env_id.rpartition(":")[2], "default") if name in self.rows), None)
        if name is None:
            raise ValueError(
                f"{self.path} has no preset for {env_id} and no [default]; {near_matches(env_id, self.rows)}"
            )
        shown = self.path.stem if len(self.rows) == 1 else f"{self.path.stem}:{name}"
        return Preset.from_row(shown, _resolved({**_rows(algo), **self.rows}, name, algo))


def schedule_from_text(name: str, value: Any) -> Any:
    """``"lin_0.001"`` as a schedule falling from 0.001 to 0; numbers, None and schedules as they are.

    A learning rate that follows the divergence, ``"kl_0.01"``, is a text for the algorithm too.
    """
    if not isinstance(value, str):
        return value
    from proximo.functional.schedules import KLAdaptiveRate, LinearSchedule

    if name == "learning_rate" and value.startswith("kl_"):
        KLAdaptiveRate.from_text(name, value)
        return value

    match = _LINEAR.match(value)
    try:
        start = float(match["start"] if match else value)
    except ValueError:
        start = math.nan
    if not math.isfinite(start):
        raise ValueError(
            f"{name} is {value!r}; expected a number such as 3e-4, or lin_3e-4 to fall linearly to 0"
            + (", or kl_0.01 to follow the KL divergence" if name == "learning_rate" else "")
        )
    return LinearSchedule(start, 0.0, 1.0) if match else start


@cache
def _rows(algo: str) -> dict[str, dict[str, Any]]:
    if algo not in ALGORITHMS:
        raise ValueError(f"there are no presets for the algorithm {algo!r}; {near_matches(algo, ALGORITHMS)}")
    return _separate(tomllib.loads((resources.files(__package__) / f"{algo}.toml").read_text(encoding="utf-8")))


def _family(env_id: str) -> str:
    from proximo.envs.adapters.env_pool import is_env_pool_atari
    from proximo.envs.adapters.procgen import is_procgen_id
    from proximo.envs.make import ATARI_IDS

    if is_env_pool_atari(env_id):
        return "atari"
    name = env_id.rpartition(":")[2]
    if is_procgen_id(name):
        return "procgen"
    if name.startswith("MinAtar/"):
        return "minatar"
    return "atari" if ATARI_IDS.search(name) and "-ram" not in name else ""


def _separate(tables: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """A table whose name lists several environments as one for each."""
    return {name.strip(): row for names, row in tables.items() for name in names.split(",")}


def _resolved(rows: Mapping[str, Mapping[str, Any]], name: str, algo: str) -> dict[str, Any]:
    """A table over those that it is like; ``like`` names a table, or an algorithm that has one of the same name."""
    chain: list[dict[str, Any]] = []
    seen: set[str] = set()
    while True:
        row = dict(rows[name])
        like = row.pop("like", None)
        chain.append(row)
        if like is None:
            return dict(item for row in reversed(chain) for item in row.items())
        if not isinstance(like, str):
            raise ValueError(f"like of the preset {name!r} is {brief(like)}; expected the name of another")
        seen.add(name)
        if like in rows and like not in seen:
            name = like
        elif like in ALGORITHMS and like != algo and name in _rows(like):
            rows, algo, seen = _rows(like), like, set()
        else:
            raise ValueError(
                f"the preset {name!r} is like {like!r}, of which there is no other table; {near_matches(like, rows)}"
            )


def _checked(preset: str, key: str, value: Any) -> Any:
    """A setting of a data file as a preset holds it."""
    if key in ("n_envs", "n_timesteps", "frame_stack"):
        most = MOST_FRAMES if key == "frame_stack" else LARGEST_COUNT
        if isinstance(value, bool) or not isinstance(value, int | float) or not 1 <= value <= most or value % 1:
            raise ValueError(
                f"{key} of the preset {preset!r} is {brief(value)}; expected a whole number of at least 1"
                + (f" and at most {most:,}" if isinstance(value, int | float) and value > most else "")
            )
        return int(value)
    if key == "env_wrapper":
        return check_wrappers(preset, value)
    if key == "normalize" and isinstance(value, dict):
        from proximo.files.normalizer_file import checked_settings

        try:
            return checked_settings(value)
        except ModelFileError as error:
            raise ValueError(f"normalize of the preset {preset!r}: {error}") from error
    kinds: dict[str, tuple[type, ...]] = {
        "policy": (str,),
        "normalize": (bool, dict),
        "atari_native": (bool,),
        "env_kwargs": (dict,),
    }
    if not isinstance(value, kinds[key]):
        expected = " or ".join({str: "a name", bool: "true or false", dict: "a table"}[kind] for kind in kinds[key])
        raise ValueError(f"{key} of the preset {preset!r} is {value!r}; expected {expected}")
    return value


def _policy_arguments(policy_kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """``policy_kwargs`` with the classes of activation, optimiser and encoder in place of their names."""
    from proximo.files.encoding import ACTIVATIONS, OPTIMIZERS
    from proximo.networks.encoders import ImpalaCNN, MinAtarCNN, NatureCNN
    from proximo.networks.optimizers import RMSpropTFLike

    if not isinstance(policy_kwargs, Mapping):
        raise ValueError(f"policy_kwargs is a {type(policy_kwargs).__name__}; expected a table")
    arguments = dict(policy_kwargs)
    for key, known in (
        ("activation_fn", ACTIVATIONS),
        ("optimizer_class", {**OPTIMIZERS, "RMSpropTFLike": RMSpropTFLike}),
        ("features_extractor_class", {"ImpalaCNN": ImpalaCNN, "MinAtarCNN": MinAtarCNN, "NatureCNN": NatureCNN}),
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
