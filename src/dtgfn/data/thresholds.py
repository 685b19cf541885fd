"""Thresholds of a number column: where they go, the tie rule, and how one is shown.

The tie rule says where a number goes that equals a threshold, which tables with few decimals are
full of: to the left, ``x <= threshold``. So a number's code is how many thresholds lie strictly
below it, and ``x <= thresholds[j]`` is ``code <= j``, in training and ever after. Where thresholds
are laid on a scaled copy of the column, they are moved in raw units until every number of the
column ties as its scaled copy does (``place_evenly``).
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import numpy.typing as npt

from dtgfn._support.arrays import Bools, Floats, Int64s

Binning = Literal["uniform", "quantile", "midpoint"]
AnyBinning = Binning | Literal["auto"]  # what users may ask for

# What ``numpy.searchsorted`` calls it: as many thresholds as are strictly below the number.
TIE_RULE: Literal["left"] = "left"

NONE: Floats = np.empty(0)
HALF: Floats = np.array([0.5])  # of what is 0 or 1
NEAR = 16  # doubles
COLUMNS_AT_ONCE = 1000
NONE.flags.writeable = HALF.flags.writeable = False


def place_thresholds(
    numbers: Floats, binning: Binning, n_thresholds: int, weights: Floats | None
) -> Floats:
    """Ascending thresholds, all below the largest number: others cannot split training rows."""
    if binning == "uniform":  # of which the ends are enough: no need to sort
        return place_evenly(np.array([[numbers.min(), numbers.max()]]), n_thresholds)[0]
    return place_between(*distinct_values(numbers, weights), binning, n_thresholds)


def place_between(values: Floats, mass: Floats, binning: Binning, n_thresholds: int) -> Floats:
    """Ascending thresholds between distinct values, ascending, with a mass on each.

    "uniform" reads the first and the last value only, and no mass.
    """
    if len(values) == 1:
        return NONE
    if binning == "uniform":
        return place_evenly(values[None, [0, -1]], n_thresholds)[0]
    if binning == "midpoint":
        n_gaps = len(values) - 1
        below = np.arange(n_gaps)
        if n_gaps > n_thresholds:
            below = (2 * np.arange(n_thresholds) + 1) * n_gaps // (2 * n_thresholds)
    else:
        # weights that are not whole numbers leave a rounding error in the sums: forgive it
        upto = np.cumsum(mass)
        reached = upto * (n_thresholds + 1) * (1 + 1e-12)
        wanted = np.arange(1, n_thresholds + 1) * upto[-1]
        below = np.unique(np.searchsorted(reached, wanted, side="left"))
        below = below[below < len(values) - 1]
    return between(values[below], values[below + 1])


def place_evenly(ends: Floats, n_thresholds: int) -> list[Floats]:
    """Thresholds of several columns at even shares of their ranges, of which ``ends`` [d, 2] tell.

    All at once, since a wide table has thousands of columns.
    """
    found = []
    for first in range(0, len(ends), COLUMNS_AT_ONCE):
        some = ends[first : first + COLUMNS_AT_ONCE]
        even = _at_even_shares(some, n_thresholds)
        for thresholds, (least, largest) in zip(even, some, strict=True):
            if least == largest:
                found.append(NONE)
                continue
            distinct = np.append(True, thresholds[1:] > thresholds[:-1])
            found.append(thresholds[distinct & (thresholds < largest)])
    return found


def _at_even_shares(ends: Floats, n_thresholds: int) -> Floats:
    """Thresholds [d, t] at even shares of the ranges between ``ends`` [d, 2], in raw units.

    A threshold is the largest number whose min-max scaled copy is at most the share. So ties, which
    tables with few decimals are full of, fall as they do on scaled columns, in every row.
    """
    shares = np.linspace(0.0, 1.0, n_thresholds + 2)[1:-1]
    with np.errstate(over="ignore"):
        units = np.where(np.isfinite(ends[:, 1] - ends[:, 0]), 1.0, 0.5)  # no overflow
    lows = ends[:, 0] * units
    spans = ends[:, 1] * units - lows
    spans[spans == 0] = 1.0  # a column that never varies has no thresholds
    shape = len(ends), n_thresholds
    column = np.repeat(np.arange(len(ends)), n_thresholds)
    share, unit, low, span = np.tile(shares, len(ends)), units[column], lows[column], spans[column]

    def fits(rank: Int64s, which: Int64s | slice = slice(None)) -> Bools:
        scaled = (_number(rank) * unit[which] - low[which]) / span[which]
        return np.asarray(scaled <= share[which])

    least, largest = _rank(ends[:, 0])[column], _rank(ends[:, 1])[column]
    # The answer is a few doubles from what arithmetic says, unless that is near zero.
    guess = _rank((low + share * span) / unit)
    below, above = np.maximum(guess - NEAR, least), np.minimum(guess + NEAR, largest)
    below = np.where(fits(below), below, least)
    above = np.where(fits(above), largest, above)
    # bisection over all doubles between the two, where there are some
    while (left := np.flatnonzero(above > below + 1)).size:
        low_rank, high_rank = below[left], above[left]
        middle = (low_rank >> 1) + (high_rank >> 1) + (low_rank & high_rank & 1)  # no overflow
        fitting = fits(middle, left)
        below[left] = np.where(fitting, middle, low_rank)
        above[left] = np.where(fitting, high_rank, middle)
    return _number(below).reshape(shape)


def _rank(numbers: Floats) -> Int64s:
    """Ranks of doubles among all doubles, in ascending order."""
    bits = numbers.view(np.int64)
    return np.where(bits >= 0, bits, np.iinfo(np.int64).min - bits)


def _number(rank: npt.NDArray[np.int64]) -> Floats:
    """Doubles of these ranks."""
    return np.where(rank >= 0, rank, np.iinfo(np.int64).min - rank).view(np.float64)


def distinct_values(numbers: Floats, weights: Floats | None) -> tuple[Floats, Floats]:
    """Distinct values, ascending, and the weight on each."""
    if weights is None:
        values, counts = np.unique(numbers, return_counts=True)
        return values, counts.astype(np.float64)
    order = np.lexsort((weights, numbers))  # sums must not depend on the order of the rows
    values, first = np.unique(numbers[order], return_index=True)
    return values, np.add.reduceat(weights[order], first)


def between(lower: Floats, upper: Floats) -> Floats:
    """Midpoints with lower <= midpoint < upper, whatever floating point makes of them."""
    with np.errstate(over="ignore"):
        middle = (lower + upper) / 2
    middle = np.where(np.isfinite(middle), middle, lower / 2 + upper / 2)
    return np.where((lower <= middle) & (middle < upper), middle, lower)


def threshold_text(thresholds: Floats, cut: int) -> str:
    """Six digits, or as many as it takes to tell a threshold from its neighbours."""
    exact = float(thresholds[cut])
    neighbours = np.delete(thresholds[max(cut - 1, 0) : cut + 2], min(cut, 1))
    room = min((abs(exact - float(other)) for other in neighbours), default=math.inf) / 10
    if abs(exact) < min(room, 1e-12 * float(np.abs(thresholds).max())):
        return "0"  # off by what rounding left of the others
    digits = (float(f"{exact:.{digits}g}") for digits in range(6, 18))
    shown = next(value for value in digits if abs(value - exact) <= room)
    return repr(shown + 0.0).removesuffix(".0")
