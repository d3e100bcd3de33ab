"""The memory of the kernels: a policy's layers, an epoch's arrays, a rollout's rows, bound by address."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from proximo.backends.fused.obstacles import ACTION_KINDS, HEADS, OPTIMIZERS, linear_layers
from proximo.backends.fused.structures import (
    CHUNK,
    EXPLORATION,
    LAYER,
    PLAN,
    SEGMENT,
    TARGET,
    UPDATE,
    Activation,
    Column,
    Head,
    Role,
)
from proximo.backends.noise import draw_normals
from proximo.data import Array, Share
from proximo.functional.actions import stored_action_dtype
from proximo.functional.spaces import get_action_dim
from proximo.networks.actor_critic import ActorCriticPolicy
from proximo.networks.distributions import StateDependentNoiseDistribution
from proximo.networks.flat_parameters import ALIGNMENT, FlatParameters, padded

CACHE_LINE = 64  # bytes


def float32_bounds(space: spaces.Box) -> tuple[Array, Array]:
    """Lowest and highest actions, flat, rounded inwards: what is clipped to them lies in the space.

    >>> space = spaces.Box(-0.1, 0.1, (1,), np.float64)
    >>> space.contains(float32_bounds(space)[0].astype(np.float64))
    True
    """
    with np.errstate(over="ignore"):
        low, high = space.low.astype(np.float32), space.high.astype(np.float32)
    low = np.where(low < space.low, np.nextafter(low, np.float32(np.inf)), low)
    high = np.where(high > space.high, np.nextafter(high, np.float32(-np.inf)), high)
    return low.reshape(-1), high.reshape(-1)


class Structure:
    """One C structure that keeps the arrays alive whose addresses it holds."""

    def __init__(self, layout: np.dtype[np.void]) -> None:
        self.record = np.zeros(1, layout)
        self.address = self.record.ctypes.data
        self.arrays: dict[str, Any] = {}

    def bind(self, name: str, array: Array) -> Array:
        """Point a field at an array."""
        if not array.flags.c_contiguous:
            raise ValueError(f"{name} of shape {array.shape} is not contiguous; kernels need it in one piece")
        self.arrays[name] = array
        self.record[name] = array.ctypes.data
        return array

    def unbind(self, name: str) -> None:
        """Let go of an array: its address is 0."""
        self.arrays.pop(name, None)
        self.record[name] = 0

    def set(self, **fields: float) -> None:
        for name, value in fields.items():
            self.record[name] = value


def aligned_floats(*shape: int) -> Array:
    """Zeros that begin on a cache line."""
    size = int(np.prod(shape))
    memory = np.zeros(size + CACHE_LINE // 4, np.float32)
    start = -memory.ctypes.data % CACHE_LINE // 4
    return memory[start : start + size].reshape(shape)


class PolicyPlan(Structure):
    """What the kernels know of a policy: its layers, its head, its action space, and scratch memory for a chunk."""

    def __init__(self, policy: ActorCriticPolicy, flat: FlatParameters) -> None:
        super().__init__(PLAN)
        self.flat = flat
        self.offsets = {id(segment.parameter): segment.offset for segment in flat.segments}
        networks = policy.mlp_extractor
        policy_layers = linear_layers(nn.Sequential(*networks.policy_net, policy.action_net))
        value_layers = linear_layers(nn.Sequential(*networks.value_net, policy.value_net))
        self.scratch: list[Array] = []
        self.layers = np.concatenate([self._network(policy_layers), self._network(value_layers)])
        self.bind("layers", self.layers)
        self.features = policy_layers[0][0].in_features
        self.set(policy_layers=len(policy_layers), value_layers=len(value_layers), features=self.features, lanes=CHUNK)
        self._bind_head(policy)

    def _network(self, layers: list[tuple[nn.Linear, Activation]]) -> Array:
        table = np.zeros(len(layers), LAYER)
        source = self._allocate(padded(layers[0][0].in_features), CHUNK)
        for row, (layer, activation) in zip(table, layers, strict=True):
            inputs, outputs = layer.in_features, layer.out_features
            row["inputs"], row["outputs"], row["activation"] = inputs, outputs, activation
            row["weight"], row["bias"] = self.parameter(layer.weight), self.parameter(layer.bias)
            row["weight_gradient"], row["bias_gradient"] = self.gradient(layer.weight), self.gradient(layer.bias)
            row["input"], row["input_rows"] = source, self._allocate(CHUNK, padded(inputs))
            row["output"] = source = self._allocate(padded(outputs), CHUNK)
            row["error"] = self._allocate(padded(outputs), CHUNK)
            row["margin"] = self._allocate(outputs, ALIGNMENT)
            if activation is Activation.SILU:
                row["slope"] = self._allocate(padded(outputs), CHUNK)
        return table

    def _bind_head(self, policy: ActorCriticPolicy) -> None:
        head, space, size = HEADS[type(policy.action_dist)], policy.action_space, get_action_dim(policy.action_space)
        groups, starts = np.zeros(size, np.int64), np.zeros(size, np.int64)
        if isinstance(space, spaces.Discrete):
            groups[:], starts[:] = space.n, space.start
        elif isinstance(space, spaces.MultiDiscrete):
            groups[:], starts[:] = space.nvec, space.start
        elif isinstance(space, spaces.MultiBinary):
            groups[:] = 2  # where a switch is a choice between off and on
        self.bind("groups", groups)
        self.bind("starts", starts)
        if isinstance(space, spaces.Box):
            low, high = float32_bounds(space)
            self.bind("low", low)
            self.bind("high", high)
        if head in (Head.GAUSSIAN, Head.STATE_DEPENDENT):
            self.set(log_std=self.parameter(policy.log_std), log_std_gradient=self.gradient(policy.log_std))
        if isinstance(policy.action_dist, StateDependentNoiseDistribution):
            self._bind_exploration(policy.action_dist, *policy.log_std.shape)
        self.set(
            head=head,
            action_size=size,
            action_kind=ACTION_KINDS[stored_action_dtype(space)],
            actions=self._allocate(size, CHUNK),
            log_probs=self._allocate(CHUNK),
            entropies=self._allocate(CHUNK),
            group_entropies=self._allocate(size, CHUNK),
            log_prob_gradients=self._allocate(CHUNK),
            scratch=self._allocate(CHUNK),
            mask_width=policy.action_dist.mask_width,
        )

    def _bind_exploration(self, distribution: StateDependentNoiseDistribution, latents: int, columns: int) -> None:
        self.exploration = Structure(EXPLORATION)
        self.exploration.set(
            columns=columns,
            expln=distribution.use_expln,
            squared_deviations=self._allocate(latents, columns),
            squared_latents=self._allocate(padded(latents), CHUNK),
            squared_latent_rows=self._allocate(CHUNK, padded(latents)),
            variances=self._allocate(columns, CHUNK),
            variance_errors=self._allocate(columns, CHUNK),
            gradient=self._allocate(columns, padded(latents)),
            epsilon=distribution.epsilon,
        )
        self.set(exploration=self.exploration.address)

    def expect_masks(self) -> None:
        """Make room for the masks of a chunk: only who masks pays for it, since there may be thousands of actions."""
        if not self.record["allowed"]:
            width = padded(int(self.record["mask_width"][0]))
            self.set(mask_rows=self._allocate(CHUNK, width), allowed=self._allocate(width, CHUNK))

    def parameter(self, parameter: torch.Tensor) -> int:
        """Address of a parameter in flat memory."""
        return self.flat.data.data_ptr() + 4 * self.offsets[id(parameter)]

    def gradient(self, parameter: torch.Tensor) -> int:
        return self.flat.gradients.data_ptr() + 4 * self.offsets[id(parameter)]

    def _allocate(self, *shape: int) -> int:
        self.scratch.append(aligned_floats(*shape))
        return int(self.scratch[-1].ctypes.data)


class ActionTarget(Structure):
    """Where acting writes its results, and the random numbers it reads."""

    def __init__(
        self, steps: int, environments: int, action_size: int, dtype: np.dtype[Any], latents: int | None = None
    ) -> None:
        """``latents`` counts the inputs of state-dependent noise, if that is what the policy explores with."""
        super().__init__(TARGET)
        self.steps, self.environments = steps, environments
        self.set(environments=environments)
        self.noise = self.bind("noise", np.zeros((steps, environments, action_size), np.float32))
        self.env_actions = self.bind("env_actions", np.zeros((steps, environments, action_size), dtype))
        if latents is not None:
            self.normals = np.zeros((environments, action_size, latents), np.float32)
            self.matrices = self.bind("matrices", aligned_floats(environments, action_size, padded(latents)))

    def draw_matrices(self, deviations: Array, generator: np.random.Generator, share: Share | None = None) -> None:
        """Fresh noise matrices for state-dependent exploration; their ``deviations`` are [action, latent]."""
        draw_normals(self.normals, generator, share)
        np.multiply(self.normals, deviations, out=self.matrices[..., : self.normals.shape[-1]])


class UpdatePlan(Structure):
    """What the epochs of an update read and write."""

    def __init__(self, policy: ActorCriticPolicy, flat: FlatParameters) -> None:
        super().__init__(UPDATE)
        self.optimizer = policy.optimizer
        critic = {id(p) for module in (policy.mlp_extractor.value_net, policy.value_net) for p in module.parameters()}
        segments = np.zeros(len(flat.segments), SEGMENT)
        for row, segment in zip(segments, flat.segments, strict=True):
            role = Role.CRITIC if id(segment.parameter) in critic else Role.ACTOR
            row["offset"], row["size"], row["role"] = segment.offset, segment.padded_size, role
        self.bind("segments", segments)
        self.set(segment_count=len(segments), optimizer=OPTIMIZERS[type(policy.optimizer)])
        memories = {"data": flat.data, "gradients": flat.gradients, "steps": flat.steps}
        moments = {"exp_avg": "momentum", "exp_avg_sq": "variance", "square_avg": "variance"}
        memories |= {field: flat.state[name] for name, field in moments.items() if name in flat.state}
        for name, tensor in memories.items():
            self.arrays[name] = tensor
            self.record[name] = tensor.data_ptr()

    def read_optimizer(self) -> None:
        """Take over the optimiser's options, which may change between epochs."""
        group = self.optimizer.param_groups[0]
        betas = group.get("betas", (0.0, group.get("alpha", 0.0)))
        self.set(
            learning_rate=float(group["lr"]),
            momentum_decay=float(betas[0]),
            variance_decay=float(betas[1]),
            epsilon=float(group["eps"]),
        )

    def start(self, orders: Array, batch_size: int) -> Array:
        """Take the orders of samples, [epoch, sample]; returns the metrics to be filled, [minibatch, column]."""
        epochs, samples = orders.shape
        minibatches = epochs * -(-samples // batch_size)
        self.bind("orders", orders)
        self.set(epochs=epochs, samples=samples, batch_size=batch_size)
        self.bind("squares", np.zeros((minibatches, len(Role))))
        if len(self.arrays.get("scaled_advantages", ())) < batch_size:
            self.bind("scaled_advantages", aligned_floats(padded(batch_size)))
        return self.bind("rows", np.zeros((minibatches, len(Column))))
