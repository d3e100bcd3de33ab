"""The losses of one minibatch, chunk by chunk: metrics, and the gradients of the two networks."""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import math

from proximo.backends.fused.elementary import ONE, ZERO, F, exp
from proximo.backends.fused.heads import CATEGORICAL, head_gradient, log_probs_and_entropies, normalize_groups
from proximo.backends.fused.layers import LAYER_BYTES, backward, forward, padded, transpose
from proximo.backends.fused.masks import apply_masks
from proximo.backends.fused.simd import floats, integers, layer_at, plan_at, shift, update_at
from proximo.backends.fused.structures import Column, Objective
from proximo.compilation import inlined, linked

CLIPPED = int(Objective.CLIPPED)
POLICY_LOSS, VALUE_LOSS, ENTROPY_LOSS = int(Column.POLICY_LOSS), int(Column.VALUE_LOSS), int(Column.ENTROPY_LOSS)
APPROX_KL, CLIP_FRACTION = int(Column.APPROX_KL), int(Column.CLIP_FRACTION)


@linked("void(int64, CPointer(float32), CPointer(int64), int64, int64)")
def gather(layer_address, features, order, rows, stride):
    """Rows of ``features`` into a network's first layer, both ways round: [lane, feature] and [feature, lane]."""
    layer = layer_at(layer_address)
    size = padded(layer.inputs)
    for row in range(rows):
        source, target = shift(features, order[row] * layer.inputs), shift(floats(layer.input_rows), row * size)
        for feature in range(layer.inputs):
            target[feature] = source[feature]
    transpose(floats(layer.input_rows), size, floats(layer.input), stride, stride, layer.inputs)


@inlined
def scale_advantages(update, order, rows):
    """Advantages of a minibatch, with mean 0 and standard deviation 1 (n − 1 in the denominator) if so wished."""
    advantages, scaled = floats(update.advantages), floats(update.scaled_advantages)
    total = 0.0
    for row in range(rows):
        scaled[row] = advantages[order[row]]
        total += scaled[row]
    if update.normalize_advantage == 0 or rows < 2:
        return
    mean = total / rows
    squares = 0.0
    for row in range(rows):
        difference = scaled[row] - mean
        squares += difference * difference
    scale = F(1.0 / (math.sqrt(squares / (rows - 1)) + 1e-8))
    for row in range(rows):
        scaled[row] = (scaled[row] - F(mean)) * scale


@inlined
def policy_objective(plan, update, order, advantages, rows, batch, metrics):
    """−min(r·A, clip(r)·A) with r = p/p_old, or −A·log p: adds to the metrics, leaves ∂loss/∂log p per lane."""
    log_probs, entropies, gradients = floats(plan.log_probs), floats(plan.entropies), floats(plan.log_prob_gradients)
    old_log_probs, old = floats(update.log_probs), floats(plan.scratch)
    share, limit, clipping = F(1.0 / batch), F(update.clip_range), update.objective == CLIPPED
    low, high = F(1.0 - update.clip_range), F(1.0 + update.clip_range)
    for row in range(rows):
        old[row] = old_log_probs[order[row]]
    loss, entropy, divergence, clipped = 0.0, 0.0, 0.0, 0.0
    for row in range(rows):
        advantage = advantages[row]
        log_ratio = log_probs[row] - old[row]
        ratio = exp(log_ratio)
        plain = advantage * ratio
        bounded = advantage * (low if ratio < low else (high if ratio > high else ratio))
        if clipping:
            # where the two are equal, the gradient passes, as in torch
            gradients[row] = ZERO if bounded < plain else -plain * share
            loss -= bounded if bounded < plain else plain
        else:
            gradients[row] = -advantage * share
            loss -= advantage * log_probs[row]
        entropy -= entropies[row]
        divergence += (ratio - ONE) - log_ratio
        clipped += 1.0 if abs(ratio - ONE) > limit else 0.0
    metrics[POLICY_LOSS] += loss / batch
    metrics[ENTROPY_LOSS] += entropy / batch
    metrics[APPROX_KL] += divergence / batch
    metrics[CLIP_FRACTION] += clipped / batch


@linked("void(int64, int64, int64, int64, CPointer(float64))")
def actor_gradient(plan_address, update_address, order, batch, metrics):
    """Gradient of the policy loss and the entropy bonus over the ``batch`` samples listed at the address ``order``."""
    plan, update = plan_at(plan_address), update_at(update_address)
    scale_advantages(update, integers(order), batch)
    actions = floats(update.actions)
    for start in range(0, batch, plan.lanes):
        rows, chunk = min(plan.lanes, batch - start), integers(order + 8 * start)
        stride = padded(rows)
        gather(plan.layers, floats(update.features), chunk, rows, stride)
        for index in range(plan.action_size):
            for row in range(rows):
                floats(plan.actions)[index * stride + row] = actions[chunk[row] * plan.action_size + index]
        forward(plan.layers, plan.policy_layers, stride)
        if update.masks != 0:
            apply_masks(plan_address, update.masks, order + 8 * start, rows, stride)
        if plan.head == CATEGORICAL:
            normalize_groups(plan_address, stride)
        log_probs_and_entropies(plan_address, stride, rows)
        policy_objective(plan, update, chunk, shift(floats(update.scaled_advantages), start), rows, batch, metrics)
        head_gradient(plan_address, stride, rows, F(-update.ent_coef / batch), start > 0)
        backward(plan.layers, plan.policy_layers, stride, rows, start > 0)


@inlined
def value_error(update, order, values, error, rows, batch, metrics):
    """(return − V)², with V kept within ``clip_range_vf`` of its old value if that is not negative.

    The pessimistic form keeps to V itself where its error is the larger one.
    """
    returns, old_values = floats(update.returns), floats(update.values)
    weight, limit = F(2.0 * update.vf_coef / batch), F(update.clip_range_vf)
    loss = 0.0
    for row in range(rows):
        value, passes = values[row], ONE
        difference = value - returns[order[row]]
        if limit >= ZERO:
            old = old_values[order[row]]
            change = value - old
            value = old + (limit if change > limit else (-limit if change < -limit else change))
            bounded = value - returns[order[row]]
            if abs(change) > limit and not (update.pessimistic_value != 0 and abs(difference) > abs(bounded)):
                difference, passes = bounded, ZERO
        error[row] = weight * difference * passes
        loss += difference * difference
    metrics[VALUE_LOSS] += loss / batch


@linked("void(int64, int64, int64, int64, CPointer(float64))")
def critic_gradient(plan_address, update_address, order, batch, metrics):
    """Gradient of the value loss over the ``batch`` samples listed at the address ``order``."""
    plan, update = plan_at(plan_address), update_at(update_address)
    layers = plan.layers + plan.policy_layers * LAYER_BYTES
    last = layer_at(layers + (plan.value_layers - 1) * LAYER_BYTES)
    for start in range(0, batch, plan.lanes):
        rows, chunk = min(plan.lanes, batch - start), integers(order + 8 * start)
        stride = padded(rows)
        gather(layers, floats(update.features), chunk, rows, stride)
        forward(layers, plan.value_layers, stride)
        value_error(update, chunk, floats(last.output), floats(last.error), rows, batch, metrics)
        backward(layers, plan.value_layers, stride, rows, start > 0)
