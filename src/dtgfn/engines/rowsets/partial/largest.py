"""Nodes of wide tables: the largest cuts are kept, the rest is one sum and looked up on demand.

A thousand real columns make a hundred thousand cuts of every row set, nearly all of which weigh
nothing. So a node keeps those with the largest look-ahead. What the others weigh by theirs is
``rest``, a part of the node's flow; a tree that falls there draws one of them from a new listing,
with the share of ``rest`` that the cut has, so that nothing is lost and log P_F stays known.

No tree below a cut is worth more than any partition of the node's rows, P(S), and the structures
below both children weigh at most t^2 (``flows.py``). So the rest is worth at most::

    sum over the rest of the splits' prior * P(S)^(1/temperature) * t_{d+1}^2
"""

from __future__ import annotations

import math

import numpy as np

from dtgfn._support.arrays import Bools, Floats, Int32s, Int64s, UInt64s
from dtgfn._support.compiled import njit
from dtgfn.engines.rowsets.partial.cuts import CutTable
from dtgfn.engines.rowsets.partial.flows import ROUNDING, log_below
from dtgfn.engines.rowsets.partial.leaf_cuts import LeafScratch, list_leaf_cuts, make_leaf_scratch
from dtgfn.engines.rowsets.problem import Loops
from dtgfn.trees.leaf_models import log_partition_bound


@njit(cache=True, nogil=True)
def mark_largest(n_cuts: int, most: int, cuts: CutTable) -> tuple[Floats, Bools]:
    """Look-ahead flows of the first cuts, and which are among the ``most`` largest."""
    value = np.empty(n_cuts)
    for u in range(n_cuts):
        value[u] = cuts.prior[u] + cuts.lookahead[u, 0] + cuts.lookahead[u, 1]
    kept = np.ones(n_cuts, np.bool_)
    if n_cuts <= most:
        return value, kept
    lowest = np.partition(value, n_cuts - most)[n_cuts - most]
    n_above = 0
    for u in range(n_cuts):
        n_above += 1 if value[u] > lowest else 0
    room = most - n_above  # for cuts that are equal to the lowest, the first of them
    for u in range(n_cuts):
        kept[u] = value[u] > lowest
        if value[u] == lowest and room > 0:
            kept[u] = True
            room -= 1
    return value, kept


@njit(cache=True, nogil=True)
def list_largest(
    nodes: Int64s,
    bits: UInt64s,
    depth: int,
    start: Int64s,
    n_cuts: Int32s,
    most: int,
    wanted: Int32s,
    loops: Loops,
    scratch: CutTable,
    n_thresholds: Floats,
    rest: Floats,
    rest_ceiling: Floats,
    cuts: CutTable,
) -> None:
    """Fill the ``most`` largest cuts of nodes [N] of rows [N, W], and what the others add up to.

    Cuts that are ``wanted`` [M, 2], by feature and lowest threshold, are kept as well. ``scratch``
    has room for all cuts of a row set.
    """
    leaf = make_leaf_scratch(loops)
    for i in range(nodes.shape[0]):
        node = nodes[i]
        number = list_leaf_cuts(bits[i], 0, depth, loops, leaf, scratch)
        value, kept = mark_largest(number, most, scratch)
        mark_wanted(number, wanted, scratch, kept)
        e, top = start[node], -math.inf
        n_thresholds[node] = 0.0
        for u in range(number):
            n_thresholds[node] += scratch.high[u] - scratch.low[u]
            if kept[u]:
                copy_cut(u, scratch, e, cuts)
                e += 1
            else:
                top = max(top, value[u])
        n_cuts[node] = e - start[node]
        total, prior = 0.0, 0.0
        for u in range(number):
            if not kept[u]:
                total += math.exp(value[u] - top)
                prior += math.exp(scratch.prior[u])
        rest[node], rest_ceiling[node] = -math.inf, -math.inf
        if total > 0.0:
            rest[node] = top + math.log(total)
            below = log_below(n_thresholds[node], depth, loops)
            most_worth = log_partition_bound(leaf.total_sums, loops.leaf) / loops.temperature
            ceiling = math.log(prior) + most_worth + 2.0 * below
            rest_ceiling[node] = max(ceiling + ROUNDING * abs(ceiling), rest[node])


@njit(cache=True, nogil=True)
def mark_wanted(n_cuts: int, wanted: Int32s, cuts: CutTable, kept: Bools) -> None:
    """Mark the cuts that are wanted [M, 2]."""
    for i in range(wanted.shape[0]):
        for u in range(n_cuts):
            if cuts.feature[u] == wanted[i, 0] and cuts.low[u] == wanted[i, 1]:
                kept[u] = True


@njit(cache=True, nogil=True)
def copy_children(first: int, number: int, old: int, n_old: int, cuts: CutTable) -> None:
    """Give the cuts of a node that was listed anew the children that its old list had.

    Both lists ascend by feature and threshold.
    """
    e = old
    for u in range(first, first + number):
        while e < old + n_old and is_before(e, u, cuts):
            e += 1
        if e < old + n_old and not is_before(u, e, cuts):
            for side in range(2):
                cuts.child[u, side] = cuts.child[e, side]
                cuts.residual[u, side] = cuts.residual[e, side]


@njit(cache=True, nogil=True)
def is_before(a: int, b: int, cuts: CutTable) -> bool:
    """Whether a cut comes before another one in a list."""
    if cuts.feature[a] == cuts.feature[b]:
        return cuts.low[a] < cuts.low[b]
    return cuts.feature[a] < cuts.feature[b]


@njit(cache=True, nogil=True)
def copy_cut(u: int, source: CutTable, e: int, cuts: CutTable) -> None:
    """Copy a cut to another place, without children."""
    cuts.feature[e], cuts.low[e], cuts.high[e] = source.feature[u], source.low[u], source.high[u]
    cuts.prior[e] = source.prior[u]
    for side in range(2):
        cuts.lookahead[e, side] = source.lookahead[u, side]
        cuts.best[e, side] = source.best[u, side]
        cuts.ceiling[e, side] = source.lookahead[u, side]
        cuts.residual[e, side], cuts.child[e, side] = 0.0, -1
        for c in range(cuts.sums.shape[2]):
            cuts.sums[e, side, c] = source.sums[u, side, c]
    cuts.logit[e] = cuts.prior[e] + cuts.lookahead[e, 0] + cuts.lookahead[e, 1]


@njit(cache=True, nogil=True)
def draw_of_rest(
    bits: UInt64s,
    depth: int,
    first: int,
    n_kept: int,
    cuts: CutTable,
    uniform: Floats,
    loops: Loops,
    leaf: LeafScratch,
    scratch: CutTable,
) -> Int64s:
    """Draw a cut of ``scratch`` that is not kept of a row set, by its share, for each number [V].

    Kept are ``cuts`` from the first on, in the same order. -1 where there is none.
    """
    number = list_leaf_cuts(bits, 0, depth, loops, leaf, scratch)
    left_out, e = np.empty(number, np.int64), first
    value, n_out = np.empty(number), 0
    for u in range(number):
        more = e < first + n_kept
        if more and scratch.feature[u] == cuts.feature[e] and scratch.low[u] == cuts.low[e]:
            e += 1
        else:
            left_out[n_out] = u
            value[n_out] = scratch.prior[u] + scratch.lookahead[u, 0] + scratch.lookahead[u, 1]
            n_out += 1
    chosen = np.full(uniform.shape[0], -1, np.int64)
    if n_out == 0:
        return chosen
    left_out, value = left_out[:n_out], value[:n_out]
    weight = np.exp(value - value.max())
    cumulative = np.cumsum(weight)
    for i in range(uniform.shape[0]):
        position = np.searchsorted(cumulative, uniform[i] * cumulative[-1], side="right")
        chosen[i] = left_out[min(position, left_out.size - 1)]
    return chosen


@njit(cache=True, nogil=True)
def find_in_rest(
    bits: UInt64s,
    depth: int,
    feature: Int32s,
    threshold: Int32s,
    loops: Loops,
    leaf: LeafScratch,
    scratch: CutTable,
) -> Int64s:
    """Find the cut of ``scratch`` that each threshold [V] of a feature makes, -1 if none."""
    number = list_leaf_cuts(bits, 0, depth, loops, leaf, scratch)
    found = np.full(feature.shape[0], -1, np.int64)
    for i in range(feature.shape[0]):
        for u in range(number):
            same = scratch.feature[u] == feature[i]
            if same and scratch.low[u] <= threshold[i] < scratch.high[u]:
                found[i] = u
                break
    return found
