"""One step ahead at an open node: every way to decide it, weighed, and draws from them.

The locally optimal proposal of a node with rows S, m the leaf's term with its prior::

    local(stop)  ~ m(S)^(1/T)
    local(f, j)  ~ [split(f) m(S_left) m(S_right)]^(1/T)
    q = (1 - UNIFORM_SHARE) local + UNIFORM_SHARE / (cuts + 1)

The uniform part keeps every tree possible and the weights bounded.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dtgfn._support.arrays import Floats, Int32s, Int64s
from dtgfn._support.compiled import INNER, njit
from dtgfn._support.parallel import Flag
from dtgfn.trees.leaf_models import add_row, log_marginal, row_mass
from dtgfn.trees.node_terms import NodeTable, code_ranges, split_term

UNIFORM_SHARE = 0.05


class Choices(NamedTuple):
    """The U distinct ways to cut a node, after the look-ahead; scratch of one sweep.

    Cuts ``low .. low + copies - 1`` of a feature send the same rows to the left.
    """

    feature: Int32s  # [U]
    low: Int32s  # [U]
    log_weight: Floats  # [U] of one copy, relative to a stop
    mass: Floats  # [U] cumulated weight, of all copies, relative to the largest
    copies: Floats  # [U] cumulated number of copies
    ranges: Int32s  # [2, F]
    histogram: Floats  # [codes, K]
    left: Floats  # [K]
    right: Floats  # [K]
    halted: Flag  # [1] whether to end early, with nothing that could be used


def make_choices(table: NodeTable, halted: Flag) -> Choices:
    """Return room for the choices at any node."""
    n_rows = table.codes.shape[1]
    n_codes = table.codes.max(axis=1, initial=0).astype(np.int64) + 1
    return room_for_choices(n_codes, int(np.minimum(n_codes, n_rows).sum()), table.n_sums, halted)


def room_for_choices(n_codes: Int64s, most: int, n_sums: int, halted: Flag) -> Choices:
    """Return room for so many choices among features of so many codes [F]."""
    return Choices(
        feature=np.zeros(most + 1, dtype=np.int32),
        low=np.zeros(most + 1, dtype=np.int32),
        log_weight=np.zeros(most + 1),
        mass=np.zeros(most + 1),
        copies=np.zeros(most + 1),
        ranges=np.zeros((2, len(n_codes)), dtype=np.int32),
        histogram=np.zeros((int(n_codes.max(initial=1)), n_sums)),
        left=np.zeros(n_sums),
        right=np.zeros(n_sums),
        halted=halted,
    )


@njit(**INNER)
def look_ahead(
    order: Int32s, end: int, depth: int, stop: float, table: NodeTable, choices: Choices
) -> tuple[int, int, float]:
    """Weigh all cuts of the rows ``order[:end]`` against a stop, whose log R term is ``stop``.

    Return the number of distinct cuts, of varying features, and the largest log weight (>= 0).
    Forced stops of the children are not looked for: that would need their rows.
    """
    n_varying = code_ranges(order, 0, end, table, choices.ranges)
    n_choices = 0
    largest = 0.0
    for f in range(table.codes.shape[0]):
        low, high = choices.ranges[0, f], choices.ranges[1, f]
        if low == high or choices.halted[0]:
            continue
        fill_histogram(order, end, f, table, choices)
        given = (depth, n_varying, stop, table, choices)
        n_choices, largest = weigh_cuts(f, n_choices, largest, *given)
    cumulate(choices, n_choices, largest)
    return n_choices, n_varying, largest


@njit(cache=True, nogil=True)
def look_ahead_counted(
    histogram: Floats,
    total: Floats,
    offset: Int64s,
    depth: int,
    stop: float,
    table: NodeTable,
    choices: Choices,
) -> tuple[int, float]:
    """Weigh all cuts as ``look_ahead`` does, from sums that somebody else has added up.

    ``histogram`` [codes of all features, K] has feature f from ``offset[f]`` on, ``total`` [K] is
    the sum over all rows. Rules that depend on the number of varying features are not known here.
    Return the number of distinct cuts and the largest log weight (>= 0).
    """
    n_choices = 0
    largest = 0.0
    for f in range(offset.shape[0] - 1):
        here = histogram[offset[f] : offset[f + 1]]
        low, high = occupied(here, table)
        if low == high:
            continue
        choices.ranges[0, f], choices.ranges[1, f] = low, high
        choices.histogram[: here.shape[0]] = here
        choices.left[:] = 0.0
        choices.right[:] = total
        given = (depth, 1, stop, table, choices)
        n_choices, largest = weigh_cuts(f, n_choices, largest, *given)
    cumulate(choices, n_choices, largest)
    return n_choices, largest


@njit(**INNER)
def occupied(histogram: Floats, table: NodeTable) -> tuple[int, int]:
    """Lowest and highest code of a histogram [codes, K] that has rows."""
    low, high = histogram.shape[0] - 1, 0
    for code in range(histogram.shape[0]):
        if row_mass(histogram[code], table.leaf) > 0.0:
            low = min(low, code)
            high = code
    return low, max(low, high)


@njit(**INNER)
def weigh_cuts(
    feature: int,
    n_choices: int,
    largest: float,
    depth: int,
    n_varying: int,
    stop: float,
    table: NodeTable,
    choices: Choices,
) -> tuple[int, float]:
    """Add the cuts of a feature, whose histogram is in ``choices``, with all rows to the right."""
    low, high = choices.ranges[0, feature], choices.ranges[1, feature]
    split = split_term(depth, n_varying, high - low, table)
    extra = split + 2.0 * table.log_stop[depth + 1] - stop
    begun = False
    for code in range(low, high):
        if begun and row_mass(choices.histogram[code], table.leaf) <= 0.0:
            choices.copies[n_choices - 1] += 1.0
            continue
        begun = True
        for c in range(choices.left.shape[0]):
            choices.left[c] += choices.histogram[code, c]
            choices.right[c] -= choices.histogram[code, c]
        gain = log_marginal(choices.left, table.leaf)
        gain += log_marginal(choices.right, table.leaf)
        log_weight = (gain + extra) / table.temperature
        choices.feature[n_choices] = feature
        choices.low[n_choices] = code
        choices.log_weight[n_choices] = log_weight
        choices.copies[n_choices] = 1.0
        largest = max(largest, log_weight)
        n_choices += 1
    return n_choices, largest


@njit(**INNER)
def fill_histogram(
    order: Int32s, end: int, feature: int, table: NodeTable, choices: Choices
) -> None:
    """Sum rows per code of a feature, and all of them into ``right``."""
    n_sums = choices.left.shape[0]
    for code in range(choices.ranges[0, feature], choices.ranges[1, feature] + 1):
        for c in range(n_sums):
            choices.histogram[code, c] = 0.0
    for c in range(n_sums):
        choices.left[c] = 0.0
        choices.right[c] = 0.0
    for r in range(end):
        row = order[r]
        here = choices.histogram[table.codes[feature, row]]
        add_row(here, table.target[row], table.weight[row], table.leaf)
        add_row(choices.right, table.target[row], table.weight[row], table.leaf)


@njit(**INNER)
def cumulate(choices: Choices, n_choices: int, largest: float) -> None:
    """Turn copies and weights into running sums, to be searched."""
    mass = 0.0
    copies = 0.0
    for u in range(n_choices):
        mass += choices.copies[u] * math.exp(choices.log_weight[u] - largest)
        copies += choices.copies[u]
        choices.mass[u] = mass
        choices.copies[u] = copies


@njit(**INNER)
def first_above(cumulated: Floats, n: int, value: float) -> int:
    """Return the first index where the running sum exceeds ``value``."""
    low, high = 0, n - 1
    while low < high:
        middle = (low + high) // 2
        if cumulated[middle] > value:
            high = middle
        else:
            low = middle + 1
    return low


@njit(**INNER)
def draw_choice(
    choices: Choices, n_choices: int, largest: float, uniform: Floats
) -> tuple[int, int, float]:
    """Draw from q with three uniforms; return choice (-1 stops), cut and log q."""
    n_cuts = choices.copies[n_choices - 1]
    stop = math.exp(-largest)
    total = stop + choices.mass[n_choices - 1]
    chosen, cut = -1, 0
    if uniform[0] < UNIFORM_SHARE:
        position = math.floor(uniform[1] * (n_cuts + 1.0)) - 1.0
        if position >= 0.0:
            chosen = first_above(choices.copies, n_choices, position)
    elif uniform[1] * total >= stop:
        chosen = first_above(choices.mass, n_choices, uniform[1] * total - stop)
    log_weight = 0.0
    if chosen >= 0:
        before = choices.copies[chosen - 1] if chosen > 0 else 0.0
        cut = choices.low[chosen] + int(uniform[2] * (choices.copies[chosen] - before))
        log_weight = choices.log_weight[chosen]
    local = math.exp(log_weight - largest) / total
    return chosen, cut, math.log((1.0 - UNIFORM_SHARE) * local + UNIFORM_SHARE / (n_cuts + 1.0))
