"""Search spaces: which hyperparameters are searched and where, as data; what is drawn from them can be trained."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

import proximo
from proximo import ALGORITHMS
from proximo.config import OnPolicyConfig, scheduled_names
from proximo.errors import ModelFileError, ProximoError, near_matches
from proximo.files.plain_text import TOML_BYTES, brief, parse_toml
from proximo.zoo.presets import Preset, schedule_from_text

if TYPE_CHECKING:
    from optuna.trial import BaseTrial

DIVISORS = {
    "batch_size": ("n_steps", "n_envs"),
    "num_aux_mini_batch": ("rollouts_per_phase", "n_steps", "n_envs"),
    "num_aux_grad_accum": ("num_aux_mini_batch",),
}
"""What must divide the product of what."""
MOST_VALUES = 100_000  # that are looked at to find out whether all of a space can be trained
_FIRST = ("n_envs", "n_steps", "rollouts_per_phase", "batch_size", "num_aux_mini_batch", "num_aux_grad_accum")
_POLICY = "policy_kwargs"
_KINDS: tuple[tuple[str, type, str], ...] = (
    ("powers_of", int, "a whole number such as 2"),
    ("log", bool, "true or false"),
    ("from_one", bool, "true or false"),
    ("schedule", list, "a list of 'constant' and 'linear'"),
)


class SpaceError(ProximoError, ValueError):
    """A search space that cannot be read, or from which something could be drawn that cannot be trained."""


@dataclass(frozen=True, kw_only=True)
class Range:
    """Where one hyperparameter is searched; ``is_whole`` for whole numbers."""

    name: str
    low: float | None = None
    high: float | None = None
    log: bool = False
    from_one: bool = False
    powers_of: int | None = None
    choices: tuple[Any, ...] = ()
    schedule: tuple[str, ...] = ()
    is_whole: bool = False

    @property
    def parameter(self) -> str:
        """What Optuna calls it: the name, and how it is counted if that is not the value itself."""
        if self.powers_of is not None:
            return f"log{self.powers_of}({self.name})"
        return f"1 - {self.name}" if self.from_one else self.name

    def suggest(self, trial: BaseTrial, most: float = math.inf, divides: int = 0) -> Any:
        """A value of at most ``most``, which for powers divides a number."""
        if self.choices:
            labels = [_label(choice) for choice in self.choices]
            return self.choices[labels.index(trial.suggest_categorical(self.parameter, labels))]
        if self.powers_of is not None:
            exponent: int = trial.suggest_int(self.parameter, *self._exponents(most, divides))
            return self.powers_of**exponent
        low, high = self._bounds()
        if self.is_whole:
            return trial.suggest_int(self.parameter, int(low), int(min(high, most)), log=self.log)
        value = trial.suggest_float(self.parameter, low, high, log=self.log)
        return 1.0 - value if self.from_one else value

    def nearest(self, value: Any, most: float = math.inf, divides: int = 0) -> Any:
        """What Optuna is told of a value that was not drawn; None where the space has nothing like it.

        ``most`` and ``divides`` are those of :meth:`suggest`.
        """
        if self.choices:
            return _label(value) if value in self.choices else None
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        if self.powers_of is not None:
            lowest, highest = self._exponents(most, divides)
            return min(max(round(math.log(max(value, 1), self.powers_of)), lowest), highest)
        low, high = self._bounds()
        value = min(max(1.0 - value if self.from_one else value, low), high)
        return int(min(value, most)) if self.is_whole else value

    def values(self, most: float = math.inf) -> list[int]:
        """All whole numbers that can be drawn."""
        if self.choices:
            return [value for value in self.choices if isinstance(value, int)]
        if self.powers_of is not None:
            lowest, highest = self._exponents(most)
            return [self.powers_of**exponent for exponent in range(lowest, highest + 1)]
        low, high = self._bounds()
        if high - low > MOST_VALUES:
            raise SpaceError(f"{self.name} has {high - low:.0f} values, too many; write it with powers_of = 2")
        return list(range(int(low), int(min(high, most)) + 1))

    def ends(self) -> tuple[Any, ...]:
        return self.choices or (self.low, self.high)

    def _bounds(self) -> tuple[float, float]:
        low, high = float(self.low or 0.0), float(self.high or 0.0)
        return (1.0 - high, 1.0 - low) if self.from_one else (low, high)

    def _exponents(self, most: float = math.inf, divides: int = 0) -> tuple[int, int]:
        base = self.powers_of or 2
        low = math.ceil(round(math.log(float(self.low or 1), base), 9))
        high = math.floor(round(math.log(float(self.high or 1), base), 9))
        if most < base**high:
            high = math.floor(round(math.log(max(most, 1), base), 9))
        if divides:
            high = min(high, exponent_of(base, divides))
        return low, high


def exponent_of(base: int, number: int) -> int:
    """The highest power of ``base`` that divides a number.

    >>> exponent_of(2, 96), exponent_of(2, 5)
    (5, 0)
    """
    exponent = 0
    while number % base == 0:
        number, exponent = number // base, exponent + 1
    return exponent


@dataclass(frozen=True)
class Space:
    """The ranges that are searched around a start, a preset that has every hyperparameter written out.

    Whatever :meth:`suggest` draws can be trained: minibatches divide their rollout, and a rollout has at most
    ``most_samples``. What cannot hold for all of the space is an error when it is made.

    >>> from proximo.zoo import load_preset
    >>> space = Space.read("ppo", load_preset("ppo", "Pendulum-v1"))
    >>> sorted(space.ranges)[:3]
    ['batch_size', 'clip_range', 'ent_coef']
    """

    algo: str  # as on the command line, such as ppo
    start: Preset  # what everything that is not searched is taken from
    ranges: dict[str, Range]  # where each hyperparameter is searched, by its name
    most_samples: float = math.inf  # steps that a rollout has at most

    @classmethod
    def read(cls, algo: str, start: Preset, path: Path | None = None, most_samples: float = math.inf) -> Space:
        """The space in a user's file, or the library's own for an algorithm."""
        if path is None:
            if algo not in ALGORITHMS:
                raise SpaceError(f"there is no search space of {algo!r}; {near_matches(algo, ALGORITHMS)}")
            data = (resources.files(__package__) / "spaces" / f"{algo}.toml").read_bytes()
        else:
            with path.open("rb") as stream:
                data = stream.read(TOML_BYTES + 1)
        try:
            table = parse_toml(data, str(path or f"{algo}.toml"))
        except ModelFileError as error:
            raise SpaceError(str(error)) from error
        return cls.from_table(algo, start, table, most_samples)

    @classmethod
    def from_table(cls, algo: str, start: Preset, table: Mapping[str, Any], most_samples: float = math.inf) -> Space:
        """The space in tables by hyperparameter, as a file has them."""
        config_class = _config_class(algo)
        rows = {name: row for name, row in table.items() if name != _POLICY}
        nested = table.get(_POLICY, {})
        if not isinstance(nested, Mapping):
            raise SpaceError(f"{_POLICY} is {nested!r}; expected a table for each argument, [{_POLICY}.net_arch]")
        rows |= {f"{_POLICY}.{name}": row for name, row in nested.items()}
        if not rows:
            raise SpaceError("the search space is empty; expected a table per hyperparameter, such as [learning_rate]")
        ranges = {name: _range(name, row, config_class) for name, row in rows.items()}
        space = cls(algo, start, ranges, most_samples)
        space._check()
        return space

    def as_table(self) -> dict[str, Any]:
        """What :meth:`from_table` reads."""
        table: dict[str, Any] = {}
        for name, item in self.ranges.items():
            row = {key.name: getattr(item, key.name) for key in fields(Range) if key.name not in ("name", "is_whole")}
            given = {key: list(value) if isinstance(value, tuple) else value for key, value in row.items() if value}
            given |= {key: row[key] for key in ("low", "high") if row[key] is not None}
            outer, _, inner = name.partition(".")
            (table.setdefault(outer, {}) if inner else table)[inner or outer] = given
        return table

    def suggest(self, trial: BaseTrial) -> Preset:
        """The start with other values, drawn by Optuna's ``trial``."""
        drawn: dict[str, Any] = {}
        for name, item in self._in_order():
            value = item.suggest(trial, self._most(name, drawn), self._product(name, drawn))
            drawn[name] = self._in_its_form(item, value, trial)
        arguments = {name: value for name, value in drawn.items() if name != "n_envs" and "." not in name}
        policy = {name.partition(".")[2]: value for name, value in drawn.items() if "." in name}
        if policy:
            arguments[_POLICY] = {**(self.start.arguments.get(_POLICY) or {}), **policy}
        settings = {"n_envs": drawn["n_envs"]} if "n_envs" in drawn else {}
        return self.start.changed(arguments, **settings)

    def start_parameters(self) -> dict[str, Any]:
        """The start as Optuna counts it; what the space has no value for is left out."""
        found: dict[str, Any] = {}
        near: dict[str, Any] = {}
        for name, item in self._in_order():
            value = self._start_value(name)
            form = "constant"
            if isinstance(value, str) and item.name in scheduled_names() and not item.choices:
                if value.startswith("kl_"):  # it follows the divergence: no range has anything like it
                    continue
                form = "linear" if value.startswith("lin_") else "constant"
                value = float(value.removeprefix("lin_"))
            if item.schedule:
                found[_schedule_parameter(item)] = form
            nearest = item.nearest(value, self._most(name, near), self._product(name, near))
            if nearest is not None:
                found[item.parameter] = nearest
                near[name] = value if item.choices else nearest
            if nearest is not None and item.powers_of is not None:
                near[name] = item.powers_of**nearest
        return found

    # -------------------------------------------------------------------------------------------------------- inside

    def _in_order(self) -> list[tuple[str, Range]]:
        """What limits others goes before them."""
        return sorted(self.ranges.items(), key=lambda item: _FIRST.index(item[0]) if item[0] in _FIRST else len(_FIRST))

    def _start_value(self, name: str) -> Any:
        if name == "n_envs":
            return self.start.n_envs
        outer, _, inner = name.partition(".")
        if inner:
            return (self.start.arguments.get(outer) or {}).get(inner)
        default = getattr(_config_class(self.algo)(), name)
        return self.start.arguments.get(name, default)

    def _value(self, name: str, drawn: Mapping[str, Any]) -> Any:
        return drawn[name] if name in drawn else self._start_value(name)

    def _most(self, name: str, drawn: Mapping[str, Any]) -> float:
        """A rollout is not longer than what a trial trains before it is evaluated."""
        return self.most_samples / self._value("n_envs", drawn) if name == "n_steps" else math.inf

    def _product(self, name: str, drawn: Mapping[str, Any]) -> int:
        return math.prod(int(self._value(factor, drawn)) for factor in DIVISORS[name]) if name in DIVISORS else 0

    def _in_its_form(self, item: Range, value: Any, trial: BaseTrial) -> Any:
        """A number, or a schedule that starts with it."""
        if item.name not in scheduled_names() or item.choices:
            return value
        start = self._start_value(item.name)
        form = "linear" if isinstance(start, str) and start.startswith("lin_") else "constant"
        if item.schedule:
            form = trial.suggest_categorical(_schedule_parameter(item), list(item.schedule))
        return f"lin_{value!r}" if form == "linear" else value

    def _check(self) -> None:
        """Refuse a space from which something could be drawn that cannot be trained."""
        known = _config_class(self.algo).names()
        if "n_steps" in self.ranges:
            environments, steps = max(self._possible("n_envs")), self.ranges["n_steps"].values()
            most = self.most_samples / environments
            if min(steps) > most or (self.ranges["n_steps"].choices and max(steps) > most):
                raise SpaceError(
                    f"n_steps is searched from {min(steps)}, with {environments} environments a rollout of "
                    f"{min(steps) * environments}, but a trial is evaluated after {self.most_samples:,.0f} steps; "
                    "search fewer n_steps, train for more --steps, or in fewer --rungs"
                )
        for name, factors in DIVISORS.items():
            if name in known and {name, *factors} & self.ranges.keys():
                self._check_divisor(name, factors)

    def _check_divisor(self, name: str, factors: Sequence[str]) -> None:
        item = self.ranges.get(name)
        if item is not None and item.powers_of is None:
            raise SpaceError(
                f"{name} must divide {' * '.join(factors)}: it is searched among powers, with low, high and "
                "powers_of = 2, of which only those are drawn that do"
            )
        for product in self._products(factors):
            least = item.powers_of ** item._exponents()[0] if item and item.powers_of else self._start_value(name)
            if least < 1 or product % least:
                shown = f"low = {least} of {name}" if item else f"{name} {least}, which is not searched,"
                raise SpaceError(
                    f"{shown} does not divide {' * '.join(factors)} = {product}, which this space allows; "
                    f"{'lower it' if item else 'search it too, with powers_of = 2,'} or raise the low of {factors[0]}"
                )

    def _products(self, factors: Sequence[str]) -> list[int]:
        products = {1}
        for factor in factors:
            values = self._possible(factor)
            if len(products) * len(values) > MOST_VALUES:
                raise SpaceError(
                    f"{' * '.join(factors)} has {len(products) * len(values)} values or more, too many; write those "
                    "that are searched with powers_of = 2"
                )
            products = {before * value for before in products for value in values}
        return sorted(products)

    def _possible(self, name: str) -> list[int]:
        return self.ranges[name].values() if name in self.ranges else [int(self._start_value(name))]


def _config_class(algo: str) -> type[OnPolicyConfig]:
    return getattr(proximo, ALGORITHMS[algo]).config_class


def _label(choice: Any) -> Any:
    """A choice in Optuna's words, which knows no lists and tables."""
    return choice if isinstance(choice, bool | int | float | str) else json.dumps(choice)


def _schedule_parameter(item: Range) -> str:
    return f"{item.name} schedule"


def _range(name: str, row: Any, config_class: type[OnPolicyConfig]) -> Range:
    known = {*config_class.names(), "n_envs"}
    if name not in known and not name.startswith(f"{_POLICY}."):
        raise SpaceError(f"the search space has {name!r}, which is no hyperparameter; {near_matches(name, known)}")
    if not isinstance(row, Mapping):
        raise SpaceError(f"{name} of the search space is {row!r}; expected a table such as low = 0.1, high = 0.4")
    keys = {item.name for item in fields(Range)} - {"name", "is_whole"}
    for key in row:
        if key not in keys:
            raise SpaceError(f"{name} of the search space has the key {key!r}; {near_matches(key, keys)}")
    for key, kind, expected in _KINDS:
        if type(row.get(key, kind())) is not kind:
            raise SpaceError(f"{name}: {key} is {brief(row[key])}; expected {expected}")
    whole = name == "n_envs" or get_type_hints(config_class).get(name) is int
    lists = {key: tuple(row[key]) for key in ("choices", "schedule") if isinstance(row.get(key), list)}
    item = Range(name=name, is_whole=whole, **{**row, **lists})
    _check_range(item, row)
    if name == "n_envs":
        for end in item.ends():
            if type(end) is not int or end < 1:
                raise SpaceError(f"the search space allows n_envs to be {end!r}; expected a whole number of at least 1")
    if name in config_class.names():
        for end in item.ends():
            value = schedule_from_text(name, end)
            try:
                config_class(**{name: value})
            except (ProximoError, TypeError) as error:
                raise SpaceError(f"the search space allows {name} to be {end!r}: {error}") from error
    return item


def _check_range(item: Range, row: Mapping[str, Any]) -> None:
    if "choices" in row:
        if set(row) != {"choices"} or not isinstance(row["choices"], list) or not row["choices"]:
            raise SpaceError(f"{item.name}: choices is a list of values, alone in its table")
        return
    bounds = (item.low, item.high)
    if not all(isinstance(bound, int | float) and not isinstance(bound, bool) for bound in bounds):
        raise SpaceError(f"{item.name} of the search space needs low and high, or choices; it has {', '.join(row)}")
    low, high = item._bounds()
    if not low < high or not math.isfinite(high - low):
        raise SpaceError(f"{item.name} is searched from {item.low} to {item.high}; expected low below high")
    if item.is_whole and (low != int(low) or high != int(high)):
        raise SpaceError(f"{item.name} is a whole number, searched from {item.low} to {item.high}")
    if item.log and not low > 0:
        raise SpaceError(f"{item.name} is searched over its logarithm from {low}; expected a low above 0")
    if item.from_one and not (item.log and high < 1):
        raise SpaceError(f"{item.name}: from_one is for a range between 0 and 1, with log = true")
    if item.powers_of is not None and (item.powers_of < 2 or not item.is_whole or low < 1):
        raise SpaceError(f"{item.name}: powers_of is for whole numbers from 1 on, such as powers_of = 2")
    if item.powers_of is not None and item._exponents()[0] > item._exponents()[1]:
        raise SpaceError(f"{item.name}: there is no power of {item.powers_of} from {item.low} to {item.high}")
    if item.schedule and (
        item.name not in scheduled_names() or any(form not in ("constant", "linear") for form in item.schedule)
    ):
        raise SpaceError(f"{item.name}: schedule is a list of 'constant' and 'linear', for what may be a schedule")
