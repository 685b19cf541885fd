"""A tiny random generator for compiled loops: splitmix64, one word of state and no global seed."""

from __future__ import annotations

import numpy as np

from dtgfn._support.arrays import UInt64s
from dtgfn._support.compiled import njit

STEP = np.uint64(0x9E3779B97F4A7C15)
FIRST_FACTOR = np.uint64(0xBF58476D1CE4E5B9)
SECOND_FACTOR = np.uint64(0x94D049BB133111EB)
UNIT = 2.0**-53


@njit(cache=True, nogil=True)
def draw_uniform(state: UInt64s) -> float:
    """Uniform number in [0, 1); ``state`` [1] moves on (Steele, Lea, Flood 2014)."""
    state[0] += STEP
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * FIRST_FACTOR
    z = (z ^ (z >> np.uint64(27))) * SECOND_FACTOR
    z ^= z >> np.uint64(31)
    return np.float64(z >> np.uint64(11)) * UNIT


@njit(cache=True, nogil=True)
def draw_below(state: UInt64s, n: int) -> int:
    """Uniform whole number from 0 to n - 1."""
    return int(draw_uniform(state) * n)
