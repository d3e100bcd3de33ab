"""Action distributions over the outputs of the policy network, ``[output, lane]``; actions are ``[action, lane]``.

Three families: categorical groups (Discrete, MultiDiscrete), independent Bernoulli (MultiBinary), and a Gaussian with
a log standard deviation per action that does not depend on the state (Box).
"""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import math

import numpy as np

from proximo.backends.fused.elementary import HALF, INFINITY, ONE, ZERO, F, exp, sigmoid
from proximo.backends.fused.layers import LAYER_BYTES
from proximo.backends.fused.simd import floats, integers, layer_at, shift
from proximo.backends.fused.structures import Head
from proximo.functional.compilation import inner, inlined

CATEGORICAL, BERNOULLI, GAUSSIAN = int(Head.CATEGORICAL), int(Head.BERNOULLI), int(Head.GAUSSIAN)
HALF_LOG_TWO_PI = F(0.5 * math.log(2 * math.pi))


@inlined
def last_layer(plan):
    """The layer that gives the parameters of the distribution."""
    return layer_at(plan.layers + (plan.policy_layers - 1) * LAYER_BYTES)


@inner
def normalize_groups(plan, stride):
    """Logits become log-probabilities in ``output``; probabilities go into ``error``, which is free until backward."""
    layer, groups, scale = last_layer(plan), integers(plan.groups), floats(plan.scratch)
    first = 0
    for group in range(plan.group_count):
        end = first + groups[group]
        for lane in range(stride):
            scale[lane] = -INFINITY
        for choice in range(first, end):
            logits = shift(floats(layer.output), choice * stride)
            for lane in range(stride):
                scale[lane] = logits[lane] if logits[lane] > scale[lane] else scale[lane]
        total = shift(scale, stride)
        for lane in range(stride):
            total[lane] = ZERO
        for choice in range(first, end):
            logits = shift(floats(layer.output), choice * stride)
            for lane in range(stride):
                logits[lane] -= scale[lane]
                total[lane] += exp(logits[lane])
        for lane in range(stride):
            scale[lane] = F(math.log(total[lane]))
        for choice in range(first, end):
            logits = shift(floats(layer.output), choice * stride)
            probabilities = shift(floats(layer.error), choice * stride)
            for lane in range(stride):
                logits[lane] -= scale[lane]
                probabilities[lane] = exp(logits[lane])
        first = end


@inner
def categorical_log_probs(plan, stride, rows):
    layer, groups = last_layer(plan), integers(plan.groups)
    actions, log_probs, entropies = floats(plan.actions), floats(plan.log_probs), floats(plan.entropies)
    first = 0
    for group in range(plan.group_count):
        for choice in range(first, first + groups[group]):
            logs = shift(floats(layer.output), choice * stride)
            probabilities = shift(floats(layer.error), choice * stride)
            for lane in range(stride):
                entropies[lane] -= probabilities[lane] * logs[lane]
        for lane in range(rows):
            choice = first + np.int64(actions[group * stride + lane])
            log_probs[lane] += floats(layer.output)[choice * stride + lane]
        first += groups[group]


@inner
def categorical_gradient(plan, stride, rows, entropy_weight):
    """∂log p(a)/∂logit = 1[chosen] − p, ∂entropy/∂logit = −p (log p + entropy of the group)."""
    layer, groups, entropy = last_layer(plan), integers(plan.groups), floats(plan.scratch)
    actions, weights = floats(plan.actions), floats(plan.log_prob_gradients)
    first = 0
    for group in range(plan.group_count):
        end = first + groups[group]
        for lane in range(stride):
            entropy[lane] = ZERO
        for choice in range(first, end):
            logs = shift(floats(layer.output), choice * stride)
            probabilities = shift(floats(layer.error), choice * stride)
            for lane in range(stride):
                entropy[lane] -= probabilities[lane] * logs[lane]
        for choice in range(first, end):
            logs = shift(floats(layer.output), choice * stride)
            error = shift(floats(layer.error), choice * stride)
            for lane in range(stride):
                error[lane] *= -weights[lane] - entropy_weight * (logs[lane] + entropy[lane])
        for lane in range(rows):
            choice = first + np.int64(actions[group * stride + lane])
            floats(layer.error)[choice * stride + lane] += weights[lane]
        first = end


@inner
def bernoulli_log_probs(plan, stride, rows):
    """log p(a) = a·z − softplus(z), entropy = softplus(z) − z·p."""
    layer = last_layer(plan)
    actions, log_probs, entropies = floats(plan.actions), floats(plan.log_probs), floats(plan.entropies)
    for index in range(plan.action_size):
        logits = shift(floats(layer.output), index * stride)
        chosen = shift(actions, index * stride)
        for lane in range(rows):
            z = logits[lane]
            softplus = F(math.log1p(exp(-abs(z)))) + max(z, ZERO)
            log_probs[lane] += chosen[lane] * z - softplus
            entropies[lane] += softplus - z * sigmoid(z)


@inner
def bernoulli_gradient(plan, stride, entropy_weight):
    """∂log p(a)/∂z = a − p, ∂entropy/∂z = −z p (1 − p)."""
    layer, weights = last_layer(plan), floats(plan.log_prob_gradients)
    for index in range(plan.action_size):
        logits, error = shift(floats(layer.output), index * stride), shift(floats(layer.error), index * stride)
        chosen = shift(floats(plan.actions), index * stride)
        for lane in range(stride):
            p = sigmoid(logits[lane])
            error[lane] = weights[lane] * (chosen[lane] - p) - entropy_weight * logits[lane] * p * (ONE - p)


@inner
def gaussian_log_probs(plan, stride):
    layer, log_std = last_layer(plan), floats(plan.log_std)
    actions, log_probs, entropies = floats(plan.actions), floats(plan.log_probs), floats(plan.entropies)
    for index in range(plan.action_size):
        mean, chosen = shift(floats(layer.output), index * stride), shift(actions, index * stride)
        scale = ONE / F(math.exp(log_std[index]))
        constant = log_std[index] + HALF_LOG_TWO_PI
        for lane in range(stride):
            z = (chosen[lane] - mean[lane]) * scale
            log_probs[lane] -= HALF * z * z + constant
            entropies[lane] += HALF + constant


@inner
def gaussian_gradient(plan, stride, rows, entropy_weight, accumulate):
    """∂log p(a)/∂mean = (a − mean)/σ², ∂log p(a)/∂log σ = ((a − mean)/σ)² − 1, ∂entropy/∂log σ = 1."""
    layer, weights = last_layer(plan), floats(plan.log_prob_gradients)
    log_std, gradient = floats(plan.log_std), floats(plan.log_std_gradient)
    for index in range(plan.action_size):
        mean, error = shift(floats(layer.output), index * stride), shift(floats(layer.error), index * stride)
        chosen = shift(floats(plan.actions), index * stride)
        scale = ONE / F(math.exp(log_std[index]))
        for lane in range(stride):
            error[lane] = weights[lane] * (chosen[lane] - mean[lane]) * scale * scale
        total = entropy_weight * F(rows)
        for lane in range(rows):
            z = (chosen[lane] - mean[lane]) * scale
            total += weights[lane] * (z * z - ONE)
        gradient[index] = gradient[index] + total if accumulate else total


@inner
def log_probs_and_entropies(plan, stride, rows):
    """Of the actions in ``plan.actions``, into ``plan.log_probs`` and ``plan.entropies`` [lane]."""
    log_probs, entropies = floats(plan.log_probs), floats(plan.entropies)
    for lane in range(stride):
        log_probs[lane] = ZERO
        entropies[lane] = ZERO
    if plan.head == CATEGORICAL:
        categorical_log_probs(plan, stride, rows)
    elif plan.head == BERNOULLI:
        bernoulli_log_probs(plan, stride, rows)
    else:
        gaussian_log_probs(plan, stride)


@inner
def head_gradient(plan, stride, rows, entropy_weight, accumulate):
    """Error of the last layer, from ∂loss/∂log-probability per lane and ∂loss/∂entropy (the same for all lanes)."""
    if plan.head == CATEGORICAL:
        categorical_gradient(plan, stride, rows, entropy_weight)
    elif plan.head == BERNOULLI:
        bernoulli_gradient(plan, stride, entropy_weight)
    else:
        gaussian_gradient(plan, stride, rows, entropy_weight, accumulate)


@inner
def choose_category(logs, probabilities, stride, count, uniform, deterministic):
    """The most probable choice, or the first whose cumulated probability exceeds a uniform number in [0, 1)."""
    chosen = 0
    if deterministic:
        for choice in range(1, count):
            chosen = choice if logs[choice * stride] > logs[chosen * stride] else chosen
        return chosen
    cumulated = ZERO
    for choice in range(count):
        if probabilities[choice * stride] > ZERO:
            chosen = choice  # rounding may leave the sum below the uniform number: then the last possible choice
        cumulated += probabilities[choice * stride]
        if uniform < cumulated:
            break
    return chosen


@inner
def sample(plan, stride, rows, noise, deterministic):
    """Choose actions into ``plan.actions`` from ``noise`` [row, action]: uniform numbers, for a Gaussian normal ones."""
    layer, groups, actions = last_layer(plan), integers(plan.groups), floats(plan.actions)
    size = plan.action_size
    for row in range(rows):
        output, probabilities = shift(floats(layer.output), row), shift(floats(layer.error), row)
        first = 0
        for index in range(size):
            number = noise[row * size + index] if not deterministic else ZERO
            if plan.head == CATEGORICAL:
                logs, weights = shift(output, first * stride), shift(probabilities, first * stride)
                choice = choose_category(logs, weights, stride, groups[index], number, deterministic)
                actions[index * stride + row] = F(choice)
                first += groups[index]
            elif plan.head == BERNOULLI:
                p = sigmoid(output[index * stride])
                actions[index * stride + row] = ONE if (p > HALF if deterministic else number < p) else ZERO
            else:
                mean = output[index * stride]
                deviation = F(math.exp(floats(plan.log_std)[index])) * number
                actions[index * stride + row] = mean if deterministic else mean + deviation
