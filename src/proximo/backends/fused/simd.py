"""The few operations that plain numba loops cannot express: register tiles, block transposition, raw addresses.

The vector code is LLVM's own, of ``LANES`` float32, so one source serves AVX-512, AVX2 and NEON.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic as numba_intrinsic
from numba.np.numpy_support import from_dtype

from proximo.backends.fused.structures import EXPLORATION, LAYER, PLAN, SEGMENT, TARGET, UPDATE

intrinsic: Any = numba_intrinsic  # what it returns is called by kernels only, and so are its arguments' types
AVX512 = "+avx512f" in cpu_target.target_context.codegen().magic_tuple()[-1]  # the processor numba compiles for
LANES = 16 if AVX512 else 8  # float32 per vector

FLOAT, DOUBLE, INDEX, SHORT = ir.FloatType(), ir.DoubleType(), ir.IntType(64), ir.IntType(32)
VECTOR = ir.VectorType(FLOAT, LANES)
FloatPointer = types.CPointer(types.float32)


def _view(result: types.Type) -> Any:
    """An intrinsic that reads an address, held in an integer, as a pointer or as a structure."""

    @intrinsic
    def view(typing_context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

        return result(types.int64), generate

    return view


floats: Any = _view(FloatPointer)
doubles = _view(types.CPointer(types.float64))
integers = _view(types.CPointer(types.int64))
integers_32 = _view(types.CPointer(types.int32))
integers_8 = _view(types.CPointer(types.int8))
exploration_at = _view(from_dtype(EXPLORATION))
layer_at = _view(from_dtype(LAYER))
plan_at = _view(from_dtype(PLAN))
segment_at = _view(from_dtype(SEGMENT))
target_at = _view(from_dtype(TARGET))
update_at = _view(from_dtype(UPDATE))


@intrinsic
def shift(typing_context: Any, pointer: Any, distance: Any) -> Any:
    """The pointer ``distance`` floats further on."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.gep(arguments[0], [arguments[1]])

    return FloatPointer(FloatPointer, types.int64), generate


@intrinsic
def float_of_bits(typing_context: Any, bits: Any) -> Any:
    """The float32 whose binary form is this int32."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], FLOAT)

    return types.float32(types.int32), generate


def _load(builder: Any, pointer: Any) -> Any:
    loaded = builder.load(builder.bitcast(pointer, VECTOR.as_pointer()))
    loaded.align = 4
    return loaded


def _store(builder: Any, vector: Any, pointer: Any) -> None:
    builder.store(vector, builder.bitcast(pointer, VECTOR.as_pointer())).align = 4


def _broadcast(builder: Any, number: Any) -> Any:
    nothing = ir.Constant(VECTOR, ir.Undefined)
    first = builder.insert_element(nothing, number, SHORT(0))
    return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(SHORT, LANES), [0] * LANES))


def _multiply_add(builder: Any, a: Any, b: Any, c: Any) -> Any:
    name = f"llvm.fmuladd.v{LANES}f32"  # one rounding where the processor can, two where not
    function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(VECTOR, [VECTOR] * 3), name)
    return builder.call(function, [a, b, c])


def tile(rows: int, vectors: int) -> Any:
    """A product kept in registers: ``c[rows, vectors · LANES] (+)= a[rows, depth] · b[depth, vectors · LANES]``.

    ``a`` may have any strides, so a matrix and its transpose are read alike; rows of ``b`` and ``c`` are contiguous.
    Every element sums over ``depth`` in order, so the result does not depend on how a product is cut into tiles.
    """

    @intrinsic
    def multiply(
        typing_context: Any, a: Any, a_row: Any, a_step: Any, b: Any, b_stride: Any, c: Any, c_stride: Any,
        depth: Any, accumulate: Any,
    ) -> Any:  # fmt: skip
        size = types.int64
        signature = types.void(FloatPointer, size, size, FloatPointer, size, FloatPointer, size, size, size)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            a, a_row, a_step, b, b_stride, c, c_stride, depth, accumulate = arguments
            places = [
                [builder.gep(c, [builder.add(builder.mul(INDEX(row), c_stride), INDEX(LANES * column))])
                 for column in range(vectors)]
                for row in range(rows)
            ]  # fmt: skip
            zero = ir.Constant(VECTOR, [0.0] * LANES)
            sums = [[cgutils.alloca_once(builder, VECTOR) for _ in range(vectors)] for _ in range(rows)]
            for row in range(rows):
                for column in range(vectors):
                    builder.store(zero, sums[row][column])
            with builder.if_then(builder.icmp_signed("!=", accumulate, INDEX(0))):
                for row in range(rows):
                    for column in range(vectors):
                        builder.store(_load(builder, places[row][column]), sums[row][column])
            with cgutils.for_range(builder, depth, intp=INDEX) as loop:
                b_row = builder.gep(b, [builder.mul(loop.index, b_stride)])
                b_vectors = [_load(builder, builder.gep(b_row, [INDEX(LANES * column)])) for column in range(vectors)]
                a_column = builder.gep(a, [builder.mul(loop.index, a_step)])
                for row in range(rows):
                    factor = builder.load(builder.gep(a_column, [builder.mul(INDEX(row), a_row)]))
                    factors = _broadcast(builder, factor)
                    for column in range(vectors):
                        total = _multiply_add(builder, factors, b_vectors[column], builder.load(sums[row][column]))
                        builder.store(total, sums[row][column])
            for row in range(rows):
                for column in range(vectors):
                    _store(builder, builder.load(sums[row][column]), places[row][column])
            return context.get_dummy_value()

        return signature, generate

    return multiply


def dot_products(rows: int) -> Any:
    """``result[rows] = weight[rows, inputs] · sample[inputs]``; the sample is padded with zeros to whole vectors."""

    @intrinsic
    def dot(typing_context: Any, weight: Any, inputs: Any, sample: Any, result: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            weight, inputs, sample, result = arguments
            sums = [cgutils.alloca_once(builder, VECTOR) for _ in range(rows)]
            for row in range(rows):
                builder.store(ir.Constant(VECTOR, [0.0] * LANES), sums[row])
            with cgutils.for_range_slice(builder, INDEX(0), inputs, INDEX(LANES), intp=INDEX) as (place, _):
                part = _load(builder, builder.gep(sample, [place]))
                for row in range(rows):
                    weights = _load(builder, builder.gep(weight, [builder.add(builder.mul(INDEX(row), inputs), place)]))
                    total = _multiply_add(builder, weights, part, builder.load(sums[row]))
                    builder.store(total, sums[row])
            add = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(FLOAT, [FLOAT, VECTOR]), f"llvm.vector.reduce.fadd.v{LANES}f32"
            )
            for row in range(rows):
                total = builder.call(add, [FLOAT(0.0), builder.load(sums[row])], fastmath=("reassoc",))
                builder.store(total, builder.gep(result, [INDEX(row)]))
            return context.get_dummy_value()

        return types.void(FloatPointer, types.int64, FloatPointer, FloatPointer), generate

    return dot


@intrinsic
def transpose_block(typing_context: Any, source: Any, source_stride: Any, target: Any, target_stride: Any) -> Any:
    """Transpose a square of ``LANES`` × ``LANES``: for each bit of the index, swap the off-diagonal halves."""
    signature = types.void(FloatPointer, types.int64, FloatPointer, types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, source_stride, target, target_stride = arguments
        rows = [_load(builder, builder.gep(source, [builder.mul(INDEX(row), source_stride)])) for row in range(LANES)]
        bit = 1
        while bit < LANES:
            upper = [lane if not lane & bit else LANES + (lane ^ bit) for lane in range(LANES)]
            lower = [LANES + lane if lane & bit else lane ^ bit for lane in range(LANES)]
            pattern = ir.VectorType(SHORT, LANES)
            for row in range(LANES):
                if not row & bit:
                    pair = rows[row], rows[row | bit]
                    rows[row] = builder.shuffle_vector(*pair, ir.Constant(pattern, upper))
                    rows[row | bit] = builder.shuffle_vector(*pair, ir.Constant(pattern, lower))
            bit *= 2
        for row in range(LANES):
            _store(builder, rows[row], builder.gep(target, [builder.mul(INDEX(row), target_stride)]))
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def publish(typing_context: Any, pointer: Any, number: Any) -> Any:
    """Write an int64 that another thread observes, after everything written before it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store_atomic(arguments[1], arguments[0], "release", 8)
        return context.get_dummy_value()

    return types.void(types.CPointer(types.int64), types.int64), generate


@intrinsic
def observe(typing_context: Any, pointer: Any) -> Any:
    """Read an int64 that another thread publishes, before everything read after it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load_atomic(arguments[0], "acquire", 8)

    return types.int64(types.CPointer(types.int64)), generate
