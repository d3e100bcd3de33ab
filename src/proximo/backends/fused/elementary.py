"""Elementary functions of one float32, written without branches so that loops over them are vectorised.

NaN goes through every one of them: the guards rely on it.
"""

from __future__ import annotations

import numpy as np

from proximo.backends.fused.simd import float_of_bits
from proximo.compilation import inlined, inlined_as_written
from proximo.networks.distributions import base

F = np.float32  # a plain Python number would turn the arithmetic into float64
ZERO, HALF, ONE = F(0), F(0.5), F(1)
INFINITY = F(np.inf)
HALF_LOG_TWO_PI = F(base.HALF_LOG_TWO_PI)
LARGEST_DOUBLE = np.finfo(np.float64).max

LOG2_E, LN2_HIGH, LN2_LOW = F(1.44269504), F(0.693359375), F(-2.12194440e-4)
LARGEST, SMALLEST = F(88.37), F(-87.33)  # between them, 2ⁿ is a normal number
TAYLOR = tuple(F(1 / factorial) for factorial in (1, 1, 2, 6, 24, 120, 720, 5040))

# tanh(x) = x · P(x²) / Q(x²), fitted for the least relative error (6e-9 before rounding) up to SATURATED;
# beyond it, tanh differs from 1 by less than 3e-7
SATURATED = F(7.9)
P0, P1, P2, P3, P4 = F(1), F(0.13450628519), F(0.00357900187), F(2.20234069e-5), F(1.54281992e-8)
Q0, Q1, Q2, Q3, Q4 = F(1), F(0.46783956885), F(0.02619227581), F(3.42366664e-4), F(8.59887223e-7)


@inlined
def is_finite(x):  # type: ignore[no-untyped-def]
    """Neither NaN nor infinite, by comparison: numba's own test is x − x = x − x, which reordering turns into 0 = 0."""
    return -LARGEST_DOUBLE <= x <= LARGEST_DOUBLE


@inlined_as_written
def without_multiples_of_ln2(x, n):  # type: ignore[no-untyped-def]
    """x − n ln 2. The first product is exact; reordered into one product, it would cost a CPU without FMA 4e-6."""
    return (x - n * LN2_HIGH) - n * LN2_LOW


@inlined
def exp(x):  # type: ignore[no-untyped-def]
    """eˣ = 2ⁿ · eʳ with |r| ≤ ln 2 / 2, relative error below 2.4e-7; 0 below e⁻⁸⁷·³³, infinity above e⁸⁸·³⁷."""
    t0, t1, t2, t3, t4, t5, t6, t7 = TAYLOR
    bounded = SMALLEST if x < SMALLEST else (LARGEST if x > LARGEST else x)
    scaled = bounded * LOG2_E
    exponent = np.int32(scaled + (HALF if scaled > ZERO else -HALF))  # rounded to nearest
    n = F(exponent)
    r = without_multiples_of_ln2(bounded, n)
    power = t0 + r * (t1 + r * (t2 + r * (t3 + r * (t4 + r * (t5 + r * (t6 + r * t7))))))
    result = power * float_of_bits((exponent + np.int32(127)) << np.int32(23))
    result = ZERO if x < SMALLEST else result
    result = INFINITY if x > LARGEST else result
    return x if x != x else result


@inlined
def tanh(x):  # type: ignore[no-untyped-def]
    """Hyperbolic tangent, absolute error below 3e-7."""
    bounded = SATURATED if x > SATURATED else x
    bounded = -SATURATED if bounded < -SATURATED else bounded
    u = bounded * bounded
    numerator = P0 + u * (P1 + u * (P2 + u * (P3 + u * P4)))
    denominator = Q0 + u * (Q1 + u * (Q2 + u * (Q3 + u * Q4)))
    return bounded * numerator / denominator


@inlined
def sigmoid(x):  # type: ignore[no-untyped-def]
    """1 / (1 + e⁻ˣ)."""
    return ONE / (ONE + exp(-x))
