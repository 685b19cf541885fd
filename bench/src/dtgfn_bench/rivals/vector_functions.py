"""Sigmoid and log gamma in a form that the compiler turns into vector code: loops call them often.

The library's exponential and Python's check for division by zero each keep a loop scalar.  Callers
must be compiled with ``error_model="numpy"`` as well.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

FAR = 30.0  # beyond it a sigmoid is flat, to 1e-13
ROUNDS = 6755399441055744.0  # 1.5 * 2**52: adding it rounds to a whole number, in the low bits
ONE = 4607182418800017408  # bits of 1.0
LOG_2_HIGH, LOG_2_LOW = 0.6931471803691238, 1.9082149292705877e-10
ENOUGH = 8.0  # from here on Stirling's series is good to 1e-11


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})  # type: ignore[untyped-decorator]
def exponential(x: float) -> float:
    """exp(x) for abs(x) < 700: a power of two times Taylor's polynomial of degree 12."""
    rounded = x * 1.4426950408889634 + ROUNDS
    power = rounded - ROUNDS
    rest = x - power * LOG_2_HIGH
    rest = rest - power * LOG_2_LOW
    p = 1.0 / 479001600.0
    p = p * rest + 1.0 / 39916800.0
    p = p * rest + 1.0 / 3628800.0
    p = p * rest + 1.0 / 362880.0
    p = p * rest + 1.0 / 40320.0
    p = p * rest + 1.0 / 5040.0
    p = p * rest + 1.0 / 720.0
    p = p * rest + 1.0 / 120.0
    p = p * rest + 1.0 / 24.0
    p = p * rest + 1.0 / 6.0
    p = p * rest + 0.5
    p = p * rest + 1.0
    p = p * rest + 1.0
    bits = np.float64(rounded).view(np.int64)
    return p * np.int64((bits << 52) + ONE).view(np.float64)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})  # type: ignore[untyped-decorator]
def sigmoid(z: float) -> float:
    """1 / (1 + exp(-z)), flat beyond FAR."""
    return 1.0 / (1.0 + exponential(min(max(-z, -FAR), FAR)))


@njit(cache=True, nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
def log_gamma(x: float) -> tuple[float, float]:
    """Logarithm of gamma and its derivative, for x > 0."""
    product, slope = 1.0, 0.0
    while x < ENOUGH:
        slope = slope * x + product
        product *= x
        x += 1.0
    log, inverse = math.log(x), 1.0 / x
    square = inverse * inverse
    value = (x - 0.5) * log - x + 0.9189385332046727  # half of log 2 pi
    value += inverse * (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680)))
    by_x = log - 0.5 * inverse
    by_x -= square * (1 / 12 - square * (1 / 120 - square * (1 / 252 - square / 240)))
    if product != 1.0 or slope != 0.0:
        value -= math.log(product)
        by_x -= slope / product
    return value, by_x
