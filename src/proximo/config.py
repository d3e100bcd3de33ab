"""Hyperparameters as validated dataclasses: the constructor's defaults, the command line's flags and a run's TOML."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields
from numbers import Real
from typing import Any

from proximo.data import Schedule
from proximo.functional.schedules import FloatSchedule


def _require(condition: bool, name: str, value: Any, expected: str) -> None:
    if not condition:
        raise ValueError(f"{name} is {value!r}; expected {expected}")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _require_number(config: object, name: str, fits: Callable[[Any], bool], expected: str) -> None:
    """Asked before the value is compared, whether it is a number at all: one from a file may be a text."""
    value = getattr(config, name)
    _require(isinstance(value, Real) and fits(value), name, value, expected)


def _check_scheduled(name: str, value: float | Schedule, positive: bool = False) -> None:
    """A number, or a schedule at both of its ends, must be finite and not negative."""
    if not callable(value) and not isinstance(value, int | float):
        raise TypeError(f"{name} is {value!r}; expected a number or a function of the remaining progress (1 to 0)")
    try:
        first, _ = FloatSchedule(value)(1.0), FloatSchedule(value)(0.0)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    _require(first > 0 or not positive, name, value, "a positive number to begin with")


@dataclass(frozen=True, kw_only=True)
class OnPolicyConfig:
    """Hyperparameters that every on-policy algorithm shares."""

    learning_rate: float | Schedule
    """Step size of the optimiser, or a function of the remaining progress (1 to 0)."""
    n_steps: int
    """Steps per environment and rollout; a rollout holds n_steps times the number of environments."""
    gamma: float = 0.99
    """Discount factor."""
    gae_lambda: float = 0.95
    """Bias against variance of the advantage estimate; 1 is the Monte-Carlo return."""
    normalize_advantage: bool = True
    """Whether advantages get zero mean and unit deviation in each minibatch."""

    def __post_init__(self) -> None:
        _check_scheduled("learning_rate", self.learning_rate)
        _require(_is_count(self.n_steps), "n_steps", self.n_steps, "a positive whole number")
        for name in ("gamma", "gae_lambda"):
            _require_number(self, name, lambda factor: 0.0 <= factor <= 1.0, "a number from 0 to 1")

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
        return tuple(field.name for field in fields(cls))

    def as_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.names()}


@dataclass(frozen=True, kw_only=True)
class ActorCriticConfig(OnPolicyConfig):
    """Hyperparameters of the algorithms that descend one loss of policy, value and entropy."""

    ent_coef: float = 0.0
    """Weight of the entropy bonus."""
    vf_coef: float = 0.5
    """Weight of the value loss."""
    max_grad_norm: float = 0.5
    """The gradient is scaled down to this norm."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("ent_coef", "vf_coef"):
            _require_number(self, name, math.isfinite, "a finite number")
        _require_number(self, "max_grad_norm", lambda norm: norm > 0.0, "a positive number")


@dataclass(frozen=True, kw_only=True)
class A2CConfig(ActorCriticConfig):
    """Hyperparameters of A2C, with Stable-Baselines3's names and defaults."""

    learning_rate: float | Schedule = 7e-4
    """Step size of the optimiser, or a function of the remaining progress (1 to 0)."""
    n_steps: int = 5
    """Steps per environment and update."""
    gae_lambda: float = 1.0
    """Bias against variance of the advantage estimate; 1 is the Monte-Carlo return."""
    rms_prop_eps: float = 1e-5
    """RMSprop's ε, against division by zero."""
    use_rms_prop: bool = True
    """RMSprop as in the original A3C; False takes Adam."""
    normalize_advantage: bool = False
    """Whether advantages get zero mean and unit deviation in each update."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_number(self, "rms_prop_eps", lambda epsilon: epsilon > 0.0, "a positive number")


@dataclass(frozen=True, kw_only=True)
class PPOConfig(ActorCriticConfig):
    """Hyperparameters of PPO, with Stable-Baselines3's names and defaults."""

    learning_rate: float | Schedule = 3e-4
    """Step size of Adam, or a function of the remaining progress (1 to 0)."""
    n_steps: int = 2048
    """Steps per environment and rollout; a rollout holds n_steps times the number of environments."""
    batch_size: int = 64
    """Samples per minibatch."""
    n_epochs: int = 10
    """Passes over each rollout."""
    clip_range: float | Schedule = 0.2
    """How far the probability ratio may leave 1."""
    clip_range_vf: float | Schedule | None = None
    """How far a value may move from the one predicted while collecting; None does not clip."""
    target_kl: float | None = None
    """Ends an update when the approximate KL divergence exceeds 1.5 times this."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _require(_is_count(self.batch_size), "batch_size", self.batch_size, "a positive whole number")
        _require(
            self.batch_size > 1 or not self.normalize_advantage,
            "batch_size",
            self.batch_size,
            "at least 2, because advantages are normalised by their standard deviation in each minibatch "
            "(or pass normalize_advantage=False)",
        )
        _require(_is_count(self.n_epochs), "n_epochs", self.n_epochs, "a positive whole number")
        _check_scheduled("clip_range", self.clip_range)  # 0 too: scripts that only play a model load it so
        if self.clip_range_vf is not None:
            _check_scheduled("clip_range_vf", self.clip_range_vf, positive=True)
        if self.target_kl is not None:
            _require_number(self, "target_kl", lambda target: 0.0 < target < math.inf, "a positive number or None")

    def check_environments(self, environments: int) -> None:
        super().check_environments(environments)
        _warn_of_short_minibatch(self.n_steps, environments, self.batch_size)


@dataclass(frozen=True, kw_only=True)
class PPGConfig(PPOConfig):
    """Hyperparameters of PPG: those of PPO for the policy phase, and those of the auxiliary phase."""

    learning_rate: float | Schedule = 5e-4
    """Step size of Adam in the policy phase, or a function of the remaining progress (1 to 0)."""
    n_steps: int = 256
    """Steps per environment and rollout; a rollout holds n_steps times the number of environments."""
    batch_size: int = 256
    """Samples per minibatch of the policy phase."""
    policy_epochs: int = 32
    """Rollouts, and updates of the policy phase, between two auxiliary phases (N_pi)."""
    n_epochs: int = 1
    """Passes of the policy over each rollout (E_pi)."""
    value_epochs: int = 1
    """Passes of the value over each rollout (E_V)."""
    aux_epochs: int = 6
    """Passes of an auxiliary phase over all its rollouts (E_aux)."""
    kl_coef: float = 1.0
    """Weight that holds the policy where it was while the auxiliary phase trains its network (beta_clone)."""
    num_aux_mini_batch: int = 4
    """Minibatches that the auxiliary phase cuts its rollouts into."""
    num_aux_grad_accum: int = 1
    """Minibatches whose gradients make one step of the auxiliary phase."""
    aux_learning_rate: float | Schedule | None = None
    """Step size of the auxiliary phase's own Adam; None is learning_rate."""
    gamma: float = 0.999
    """Discount factor."""
    ent_coef: float = 0.01
    """Weight of the entropy bonus."""
    normalize_advantage: bool = True
    """Whether advantages get zero mean and unit deviation over the whole rollout."""

    def __post_init__(self) -> None:
        super().__post_init__()
        counts = ("policy_epochs", "value_epochs", "aux_epochs", "num_aux_mini_batch", "num_aux_grad_accum")
        for name in counts:
            _require(_is_count(getattr(self, name)), name, getattr(self, name), "a positive whole number")
        _require_number(self, "kl_coef", lambda weight: 0.0 <= weight < math.inf, "a number of at least 0")
        if self.aux_learning_rate is not None:
            _check_scheduled("aux_learning_rate", self.aux_learning_rate)
        _require(
            self.num_aux_mini_batch % self.num_aux_grad_accum == 0,
            "num_aux_grad_accum",
            self.num_aux_grad_accum,
            f"a divisor of num_aux_mini_batch {self.num_aux_mini_batch}, so that every minibatch is part of a step",
        )

    def check_environments(self, environments: int) -> None:
        OnPolicyConfig.check_environments(self, environments)
        _warn_of_short_minibatch(self.n_steps, environments, self.batch_size)  # from here, to blame the caller's line
        samples = self.policy_epochs * self.n_steps * environments
        _require(
            samples % self.num_aux_mini_batch == 0,
            "num_aux_mini_batch",
            self.num_aux_mini_batch,
            f"a divisor of the {samples} samples of an auxiliary phase (policy_epochs {self.policy_epochs} * n_steps "
            f"{self.n_steps} * {environments} environments)",
        )


@dataclass(frozen=True, kw_only=True)
class TRPOConfig(OnPolicyConfig):
    """Hyperparameters of TRPO, with sb3-contrib's names and defaults."""

    learning_rate: float | Schedule = 1e-3
    """Step size of the value network's optimiser, or a function of the remaining progress (1 to 0)."""
    n_steps: int = 2048
    """Steps per environment and rollout; a rollout holds n_steps times the number of environments."""
    batch_size: int = 128
    """Samples per minibatch of the value network; the policy takes the whole rollout."""
    cg_max_steps: int = 15
    """Iterations of the conjugate gradients that find the policy's direction."""
    cg_damping: float = 0.1
    """Multiple of the identity added to Fisher's matrix, so that it can be inverted."""
    line_search_shrinking_factor: float = 0.8
    """What each further attempt of the line search multiplies the step with."""
    line_search_max_iter: int = 10
    """Attempts of the line search before the policy stays as it is."""
    n_critic_updates: int = 10
    """Passes of the value network over each rollout."""
    normalize_advantage: bool = True
    """Whether advantages get zero mean and unit deviation over the rollout."""
    target_kl: float = 0.01
    """How far one update may move the policy, in mean KL divergence."""
    sub_sampling_factor: int = 1
    """The policy's step reads every n-th sample, to be faster."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("batch_size", "cg_max_steps", "line_search_max_iter", "n_critic_updates", "sub_sampling_factor"):
            _require(_is_count(getattr(self, name)), name, getattr(self, name), "a positive whole number")
        _require_number(self, "cg_damping", lambda damping: 0.0 <= damping < math.inf, "a number of at least 0")
        between = "a number between 0 and 1"
        _require_number(self, "line_search_shrinking_factor", lambda factor: 0.0 < factor < 1.0, between)
        _require_number(self, "target_kl", lambda target: 0.0 < target < math.inf, "a positive number")

    def check_environments(self, environments: int) -> None:
        super().check_environments(environments)
        _warn_of_short_minibatch(self.n_steps, environments, self.batch_size)


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
