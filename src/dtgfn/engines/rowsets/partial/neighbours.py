"""What known cuts say about their unknown neighbours on the same feature.

Two cuts of a feature that are close send nearly the same rows to a side, so what the network got
wrong at a known one it gets wrong at the other. With x the error at the nearest known cuts below
and above, and d their distance as a share of the node's rows::

    correction = (x_below d_above + x_above d_below) / (d_below + d_above) * exp(-nearest d / REACH)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from dtgfn._support.arrays import Floats
from dtgfn.engines.rowsets.partial.lookahead import Cuts
from dtgfn.trees.leaves import row_mass

REACH = 0.1


@njit(cache=True, nogil=True)
def correct_by_neighbours(
    first: int,
    number: int,
    side: int,
    cuts: Cuts,
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


@njit(cache=True, nogil=True)
def fill_feature(
    first: int,
    begin: int,
    end: int,
    side: int,
    cuts: Cuts,
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


@njit(cache=True, nogil=True)
def is_known(e: int, side: int, cuts: Cuts, below_flow: Floats) -> bool:
    """Whether the child has been looked at."""
    child = cuts.child[e, side]
    return child >= 0 and not math.isnan(below_flow[child])


@njit(cache=True, nogil=True)
def error_at(e: int, side: int, cuts: Cuts, below_flow: Floats) -> float:
    """What look-ahead and network missed at a known child."""
    return below_flow[cuts.child[e, side]] - cuts.look[e, side] - cuts.residual[e, side]
