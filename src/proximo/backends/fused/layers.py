"""Linear layers with their activations, forwards and backwards, over activations laid out ``[feature, lane]``."""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from proximo.backends.fused.elementary import ONE, ZERO, F, exp, sigmoid, tanh
from proximo.backends.fused.simd import AVX512, LANES, dot_products, floats, layer_at, shift, tile, transpose_block
from proximo.backends.fused.structures import LAYER, Activation
from proximo.compilation import inlined, linked
from proximo.networks.flat_parameters import ALIGNMENT  # so that tiles may read past the end of a row

LEAK = F(0.01)  # torch's default slope of LeakyReLU
LAYER_BYTES = LAYER.itemsize
TANH, RELU, ELU = int(Activation.TANH), int(Activation.RELU), int(Activation.ELU)
LEAKY_RELU, SILU, SIGMOID = int(Activation.LEAKY_RELU), int(Activation.SILU), int(Activation.SIGMOID)

# as many sums as there are registers for, beside the vectors of b and one factor: 32 registers with AVX-512, else 16
VECTORS = 4 if AVX512 else 2
square_tile, wide_tile = tile(4, VECTORS), tile(1, VECTORS)
tall_tile, single_tile = tile(8, 1), tile(1, 1)
dot_4, dot_1 = dot_products(4), dot_products(1)


@inlined
def padded(count):
    """The next multiple of the alignment."""
    return (count + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


@inlined
def last_layer(plan):
    """The layer that gives the parameters of the action distribution."""
    return layer_at(plan.layers + (plan.policy_layers - 1) * LAYER_BYTES)


@linked(
    "void(CPointer(float32), int64, int64, CPointer(float32), int64, CPointer(float32), int64, "
    "int64, int64, int64, int64)"
)
def multiply(a, a_row, a_step, b, b_stride, c, c_stride, rows, columns, depth, accumulate):
    """``c[rows, columns] (+)= a[rows, depth] · b[depth, columns]``; columns are a multiple of LANES."""
    column = 0
    while column < columns:
        b_part, c_part, row = shift(b, column), shift(c, column), 0
        if column + VECTORS * LANES <= columns:
            while row + 4 <= rows:
                square_tile(
                    shift(a, row * a_row), a_row, a_step, b_part, b_stride,
                    shift(c_part, row * c_stride), c_stride, depth, accumulate,
                )  # fmt: skip
                row += 4
            while row < rows:
                wide_tile(
                    shift(a, row * a_row), a_row, a_step, b_part, b_stride,
                    shift(c_part, row * c_stride), c_stride, depth, accumulate,
                )  # fmt: skip
                row += 1
            column += VECTORS * LANES
        else:
            while row + 8 <= rows:
                tall_tile(
                    shift(a, row * a_row), a_row, a_step, b_part, b_stride,
                    shift(c_part, row * c_stride), c_stride, depth, accumulate,
                )  # fmt: skip
                row += 8
            while row < rows:
                single_tile(
                    shift(a, row * a_row), a_row, a_step, b_part, b_stride,
                    shift(c_part, row * c_stride), c_stride, depth, accumulate,
                )  # fmt: skip
                row += 1
            column += LANES


@linked("void(CPointer(float32), int64, CPointer(float32), int64, int64, int64)")
def transpose(source, source_stride, target, target_stride, rows, columns):
    """``target[columns, rows] = source[rows, columns]ᵀ``, both padded to whole blocks."""
    for row in range(0, rows, LANES):
        for column in range(0, columns, LANES):
            transpose_block(
                shift(source, row * source_stride + column), source_stride,
                shift(target, column * target_stride + row), target_stride,
            )  # fmt: skip


@linked("void(int64, CPointer(float32), CPointer(float32), int64)")
def activate(kind, output, slope, count):
    """``output = activation(output)``; for SiLU, whose slope is not a function of its output, keep the slope."""
    if kind == TANH:
        for place in range(count):
            output[place] = tanh(output[place])
    elif kind == RELU:
        for place in range(count):
            x = output[place]
            output[place] = ZERO if x < ZERO else x
    elif kind == ELU:
        for place in range(count):
            x = output[place]
            output[place] = x if x > ZERO else exp(x) - ONE
    elif kind == LEAKY_RELU:
        for place in range(count):
            x = output[place]
            output[place] = x if x > ZERO else x * LEAK
    elif kind == SILU:
        for place in range(count):
            x = output[place]
            gate = sigmoid(x)
            output[place] = x * gate
            slope[place] = gate * (ONE + x * (ONE - gate))
    elif kind == SIGMOID:
        for place in range(count):
            output[place] = sigmoid(output[place])


@linked("void(int64, int64)")
def multiply_by_slope(layer_address, stride):
    """``error *= activation'``, the slope taken from the activation's output."""
    layer = layer_at(layer_address)
    kind, count = layer.activation, layer.outputs * stride
    error, output, slope = floats(layer.error), floats(layer.output), floats(layer.slope)
    if kind == TANH:
        for place in range(count):
            error[place] *= ONE - output[place] * output[place]
    elif kind == RELU:
        for place in range(count):
            error[place] = error[place] if output[place] > ZERO else ZERO
    elif kind == ELU:
        for place in range(count):
            error[place] *= ONE if output[place] > ZERO else output[place] + ONE
    elif kind == LEAKY_RELU:
        for place in range(count):
            error[place] *= ONE if output[place] > ZERO else LEAK
    elif kind == SILU:
        for place in range(count):
            error[place] *= slope[place]
    elif kind == SIGMOID:
        for place in range(count):
            error[place] *= output[place] * (ONE - output[place])


@linked("void(int64, int64, int64)")
def forward(layers, count, stride):
    """Run ``count`` layers on what lies in the first layer's input; rows of activations hold ``stride`` lanes."""
    for index in range(count):
        layer = layer_at(layers + index * LAYER_BYTES)
        output, bias = floats(layer.output), floats(layer.bias)
        for feature in range(layer.outputs):
            for lane in range(stride):
                output[feature * stride + lane] = bias[feature]
        multiply(
            floats(layer.weight), layer.inputs, 1, floats(layer.input), stride,
            output, stride, layer.outputs, stride, layer.inputs, 1,
        )  # fmt: skip
        activate(layer.activation, output, floats(layer.slope), layer.outputs * stride)


@inlined
def matrix_vector(matrix, inputs, outputs, vector, result):
    """``result[outputs] = matrix[outputs, inputs] · vector[inputs]``; the vector is padded with zeros."""
    output = 0
    while output + 4 <= outputs:
        dot_4(shift(matrix, output * inputs), inputs, vector, shift(result, output))
        output += 4
    while output < outputs:
        dot_1(shift(matrix, output * inputs), inputs, vector, shift(result, output))
        output += 1


@linked("void(int64, int64, int64, int64)")
def forward_row(layers, count, row, stride):
    """The same for one sample, in ``input_rows`` of the first layer: no lanes to fill, so dot products are quicker.

    The result goes into the lane ``row`` of the last layer's output.
    """
    for index in range(count):
        layer = layer_at(layers + index * LAYER_BYTES)
        bias, result = floats(layer.bias), floats(layer.margin)
        sample = shift(floats(layer.input_rows), row * padded(layer.inputs))
        if index + 1 < count:
            result = shift(floats(layer_at(layers + (index + 1) * LAYER_BYTES).input_rows), row * padded(layer.outputs))
            for output in range(layer.outputs, padded(layer.outputs)):
                result[output] = ZERO  # a backward pass leaves other numbers there
        matrix_vector(floats(layer.weight), layer.inputs, layer.outputs, sample, result)
        for output in range(layer.outputs):
            result[output] += bias[output]
        activate(layer.activation, result, floats(layer.slope), layer.outputs)
        if index + 1 == count:
            for output in range(layer.outputs):
                floats(layer.output)[output * stride + row] = result[output]


@inlined
def add_weight_gradient(layer, stride, rows, accumulate):
    """``weight_gradient[output, input] (+)= Σ over samples of error · input``, the sum running over ``rows`` lanes."""
    error, samples, sample_size = floats(layer.error), floats(layer.input_rows), padded(layer.inputs)
    gradient, whole = floats(layer.weight_gradient), layer.inputs // LANES * LANES
    multiply(error, stride, 1, samples, sample_size, gradient, layer.inputs, layer.outputs, whole, rows, accumulate)
    rest, margin = layer.inputs - whole, floats(layer.margin)
    if rest > 0:  # a whole vector would write into the next row of weights, so the last columns take a detour
        multiply(error, stride, 1, shift(samples, whole), sample_size, margin, LANES, layer.outputs, LANES, rows, 0)
        for output in range(layer.outputs):
            place = output * layer.inputs + whole
            for column in range(rest):
                found = margin[output * LANES + column]
                gradient[place + column] = gradient[place + column] + found if accumulate else found


@linked("void(int64, int64, int64, int64, int64)")
def backward(layers, count, stride, rows, accumulate):
    """From the error of the last layer to the gradients of all; ``accumulate`` adds to those of an earlier chunk."""
    for index in range(count - 1, -1, -1):
        layer = layer_at(layers + index * LAYER_BYTES)
        if index > 0:
            transpose(floats(layer.input), stride, floats(layer.input_rows), padded(layer.inputs), layer.inputs, stride)
        add_weight_gradient(layer, stride, rows, accumulate)
        error, gradient = floats(layer.error), floats(layer.bias_gradient)
        for output in range(layer.outputs):
            total = gradient[output] if accumulate else ZERO
            for lane in range(rows):
                total += error[output * stride + lane]
            gradient[output] = total
        if index > 0:
            previous = layers + (index - 1) * LAYER_BYTES
            multiply(
                floats(layer.weight), 1, layer.inputs, error, stride,
                floats(layer_at(previous).error), stride, layer.inputs, stride, layer.outputs, 0,
            )  # fmt: skip
            multiply_by_slope(previous, stride)
