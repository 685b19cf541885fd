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
from numba import njit

from dtgfn._support.arrays import Codes, Floats, Int32s

COUNT, PRECISION, PULL = 0, 1, 2  # what a bin of a histogram holds
STOP = -1
NEGLIGIBLE = 40.0  # nats below the best, where a cut is as good as impossible


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
    """Scratch of one node: log weight of each cut [A, B], and of each active feature [A]."""

    log_cut: Floats
    log_feature: Floats


@njit(cache=True, nogil=True, fastmath=True)
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


@njit(cache=True, nogil=True, fastmath=True)
def weigh_cuts(
    histogram: Floats,
    bins: int,
    log_split: float,
    uniform_cuts: bool,
    total: Floats,
    log_node: float,
    variance: float,
    out: Floats,
) -> float:
    """Log weights of one feature's cuts, relative to m(node); return the largest.

    ``histogram`` [B, 3], ``total`` [3] sums of the node. A cut without rows on one side gets -inf.
    """
    low, high = 0, bins - 1
    while low < high and histogram[low, COUNT] < 0.5:
        low += 1
    while high > low and histogram[high, COUNT] < 0.5:
        high -= 1
    for j in range(low):
        out[j] = -np.inf
    for j in range(high, bins):
        out[j] = -np.inf
    if low == high:
        return -np.inf
    constant = log_split - log_node
    if uniform_cuts:
        constant -= math.log(high - low)
    best = -np.inf
    precision = pull = 0.0
    value = 0.0
    for j in range(low, high):
        if histogram[j, COUNT] > 0.5:
            precision += histogram[j, PRECISION]
            pull += histogram[j, PULL]
            left = 1.0 + variance * precision
            right = 1.0 + variance * (total[PRECISION] - precision)
            other = total[PULL] - pull
            squares = pull * pull / left + other * other / right
            value = constant + 0.5 * (variance * squares - math.log(left * right))
            best = max(best, value)
        out[j] = value  # an empty bin's cut parts the rows as the one before
    return best


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
    if depth >= table.max_depth or total[COUNT] < 1.5:
        for a in range(n_active):
            choice.log_feature[a] = -np.inf
        return stop
    log_node = log_marginal(total[PRECISION], total[PULL], variance)
    best = stop
    for a in range(n_active):
        f = active[a]
        log_split = table.log_split[depth] + table.log_feature[f] + log_tilt
        choice.log_feature[a] = weigh_cuts(
            histogram[a],
            table.n_codes[f],
            log_split,
            table.uniform_cuts,
            total,
            log_node,
            variance,
            choice.log_cut[a],
        )
        best = max(best, choice.log_feature[a])
    mass = math.exp(stop - best)
    for a in range(n_active):
        if choice.log_feature[a] < best - NEGLIGIBLE:
            choice.log_feature[a] = -np.inf
            continue
        part = 0.0
        cuts = choice.log_cut[a]
        for j in range(table.n_codes[active[a]]):
            if cuts[j] > best - NEGLIGIBLE:
                part += math.exp(cuts[j] - best)
            else:
                cuts[j] = -np.inf
        choice.log_feature[a] = math.log(part) + best
        mass += part
    return math.log(mass) + best


@njit(cache=True, nogil=True)
def draw_choice(
    log_total: float,
    depth: int,
    active: Int32s,
    n_active: int,
    table: SumTable,
    choice: Choice,
    rng: np.random.Generator,
) -> tuple[int, int]:
    """Draw what a weighed node does: position of the active feature (or ``STOP``), and the cut."""
    left = rng.random()
    left -= math.exp(table.log_stop[depth] - log_total)
    if left < 0.0:
        return STOP, 0
    last = STOP
    for a in range(n_active):
        if choice.log_feature[a] == -np.inf:
            continue
        last = a
        part = math.exp(choice.log_feature[a] - log_total)
        if left < part:
            break
        left -= part
    if last == STOP:  # rounding
        return STOP, 0
    chosen = -1
    cuts = choice.log_cut[last]
    for j in range(table.n_codes[active[last]]):
        if cuts[j] == -np.inf:
            continue
        chosen = j
        left -= math.exp(cuts[j] - log_total)
        if left < 0.0:
            break
    return last, chosen
