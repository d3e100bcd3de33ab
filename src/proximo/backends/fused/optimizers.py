"""Norm of the gradient and the optimisers, over the segments of flat memory that belong to one network."""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import math

from proximo.backends.fused.elementary import ONE, ZERO, F
from proximo.backends.fused.simd import floats, segment_at, shift, update_at
from proximo.backends.fused.structures import SEGMENT, Optimizer
from proximo.compilation import inlined, linked

ADAM, RMSPROP_TF = int(Optimizer.ADAM), int(Optimizer.RMSPROP_TF)
SEGMENT_BYTES = SEGMENT.itemsize


@linked("float64(int64, int64)")
def squared_norm(update_address, role):
    """Sum of squares of a network's gradients, in float64 so that a large gradient does not overflow."""
    update, total = update_at(update_address), 0.0
    for index in range(update.segment_count):
        segment = segment_at(update.segments + index * SEGMENT_BYTES)
        if segment.role == role:
            gradient = shift(floats(update.gradients), segment.offset)
            for place in range(segment.size):
                number = float(gradient[place])
                total += number * number
    return total


@inlined
def adam(parameter, gradient, momentum, variance, size, step, scale, update):
    """m ← m + (1 − β₁)(g − m), v ← β₂ v + (1 − β₂) g², p ← p − lr / (1 − β₁ᵗ) · m / (√(v / (1 − β₂ᵗ)) + ε)."""
    new_share = F(1.0 - update.momentum_decay)
    variance_decay, new_variance_share = F(update.variance_decay), F(1.0 - update.variance_decay)
    step_size = F(update.learning_rate / (1.0 - update.momentum_decay**step))
    correction = F(1.0 / math.sqrt(1.0 - update.variance_decay**step))
    epsilon = F(update.epsilon)
    for place in range(size):
        slope = gradient[place] * scale
        momentum[place] += (slope - momentum[place]) * new_share
        variance[place] = variance[place] * variance_decay + slope * slope * new_variance_share
        parameter[place] -= step_size * momentum[place] / (F(math.sqrt(variance[place])) * correction + epsilon)


@inlined
def rmsprop(parameter, gradient, variance, size, scale, update):
    """v ← α v + (1 − α) g², p ← p − lr · g / (√v + ε), or, as TensorFlow has it, / √(v + ε)."""
    decay, new_share = F(update.variance_decay), F(1.0 - update.variance_decay)
    learning_rate, epsilon = F(update.learning_rate), F(update.epsilon)
    within, outside = (epsilon, ZERO) if update.optimizer == RMSPROP_TF else (ZERO, epsilon)
    for place in range(size):
        slope = gradient[place] * scale
        variance[place] = variance[place] * decay + slope * slope * new_share
        parameter[place] -= learning_rate * slope / (F(math.sqrt(variance[place] + within)) + outside)


@linked("void(int64, int64, float64)")
def step_parameters(update_address, role, norm):
    """Scale the gradients of a network to the largest allowed norm of all gradients, and step."""
    update = update_at(update_address)
    allowed, steps = F(update.max_grad_norm / (norm + 1e-6)), floats(update.steps)
    scale = allowed if allowed < ONE else ONE
    for index in range(update.segment_count):
        segment = segment_at(update.segments + index * SEGMENT_BYTES)
        if segment.role == role:
            steps[index] += ONE
            parameter = shift(floats(update.data), segment.offset)
            gradient = shift(floats(update.gradients), segment.offset)
            variance = shift(floats(update.variance), segment.offset)
            if update.optimizer == ADAM:
                momentum = shift(floats(update.momentum), segment.offset)
                adam(parameter, gradient, momentum, variance, segment.size, float(steps[index]), scale, update)
            else:
                rmsprop(parameter, gradient, variance, segment.size, scale, update)
