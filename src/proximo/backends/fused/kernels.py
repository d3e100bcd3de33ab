"""The compiled entry points: act, predict_values, update. Importing this module compiles them or loads the cache.

Structures come as addresses (see ``structures.py``); Python has checked the shapes before.
"""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import math
import os

import numpy as np
from numba import types

from proximo.backends.fused.elementary import is_finite
from proximo.backends.fused.heads import (
    CATEGORICAL,
    STATE_DEPENDENT,
    log_probs_and_entropies,
    normalize_groups,
    sample,
)
from proximo.backends.fused.layers import LAYER_BYTES, forward, forward_row, padded
from proximo.backends.fused.losses import actor_gradient, critic_gradient
from proximo.backends.fused.masks import apply_masks
from proximo.backends.fused.optimizers import squared_norm, step_parameters
from proximo.backends.fused.simd import (
    doubles,
    floats,
    integers,
    integers_8,
    integers_32,
    layer_at,
    observe,
    plan_at,
    publish,
    shift,
    target_at,
    update_at,
)
from proximo.backends.fused.state_dependent import perturb
from proximo.backends.fused.structures import ActionKind, Column, Role, Status
from proximo.compilation import inlined, kernel, linked

ACTOR, CRITIC = int(Role.ACTOR), int(Role.CRITIC)
DONE, KL_EXCEEDED = int(Status.DONE), int(Status.KL_EXCEEDED)
NON_FINITE, ABANDONED = int(Status.NON_FINITE), int(Status.ABANDONED)
INT64, INT32, INT8 = int(ActionKind.INT64), int(ActionKind.INT32), int(ActionKind.INT8)
FLOAT32 = int(ActionKind.FLOAT32)
POLICY_LOSS, VALUE_LOSS, ENTROPY_LOSS = int(Column.POLICY_LOSS), int(Column.VALUE_LOSS), int(Column.ENTROPY_LOSS)
SPINS = 20_000  # about 20 µs of waiting before a thread yields its core
sched_yield = types.ExternalFunction("sched_yield" if os.name == "posix" else "SwitchToThread", types.int32())
APPROX_KL, LOSS, COLUMNS = int(Column.APPROX_KL), int(Column.LOSS), len(Column)


@linked("int64(int64, int64, CPointer(float32), int64, int64, int64)")
def run_network(layers, count, observations, rows, stride, by_rows):
    """Outputs of a network for ``rows`` rows of observations; tells whether these were all finite.

    Row by row, sums round otherwise than lane by lane; either way they do not depend on the other rows.
    """
    layer, finite = layer_at(layers), np.int64(1)
    inputs, lanes, samples = layer.inputs, floats(layer.input), floats(layer.input_rows)
    for row in range(rows):
        for feature in range(inputs):
            number = observations[row * inputs + feature]
            lanes[feature * stride + row] = number
            samples[row * padded(inputs) + feature] = number
            finite &= np.int64(is_finite(number))
    if by_rows:
        for row in range(rows):
            forward_row(layers, count, row, stride)
    else:
        forward(layers, count, stride)
    return finite


@inlined
def store_number(address, kind, place, number):
    """Write an action in the number type of its array."""
    if kind == INT64:
        integers(address)[place] = np.int64(number)
    elif kind == INT32:
        integers_32(address)[place] = np.int32(number)
    elif kind == INT8:
        integers_8(address)[place] = np.int8(number)
    else:
        floats(address)[place] = number


@inlined
def store_actions(plan, target, first, rows, stride):
    """Actions as chosen go to the rollout; the environment gets them within its bounds, or from its first number on."""
    actions, size = floats(plan.actions), plan.action_size
    for row in range(rows):
        for index in range(size):
            number, place = actions[index * stride + row], (first + row) * size + index
            store_number(target.actions, plan.action_kind, place, number)
            if plan.action_kind == FLOAT32:
                number = max(min(number, floats(plan.high)[index]), floats(plan.low)[index])
                store_number(target.env_actions, plan.action_kind, place, number)
            else:
                moved = np.int64(number) + integers(plan.starts)[index]
                store_number(target.env_actions, plan.action_kind, place, moved)


@linked("int64(int64, CPointer(float32), int64, int64, CPointer(float32))")
def chunk_values(plan_address, observations, rows, by_rows, values):
    """V of ``rows`` rows of observations, into ``values``; tells whether the observations were all finite."""
    plan = plan_at(plan_address)
    layers = plan.layers + plan.policy_layers * LAYER_BYTES
    finite = run_network(layers, plan.value_layers, observations, rows, padded(rows), by_rows)
    found = floats(layer_at(layers + (plan.value_layers - 1) * LAYER_BYTES).output)
    for row in range(rows):
        values[row] = found[row]
    return finite


@kernel("boolean(int64, int64, float32[:, ::1], int64, int64)")
def act(plan_address, target_address, observations, step, few_from):
    """Actions, log-probabilities and values of observations [env, feature], into row ``step``; False on NaN in them.

    The rows from ``few_from`` on, a few, are run one by one.
    """
    plan, target, finite = plan_at(plan_address), target_at(target_address), 1
    count, start = observations.shape[0], 0
    while start < count:
        by_rows = start >= few_from
        rows = min(plan.lanes, (count if by_rows else few_from) - start)
        first = step * target.environments + start
        chunk, stride = shift(floats(observations.ctypes.data), start * plan.features), padded(rows)
        noise = shift(floats(target.noise), first * plan.action_size)
        run_network(plan.layers, plan.policy_layers, chunk, rows, stride, by_rows)
        if target.masks != 0:
            apply_masks(plan_address, target.masks + first * plan.mask_width, 0, rows, stride)
        if plan.head == CATEGORICAL:
            normalize_groups(plan_address, stride)
        elif plan.head == STATE_DEPENDENT:
            perturb(plan_address, floats(target.matrices), start, rows, stride, by_rows, noise)
        sample(plan_address, stride, rows, noise)
        log_probs_and_entropies(plan_address, stride, rows)
        for row in range(rows):
            floats(target.log_probs)[first + row] = floats(plan.log_probs)[row]
        store_actions(plan, target, first, rows, stride)
        finite &= chunk_values(plan_address, chunk, rows, by_rows, shift(floats(target.values), first))
        start += rows
    return finite != 0


@kernel("void(int64, float32[:, ::1], float32[::1], int64)")
def predict_values(plan_address, observations, values, few_from):
    """V(observations), [row, feature] → [row]; the rows from ``few_from`` on, a few, are run one by one."""
    plan, count, start = plan_at(plan_address), observations.shape[0], 0
    while start < count:
        by_rows = start >= few_from
        rows = min(plan.lanes, (count if by_rows else few_from) - start)
        chunk = shift(floats(observations.ctypes.data), start * plan.features)
        chunk_values(plan_address, chunk, rows, by_rows, shift(floats(values.ctypes.data), start))
        start += rows


@inlined
def decide(update, metrics, squares):
    """The loss, and whether the minibatch may be applied: divergence is looked at after the gradient."""
    loss = metrics[POLICY_LOSS] + update.ent_coef * metrics[ENTROPY_LOSS] + update.vf_coef * metrics[VALUE_LOSS]
    if not is_finite(loss) or not is_finite(squares[ACTOR] + squares[CRITIC]):
        return loss, NON_FINITE
    return loss, (KL_EXCEEDED if metrics[APPROX_KL] > 1.5 * update.target_kl else DONE)


@inlined
def wait_for_other(barrier, role, count):
    """Wait until the other thread has reached minibatch ``count`` too; False when it will not come.

    Threads that have a core each arrive within a fraction of a microsecond; where they do not, yielding lets the other
    one go on.
    """
    mine, other, abandoned = barrier + 64 * role, barrier + 64 * (1 - role), barrier + 128
    publish(integers(mine), count)
    patience = SPINS
    while observe(integers(other)) < count:
        if observe(integers(abandoned)) != 0:
            return False
        if patience > 0:
            patience -= 1
        else:
            sched_yield()
    return True


@inlined
def minibatches_per_epoch(update):
    return (update.samples + update.batch_size - 1) // update.batch_size


@linked("void(int64, int64, int64, int64)")
def role_gradient(plan_address, update_address, role, index):
    """The gradient of one network over minibatch ``index`` of the update, and its terms of the loss."""
    update = update_at(update_address)
    per_epoch = minibatches_per_epoch(update)
    first = index % per_epoch * update.batch_size
    batch = min(update.batch_size, update.samples - first)
    order = update.orders + 8 * (index // per_epoch * update.samples + first)
    metrics = doubles(update.rows + 8 * COLUMNS * index)
    if role == ACTOR:
        actor_gradient(plan_address, update_address, order, batch, metrics)
    else:
        critic_gradient(plan_address, update_address, order, batch, metrics)


@kernel("UniTuple(int64, 2)(int64, int64, int64, int64)")
def update(plan_address, update_address, first_role, last_role):
    """Gradient steps over all minibatches of all epochs. Returns the status and how many minibatches were applied.

    The roles from ``first_role`` to ``last_role`` are this thread's. With both it works alone; with one, another thread
    does the same for the other network, and they wait for each other where the norm of the whole gradient is needed.
    Every later step of a minibatch reads only what belongs to its own network, so that is enough.
    """
    update = update_at(update_address)
    count = update.epochs * minibatches_per_epoch(update)
    for index in range(count):
        metrics, squares = doubles(update.rows + 8 * COLUMNS * index), doubles(update.squares + 16 * index)
        for role in range(first_role, last_role + 1):
            role_gradient(plan_address, update_address, role, index)
            squares[role] = squared_norm(update_address, role)
        if first_role == last_role and not wait_for_other(update.barrier, first_role, index + 1):
            return ABANDONED, index
        loss, status = decide(update, metrics, squares)
        if first_role == ACTOR:
            metrics[LOSS] = loss if status != NON_FINITE else np.nan
        if status == NON_FINITE and update.skip_non_finite != 0:
            continue
        if status != DONE:
            return status, index
        for role in range(first_role, last_role + 1):
            step_parameters(update_address, role, math.sqrt(squares[ACTOR] + squares[CRITIC]))
    return DONE, count


@kernel("void(int64, int64, int64)")
def gradient(plan_address, update_address, index):
    """The first half of one gradient step: the gradients of both networks over minibatch ``index``."""
    for role in range(ACTOR, CRITIC + 1):
        role_gradient(plan_address, update_address, role, index)


@kernel("int64(int64, int64)")
def apply(update_address, index):
    """The second half: norm, decision, clipping and optimiser, on the gradients as they are now; returns the status."""
    update = update_at(update_address)
    metrics, squares = doubles(update.rows + 8 * COLUMNS * index), doubles(update.squares + 16 * index)
    for role in range(ACTOR, CRITIC + 1):
        squares[role] = squared_norm(update_address, role)
    loss, status = decide(update, metrics, squares)
    metrics[LOSS] = loss if status != NON_FINITE else np.nan
    if status == DONE:
        for role in range(ACTOR, CRITIC + 1):
            step_parameters(update_address, role, math.sqrt(squares[ACTOR] + squares[CRITIC]))
    return status
