"""Ceilings: what a row set nobody has looked at can be worth at most, and with it log Z.

No partition of the rows S has a likelihood above P(S) (``leaves.log_partition_bound``), and cuts
that are valid in a part of S are valid in S. With x_d the weight of all splits a node at depth d
can have, s_d that of its stop and D the largest depth::

    t_D = 1,  t_d = max(1, s_d + x_d t_{d+1}^2)
    Z(S, d) <= m(S) + P(S)^(1/temperature) x_d t_{d+1}^2

Under a penalty x_d is the number of valid thresholds times e^(-penalty / temperature); under
uniform rules the rules' probabilities sum to one, so their powers sum to at most
thresholds^(1 - 1/temperature), or to one below temperature 1. The proof is in docs/ceilings.md.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from dtgfn._support.arrays import Floats, Int32s, Int64s
from dtgfn.engines.rowsets.partial.lookahead import Cuts
from dtgfn.engines.rowsets.problem import Loops
from dtgfn.trees.leaves import log_partition_bound

ROUNDING = 2e-7  # of single precision: a ceiling must not come down by it


@njit(cache=True, nogil=True)
def log_add(a: float, b: float) -> float:
    """Log of the sum of two exponentials."""
    high, low = max(a, b), min(a, b)
    return high if low == -math.inf else high + math.log1p(math.exp(low - high))


@njit(cache=True, nogil=True)
def log_splits(span: float, depth: int, loops: Loops) -> float:
    """Log of x_d t_{d+1}^2: all trees with a split at the top, without their likelihood.

    ``span`` is the number of thresholds that are valid in the row set.
    """
    max_depth = loops.log_split.shape[0] - 1
    if span <= 0 or depth >= max_depth:
        return -math.inf
    rules = math.log(span)
    if loops.uniform_rules:
        rules *= max(0.0, 1.0 - 1.0 / loops.temperature)
    below = 0.0  # log t
    for d in range(max_depth - 1, depth, -1):
        below = max(0.0, log_add(loops.log_stop[d], loops.log_split[d] + rules + 2.0 * below))
    return loops.log_split[depth] + rules + 2.0 * below


@njit(cache=True, nogil=True)
def log_ceiling(sums: Floats, leaf_value: float, log_split: float, loops: Loops) -> float:
    """Ceiling of log Z of a row set, by its sums [K], log m / temperature and ``log_splits``."""
    if log_split == -math.inf:
        return leaf_value
    most = log_partition_bound(sums, loops.leaf) / loops.temperature
    return log_add(leaf_value, most + log_split)


@njit(cache=True, nogil=True)
def ceilings_of(sums: Floats, leaf_value: Floats, span: float, depth: int, loops: Loops) -> Floats:
    """Ceilings [N] of row sets of one depth with so many valid thresholds, rounded up."""
    out = np.empty(sums.shape[0])
    log_split = log_splits(span, depth, loops)
    for i in range(sums.shape[0]):
        value = log_ceiling(sums[i], leaf_value[i], log_split, loops)
        out[i] = value + ROUNDING * abs(value)
    return out


@njit(cache=True, nogil=True)
def set_ceilings(
    first: int,
    last: int,
    nodes: Int64s,
    depth: int,
    start: Int64s,
    n_cuts: Int32s,
    span: Floats,
    loops: Loops,
    cuts: Cuts,
) -> None:
    """Set the ceilings of both children of all cuts of nodes[first:last].

    ``span`` [K] of a node bounds that of its children.
    """
    for i in range(first, last):
        node = nodes[i]
        at, number = start[node], n_cuts[node]
        log_split = log_splits(span[node], depth + 1, loops)
        for e in range(at, at + number):
            for side in range(2):
                # The look-ahead is the leaf's value, or more, in double precision's digits.
                leaf_value = float(cuts.look[e, side]) - loops.log_stop[depth + 1]
                value = log_ceiling(cuts.sums[e, side], leaf_value, log_split, loops)
                cuts.ceiling[e, side] = value + ROUNDING * abs(value)


@njit(cache=True, nogil=True)
def count_thresholds(
    nodes: Int64s, start: Int64s, n_cuts: Int32s, cuts: Cuts, span: Floats
) -> None:
    """Set the number of valid thresholds of nodes whose cuts are listed."""
    for node in nodes:
        span[node] = 0.0
        for e in range(start[node], start[node] + n_cuts[node]):
            span[node] += cuts.high[e] - cuts.low[e]


@njit(cache=True, nogil=True)
def bound_flows(
    first: int,
    last: int,
    nodes: Int64s,
    start: Int64s,
    n_cuts: Int32s,
    cuts: Cuts,
    stop: Floats,
    below_flow: Floats,
    below_floor: Floats,
    below_ceiling: Floats,
    floor: Floats,
    ceiling: Floats,
) -> None:
    """Bound log Z of nodes[first:last]: unknown children by look-ahead and ceiling."""
    for i in range(first, last):
        node = nodes[i]
        at, until = start[node], start[node] + n_cuts[node]
        low, high = np.empty(until - at), np.empty(until - at)
        low_top, high_top = stop[node], stop[node]
        for e in range(at, until):
            low[e - at], high[e - at] = cuts.prior[e], cuts.prior[e]
            for side in range(2):
                child = cuts.child[e, side]
                if child >= 0 and not math.isnan(below_flow[child]):
                    low[e - at] += below_floor[child]
                    high[e - at] += below_ceiling[child]
                else:
                    low[e - at] += cuts.look[e, side]
                    high[e - at] += cuts.ceiling[e, side]
            low_top, high_top = max(low_top, low[e - at]), max(high_top, high[e - at])
        floor[node] = log_sum(stop[node], low, low_top)
        ceiling[node] = log_sum(stop[node], high, high_top)


@njit(cache=True, nogil=True)
def log_sum(stop: float, values: Floats, top: float) -> float:
    """Log of exp(stop) plus the sum of exp(values) [N], the largest of which is ``top``."""
    if math.isinf(top):  # nothing is possible, or a leaf model has no bound
        return top
    total = math.exp(stop - top)
    for value in values:
        total += math.exp(value - top)
    return top + math.log(total)
