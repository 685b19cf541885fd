"""Sums that do not depend on their order: of whole numbers, in units that leave room for all rows.

Floating-point sums depend on which rows are added first, so on the partitions. Whole numbers do
not: what rows add is rounded once, row by row, to a multiple of a power of two that is small enough
for the sum over all rows to fit into 62 bits.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from dtgfn._support.arrays import Floats, Int64s

BITS = 61
FINEST = 60
SHIFT = 1127  # the smallest double is a whole multiple of 2**-SHIFT
HALF_BITS = 26


def exact_sum(values: Floats) -> Fraction:
    """The sum of doubles [n] without rounding, whatever their order.

    >>> float(exact_sum(np.array([1e100, 1.0, -1e100])))
    1.0
    """
    mantissa, exponent = np.frexp(values)
    whole = np.ldexp(mantissa, 53).astype(np.int64)
    total = 0
    for power in np.unique(exponent).tolist():
        those = whole[exponent == power]
        high, low = those >> HALF_BITS, those & (2**HALF_BITS - 1)
        part = (int(high.sum()) << HALF_BITS) + int(low.sum())
        total += part << (power - 53 + SHIFT)
    return Fraction(total, 1 << SHIFT)


def unit_for(largest_sum: float) -> float:
    """The power of two in which sums up to ``largest_sum`` are counted.

    >>> unit_for(1000.0) == 2.0**-51
    True
    """
    room = BITS - math.ceil(math.log2(max(largest_sum, 2.0**-BITS)))
    return 2.0 ** -min(room, FINEST)


def in_units(values: Floats, unit: float) -> Int64s:
    """Numbers [n] as whole multiples of a unit."""
    return np.rint(values / unit).astype(np.int64)


def weights_in_units(weight: Floats, unit: float) -> Int64s:
    """Weights [n] > 0 as whole multiples of a unit; none of them vanishes."""
    return np.maximum(in_units(weight, unit), 1)
