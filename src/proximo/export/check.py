"""The comparison that a file must pass before it is written: its actions are those of ``predict``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from gymnasium import spaces

from proximo.data import Array, Observation
from proximo.errors import ExportError
from proximo.export.interface import MASKS, NOISE, START, Interface
from proximo.export.pipeline import Pipeline, by_name
from proximo.export.samples import random_observations
from proximo.functional.actions import leaves, mask_groups
from proximo.functional.spaces import Space
from proximo.networks.distributions import HybridDistribution, StateDependentNoiseDistribution

if TYPE_CHECKING:
    from proximo.agents.on_policy import OnPolicyAlgorithm

TOLERANCE = 1e-5  # of continuous actions and states, relative to their largest where that is more than 1
BATCHES = (1, 2, 253)  # rows
STEPS = 5  # of a memory

Runner = Callable[[Mapping[str, Array]], dict[str, Array]]


@dataclass
class Comparison:
    """What was compared, and how far apart the two were."""

    observations: int = 0
    largest_difference: float = 0.0
    choices: int = 0  # discrete ones
    ties: int = 0  # of them, where both are equally likely and the two chose differently


class Check:
    """Asks the file and ``predict`` the same."""

    def __init__(self, model: OnPolicyAlgorithm, interface: Interface, pipeline: Pipeline, run: Runner) -> None:
        self.model, self.interface, self.pipeline, self.run = model, interface, pipeline, run
        self.generator = np.random.default_rng(0)
        self.found = Comparison()

    def compare(self) -> Comparison:
        """Random observations and the edges of their space, in batches of several sizes, step by step."""
        for rows in BATCHES:
            state: Any = None
            given = {port.name: port.zeros(rows).numpy() for port in self.interface.state}
            for step in range(STEPS if self.interface.state else 1):
                starts = self.generator.random(rows) < 0.3 if step else np.zeros(rows, np.bool_)
                outputs, state = self._step(rows, given, starts, state)
                pairs = zip(self.interface.state, self.interface.next_state, strict=True)
                given = {before.name: outputs[after.name] for before, after in pairs}
        return self.found

    def _step(self, rows: int, memory: Mapping[str, Array], starts: Array, state: Any) -> tuple[dict[str, Array], Any]:
        observation = random_observations(self.pipeline, rows, self.generator)
        masks = self._masks(rows) if self.interface.masks is not None else None
        noise = self._noise(rows) if self.interface.noise is not None else None
        parts = by_name(observation)
        inputs = {port.name: port.check(parts[name]) for name, port in self.interface.observations.items()}
        if masks is not None:
            inputs[MASKS] = masks
        if noise is not None:
            inputs[NOISE] = noise
        if self.interface.start is not None:
            inputs |= {**memory, START: starts}
        outputs = self.run({port.name: inputs[port.name] for port in self.interface.inputs})
        expected, next_state = self._predict(observation, state, starts, masks, noise)
        self.found.observations += rows
        self._compare_actions(outputs, expected, lambda by: self._predict(observation, state, starts, masks, noise, by))
        for port, part in zip(self.interface.next_state, next_state if self.interface.state else (), strict=True):
            self._compare_numbers(port.name, outputs[port.name], part)
        return outputs, next_state

    def _predict(
        self,
        observation: Observation,
        state: Any,
        starts: Array,
        masks: Array | None,
        noise: Array | None,
        by: float = 0,
    ) -> tuple[list[Array], Any]:
        """What ``predict`` gives, a batch of actions for each part of the space; with its noise moved ``by``."""
        policy: Any = self.model.policy
        if noise is not None:
            moved = torch.as_tensor(noise + np.float32(by), device=policy.device)
            if isinstance(policy.action_dist, StateDependentNoiseDistribution):
                policy.action_dist.use_weights(moved, policy.log_std)
            else:
                policy.action_dist.noise = moved
        read = self.pipeline.reference(observation)
        actions, next_state = self.model.predict(read, state, starts, deterministic=noise is None, action_masks=masks)
        return columns_of(policy.action_space, actions), next_state

    def _masks(self, rows: int) -> Array:
        """At least one of each group, in some rows only one."""
        groups = []
        for size in mask_groups(self.model.action_space):
            allowed = self.generator.random((rows, size)) < self.generator.random((rows, 1))
            allowed[np.arange(rows), self.generator.integers(size, size=rows)] = True
            groups.append(allowed)
        return np.concatenate(groups, axis=1)

    def _noise(self, rows: int) -> Array:
        port = self.interface.noise
        if port is None:
            raise ExportError("this graph takes no noise")
        noise = self.generator.standard_normal(port.full_shape(rows), np.float32)
        for column, kind in enumerate(self.interface.noise_kinds):
            if kind == "uniform":
                noise[:, column] = self.generator.random(rows, np.float32)
        return noise

    def _compare_actions(
        self, outputs: Mapping[str, Array], expected: list[Array], again: Callable[[float], tuple[list[Array], Any]]
    ) -> None:
        for index, (port, space) in enumerate(
            zip(self.interface.actions.values(), leaves(self.model.action_space), strict=True)
        ):
            ours, theirs = outputs[port.name], expected[index]
            if ours.shape != theirs.shape:
                raise ExportError(f"{port.name} has shape {ours.shape} where predict gives {theirs.shape}")
            if np.issubdtype(space.dtype, np.floating):
                self._compare_numbers(port.name, ours, theirs, float(np.finfo(space.dtype).eps))
                continue
            self.found.choices += ours.size
            for place in np.argwhere(ours != theirs):
                if self.interface.noise is None:
                    tied = self._is_tie(index, space, place, ours, theirs)
                else:
                    moved = [again(by)[0][index][tuple(place)] for by in (-TOLERANCE, TOLERANCE)]
                    tied = ours[tuple(place)] in moved
                if not tied:
                    raise ExportError(
                        f"{port.name} is {ours[tuple(place)]} where predict gives {theirs[tuple(place)]}, and the two "
                        "are not equally likely"
                    )
                self.found.ties += 1

    def _is_tie(self, index: int, space: Space, place: Array, ours: Array, theirs: Array) -> bool:
        """Whether both actions are equally likely to the policy, whose distribution is that of the last predict."""
        part: Any = self.model.policy.action_dist
        part = part.parts[index] if isinstance(part, HybridDistribution) else part
        row, column = int(place[0]), int(place[1]) if len(place) > 1 else 0
        if isinstance(space, spaces.Box):
            number = float(part.mode()[row].reshape(space.shape)[tuple(place[1:])])
            return abs(abs(number - np.trunc(number)) - 0.5) <= TOLERANCE * max(1.0, abs(number))
        if hasattr(part, "action_logits"):
            return abs(float(part.action_logits[row, column])) <= TOLERANCE
        choice = part.parts[column] if hasattr(part, "parts") else part
        if not hasattr(choice, "log_probs"):
            return False
        start = np.asarray(getattr(space, "start", 0)).reshape(-1)[column if hasattr(part, "parts") else 0]
        first, second = (float(choice.log_probs[row, int(a[tuple(place)]) - int(start)]) for a in (ours, theirs))
        return abs(first - second) <= TOLERANCE

    def _compare_numbers(self, name: str, ours: Array, theirs: Array, resolution: float = 0.0) -> None:
        ours, theirs = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
        if not np.isfinite(theirs).all():
            raise ExportError("predict gives NaN or infinity; a policy like that is not exported")
        if theirs.size == 0:
            return
        difference = float(np.abs(ours - theirs).max() / max(1.0, np.abs(theirs).max()))
        if not difference <= max(TOLERANCE, resolution):  # NaN is no small difference
            raise ExportError(f"{name} differs from what predict gives by {difference:.2g}, more than {TOLERANCE:g}")
        self.found.largest_difference = max(self.found.largest_difference, difference)


def columns_of(space: Space, actions: Any) -> list[Array]:
    """A batch of actions as ``predict`` gives them, as one array for each plain part of the space, depth first."""
    if not isinstance(space, spaces.Dict | spaces.Tuple):
        return [np.asarray(actions)]
    keys = space.spaces if isinstance(space, spaces.Dict) else range(len(space.spaces))
    return [
        column
        for key in keys
        for column in columns_of(space[key], [action[key] for action in actions])  # type: ignore[index]
    ]
