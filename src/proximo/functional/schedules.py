"""Hyperparameters that change while training: functions of the progress that remains, 1 at the start and 0 at the end.

The classes are values: they compare by content, print as the call that makes them, and hold plain numbers, so that a
model file can write them without pickle.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from proximo.data import Schedule
from proximo.errors import ArgumentTypeError, ArgumentValueError


@dataclass(frozen=True)
class ConstantSchedule:
    """The same value from start to end.

    >>> ConstantSchedule(0.2)(0.5)
    0.2

    Arguments:
        val: The value.
    """

    val: float

    def __call__(self, progress_remaining: float) -> float:
        return self.val


@dataclass(frozen=True)
class LinearSchedule:
    """A straight line from ``start`` to ``end``, reached after ``end_fraction`` of the training and kept from there.

    >>> schedule = LinearSchedule(start=1.0, end=0.0, end_fraction=0.5)
    >>> schedule(1.0), schedule(0.75), schedule(0.2)
    (1.0, 0.5, 0.0)

    Arguments:
        start: Value at the start.
        end: Value at the end.
        end_fraction: Share of the training after which the end is reached.
    """

    start: float
    end: float
    end_fraction: float

    def __call__(self, progress_remaining: float) -> float:
        progress = 1.0 - progress_remaining
        if progress >= self.end_fraction:
            return self.end
        return self.start + progress * (self.end - self.start) / self.end_fraction


@dataclass(frozen=True, init=False, repr=False)
class FloatSchedule:
    """A number or a function of progress, made a schedule of finite, non-negative Python floats.

    A function may return NumPy or torch scalars. What no learning rate and no clip range can be stops the training
    with the progress at which it came, rather than spoiling the weights:

    >>> FloatSchedule(lambda progress: progress - 0.5)(0.25)
    Traceback (most recent call last):
    ...
    ValueError: the schedule gives -0.25 at progress_remaining=0.25; expected a finite number of at least 0
    """

    value_schedule: Schedule

    def __init__(self, value_schedule: Schedule | float) -> None:
        """Arguments:
        value_schedule: A number, or a function of the remaining progress (1 to 0).
        """
        if isinstance(value_schedule, FloatSchedule):
            schedule = value_schedule.value_schedule
        elif callable(value_schedule):
            schedule = value_schedule
        else:
            schedule = ConstantSchedule(_number(value_schedule))
            check_schedule_value("the constant schedule", schedule.val)
        object.__setattr__(self, "value_schedule", schedule)

    def __call__(self, progress_remaining: float) -> float:
        value = float(self.value_schedule(progress_remaining))
        if not 0.0 <= value < math.inf:  # false for NaN too
            raise ValueError(
                f"the schedule gives {value} at progress_remaining={progress_remaining}; "
                "expected a finite number of at least 0"
            )
        return value

    def __repr__(self) -> str:
        return f"FloatSchedule({self.value_schedule})"


@dataclass
class KLAdaptiveRate:
    """A learning rate that follows the divergence of updates, with the rule and the bounds of rsl_rl.

    It grows by half after an update that moved the policy by less than half of ``target``, and shrinks by a third
    after one that moved it by more than twice of it. Unlike a schedule it does not know the progress; ``rate`` is its
    whole state.

    >>> rate = KLAdaptiveRate.from_text("learning_rate", "kl_0.01_1e-3")
    >>> rate.follow(0.03)
    >>> rate(1.0)
    0.0006666666666666666
    """

    target: float  # the divergence of an update to stay near
    rate: float | None = None  # None: where it begins is the algorithm's default

    lowest: ClassVar[float] = 1e-5
    highest: ClassVar[float] = 1e-2

    @classmethod
    def from_text(cls, name: str, text: str) -> KLAdaptiveRate:
        """``kl_TARGET`` or ``kl_TARGET_START``."""
        parts = text.split("_")
        try:
            numbers = [float(part) for part in parts[1:]]
        except ValueError:
            numbers = []
        fits = parts[0] == "kl" and len(numbers) in (1, 2) and all(0.0 < number < math.inf for number in numbers)
        if not fits:
            raise ArgumentTypeError(
                f"{name} is the text {text!r}; expected a number, a function of progress_remaining, or kl_0.01 (or "
                "kl_0.01_1e-3 to begin with 1e-3) to follow the KL divergence of updates"
            )
        rate = cls(*numbers)
        if rate.rate is not None and not cls.lowest <= rate.rate <= cls.highest:
            raise ArgumentValueError(
                f"{name} is {text!r}, which begins with {rate.rate}; expected {cls.lowest} to {cls.highest}"
            )
        return rate

    def __call__(self, progress_remaining: float) -> float:
        if self.rate is None:
            raise ValueError("this learning rate has no beginning yet; set its rate")
        return self.rate

    def follow(self, divergence: float) -> None:
        """Take in the approximate KL divergence of an update; what is no number changes nothing."""
        rate = self(1.0)
        if divergence > 2.0 * self.target:
            self.rate = max(rate / 1.5, self.lowest)
        elif 0.0 < divergence < 0.5 * self.target:
            self.rate = min(rate * 1.5, self.highest)


def known_schedule(schedule: object) -> object:
    """The schedule here that means the same as one of Stable-Baselines3's or RL Zoo's classes; else the given one."""
    kind = type(schedule)
    match f"{kind.__module__}.{kind.__qualname__}", schedule:
        case "stable_baselines3.common.utils.ConstantSchedule", object(val=value):
            return ConstantSchedule(_number(value))
        case "stable_baselines3.common.utils.LinearSchedule", object(start=start, end=end, end_fraction=fraction):
            return LinearSchedule(_number(start), _number(end), _number(fraction))
        case "stable_baselines3.common.utils.FloatSchedule", object(value_schedule=inner):
            return FloatSchedule(known_schedule(inner))  # type: ignore[arg-type]
        case "rl_zoo3.utils.SimpleLinearSchedule", object(initial_value=value):
            return LinearSchedule(_number(value), 0.0, 1.0)
    return schedule


def check_schedule_value(name: str, value: float, minimum: float = 0.0) -> None:
    """Refuse a hyperparameter that is not a finite number of at least ``minimum``.

    >>> check_schedule_value("learning_rate", float("nan"))
    Traceback (most recent call last):
    ...
    proximo.errors.ArgumentValueError: learning_rate is nan; expected a finite number of at least 0
    """
    if not minimum <= value < math.inf:
        raise ArgumentValueError(f"{name} is {value}; expected a finite number of at least {minimum:g}")


def _number(value: object) -> float:
    if isinstance(value, str | bytes):  # "3e-4" read from a file would pass float()
        raise ArgumentTypeError(f"a schedule is a number or a function of progress_remaining, not the text {value!r}")
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise ArgumentTypeError(f"a schedule is a number or a function of progress_remaining, not {value!r}") from error
