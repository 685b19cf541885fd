"""What a node is worth: its flow, from those of its children, and proven bounds of it.

The flow of a row set S with k levels left sums over its cuts::

    F(S, k) = m(S) + sum over cuts  e^-penalty F(left, k-1) F(right, k-1)

A child nobody has expanded counts with its look-ahead and what the network and its known
neighbours add. Two cuts of a feature that are close send nearly the same rows to a side, so what
the network got wrong at a known one it gets wrong at the other. With x the error at the nearest
known cuts below and above, and d their distance as a share of the node's rows::

    correction = (x_below d_above + x_above d_below) / (d_below + d_above) * exp(-nearest d / REACH)

A ceiling says what a row set nobody has expanded can be worth at most, and with it log Z. No
partition of the rows S has a likelihood above P(S) (``leaves.log_partition_bound``), and cuts that
are valid in a part of S are valid in S. With x_d the weight of all splits a node at depth d can
have, s_d that of its stop and D the largest depth::

    t_D = 1,  t_d = max(1, s_d + x_d t_{d+1}^2)
    Z(S, d) <= m(S) + P(S)^(1/temperature) x_d t_{d+1}^2

Under a penalty x_d is the number of valid thresholds times e^(-penalty / temperature); under
uniform rules the rules' probabilities sum to one, so their powers sum to at most
thresholds^(1 - 1/temperature), or to one below temperature 1. The proof is in docs/ceilings.md.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dtgfn._support.arrays import Floats, Int32s, Int64s
from dtgfn._support.compiled import INNER, njit
from dtgfn.engines.rowsets.partial.cuts import CutTable
from dtgfn.engines.rowsets.problem import Loops
from dtgfn.trees.leaf_models import log_partition_bound, row_mass

LEAST_OPEN = 1e-300  # of a node below which something is unknown, should its share underflow
REACH = 0.1  # share of the rows over which an error at a known cut is believed
ROUNDING = 2e-7  # of single precision: a ceiling must not come down by it


@njit(cache=True, nogil=True)
def sum_flows(
    first: int,
    last: int,
    nodes: Int64s,
    start: Int64s,
    n_cuts: Int32s,
    cuts: CutTable,
    leaf: Any,
    stop: Floats,
    rest: Floats,
    below_flow: Floats,
    below_best: Floats,
    below_open: Floats,
    remember: bool,
    optimistic: bool,
    flow: Floats,
    best: Floats,
    open_mass: Floats,
) -> None:
    """F = stop + sum over cuts of split F(left) F(right); with it the best tree and open mass.

    A child nobody has expanded counts with its look-ahead and, if ``optimistic``, with what the
    network and its neighbours promise, up to its ceiling; ``rest`` [K] are the cuts that a node
    does not keep.
    """
    correction = np.zeros((2, n_cuts.max() + 1))
    for i in range(first, last):
        node = nodes[i]
        if remember and optimistic:
            for side in range(2):
                given = (start[node], n_cuts[node], side, cuts, leaf, below_flow)
                correct_by_neighbours(*given, correction[side])
        top, best[node] = max(stop[node], rest[node]), stop[node]
        for e in range(start[node], start[node] + n_cuts[node]):
            value = cuts.prior[e]
            best_here = cuts.prior[e]
            for side in range(2):
                child = cuts.child[e, side]
                if child >= 0 and not math.isnan(below_flow[child]):
                    best_here += below_best[child]
                else:
                    best_here += cuts.best[e, side]
                if remember and is_known(e, side, cuts, below_flow):
                    value += below_flow[child]
                else:
                    promised = 0.0
                    if optimistic:
                        promised = cuts.residual[e, side] + correction[side, e - start[node]]
                    value += min(cuts.lookahead[e, side] + promised, cuts.ceiling[e, side])
            cuts.logit[e] = value
            top, best[node] = max(top, value), max(best[node], best_here)
        unseen = math.exp(rest[node] - top)
        total, closed = math.exp(stop[node] - top) + unseen, rest[node] == -math.inf
        for e in range(start[node], start[node] + n_cuts[node]):
            share = math.exp(cuts.logit[e] - top)
            total += share
            opening = cut_open(e, cuts, below_flow, below_open)
            unseen += share * opening
            closed = closed and opening == 0.0
        flow[node] = top + math.log(total)
        open_mass[node] = 0.0 if closed else max(unseen / total, LEAST_OPEN)


@njit(cache=True, nogil=True)
def mass_of(sums: Floats, leaf: Any) -> float:
    """Weight of the rows behind sums [K]."""
    return row_mass(sums, leaf)


@njit(**INNER)
def cut_open(e: int, cuts: CutTable, below_flow: Floats, below_open: Floats) -> float:
    """Probability that a tree taking this cut passes a child nobody has expanded."""
    either, both = 0.0, 1.0
    for side in range(2):
        child = cuts.child[e, side]
        if child < 0 or math.isnan(below_flow[child]):
            return 1.0
        either += below_open[child]
        both *= below_open[child]
    return either - both  # not 1 - product: what is left open may be far below rounding


@njit(**INNER)
def correct_by_neighbours(
    first: int,
    number: int,
    side: int,
    cuts: CutTable,
    leaf: Any,
    below_flow: Floats,
    correction: Floats,
) -> None:
    """Write the correction [number] of one side of a node's cuts; 0 where no neighbour is known."""
    at = np.empty(number)  # share of the rows left of each cut
    total = 0.0
    if number > 0:
        total = row_mass(cuts.sums[first, 0], leaf) + row_mass(cuts.sums[first, 1], leaf)
    for u in range(number):
        correction[u], at[u] = 0.0, row_mass(cuts.sums[first + u, 0], leaf) / total
    begin = 0
    while begin < number:
        end = begin
        while end < number and cuts.feature[first + end] == cuts.feature[first + begin]:
            end += 1
        fill_feature(first, begin, end, side, cuts, below_flow, at, correction)
        begin = end


@njit(**INNER)
def fill_feature(
    first: int,
    begin: int,
    end: int,
    side: int,
    cuts: CutTable,
    below_flow: Floats,
    at: Floats,
    correction: Floats,
) -> None:
    """Go through the cuts of one feature, from known one to known one."""
    below = -1
    u = begin
    while u <= end:
        if u < end and not is_known(first + u, side, cuts, below_flow):
            u += 1
            continue
        for between in range(max(below + 1, begin), u):
            value, weight, nearest = 0.0, 0.0, math.inf
            if below >= 0:
                distance = at[between] - at[below] + 1e-9
                value += error_at(first + below, side, cuts, below_flow) / distance
                weight += 1.0 / distance
                nearest = distance
            if u < end:
                distance = at[u] - at[between] + 1e-9
                value += error_at(first + u, side, cuts, below_flow) / distance
                weight += 1.0 / distance
                nearest = min(nearest, distance)
            if weight > 0.0:
                correction[between] = value / weight * math.exp(-nearest / REACH)
        below = u
        u += 1


@njit(**INNER)
def is_known(e: int, side: int, cuts: CutTable, below_flow: Floats) -> bool:
    """Whether the child has been looked at."""
    child = cuts.child[e, side]
    return child >= 0 and not math.isnan(below_flow[child])


@njit(**INNER)
def error_at(e: int, side: int, cuts: CutTable, below_flow: Floats) -> float:
    """What look-ahead and network missed at a known child."""
    return below_flow[cuts.child[e, side]] - cuts.lookahead[e, side] - cuts.residual[e, side]


@njit(**INNER)
def log_add(a: float, b: float) -> float:
    """Log of the sum of two exponentials."""
    high, low = max(a, b), min(a, b)
    return high if low == -math.inf else high + math.log1p(math.exp(low - high))


@njit(**INNER)
def log_splits(n_thresholds: float, depth: int, loops: Loops) -> float:
    """Log of x_d t_{d+1}^2: all trees with a split at the top, without their likelihood.

    ``n_thresholds`` is the number of thresholds that are valid in the row set.
    """
    if n_thresholds <= 0 or depth >= loops.log_split.shape[0] - 1:
        return -math.inf
    below = log_below(n_thresholds, depth, loops)
    return loops.log_split[depth] + log_rules(n_thresholds, loops) + 2.0 * below


@njit(cache=True, nogil=True)
def log_rules(n_thresholds: float, loops: Loops) -> float:
    """Log of what the rules of all splits of a node weigh at most, without the split's own term."""
    rules = math.log(n_thresholds)
    if loops.uniform_rules:
        rules *= max(0.0, 1.0 - 1.0 / loops.temperature)
    return rules


@njit(cache=True, nogil=True)
def log_below(n_thresholds: float, depth: int, loops: Loops) -> float:
    """Log of t_{d+1}: all structures on one side of a split, without their likelihood."""
    rules, below = log_rules(n_thresholds, loops), 0.0
    for d in range(loops.log_split.shape[0] - 2, depth, -1):
        below = max(0.0, log_add(loops.log_stop[d], loops.log_split[d] + rules + 2.0 * below))
    return below


@njit(**INNER)
def log_ceiling(
    sums: Floats, leaf_value: float, log_split: float, leaf: Any, temperature: float
) -> float:
    """Ceiling of log Z of a row set, by its sums [K], log m / temperature and ``log_splits``."""
    if log_split == -math.inf:
        return leaf_value
    most = log_partition_bound(sums, leaf) / temperature
    return log_add(leaf_value, most + log_split)


@njit(cache=True, nogil=True)
def ceilings_of(
    sums: Floats, leaf_value: Floats, n_thresholds: float, depth: int, loops: Loops
) -> Floats:
    """Ceilings [N] of row sets of one depth with so many valid thresholds, rounded up."""
    out = np.empty(sums.shape[0])
    log_split, leaf = log_splits(n_thresholds, depth, loops), loops.leaf
    for i in range(sums.shape[0]):
        value = log_ceiling(sums[i], leaf_value[i], log_split, leaf, loops.temperature)
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
    n_thresholds: Floats,
    loops: Loops,
    cuts: CutTable,
) -> None:
    """Set the ceilings of both children of all cuts of nodes[first:last].

    ``n_thresholds`` [K] of a node bounds that of its children.
    """
    # Out of the loop: passing ``loops`` to a function costs as much as the ceiling itself.
    leaf, temperature, log_stop = loops.leaf, loops.temperature, loops.log_stop[depth + 1]
    for i in range(first, last):
        node = nodes[i]
        at, number = start[node], n_cuts[node]
        log_split = log_splits(n_thresholds[node], depth + 1, loops)
        for e in range(at, at + number):
            for side in range(2):
                # The look-ahead is the leaf's value, or more, in double precision's digits.
                leaf_value = float(cuts.lookahead[e, side]) - log_stop
                value = log_ceiling(cuts.sums[e, side], leaf_value, log_split, leaf, temperature)
                cuts.ceiling[e, side] = value + ROUNDING * abs(value)


@njit(cache=True, nogil=True)
def count_thresholds(
    nodes: Int64s, start: Int64s, n_cuts: Int32s, cuts: CutTable, n_thresholds: Floats
) -> None:
    """Set the number of valid thresholds of nodes whose cuts are listed."""
    for node in nodes:
        n_thresholds[node] = 0.0
        for e in range(start[node], start[node] + n_cuts[node]):
            n_thresholds[node] += cuts.high[e] - cuts.low[e]


@njit(cache=True, nogil=True)
def bound_flows(
    first: int,
    last: int,
    nodes: Int64s,
    start: Int64s,
    n_cuts: Int32s,
    cuts: CutTable,
    stop: Floats,
    rest: Floats,
    rest_ceiling: Floats,
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
        low_other, high_other = (
            log_add(stop[node], rest[node]),
            log_add(stop[node], rest_ceiling[node]),
        )
        low_top, high_top = low_other, high_other
        for e in range(at, until):
            low[e - at], high[e - at] = cuts.prior[e], cuts.prior[e]
            for side in range(2):
                child = cuts.child[e, side]
                if child >= 0 and not math.isnan(below_flow[child]):
                    low[e - at] += below_floor[child]
                    high[e - at] += below_ceiling[child]
                else:
                    low[e - at] += cuts.lookahead[e, side]
                    high[e - at] += cuts.ceiling[e, side]
            low_top, high_top = max(low_top, low[e - at]), max(high_top, high[e - at])
        floor[node] = log_sum(low_other, low, low_top)
        ceiling[node] = log_sum(high_other, high, high_top)


@njit(cache=True, nogil=True)
def log_sum(stop: float, values: Floats, top: float) -> float:
    """Log of exp(stop) plus the sum of exp(values) [N], the largest of which is ``top``."""
    if math.isinf(top):  # nothing is possible, or a leaf model has no bound
        return top
    total = math.exp(stop - top)
    for value in values:
        total += math.exp(value - top)
    return top + math.log(total)
