"""Hyperparameters: each is one field with its default, its meaning and its check.

Everything else follows from the field: the constructor's documentation, the flag of the command line, the key of a
preset or a run's ``config.toml``, the value of a schedule at a progress, and the record that compiled kernels read.
"""

from __future__ import annotations

import inspect
import math
import textwrap
import warnings
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from numbers import Real
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np
import torch

from proximo.data import Schedule
from proximo.errors import ArgumentTypeError, ArgumentValueError, near_matches
from proximo.functional.schedules import FloatSchedule, KLAdaptiveRate

Objective = Literal["clipped", "plain"]

RENAMED = {"policy_epochs": "rollouts_per_phase"}
"""Hyperparameters that files of 0.1.0 call otherwise."""


class Check(NamedTuple):
    """What a value must fulfil, and the same in words.

    Arguments:
        fits: Whether a value may be used.
        expected: The same in words, for the error.
    """

    fits: Callable[[Any], bool]
    expected: str


def numeric(fits: Callable[[Any], bool], expected: str) -> Check:
    """Asked before the value is compared, whether it is a number at all: one from a file may be a text."""
    return Check(lambda value: isinstance(value, Real) and fits(value), expected)


COUNT = Check(
    lambda value: isinstance(value, int) and not isinstance(value, bool) and value > 0, "a positive whole number"
)
FRACTION = numeric(lambda value: 0.0 <= value <= 1.0, "a number from 0 to 1")
FINITE = numeric(math.isfinite, "a finite number")
POSITIVE = numeric(lambda value: value > 0.0, "a positive number")
POSITIVE_FINITE = numeric(lambda value: 0.0 < value < math.inf, "a positive number")
NOT_NEGATIVE = numeric(lambda value: 0.0 <= value < math.inf, "a number of at least 0")
BETWEEN_0_AND_1 = numeric(lambda value: 0.0 < value < 1.0, "a number between 0 and 1")
TRUTH = Check(lambda value: isinstance(value, bool), "True or False")
ANYTHING = Check(lambda value: True, "anything")
# a number or a function of the progress that remains, 1 to 0; what it gives must be finite and not negative
SCHEDULE = Check(lambda value: True, "a number or a function of the remaining progress (1 to 0)")
# the same, or a text: kl_0.01
LEARNING_RATE = Check(
    lambda value: True,
    "a number, a function of the remaining progress (1 to 0), or 'kl_0.01' to hold the divergence of updates near 0.01",
)
POSITIVE_SCHEDULE = Check(lambda value: value > 0, "a positive number to begin with")


def plain_number(value: Any) -> Any:
    """A number of NumPy or PyTorch as Python's own; anything else as it is.

    >>> plain_number(np.float32(0.5)), plain_number(torch.tensor(2)), plain_number(None)
    (0.5, 2, None)
    """
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray | torch.Tensor) and value.ndim == 0):
        return value.item()
    return value


def hyperparameter(meaning: str, default: Any = MISSING, check: Check = ANYTHING) -> Any:
    """A field of a configuration."""
    return field(default=default, metadata={"meaning": meaning, "check": check})


def other_default(base: type[Any], name: str, default: Any) -> Any:
    """A field of ``base`` again, with the same meaning and check and another default."""
    return field(default=default, metadata=base.__dataclass_fields__[name].metadata)


def one_of(*choices: str) -> Check:
    """A check that a value is one of these words."""
    return Check(lambda value: value in choices, " or ".join(map(repr, choices)))


def describe_fields(configuration: type[Any]) -> str:
    """A line for each hyperparameter of a dataclass: its name, its default and its meaning."""
    lines = (f"{item.name} (default {item.default!r}): {item.metadata['meaning']}" for item in fields(configuration))
    return "\n".join(textwrap.fill(line, 112, subsequent_indent="    ", break_on_hyphens=False) for line in lines)


def describe_constructor(owner: type[Any], meanings: Mapping[str, str]) -> str:
    """A section "Arguments" for the docstring of a class: a line for each, with its default and its meaning."""
    lines = []
    for name, parameter in inspect.signature(owner).parameters.items():
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            default = "" if parameter.default is parameter.empty else f" (default {_shown(parameter.default)})"
            line = f"{name}{default}: {meanings.get(name, '')}".strip()
            lines.append(textwrap.fill(line, 112, subsequent_indent="    ", break_on_hyphens=False))
    return "\n    Arguments:\n" + textwrap.indent("\n".join(lines), " " * 8) + "\n    "


def _shown(value: Any) -> str:
    return value.__name__ if hasattr(value, "__name__") else repr(value)


def check_fields(configuration: Any) -> None:
    """Raise for the first hyperparameter of a dataclass that does not fit its check."""
    for item in fields(configuration):
        value = getattr(configuration, item.name)
        if value is not None or item.default is not None:  # None where it is the default means: not used
            _check_value(item.name, value, item.metadata["check"])


def _require(condition: bool, name: str, value: Any, expected: str) -> None:
    if not condition:
        raise ArgumentValueError(f"{name} is {value!r}; expected {expected}")


def _check_value(name: str, value: Any, check: Check) -> None:
    if check not in (SCHEDULE, POSITIVE_SCHEDULE, LEARNING_RATE):
        _require(check.fits(value), name, value, check.expected)
        return
    if check is LEARNING_RATE and isinstance(value, str):
        KLAdaptiveRate.from_text(name, value)
        return
    if not callable(value) and not isinstance(value, int | float):
        expected = LEARNING_RATE if check is LEARNING_RATE else SCHEDULE
        follows = isinstance(value, str) and value.startswith("kl_")
        advice = "; a rate that follows the divergence is for PPO, RecurrentPPO, MaskablePPO, PPG and DAAC"
        raise ArgumentTypeError(f"{name} is {value!r}; expected {expected.expected}{advice if follows else ''}")
    try:
        first, _ = FloatSchedule(value)(1.0), FloatSchedule(value)(0.0)
    except ValueError as error:
        raise ArgumentValueError(f"{name}: {error}") from error
    _require(check.fits(first), name, value, check.expected)


@dataclass(frozen=True, kw_only=True)
class OnPolicyConfig:
    """Hyperparameters that every on-policy algorithm shares."""

    learning_rate: float | Schedule | str = hyperparameter(
        "Step size of the optimiser, or a function of the remaining progress (1 to 0).", check=SCHEDULE
    )
    n_steps: int = hyperparameter(
        "Steps per environment and rollout; a rollout holds n_steps times the number of environments.", check=COUNT
    )
    gamma: float = hyperparameter("Discount factor.", 0.99, FRACTION)
    gae_lambda: float = hyperparameter(
        "Bias against variance of the advantage estimate; 1 is the Monte-Carlo return.", 0.95, FRACTION
    )
    normalize_advantage: bool = hyperparameter(
        "Whether advantages get zero mean and unit deviation in each minibatch.", True
    )
    normalize_returns: bool = hyperparameter(
        "Whether the value learns returns in units of their running deviation from their running mean (PopArt), for "
        "rewards of any scale.",
        False,
        TRUTH,
    )

    def __post_init__(self) -> None:
        check_fields(self)

    def check_environments(self, environments: int) -> None:
        """What can only be checked once the number of environments is known."""
        if self.normalize_advantage:
            samples = self.n_steps * environments
            _require(
                samples > 1,
                "n_steps * n_envs",
                samples,
                "more than one sample, because advantages are normalised by their standard deviation",
            )

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The names of all hyperparameters."""
        return tuple(cls.__dataclass_fields__)

    @classmethod
    def meanings(cls) -> dict[str, str]:
        """What each hyperparameter does, in a sentence."""
        return {item.name: item.metadata["meaning"] for item in fields(cls)}

    def as_dict(self) -> dict[str, Any]:
        """The hyperparameters by name."""
        return {name: getattr(self, name) for name in self.names()}

    def changed(self, **values: Any) -> Self:
        """The same with other values, which are not checked again: schedules may be at their end."""
        for name in values:
            if name not in self.__dict__:
                raise ArgumentTypeError(f"there is no hyperparameter {name!r}; {near_matches(name, self.__dict__)}")
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.__dict__.update(values)
        return other

    def at(self, progress_remaining: float) -> Self:
        """The same with each schedule replaced by its value at a progress, 1 at the start and 0 at the end."""
        schedules = {name: value for name, value in self.__dict__.items() if callable(value)}
        return self.changed(**{name: FloatSchedule(value)(progress_remaining) for name, value in schedules.items()})


@dataclass(frozen=True, kw_only=True)
class ActorCriticConfig(OnPolicyConfig):
    """Hyperparameters of the algorithms that descend one loss of policy, value and entropy."""

    ent_coef: float = hyperparameter("Weight of the entropy bonus.", 0.0, FINITE)
    vf_coef: float = hyperparameter("Weight of the value loss.", 0.5, FINITE)
    max_grad_norm: float = hyperparameter("The gradient is scaled down to this norm.", 0.5, POSITIVE)
    aug_coef: float = hyperparameter(
        "With an augmentation: weight of the terms that pull policy and value of augmented observations to those of "
        "the plain ones (DrAC).",
        0.1,
        NOT_NEGATIVE,
    )


@dataclass(frozen=True, kw_only=True)
class A2CConfig(ActorCriticConfig):
    """Hyperparameters of A2C, with Stable-Baselines3's names and defaults."""

    learning_rate: float | Schedule = other_default(ActorCriticConfig, "learning_rate", 7e-4)
    n_steps: int = hyperparameter("Steps per environment and update.", 5, COUNT)
    gae_lambda: float = other_default(ActorCriticConfig, "gae_lambda", 1.0)
    rms_prop_eps: float = hyperparameter("RMSprop's ε, against division by zero.", 1e-5, POSITIVE)
    use_rms_prop: bool = hyperparameter("RMSprop as in the original A3C; False takes Adam.", True)
    normalize_advantage: bool = hyperparameter(
        "Whether advantages get zero mean and unit deviation in each update.", False
    )


@dataclass(frozen=True, kw_only=True)
class PPOConfig(ActorCriticConfig):
    """Hyperparameters of PPO, with Stable-Baselines3's names and defaults."""

    learning_rate: float | Schedule | str = hyperparameter(
        "Step size of Adam, a function of the remaining progress (1 to 0), or kl_0.01 to begin with the default and "
        "change it after each update so that the approximate KL divergence stays near 0.01 (kl_0.01_1e-3 begins with "
        "1e-3).",
        3e-4,
        LEARNING_RATE,
    )
    n_steps: int = other_default(ActorCriticConfig, "n_steps", 2048)
    batch_size: int = hyperparameter("Samples per minibatch.", 64, COUNT)
    n_epochs: int = hyperparameter("Passes over each rollout.", 10, COUNT)
    # 0 too: scripts that only play a model load it so
    clip_range: float | Schedule = hyperparameter("How far the probability ratio may leave 1.", 0.2, SCHEDULE)
    clip_range_vf: float | Schedule | None = hyperparameter(
        "How far a value may move from the one predicted while collecting; None does not clip.",
        None,
        POSITIVE_SCHEDULE,
    )
    target_kl: float | None = hyperparameter(
        "Ends an update when the approximate KL divergence exceeds 1.5 times this.",
        None,
        Check(POSITIVE_FINITE.fits, "a positive number or None"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        _require(
            self.batch_size > 1 or not self.normalize_advantage,
            "batch_size",
            self.batch_size,
            "at least 2, because advantages are normalised by their standard deviation in each minibatch "
            "(or pass normalize_advantage=False)",
        )

    def check_environments(self, environments: int) -> None:
        super().check_environments(environments)
        self._check_divergence(environments)
        _warn_of_short_minibatch(self.n_steps, environments, self.batch_size)

    def _check_divergence(self, environments: int) -> None:
        one_step = self.n_epochs == 1 and self.batch_size >= self.n_steps * environments
        _require(
            not (isinstance(self.learning_rate, str) and one_step),
            "learning_rate",
            self.learning_rate,
            "a number or a schedule, because an update of one gradient step measures no divergence to follow (choose "
            "more n_epochs or a smaller batch_size)",
        )


@dataclass(frozen=True, kw_only=True)
class PPGConfig(PPOConfig):
    """Hyperparameters of PPG: those of PPO for the policy phase, and those of the auxiliary phase."""

    learning_rate: float | Schedule | str = hyperparameter(
        "Step size of Adam in the policy phase, a function of the remaining progress (1 to 0), or kl_0.01 to change it "
        "after each update so that the approximate KL divergence stays near 0.01.",
        5e-4,
        LEARNING_RATE,
    )
    n_steps: int = other_default(PPOConfig, "n_steps", 256)
    batch_size: int = hyperparameter("Samples per minibatch of the policy phase.", 256, COUNT)
    rollouts_per_phase: int = hyperparameter(
        "Rollouts, and updates of the policy phase, between two auxiliary phases (N_pi).", 32, COUNT
    )
    n_epochs: int = hyperparameter("Passes of the policy over each rollout (E_pi).", 1, COUNT)
    value_epochs: int = hyperparameter("Passes of the value over each rollout (E_V).", 1, COUNT)
    aux_epochs: int = hyperparameter("Passes of an auxiliary phase over all its rollouts (E_aux).", 6, COUNT)
    kl_coef: float = hyperparameter(
        "Weight that holds the policy where it was while the auxiliary phase trains its network (beta_clone).",
        1.0,
        NOT_NEGATIVE,
    )
    num_aux_mini_batch: int = hyperparameter("Minibatches that the auxiliary phase cuts its rollouts into.", 4, COUNT)
    num_aux_grad_accum: int = hyperparameter(
        "Minibatches whose gradients make one step of the auxiliary phase.", 1, COUNT
    )
    aux_learning_rate: float | Schedule | None = hyperparameter(
        "Step size of the auxiliary phase's own Adam; None is learning_rate.", None, SCHEDULE
    )
    gamma: float = other_default(PPOConfig, "gamma", 0.999)
    ent_coef: float = other_default(PPOConfig, "ent_coef", 0.01)
    normalize_advantage: bool = hyperparameter(
        "Whether advantages get zero mean and unit deviation over the whole rollout.", True
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        _require(
            self.num_aux_mini_batch % self.num_aux_grad_accum == 0,
            "num_aux_grad_accum",
            self.num_aux_grad_accum,
            f"a divisor of num_aux_mini_batch {self.num_aux_mini_batch}, so that every minibatch is part of a step",
        )

    def check_environments(self, environments: int) -> None:
        OnPolicyConfig.check_environments(self, environments)
        self._check_divergence(environments)
        _warn_of_short_minibatch(self.n_steps, environments, self.batch_size)  # from here, to blame the caller's line
        samples = self.rollouts_per_phase * self.n_steps * environments
        _require(
            samples % self.num_aux_mini_batch == 0,
            "num_aux_mini_batch",
            self.num_aux_mini_batch,
            f"a divisor of the {samples} samples of an auxiliary phase (rollouts_per_phase {self.rollouts_per_phase} * "
            f"n_steps {self.n_steps} * {environments} environments)",
        )


@dataclass(frozen=True, kw_only=True)
class DAACConfig(PPOConfig):
    """Hyperparameters of DAAC: those of PPO for the policy, and those of the value that stands apart."""

    learning_rate: float | Schedule | str = other_default(PPOConfig, "learning_rate", 5e-4)
    n_steps: int = other_default(PPOConfig, "n_steps", 256)
    batch_size: int = other_default(PPOConfig, "batch_size", 256)
    n_epochs: int = hyperparameter("Passes of the policy over each rollout (E_pi).", 1, COUNT)
    value_epochs: int = hyperparameter("Passes of the value over each rollout that it trains on (E_V).", 9, COUNT)
    value_frequency: int = hyperparameter("Rollouts between two trainings of the value (N_pi).", 1, COUNT)
    adv_coef: float = hyperparameter(
        "Weight of the advantage's squared error in the policy's loss.", 0.25, NOT_NEGATIVE
    )
    gamma: float = other_default(PPOConfig, "gamma", 0.999)
    ent_coef: float = other_default(PPOConfig, "ent_coef", 0.01)
    normalize_advantage: bool = hyperparameter(
        "Whether advantages get zero mean and unit deviation over the whole rollout.", True
    )


@dataclass(frozen=True, kw_only=True)
class TRPOConfig(OnPolicyConfig):
    """Hyperparameters of TRPO, with sb3-contrib's names and defaults."""

    learning_rate: float | Schedule = hyperparameter(
        "Step size of the value network's optimiser, or a function of the remaining progress (1 to 0).", 1e-3, SCHEDULE
    )
    n_steps: int = other_default(OnPolicyConfig, "n_steps", 2048)
    batch_size: int = hyperparameter(
        "Samples per minibatch of the value network; the policy takes the whole rollout.", 128, COUNT
    )
    cg_max_steps: int = hyperparameter(
        "Iterations of the conjugate gradients that find the policy's direction.", 15, COUNT
    )
    cg_damping: float = hyperparameter(
        "Multiple of the identity added to Fisher's matrix, so that it can be inverted.", 0.1, NOT_NEGATIVE
    )
    line_search_shrinking_factor: float = hyperparameter(
        "What each further attempt of the line search multiplies the step with.", 0.8, BETWEEN_0_AND_1
    )
    line_search_max_iter: int = hyperparameter(
        "Attempts of the line search before the policy stays as it is.", 10, COUNT
    )
    n_critic_updates: int = hyperparameter("Passes of the value network over each rollout.", 10, COUNT)
    normalize_advantage: bool = hyperparameter(
        "Whether advantages get zero mean and unit deviation over the rollout.", True
    )
    target_kl: float = hyperparameter(
        "How far one update may move the policy, in mean KL divergence.", 0.01, POSITIVE_FINITE
    )
    sub_sampling_factor: int = hyperparameter("The policy's step reads every n-th sample, to be faster.", 1, COUNT)

    def check_environments(self, environments: int) -> None:
        super().check_environments(environments)
        _warn_of_short_minibatch(self.n_steps, environments, self.batch_size)


@dataclass(frozen=True, kw_only=True)
class UpdateSettings(PPOConfig):
    """What one update reads: PPO's hyperparameters, every schedule evaluated, and the form of the loss.

    A2C is PPO with the plain objective and one epoch over one batch (Huang et al. 2022, arXiv 2205.09123).

    >>> UpdateSettings(objective="squared")
    Traceback (most recent call last):
    ...
    proximo.errors.ArgumentValueError: objective is 'squared'; expected 'clipped' or 'plain'
    """

    learning_rate: float = hyperparameter("Step size of the optimiser.", 3e-4, SCHEDULE)
    clip_range: float = hyperparameter("How far the probability ratio may leave 1.", 0.2, SCHEDULE)
    clip_range_vf: float | None = hyperparameter("How far a value may move.", None, POSITIVE_SCHEDULE)
    objective: Objective = hyperparameter(
        "What the policy maximises: the clipped surrogate, or advantage times log-probability.",
        "clipped",
        one_of(*get_args(Objective)),
    )
    pessimistic_value: bool = hyperparameter(
        "With clip_range_vf: the larger of the clipped and the plain squared error counts.", False
    )
    skip_non_finite: bool = hyperparameter(
        "Skip a minibatch whose loss or gradient is not finite, instead of stopping.", False
    )

    @classmethod
    def of(cls, config: ActorCriticConfig, progress_remaining: float, **others: Any) -> Self:
        """The settings of an update at a progress; ``others`` are those that the configuration does not have."""
        settings = cls.__new__(cls)  # without the checks: the configuration has passed them
        settings.__dict__.update(_DEFAULTS)
        settings.__dict__.update(config.at(progress_remaining).__dict__)
        settings.__dict__.update(others)
        return settings


def scheduled_names() -> set[str]:
    """Hyperparameters, of any algorithm, that may be a schedule instead of a number."""
    configurations = (A2CConfig, DAACConfig, PPGConfig, TRPOConfig)  # PPO's are among PPG's
    items = [item for config in configurations for item in fields(config)]
    return {item.name for item in items if item.metadata["check"] in (SCHEDULE, POSITIVE_SCHEDULE, LEARNING_RATE)}


_DEFAULTS = {item.name: item.default for item in fields(UpdateSettings)}


def _warn_of_short_minibatch(n_steps: int, environments: int, batch_size: int) -> None:
    samples = n_steps * environments
    if remainder := samples % batch_size:
        warnings.warn(
            f"batch_size {batch_size} does not divide the rollout of n_steps * n_envs = {n_steps} * {environments} = "
            f"{samples} samples: after {samples // batch_size} full minibatches comes a truncated mini-batch of "
            f"{remainder}. A batch_size that is a factor of {samples} avoids it",
            UserWarning,
            stacklevel=5,
        )
