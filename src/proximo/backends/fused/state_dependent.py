"""State-dependent exploration (gSDE): noise = latent · W, with W ~ N(0, σ²) drawn rarely, one for each environment.

For one state the action is Gaussian with variance v = latent² · σ² + ε. No gradient reaches the latent through v.
"""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import math

from proximo.backends.fused.elementary import HALF, HALF_LOG_TWO_PI, ONE, ZERO, F, exp
from proximo.backends.fused.layers import last_layer, matrix_vector, multiply, padded, transpose
from proximo.backends.fused.simd import exploration_at, floats, plan_at, shift
from proximo.compilation import inlined, linked

TWO = F(2)


@linked("void(int64, CPointer(float32), int64, int64, int64, int64, CPointer(float32))")
def perturb(plan_address, matrices, first, rows, stride, by_rows, noise):
    """``noise`` [row, action] = latent · W; the first row belongs to the environment ``first``.

    A network that was run row by row (``by_rows``) left its latents in ``input_rows``, else they are in ``input``;
    now they are in both.
    """
    plan = plan_at(plan_address)
    layer, actions = last_layer(plan), plan.action_size
    lanes, samples, size = floats(layer.input), floats(layer.input_rows), padded(layer.inputs)
    if by_rows:
        transpose(samples, size, lanes, stride, stride, layer.inputs)
    else:
        transpose(lanes, stride, samples, size, layer.inputs, stride)
    for row in range(rows):
        latent, weights = shift(samples, row * size), shift(matrices, (first + row) * actions * size)
        for place in range(layer.inputs, size):
            latent[place] = ZERO
        matrix_vector(weights, size, actions, latent, shift(noise, row * actions))


@inlined
def find_variances(plan, layer, exploration, stride):
    """v = latent² · σ² + ε with σ = eˢ or, where ``expln`` is set and s > 0, σ = 1 + log(1 + s + ε)."""
    columns, latents, squares = exploration.columns, floats(layer.input), floats(exploration.squared_latents)
    log_std, squared_deviations = floats(plan.log_std), floats(exploration.squared_deviations)
    expln, epsilon = exploration.expln != 0, F(exploration.epsilon)
    for place in range(layer.inputs * columns):
        squared_deviations[place] = exp(TWO * log_std[place])
        if expln and log_std[place] > ZERO:
            deviation = ONE + F(math.log1p(log_std[place] + epsilon))
            squared_deviations[place] = deviation * deviation
    for place in range(layer.inputs * stride):
        squares[place] = latents[place] * latents[place]
    multiply(squared_deviations, 1, columns, squares, stride, floats(exploration.variances), stride,
             columns, stride, layer.inputs, 0)  # fmt: skip


@linked("void(int64, int64)")
def state_dependent_log_probs(plan_address, stride):
    """Add log p(a) = −½(a − mean)²/v − ½ log v − ½ log 2π and the entropy ½ + ½ log 2π + ½ log v, per lane."""
    plan = plan_at(plan_address)
    layer, exploration = last_layer(plan), exploration_at(plan.exploration)
    find_variances(plan, layer, exploration, stride)
    mean, actions, variances = floats(layer.output), floats(plan.actions), floats(exploration.variances)
    log_probs, entropies, epsilon = floats(plan.log_probs), floats(plan.entropies), F(exploration.epsilon)
    for index in range(plan.action_size):
        first, column = index * stride, (index * stride if exploration.columns > 1 else 0)
        for lane in range(stride):
            variance = variances[column + lane] + epsilon
            difference = actions[first + lane] - mean[first + lane]
            constant = HALF * F(math.log(variance)) + HALF_LOG_TWO_PI
            log_probs[lane] -= HALF * difference * difference / variance + constant
            entropies[lane] += HALF + constant


@inlined
def find_errors(plan, layer, exploration, stride, rows, entropy_weight):
    """∂log p/∂mean = (a − mean)/v, ∂log p/∂v = ½((a − mean)²/v − 1)/v, ∂entropy/∂v = ½/v."""
    mean, error, actions = floats(layer.output), floats(layer.error), floats(plan.actions)
    variances, variance_errors = floats(exploration.variances), floats(exploration.variance_errors)
    weights, epsilon = floats(plan.log_prob_gradients), F(exploration.epsilon)
    for place in range(exploration.columns * stride):
        variance_errors[place] = ZERO
    for index in range(plan.action_size):
        first, column = index * stride, (index * stride if exploration.columns > 1 else 0)
        for lane in range(rows):
            precision = ONE / (variances[column + lane] + epsilon)
            difference = actions[first + lane] - mean[first + lane]
            surprise = difference * difference * precision - ONE
            error[first + lane] = weights[lane] * difference * precision
            variance_errors[column + lane] += HALF * precision * (weights[lane] * surprise + entropy_weight)


@linked("void(int64, int64, int64, float32, int64)")
def state_dependent_gradient(plan_address, stride, rows, entropy_weight, accumulate):
    """Error of the last layer, and the gradient of s = log σ: ∂v/∂s = latent² · 2σ · ∂σ/∂s."""
    plan = plan_at(plan_address)
    layer, exploration = last_layer(plan), exploration_at(plan.exploration)
    columns, size = exploration.columns, padded(layer.inputs)
    find_errors(plan, layer, exploration, stride, rows, entropy_weight)
    samples, found = floats(exploration.squared_latent_rows), floats(exploration.gradient)
    transpose(floats(exploration.squared_latents), stride, samples, size, layer.inputs, stride)
    multiply(floats(exploration.variance_errors), stride, 1, samples, size, found, size, columns, size, rows, 0)
    log_std, squares = floats(plan.log_std), floats(exploration.squared_deviations)
    gradient, expln, epsilon = floats(plan.log_std_gradient), exploration.expln != 0, F(exploration.epsilon)
    for column in range(columns):
        for latent in range(layer.inputs):
            place = latent * columns + column
            slope = TWO * squares[place]
            if expln and log_std[place] > ZERO:
                slope = TWO * F(math.sqrt(squares[place])) / (ONE + log_std[place] + epsilon)
            total = found[column * size + latent] * slope
            gradient[place] = gradient[place] + total if accumulate else total
