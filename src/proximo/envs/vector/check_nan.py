"""Find out where a NaN or an infinity comes from."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from proximo.data import Array, Observation, StepArrays
from proximo.envs.vector.vec_env import StepTransform, VecEnv
from proximo.errors import NonFiniteError
from proximo.other_libraries import stands_for


@stands_for("stable_baselines3.common.vec_env.vec_check_nan", "VecCheckNan")
class VecCheckNan(StepTransform):
    """Warn of NaN and infinity in actions, observations and rewards, or raise with ``raise_exception=True``.

    The message names the array, the environment's index, and the last actions or observations.
    """

    def __init__(
        self, venv: VecEnv, raise_exception: bool = False, warn_once: bool = True, check_inf: bool = True
    ) -> None:
        """Arguments:
        venv: The vector environment that is wrapped.
        raise_exception: Whether to raise instead of warning.
        warn_once: Whether to warn of the first occasion only.
        check_inf: Whether infinity counts too.
        """
        super().__init__(venv)
        self.raise_exception = raise_exception
        self.warn_once = warn_once
        self.check_inf = check_inf
        self._user_warned = False
        self._actions: Any = None
        self._observations: Observation | None = None

    def reset(self) -> Observation:
        self._observations = self.venv.reset()
        self._check(lambda: "the environment's reset", observations=self._observations)
        return self._observations

    def step_async(self, actions: Any) -> None:
        self._check_actions(actions)
        super().step_async(actions)

    def step_arrays(self, actions: Any) -> StepArrays:
        self._check_actions(actions)
        return self.transform(self.venv.step_arrays(actions))

    def _check_actions(self, actions: Any) -> None:
        numbers = actions
        if isinstance(self.action_space, spaces.Dict | spaces.Tuple):
            numbers = np.array([spaces.flatten(self.action_space, action) for action in actions])
        self._check(lambda: f"the policy, for observations {self._observations}", actions=numbers)
        self._actions = actions

    def transform(self, step: StepArrays) -> StepArrays:
        def source() -> str:
            return f"the environment, for actions {self._actions}"

        self._check(source, observations=step.observations, rewards=step.rewards)
        for index, observation in step.final_observations.items():
            name = f"final observation of environment {index}"
            self._check(source, **{name: observation})
        self._observations = step.observations
        return step

    rows_in_state = ()

    def own_state(self) -> dict[str, Any]:
        return {"warned": self._user_warned}

    def set_own_state(self, state: Mapping[str, Any]) -> None:
        self._user_warned = bool(state["warned"])

    def _check(self, source: Callable[[], str], **named: Any) -> None:
        """``source`` tells where the values come from; asked only if something is wrong with them."""
        if self._user_warned and self.warn_once and not self.raise_exception:
            return
        faults = []
        for name, value in named.items():
            keyed = dict(enumerate(value)) if isinstance(value, tuple) else value
            parts = (
                {f"{name}[{key!r}]": part for key, part in keyed.items()} if isinstance(keyed, dict) else {name: keyed}
            )
            faults += [self._describe(part_name, np.asarray(part)) for part_name, part in parts.items()]
        faults = [description for description in faults if description]
        if not faults:
            return
        self._user_warned = True
        message = f"{'; '.join(faults)}. It comes from {source()}"
        if self.raise_exception:
            raise NonFiniteError(message)
        warnings.warn(message, stacklevel=4)

    def _describe(self, name: str, values: Array) -> str:
        """What is wrong with the values and in which environments; empty if nothing is."""
        if not np.issubdtype(values.dtype, np.inexact):
            return ""
        wrong = ~np.isfinite(values) if self.check_inf else np.isnan(values)
        if not wrong.any():
            return ""
        kind = "NaN" if np.isnan(values).any() else "infinity"
        if values.ndim == 0 or name.startswith("final"):
            return f"{kind} in {name}"
        rows = np.flatnonzero(wrong.reshape(len(values), -1).any(axis=1)).tolist()
        return f"{kind} in {name} of environment {', '.join(map(str, rows))}"
