"""Action distributions over the outputs of the policy network, ``[output, lane]``; actions are ``[action, lane]``.

Four families: categorical groups (Discrete, MultiDiscrete), independent Bernoulli (MultiBinary), a Gaussian with a log
standard deviation per action that does not depend on the state (Box), and one where it does (``state_dependent.py``).
"""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import math

import numpy as np

from proximo.backends.fused.elementary import HALF, HALF_LOG_TWO_PI, INFINITY, ONE, ZERO, F, exp, sigmoid
from proximo.backends.fused.layers import last_layer
from proximo.backends.fused.simd import floats, integers, plan_at, shift
from proximo.backends.fused.state_dependent import state_dependent_gradient, state_dependent_log_probs
from proximo.backends.fused.structures import Head
from proximo.compilation import inlined, linked

CATEGORICAL, BERNOULLI, GAUSSIAN = int(Head.CATEGORICAL), int(Head.BERNOULLI), int(Head.GAUSSIAN)
STATE_DEPENDENT = int(Head.STATE_DEPENDENT)


@linked("void(int64, int64)")
def normalize_groups(plan_address, stride):
    """Logits become log-probabilities in ``output``; probabilities go into ``error``, which is free until backward.

    The entropy of each group goes into ``group_entropies`` [group, lane].
    """
    plan = plan_at(plan_address)
    layer, groups, scale = last_layer(plan), integers(plan.groups), floats(plan.scratch)
    logs, probabilities, first = floats(layer.output), floats(layer.error), 0
    for group in range(plan.action_size):
        end, entropy = first + groups[group], shift(floats(plan.group_entropies), group * stride)
        for lane in range(stride):
            scale[lane] = -INFINITY
            entropy[lane] = ZERO
        for choice in range(first * stride, end * stride, stride):
            for lane in range(stride):
                logit = logs[choice + lane]
                scale[lane] = logit if logit > scale[lane] else scale[lane]
        for choice in range(first * stride, end * stride, stride):
            for lane in range(stride):
                logs[choice + lane] -= scale[lane]
                entropy[lane] += exp(logs[choice + lane])
        for lane in range(stride):
            scale[lane] = F(math.log(entropy[lane]))
            entropy[lane] = ZERO
        for choice in range(first * stride, end * stride, stride):
            for lane in range(stride):
                log = logs[choice + lane] - scale[lane]
                probability = exp(log)
                logs[choice + lane] = log
                probabilities[choice + lane] = probability
                entropy[lane] -= probability * log
        first = end


@inlined
def categorical_log_probs(plan, stride, rows):
    layer, groups, actions = last_layer(plan), integers(plan.groups), floats(plan.actions)
    log_probs, entropies, logs, first = floats(plan.log_probs), floats(plan.entropies), floats(layer.output), 0
    for group in range(plan.action_size):
        for lane in range(rows):
            chosen = first + np.int64(actions[group * stride + lane])
            log_probs[lane] += logs[chosen * stride + lane]
            entropies[lane] += floats(plan.group_entropies)[group * stride + lane]
        first += groups[group]


@inlined
def categorical_gradient(plan, stride, rows, entropy_weight):
    """∂log p(a)/∂logit = 1[chosen] − p, ∂entropy/∂logit = −p (log p + entropy of the group)."""
    layer, groups, actions = last_layer(plan), integers(plan.groups), floats(plan.actions)
    weights, logs, error, first = floats(plan.log_prob_gradients), floats(layer.output), floats(layer.error), 0
    for group in range(plan.action_size):
        end, entropy = first + groups[group], shift(floats(plan.group_entropies), group * stride)
        for choice in range(first * stride, end * stride, stride):
            for lane in range(stride):
                error[choice + lane] *= -weights[lane] - entropy_weight * (logs[choice + lane] + entropy[lane])
        for lane in range(rows):
            chosen = first + np.int64(actions[group * stride + lane])
            error[chosen * stride + lane] += weights[lane]
        first = end


@inlined
def bernoulli_log_probs(plan, stride, rows):
    """log p(a) = min(±z, 0) − log(1 + e^−|z|), entropy = log(1 + e^−|z|) + |z| / (1 + e^|z|).

    Nothing cancels here, so a masked switch, whose logit is huge, leaves no rounding error among the others.
    """
    logits, actions = floats(last_layer(plan).output), floats(plan.actions)
    log_probs, entropies = floats(plan.log_probs), floats(plan.entropies)
    for index in range(0, plan.action_size * stride, stride):
        for lane in range(rows):
            z = logits[index + lane] if actions[index + lane] > HALF else -logits[index + lane]
            tail = exp(-abs(z))
            log_partition = F(math.log1p(tail))
            log_probs[lane] += (z if z < ZERO else ZERO) - log_partition
            entropies[lane] += log_partition + abs(z) * tail / (ONE + tail)


@inlined
def bernoulli_gradient(plan, stride, entropy_weight):
    """∂log p(a)/∂z = a − p, ∂entropy/∂z = −z p (1 − p)."""
    layer, actions, weights = last_layer(plan), floats(plan.actions), floats(plan.log_prob_gradients)
    logits, error = floats(layer.output), floats(layer.error)
    for index in range(0, plan.action_size * stride, stride):
        for lane in range(stride):
            z = logits[index + lane]
            p = sigmoid(z)
            error[index + lane] = weights[lane] * (actions[index + lane] - p) - entropy_weight * z * p * (ONE - p)


@inlined
def gaussian_log_probs(plan, stride):
    """log p(a) = −½((a − mean)/σ)² − log σ − ½ log 2π, entropy = ½ + ½ log 2π + log σ."""
    mean, actions, log_std = floats(last_layer(plan).output), floats(plan.actions), floats(plan.log_std)
    log_probs, entropies = floats(plan.log_probs), floats(plan.entropies)
    for index in range(plan.action_size):
        scale, constant, first = F(math.exp(-log_std[index])), log_std[index] + HALF_LOG_TWO_PI, index * stride
        for lane in range(stride):
            z = (actions[first + lane] - mean[first + lane]) * scale
            log_probs[lane] -= HALF * z * z + constant
            entropies[lane] += HALF + constant


@inlined
def gaussian_gradient(plan, stride, rows, entropy_weight, accumulate):
    """∂log p(a)/∂mean = (a − mean)/σ², ∂log p(a)/∂log σ = ((a − mean)/σ)² − 1, ∂entropy/∂log σ = 1."""
    layer, actions, weights = last_layer(plan), floats(plan.actions), floats(plan.log_prob_gradients)
    mean, error, log_std = floats(layer.output), floats(layer.error), floats(plan.log_std)
    for index in range(plan.action_size):
        scale, first, total = F(math.exp(-log_std[index])), index * stride, entropy_weight * F(rows)
        for lane in range(rows):
            z = (actions[first + lane] - mean[first + lane]) * scale
            error[first + lane] = weights[lane] * z * scale
            total += weights[lane] * (z * z - ONE)
        gradient = floats(plan.log_std_gradient)
        gradient[index] = gradient[index] + total if accumulate else total


@linked("void(int64, int64, int64)")
def log_probs_and_entropies(plan_address, stride, rows):
    """Of the actions in ``plan.actions``, into ``plan.log_probs`` and ``plan.entropies`` [lane]."""
    plan = plan_at(plan_address)
    log_probs, entropies = floats(plan.log_probs), floats(plan.entropies)
    for lane in range(stride):
        log_probs[lane] = ZERO
        entropies[lane] = ZERO
    if plan.head == CATEGORICAL:
        categorical_log_probs(plan, stride, rows)
    elif plan.head == BERNOULLI:
        bernoulli_log_probs(plan, stride, rows)
    elif plan.head == GAUSSIAN:
        gaussian_log_probs(plan, stride)
    else:
        state_dependent_log_probs(plan_address, stride)


@linked("void(int64, int64, int64, float32, int64)")
def head_gradient(plan_address, stride, rows, entropy_weight, accumulate):
    """Error of the last layer, from ∂loss/∂log-probability per lane and ∂loss/∂entropy (the same for all lanes)."""
    plan = plan_at(plan_address)
    if plan.head == CATEGORICAL:
        categorical_gradient(plan, stride, rows, entropy_weight)
    elif plan.head == BERNOULLI:
        bernoulli_gradient(plan, stride, entropy_weight)
    elif plan.head == GAUSSIAN:
        gaussian_gradient(plan, stride, rows, entropy_weight, accumulate)
    else:
        state_dependent_gradient(plan_address, stride, rows, entropy_weight, accumulate)


@inlined
def choose_category(probabilities, stride, count, uniform):
    """The first choice whose cumulated probability exceeds a uniform number in [0, 1)."""
    chosen, cumulated = 0, ZERO
    for choice in range(count):
        if uniform >= cumulated and probabilities[choice * stride] > ZERO:
            chosen = choice  # rounding may leave the sum below the uniform number: then the last possible choice
        cumulated += probabilities[choice * stride]
    return chosen


@linked("void(int64, int64, int64, CPointer(float32))")
def sample(plan_address, stride, rows, noise):
    """Choose ``plan.actions``, from ``noise`` [row, action].

    That is uniform numbers, normal ones for a Gaussian, and the perturbation itself where it depends on the state.
    """
    plan = plan_at(plan_address)
    layer, groups, actions = last_layer(plan), integers(plan.groups), floats(plan.actions)
    size = plan.action_size
    for row in range(rows):
        output, probabilities = shift(floats(layer.output), row), shift(floats(layer.error), row)
        first = 0
        for index in range(size):
            number, place = noise[row * size + index], index * stride
            if plan.head == CATEGORICAL:
                weights = shift(probabilities, first * stride)
                actions[place + row] = F(choose_category(weights, stride, groups[index], number))
                first += groups[index]
            elif plan.head == BERNOULLI:
                actions[place + row] = ONE if number < sigmoid(output[place]) else ZERO
            else:
                scale = F(math.exp(floats(plan.log_std)[index])) if plan.head == GAUSSIAN else ONE
                actions[place + row] = output[place] + scale * number
