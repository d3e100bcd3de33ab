"""Names, shapes and number types of what goes into the graph and comes out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from proximo.data import Array
from proximo.errors import ExportError
from proximo.export.pipeline import PLAIN, parts_of
from proximo.files.plain_text import brief
from proximo.functional.actions import leaves, mask_groups
from proximo.functional.spaces import NestedObservation, Space
from proximo.networks.distributions import StateDependentNoiseDistribution

MASKS, NOISE, START = "action_masks", "noise", "episode_start"
STATE = ("hidden", "cell")


@dataclass(frozen=True)
class Port:
    """A tensor that goes in or out."""

    name: str
    shape: tuple[int, ...]  # of one row of the batch
    dtype: np.dtype[Any]
    batch_axis: int = 0

    def full_shape(self, rows: int) -> tuple[int, ...]:
        return (*self.shape[: self.batch_axis], rows, *self.shape[self.batch_axis :])

    def zeros(self, rows: int) -> Tensor:
        return torch.as_tensor(np.zeros(self.full_shape(rows), self.dtype))

    def check(self, array: Array) -> Array:
        return np.ascontiguousarray(array, self.dtype)

    def describe(self) -> dict[str, Any]:
        shape: list[Any] = list(self.shape)
        shape.insert(self.batch_axis, "batch")
        return {"shape": shape, "dtype": self.dtype.name}


@dataclass(frozen=True)
class Interface:
    """All of them; the parts of observations and actions by their own names."""

    observations: dict[str, Port]
    actions: dict[str, Port]
    masks: Port | None = None
    noise: Port | None = None
    noise_kinds: tuple[str, ...] = ()
    start: Port | None = None
    state: tuple[Port, ...] = ()
    next_state: tuple[Port, ...] = ()
    unread: frozenset[str] = field(default_factory=frozenset)  # parts of observations that the actor does not read

    @property
    def inputs(self) -> list[Port]:
        read = [port for name, port in self.observations.items() if name not in self.unread]
        return [*read, *(port for port in (self.masks, self.noise, *self.state, self.start) if port is not None)]

    @property
    def outputs(self) -> list[Port]:
        return [*self.actions.values(), *self.next_state]

    def describe(self) -> dict[str, Any]:
        """For the metadata: which input and output is what."""
        pairs = zip(self.state, self.next_state, strict=True)
        return {
            "inputs": {port.name: port.describe() for port in self.inputs},
            "outputs": {port.name: port.describe() for port in self.outputs},
            "observation_inputs": {n: port.name for n, port in self.observations.items() if n not in self.unread},
            "action_outputs": {name: port.name for name, port in self.actions.items()},
            "state": {before.name: after.name for before, after in pairs},
            "noise": list(self.noise_kinds),
        }


def make_interface(policy: Any, observation_space: Space, stochastic: bool, masked: bool) -> Interface:
    """What the graph of a policy is called with."""
    noise, kinds = _noise(policy) if stochastic else (None, ())
    groups = mask_groups(policy.action_space)
    if masked and not groups:
        raise ExportError(f"action masks need discrete choices, but the actions are {policy.action_space}")
    state = _state(policy)
    actions = _actions(policy.action_space)
    _check_names(actions)
    _check_names(parts_of(observation_space))
    taken = {MASKS, NOISE, START, *(f"{prefix}{name}" for prefix in ("", "next_") for name in STATE)}
    taken |= {port.name for port in actions.values()}
    return Interface(
        observations=_observations(observation_space, taken),
        actions=actions,
        masks=Port(MASKS, (sum(groups),), np.dtype(np.bool_)) if masked else None,
        noise=noise,
        noise_kinds=kinds,
        start=Port(START, (), np.dtype(np.bool_)) if state else None,
        state=state,
        next_state=tuple(Port(f"next_{port.name}", port.shape, port.dtype, 1) for port in state),
    )


def _check_names(names: Iterable[str]) -> None:
    """PyTorch pastes names of inputs into Python code, which it runs; and a stranger's model file says these names."""
    for name in names:
        if not name.isprintable() or set(name) & set("'\"\\"):
            raise ExportError(
                f"a part is called {brief(name)}; in the names of what is exported no quotes, backslashes or control "
                "characters are allowed"
            )


def _observations(space: Space, taken: set[str]) -> dict[str, Port]:
    parts = parts_of(space)
    # inputs and outputs share their names' space: where one is taken, all parts get a longer one
    prefix = "observation/" if taken & parts.keys() else ""
    names = {name: "observation" if name == PLAIN else f"{prefix}{name}" for name in parts}
    return {name: Port(names[name], part.shape or (), np.dtype(part.dtype)) for name, part in parts.items()}


def _actions(space: Space) -> dict[str, Port]:
    if not isinstance(space, spaces.Dict | spaces.Tuple):
        return {PLAIN: _action("action", space)}
    names = NestedObservation(space).paths
    return {name: _action(f"action/{name}", leaf) for name, leaf in zip(names, leaves(space), strict=True)}


def _action(name: str, space: Space) -> Port:
    return Port(name, space.shape or (), np.dtype(space.dtype))


def _noise(policy: Any) -> tuple[Port, tuple[str, ...]]:
    distribution = getattr(policy, "action_dist", None)
    if isinstance(distribution, StateDependentNoiseDistribution):
        shape = (distribution.action_dim, distribution.latent_sde_dim)
        return Port(NOISE, shape, np.dtype(np.float32)), ("normal",)
    kinds = getattr(distribution, "noise_kinds", ())
    if not kinds or hasattr(distribution, "given"):
        raise ExportError(
            f"{type(distribution).__name__} draws its samples by itself and takes no noise, so that a graph cannot "
            "sample as it does; export the policy without stochastic=True"
        )
    return Port(NOISE, (len(kinds),), np.dtype(np.float32)), tuple(kinds)


def _state(policy: Any) -> tuple[Port, ...]:
    if not getattr(policy, "recurrent", False):
        return ()
    layer = policy.lstm_actor
    names = STATE if isinstance(layer, torch.nn.LSTM) else STATE[:1]
    return tuple(Port(name, (layer.num_layers, layer.hidden_size), np.dtype(np.float32), 1) for name in names)
