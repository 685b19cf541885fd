"""What one node of a summed tree may do, by one-level look-ahead: stop, or any cut, with weights.

A leaf's value is Normal(0, scale^2). Rows enter by a precision and precision x residual; a leaf
with sums P and S of these has, relative to the rows' own terms, which no tree changes::

    log m = -1/2 log(1 + scale^2 P) + 1/2 scale^2 S^2 / (1 + scale^2 P)

A node at depth k stops with weight exp(log_stop[k]) and cuts with exp(log_split[k]) x rule x
m(left) m(right) / m(node). Their sum is the node's ``log_total``: near 0 where rows say little,
since the prior sums to one.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dtgfn._support.arrays import Codes, Floats, Int32s, Int64s
from dtgfn._support.compiled import INNER, njit

COUNT, PRECISION, PULL = 0, 1, 2  # what a bin of a histogram holds
STOP = -1
ANY_ORDER = {"reassoc", "contract", "arcp", "nsz"}  # of sums; nothing else is taken lightly
LEAST_EXPONENT = -700.0  # relative to the largest: nothing, but a number
MAGIC = 6755399441055744.0  # 1.5 x 2^52: a double of this size has no digits after the point
MANTISSA = 52  # bits
BIAS = 1023 << MANTISSA  # of the exponent
LOG_2, LOG2_E = math.log(2.0), 1.0 / math.log(2.0)


class SumTable(NamedTuple):
    """What the compiled loops read: n rows, F features, and the prior of one tree."""

    codes: Codes  # [n, F]
    n_codes: Int32s  # [F] codes are 0..n_codes-1
    column: Int32s  # [F] source column
    log_feature: Floats  # [F] log prior of choosing the feature at a split
    log_stop: Floats  # [max_depth + 1] log prior of a stop at each depth; 0 at the last
    log_split: Floats  # [max_depth + 1] and of a split, before the rule
    uniform_cuts: bool  # whether a rule also pays log(valid cuts) of its feature
    max_depth: int


class Choice(NamedTuple):
    """Scratch of one node: what it may do with the A features that are looked at, of B codes."""

    weight: Floats  # [A, B] of each cut, relative to the others of its feature
    exponent: Floats  # [B] of the feature at hand: log m(left) m(right), but for
    factor: Floats  # [B] the roots that it has
    power: Floats  # [B] scratch
    bits: Int64s  # [B] the same memory
    log_feature: Floats  # [A] log weight of all cuts of a feature, relative to m(node)
    total: Floats  # [1] log of the sum of all, and of the stop


@njit(cache=True, nogil=True)
def log_marginal(precision: float, pull: float, variance: float) -> float:
    """Log m of a leaf with these sums; ``variance`` is scale^2."""
    spread = 1.0 + variance * precision
    return 0.5 * (variance * pull * pull / spread - math.log(spread))


@njit(cache=True, nogil=True)
def add_histogram(
    codes: Codes,
    order: Int32s,
    begin: int,
    end: int,
    active: Int32s,
    n_active: int,
    row_precision: Floats,
    row_pull: Floats,
    histogram: Floats,
) -> None:
    """Add the rows of a segment to histogram [A, B, 3] of the active features."""
    for r in range(begin, end):
        row = order[r]
        precision, pull = row_precision[row], row_pull[row]
        for a in range(n_active):
            cell = histogram[a, codes[row, active[a]]]
            cell[COUNT] += 1.0
            cell[PRECISION] += precision
            cell[PULL] += pull


@njit(**INNER, fastmath=ANY_ORDER)
def weigh_cuts(
    histogram: Floats, low: int, high: int, total: Floats, variance: float, choice: Choice
) -> float:
    """What cuts low..high-1 of one feature are worth: exp(exponent) x factor is m(left) m(right).

    ``histogram`` [B, 3], ``total`` [3] sums of the node. Returns the largest exponent.
    """
    exponent, factor, left_precision = choice.exponent, choice.factor, choice.power
    precision = pull = 0.0
    for j in range(low, high):
        if histogram[j, COUNT] > 0.5:  # what subtraction left in an empty bin is rounding
            precision += histogram[j, PRECISION]
            pull += histogram[j, PULL]
        left_precision[j] = precision
        exponent[j] = pull
    half, top = 0.5 * variance, 0.0
    for j in range(low, high):  # no branch, no logarithm: it runs on vectors
        left = 1.0 + variance * left_precision[j]
        right = 1.0 + variance * (total[PRECISION] - left_precision[j])
        other = total[PULL] - exponent[j]
        value = half * (exponent[j] * exponent[j] / left + other * other / right)
        factor[j] = 1.0 / math.sqrt(left * right)
        exponent[j] = value
        top = max(top, value)
    return top


@njit(**INNER, fastmath=ANY_ORDER)
def multiply_and_add(weight: Floats, factor: Floats) -> float:
    """Multiply weights by factors, in place; return their sum."""
    part = 0.0
    for j in range(weight.shape[0]):
        weight[j] *= factor[j]
        part += weight[j]
    return part


@njit(**INNER)
def weigh_feature(
    histogram: Floats, bins: int, total: Floats, variance: float, choice: Choice, weight: Floats
) -> tuple[int, float]:
    """Weights of one feature's cuts, relative to each other; those that part no rows have 0.

    Returns how many do, and the log of the sum of m(left) m(right) over them.
    """
    low, high = 0, bins - 1
    while low < high and histogram[low, COUNT] < 0.5:
        low += 1
    while high > low and histogram[high, COUNT] < 0.5:
        high -= 1
    weight[:low] = 0.0
    weight[high:bins] = 0.0
    if low == high:
        return 0, -np.inf
    top = weigh_cuts(histogram, low, high, total, variance, choice)
    part = slice(low, high)
    exponentiate(choice.exponent[part], top, choice.power[part], choice.bits[part], weight[part])
    return high - low, top + math.log(multiply_and_add(weight[part], choice.factor[part]))


@njit(**INNER)
def exponentiate(exponent: Floats, top: float, power: Floats, bits: Int64s, out: Floats) -> None:
    """Write exp(exponent - top) to out, to eleven digits, on vectors: libm's takes one at a time.

    exp(x) is 2^k exp(x - k log 2), k whole. Adding ``MAGIC`` rounds to k and leaves it in the last
    bits of a double, from where it moves to the exponent's. ``bits`` is the memory of ``power``.
    """
    for j in range(exponent.shape[0]):
        out[j] = max(exponent[j] - top, LEAST_EXPONENT)
        power[j] = out[j] * LOG2_E + MAGIC
    for j in range(exponent.shape[0]):
        r = out[j] - (power[j] - MAGIC) * LOG_2
        near = 1 / 5040 + r * (1 / 40320 + r * (1 / 362880))
        near = 1 / 24 + r * (1 / 120 + r * (1 / 720 + r * near))
        out[j] = 1.0 + r * (1.0 + r * (0.5 + r * (1 / 6 + r * near)))
    for j in range(exponent.shape[0]):
        bits[j] = (bits[j] << MANTISSA) + BIAS
    for j in range(exponent.shape[0]):
        out[j] *= power[j]


@njit(cache=True, nogil=True)
def weigh_node(
    histogram: Floats,
    active: Int32s,
    n_active: int,
    total: Floats,
    depth: int,
    variance: float,
    log_tilt: float,
    table: SumTable,
    choice: Choice,
) -> float:
    """Log of the sum of the node's weights, relative to m(node); each cut's is in ``choice``.

    ``log_tilt`` is added to every cut's.
    """
    stop = table.log_stop[depth]
    choice.log_feature[:n_active] = -np.inf
    if depth >= table.max_depth or total[COUNT] < 1.5:
        choice.total[0] = stop
        return stop
    log_node = log_marginal(total[PRECISION], total[PULL], variance)
    best = stop
    for a in range(n_active):
        f = active[a]
        bins = table.n_codes[f]
        n_cuts, log_sum = weigh_feature(
            histogram[a], bins, total, variance, choice, choice.weight[a]
        )
        if n_cuts == 0:
            continue
        log_weight = table.log_split[depth] + table.log_feature[f] + log_tilt - log_node
        if table.uniform_cuts:
            log_weight -= math.log(n_cuts)
        choice.log_feature[a] = log_weight + log_sum
        best = max(best, choice.log_feature[a])
    mass = math.exp(stop - best)
    for a in range(n_active):
        mass += math.exp(choice.log_feature[a] - best)
    choice.total[0] = math.log(mass) + best
    return choice.total[0]


@njit(**INNER)
def draw_choice(
    depth: int,
    active: Int32s,
    n_active: int,
    table: SumTable,
    choice: Choice,
    rng: np.random.Generator,
) -> tuple[int, int]:
    """Draw what a weighed node does: position of the active feature (or ``STOP``), and the cut."""
    left = rng.random() - math.exp(table.log_stop[depth] - choice.total[0])
    if left < 0.0:
        return STOP, 0
    last = STOP
    for a in range(n_active):
        part = math.exp(choice.log_feature[a] - choice.total[0])
        if part > 0.0:
            last = a
            if left < part:
                break
            left -= part
    if last == STOP:  # rounding
        return STOP, 0
    weight = choice.weight[last]
    bins = table.n_codes[active[last]]
    left = rng.random() * weight[:bins].sum()
    chosen = -1
    for j in range(bins):
        if weight[j] > 0.0:
            chosen = j
            left -= weight[j]
            if left < 0.0:
                break
    return last, chosen
