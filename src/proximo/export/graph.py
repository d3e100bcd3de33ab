"""The actor of a policy as one module: from the environment's observations to its actions, tensors in and out."""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from proximo.errors import ExportError
from proximo.export.interface import MASKS, NOISE, START, Interface
from proximo.export.pipeline import PLAIN, Pipeline, by_name
from proximo.export.samples import random_observations
from proximo.functional.actions import leaves
from proximo.functional.spaces import Space, get_action_dim
from proximo.networks.actor_critic import BasePolicy
from proximo.networks.distributions import StateDependentNoiseDistribution
from proximo.networks.distributions.base import frozen

EXAMPLE_ROWS = 3  # of the batch that is traced: not 1, which the tracer would take for a constant


class Bounded(nn.Module):
    """Columns of one plain action space as the environment takes them: what ``bound_actions`` does."""

    low: Tensor
    high: Tensor
    span: Tensor
    start: Tensor

    def __init__(self, space: Space, squashed: bool) -> None:
        super().__init__()
        self.shape, self.squashed = space.shape or (), squashed
        self.is_box = isinstance(space, spaces.Box)
        self.rounds = self.is_box and not np.issubdtype(space.dtype, np.floating)
        self.dtype = torch_dtype(space.dtype)
        if isinstance(space, spaces.Box):
            wide = np.result_type(np.float32, space.dtype)  # in which NumPy clips
            self.wide = torch_dtype(wide)
            with np.errstate(over="ignore", invalid="ignore"):  # the span of unbounded actions, which nobody stretches
                bounds = {"low": space.low, "high": space.high, "span": space.high - space.low}
            for name in bounds if squashed else ("low", "high"):
                self.register_buffer(name, torch.as_tensor(bounds[name].astype(wide)))
        elif isinstance(space, spaces.Discrete | spaces.MultiDiscrete) and np.any(space.start):
            self.register_buffer("start", torch.as_tensor(np.asarray(space.start, np.int64)))

    def forward(self, columns: Tensor) -> Tensor:
        actions = columns.reshape(columns.shape[0], *self.shape)
        if not self.is_box:
            counted = actions.long()
            return (counted + self.start if hasattr(self, "start") else counted).to(self.dtype)
        actions = actions.to(self.wide)
        if self.squashed:
            actions = self.low + 0.5 * (actions + 1.0) * self.span
        actions = torch.minimum(torch.maximum(actions, self.low), self.high)
        return (torch.round(actions) if self.rounds else actions).to(self.dtype)


class PolicyGraph(nn.Module):
    """Normalisation, network, the likeliest action or a sample, bounds of the action space."""

    def __init__(self, policy: BasePolicy, interface: Interface, pipeline: Pipeline) -> None:
        super().__init__()
        self.policy = _copy_without_training(policy)
        self.interface, self.pipeline = interface, pipeline
        self.steps = nn.ModuleList(step.module for step in pipeline.steps)
        parts = list(leaves(policy.action_space))
        self.widths = [get_action_dim(part) for part in parts]
        squashed = policy.squash_output and isinstance(policy.action_space, spaces.Box)
        self.bounds = nn.ModuleList(Bounded(part, squashed) for part in parts)
        self.eval()
        self._drop_unused()

    def example(self) -> dict[str, Tensor]:
        """Inputs to trace with: observations must be some of their space, all else may be zeros."""
        parts = by_name(random_observations(self.pipeline, EXAMPLE_ROWS, np.random.default_rng(0)))
        given = {port.name: parts[name] for name, port in self.interface.observations.items()}
        return {
            port.name: torch.as_tensor(port.check(given[port.name])) if port.name in given else port.zeros(EXAMPLE_ROWS)
            for port in self.interface.inputs
        }

    def forward(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        actions, state = self._act(self._observation(inputs), inputs)
        columns = actions.reshape(actions.shape[0], -1).split(self.widths, dim=1)
        ports = self.interface.actions.values()
        outputs = {port.name: bound(part) for port, bound, part in zip(ports, self.bounds, columns, strict=True)}
        return outputs | {port.name: part for port, part in zip(self.interface.next_state, state, strict=True)}

    def _observation(self, inputs: dict[str, Tensor]) -> Any:
        rows = inputs[self.interface.inputs[0].name].shape[0]
        parts = {}
        for name, port in self.interface.observations.items():
            if name in self.interface.unread:
                parts[name] = port.zeros(1).expand(port.full_shape(rows))  # whatever it is, nothing depends on it
            else:
                parts[name] = inputs[port.name]
        for step in self.steps:
            parts = step(parts)
        return parts.get(PLAIN, parts)

    def _act(self, observation: Any, inputs: dict[str, Tensor]) -> tuple[Tensor, tuple[Tensor, ...]]:
        policy: Any = self.policy
        arguments: list[Any] = [observation]
        if self.interface.start is not None:
            arguments += [tuple(inputs[port.name] for port in self.interface.state), inputs[START]]
        masks = {} if self.interface.masks is None else {"action_masks": inputs[MASKS]}
        deterministic = self.interface.noise is None
        if not deterministic and isinstance(policy.action_dist, StateDependentNoiseDistribution):
            return self._explore(policy, arguments, inputs[NOISE])
        if not deterministic:
            policy.action_dist.noise = inputs[NOISE]
        found = policy._predict(*arguments, deterministic=deterministic, **masks)
        return found if self.interface.start is not None else (found, ())

    @staticmethod
    def _explore(policy: Any, arguments: list[Any], normals: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """State-dependent noise: mean + latent · W, W made of the normal numbers given, [batch, action, latent]."""
        found = policy.get_distribution(*arguments)
        distribution, state = found if isinstance(found, tuple) else (found, ())
        weights = distribution.get_std(policy.log_std) * normals.transpose(1, 2)
        noise = torch.bmm(distribution._latent.unsqueeze(1), weights).squeeze(1)
        return distribution._squashed(distribution.mean_actions + noise), state

    def _drop_unused(self) -> None:
        """Forget the parameters that acting does not touch: those of the critic, and of other heads."""
        with torch.no_grad(), _Touched() as touched:
            self(self.example())
        for module in self.modules():
            for table in (module._parameters, module._buffers):
                for name, tensor in table.items():
                    if tensor is not None and not touched.has(tensor):
                        table[name] = None


class _Touched(TorchDispatchMode):
    """Notes which memory the operations of a block read."""

    def __init__(self) -> None:
        super().__init__()
        self._places: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for leaf in tree_leaves((args, kwargs)):
            if isinstance(leaf, Tensor):
                self._places.add(leaf.untyped_storage().data_ptr())
        return func(*args, **(kwargs or {}))

    def has(self, tensor: Tensor) -> bool:
        return tensor.untyped_storage().data_ptr() in self._places


def torch_dtype(dtype: Any) -> torch.dtype:
    return torch.as_tensor(np.zeros((), dtype)).dtype


def _copy_without_training(policy: BasePolicy) -> BasePolicy:
    """A policy of its own memory on the CPU; optimisers stay behind, and so do the graphs of the last loss."""
    memo: dict[int, Any] = {
        id(value): None for value in vars(policy).values() if isinstance(value, torch.optim.Optimizer)
    }
    if (distribution := getattr(policy, "action_dist", None)) is not None:
        memo[id(distribution)] = frozen(distribution)
    try:
        twin: BasePolicy = copy.deepcopy(policy, memo)
    except Exception as error:
        raise ExportError(f"{type(policy).__name__} cannot be copied, and is traced as a copy: {error}") from error
    for name in [name for name, value in vars(policy).items() if isinstance(value, torch.optim.Optimizer)]:
        delattr(twin, name)
    return twin.to("cpu").requires_grad_(False)


def trace(graph: PolicyGraph) -> torch.export.ExportedProgram:
    """The graph as a program of PyTorch's operations, for batches of any size."""
    program = _traced(graph)
    unread = _unread(program, graph.interface)
    if unread:
        graph.interface = replace(graph.interface, unread=unread)
        program = _traced(graph)
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # paths of this machine
    return program


def _traced(graph: PolicyGraph) -> torch.export.ExportedProgram:
    batch = torch.export.Dim("batch")
    shapes = {port.name: {port.batch_axis: batch} for port in graph.interface.inputs}
    try:
        with torch.no_grad(), _distribution_kept(graph.policy), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The tensor attributes")  # recurrent layers keep a list of their weights
            return torch.export.export(graph, (graph.example(),), dynamic_shapes=(shapes,), strict=False)
    except Exception as error:
        raise ExportError(
            f"{type(graph.policy).__name__} cannot be traced for batches of any size: {first_words(error)}\n"
            "Networks of your own must not let Python decide by the values in a tensor, nor take its number of rows as "
            "len(x): write x.shape[0]"
        ) from error


def first_words(error: BaseException) -> str:
    """What PyTorch says of a failure, and where; its advice to those who develop PyTorch stays in the traceback."""
    while error.__cause__ is not None:
        error = error.__cause__
    text = str(error).strip()
    place = re.search(r'The following call raised this error:\s+File "(.+)", line (\d+)', text)
    return f"{type(error).__name__}: {text.splitlines()[0] if text else ''}" + (
        f" ({place[1]}, line {place[2]})" if place else ""
    )


@contextmanager
def _distribution_kept(policy: Any) -> Iterator[None]:
    """Tracing leaves symbols in the distribution that the policy reuses; put its own tensors back."""
    kept = getattr(policy, "action_dist", None)
    if kept is not None:
        policy.action_dist = frozen(kept)
    try:
        yield
    finally:
        if kept is not None:
            policy.action_dist = kept


def _unread(program: torch.export.ExportedProgram, interface: Interface) -> frozenset[str]:
    """The parts of an observation that no output depends on; the first of all stays, it tells the batch's size."""
    nodes = {node.name: node for node in program.graph.nodes}
    reached: set[Any] = set()
    waiting = [node for node in program.graph.nodes if node.op == "output"]
    while waiting:
        node = waiting.pop()
        # the batch's size may be asked of any part, which is not reading it
        if node not in reached and node.target is not torch.ops.aten.sym_size.int:
            reached.add(node)
            waiting.extend(node.all_input_nodes)
    read = [nodes[name] in reached for name in program.graph_signature.user_inputs]
    ports = dict(zip([port.name for port in interface.inputs], read, strict=True))
    unread = [name for name, port in interface.observations.items() if not ports[port.name]]
    return frozenset(unread if len(unread) < len(interface.observations) else unread[1:])
