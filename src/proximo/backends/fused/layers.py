"""Linear layers with their activations, forwards and backwards, over activations laid out ``[feature, lane]``."""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import Any

from proximo.backends.fused.elementary import ONE, ZERO, F, exp, sigmoid, tanh
from proximo.backends.fused.simd import AVX512, LANES, floats, layer_at, shift, tile, transpose_block
from proximo.backends.fused.structures import ALIGNMENT, LAYER, Activation
from proximo.functional.compilation import inner

LEAK = F(0.01)  # torch's default slope of LeakyReLU
LAYER_BYTES = LAYER.itemsize
IDENTITY, TANH, RELU = int(Activation.IDENTITY), int(Activation.TANH), int(Activation.RELU)
ELU, LEAKY_RELU, SILU, SIGMOID = (
    int(Activation.ELU), int(Activation.LEAKY_RELU), int(Activation.SILU), int(Activation.SIGMOID),
)  # fmt: skip


@inner
def padded(count):
    """The next multiple of the alignment."""
    return (count + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


def _panel(rows_per_tile: int, vectors: int) -> Any:
    """A product with as many columns as ``vectors`` vectors, walked down in tiles."""
    tall, flat = tile(rows_per_tile, vectors), tile(1, vectors)

    @inner
    def panel(a, a_row, a_step, b, b_stride, c, c_stride, rows, depth, accumulate):
        row = 0
        while row + rows_per_tile <= rows:
            tall(
                shift(a, row * a_row), a_row, a_step, b, b_stride, shift(c, row * c_stride), c_stride, depth, accumulate
            )
            row += rows_per_tile
        while row < rows:
            flat(
                shift(a, row * a_row), a_row, a_step, b, b_stride, shift(c, row * c_stride), c_stride, depth, accumulate
            )
            row += 1

    return panel


# as many rows as keep the sums, the vectors of b and one factor within the registers (32 with AVX-512, else 16)
WIDEST = 4 if AVX512 else 2
widest_panel = _panel(4, WIDEST)
narrow_panel = _panel(8, 1)


@inner
def multiply(a, a_row, a_step, b, b_stride, c, c_stride, rows, columns, depth, accumulate):
    """``c[rows, columns] (+)= a[rows, depth] · b[depth, columns]``, columns a multiple of LANES."""
    column = 0
    while column + WIDEST * LANES <= columns:
        widest_panel(a, a_row, a_step, shift(b, column), b_stride, shift(c, column), c_stride, rows, depth, accumulate)
        column += WIDEST * LANES
    while column < columns:
        narrow_panel(a, a_row, a_step, shift(b, column), b_stride, shift(c, column), c_stride, rows, depth, accumulate)
        column += LANES


@inner
def transpose(source, source_stride, target, target_stride, rows, columns):
    """``target[columns, rows] = source[rows, columns]ᵀ``, both padded to whole blocks."""
    for row in range(0, rows, LANES):
        for column in range(0, columns, LANES):
            transpose_block(
                shift(source, row * source_stride + column), source_stride,
                shift(target, column * target_stride + row), target_stride,
            )  # fmt: skip


@inner
def activate(layer, stride):
    """``output = activation(output + bias)``; for SiLU, whose slope is not a function of its output, keep the slope."""
    bias, kind = floats(layer.bias), layer.activation
    for feature in range(layer.outputs):
        output, shift_by = shift(floats(layer.output), feature * stride), bias[feature]
        if kind == TANH:
            for lane in range(stride):
                output[lane] = tanh(output[lane] + shift_by)
        elif kind == RELU:
            for lane in range(stride):
                x = output[lane] + shift_by
                output[lane] = ZERO if x < ZERO else x
        elif kind == ELU:
            for lane in range(stride):
                x = output[lane] + shift_by
                output[lane] = x if x > ZERO else exp(x) - ONE
        elif kind == LEAKY_RELU:
            for lane in range(stride):
                x = output[lane] + shift_by
                output[lane] = x if x > ZERO else x * LEAK
        elif kind == SILU:
            slope = shift(floats(layer.slope), feature * stride)
            for lane in range(stride):
                x = output[lane] + shift_by
                gate = sigmoid(x)
                output[lane] = x * gate
                slope[lane] = gate * (ONE + x * (ONE - gate))
        elif kind == SIGMOID:
            for lane in range(stride):
                output[lane] = sigmoid(output[lane] + shift_by)
        else:
            for lane in range(stride):
                output[lane] += shift_by


@inner
def multiply_by_slope(layer, stride):
    """``error *= activation'``, the slope taken from the activation's output."""
    kind = layer.activation
    for feature in range(layer.outputs):
        error = shift(floats(layer.error), feature * stride)
        output = shift(floats(layer.output), feature * stride)
        if kind == TANH:
            for lane in range(stride):
                error[lane] *= ONE - output[lane] * output[lane]
        elif kind == RELU:
            for lane in range(stride):
                error[lane] = error[lane] if output[lane] > ZERO else ZERO
        elif kind == ELU:
            for lane in range(stride):
                error[lane] *= ONE if output[lane] > ZERO else output[lane] + ONE
        elif kind == LEAKY_RELU:
            for lane in range(stride):
                error[lane] *= ONE if output[lane] > ZERO else LEAK
        elif kind == SILU:
            slope = shift(floats(layer.slope), feature * stride)
            for lane in range(stride):
                error[lane] *= slope[lane]
        elif kind == SIGMOID:
            for lane in range(stride):
                error[lane] *= output[lane] * (ONE - output[lane])


@inner
def forward(layers, count, stride):
    """Run ``count`` layers on what lies in the first layer's input; rows of activations hold ``stride`` lanes."""
    for index in range(count):
        layer = layer_at(layers + index * LAYER_BYTES)
        multiply(
            floats(layer.weight), layer.inputs, 1, floats(layer.input), stride,
            floats(layer.output), stride, layer.outputs, stride, layer.inputs, False,
        )  # fmt: skip
        activate(layer, stride)


@inner
def add_weight_gradient(layer, stride, rows, accumulate):
    """``weight_gradient[output, input] (+)= Σ over samples of error · input``, the sum running over ``rows`` lanes."""
    error, samples, sample_size = floats(layer.error), floats(layer.input_rows), padded(layer.inputs)
    gradient, whole = floats(layer.weight_gradient), layer.inputs // LANES * LANES
    multiply(error, stride, 1, samples, sample_size, gradient, layer.inputs, layer.outputs, whole, rows, accumulate)
    rest = layer.inputs - whole
    if rest > 0:  # a whole vector would write into the next row of weights, so the last columns take a detour
        margin = floats(layer.margin)
        multiply(error, stride, 1, shift(samples, whole), sample_size, margin, LANES, layer.outputs, LANES, rows, False)
        for output in range(layer.outputs):
            place, found = shift(gradient, output * layer.inputs + whole), shift(margin, output * LANES)
            for column in range(rest):
                place[column] = place[column] + found[column] if accumulate else found[column]


@inner
def add_bias_gradient(layer, stride, rows, accumulate):
    """``bias_gradient[output] (+)= Σ over samples of error``."""
    gradient = floats(layer.bias_gradient)
    for output in range(layer.outputs):
        error = shift(floats(layer.error), output * stride)
        total = ZERO
        for lane in range(rows):
            total += error[lane]
        gradient[output] = gradient[output] + total if accumulate else total


@inner
def backward(layers, count, stride, rows, accumulate):
    """From the error of the last layer to the gradients of all; ``accumulate`` adds to those of an earlier chunk."""
    for index in range(count - 1, -1, -1):
        layer = layer_at(layers + index * LAYER_BYTES)
        if index > 0:
            transpose(floats(layer.input), stride, floats(layer.input_rows), padded(layer.inputs), layer.inputs, stride)
        add_weight_gradient(layer, stride, rows, accumulate)
        add_bias_gradient(layer, stride, rows, accumulate)
        if index > 0:
            previous = layer_at(layers + (index - 1) * LAYER_BYTES)
            multiply(
                floats(layer.weight), 1, layer.inputs, floats(layer.error), stride,
                floats(previous.error), stride, layer.inputs, stride, layer.outputs, False,
            )  # fmt: skip
            multiply_by_slope(previous, stride)
