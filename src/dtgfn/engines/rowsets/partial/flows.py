"""Flows of nodes from those of their children, with the best tree and what is still open.

F(S, k) = m(S) + sum over cuts  e^-penalty F(left, k-1) F(right, k-1)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from dtgfn._support.arrays import Floats, Int32s, Int64s
from dtgfn.engines.rowsets.partial.lookahead import Cuts
from dtgfn.engines.rowsets.partial.neighbours import correct_by_neighbours, is_known

LEAST_OPEN = 1e-300  # of a node below which something is unknown, should its share underflow


@njit(cache=True, nogil=True)
def settle_flows(
    first: int,
    last: int,
    nodes: Int64s,
    start: Int64s,
    n_cuts: Int32s,
    cuts: Cuts,
    leaf: Any,
    stop: Floats,
    below_flow: Floats,
    below_best: Floats,
    below_open: Floats,
    remember: bool,
    hope: bool,
    flow: Floats,
    best: Floats,
    open_mass: Floats,
) -> None:
    """F = stop + sum over cuts of split F(left) F(right); with it the best tree and open mass.

    A child nobody looked at counts with its look-ahead and, with ``hope``, with what the network
    and its neighbours promise, up to its ceiling.
    """
    correction = np.zeros((2, n_cuts.max() + 1))
    for i in range(first, last):
        node = nodes[i]
        if remember and hope:
            for side in range(2):
                given = (start[node], n_cuts[node], side, cuts, leaf, below_flow)
                correct_by_neighbours(*given, correction[side])
        top, best[node] = stop[node], stop[node]
        for e in range(start[node], start[node] + n_cuts[node]):
            value = cuts.prior[e]
            best_here = cuts.prior[e] - math.log(cuts.high[e] - cuts.low[e])
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
                    if hope:
                        promised = cuts.residual[e, side] + correction[side, e - start[node]]
                    value += min(cuts.look[e, side] + promised, cuts.ceiling[e, side])
            cuts.logit[e] = value
            top, best[node] = max(top, value), max(best[node], best_here)
        total, unseen, closed = math.exp(stop[node] - top), 0.0, True
        for e in range(start[node], start[node] + n_cuts[node]):
            share = math.exp(cuts.logit[e] - top)
            total += share
            opening = cut_open(e, cuts, below_flow, below_open)
            unseen += share * opening
            closed = closed and opening == 0.0
        flow[node] = top + math.log(total)
        open_mass[node] = 0.0 if closed else max(unseen / total, LEAST_OPEN)


@njit(cache=True, nogil=True)
def cut_open(e: int, cuts: Cuts, below_flow: Floats, below_open: Floats) -> float:
    """Probability that a tree taking this cut passes a child nobody looked at."""
    either, both = 0.0, 1.0
    for side in range(2):
        child = cuts.child[e, side]
        if child < 0 or math.isnan(below_flow[child]):
            return 1.0
        either += below_open[child]
        both *= below_open[child]
    return either - both  # not 1 - product: what is left open may be far below rounding
