"""What one node of a summed tree may do, by one-level look-ahead: stop, or any cut, with weights.

A leaf's value is Normal(0, scale^2). Rows enter by a precision and precision x residual; a leaf
with sums P and S of these has, relative to the rows' own terms, which no tree changes::

    log m = -1/2 log(1 + scale^2 P) + 1/2 scale^2 S^2 / (1 + scale^2 P)

A node at depth k stops with weight exp(log_stop[k]) and cuts with exp(log_split[k]) x rule x
m(left) m(right) / m(node). Their sum is the node's ``log_total``: near 0 where rows say little,
since the prior sums to one.

``cells`` [2, C] of a node hold P and S of the rows left of every cut, feature after feature, so
that all cuts are weighed in one loop over vectors. Precisions are whole multiples of one power of
two (``row_precisions.py``): their sums and differences are exact, and a cut parts the node's rows
if and only if 0 < P(left) < P(node).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dtgfn._support.arrays import Codes, Floats, Int32s, UInt32s
from dtgfn._support.compiled import INNER, njit
from dtgfn.engines.sums.fast_exp import CONTRACT, fast_exp

COUNT, PRECISION, PULL = 0, 1, 2  # sums over the rows of a node
STOP = -1
ANY_ORDER = {"reassoc", "contract", "arcp", "nsz"}  # of sums; nothing else is taken lightly
ENDLESS = 1e280  # a sum of weights so large is weighed again, relative to the largest


class SumTable(NamedTuple):
    """What the compiled loops read: n rows, F features, and the prior of one tree."""

    codes: Codes  # [n, F]
    n_codes: Int32s  # [F] codes are 0..n_codes-1
    column: Int32s  # [F] source column
    by_column: Int32s  # [F'] features that vary, those of one column together
    begin: Int32s  # [columns + 1] where the features of each begin
    first_cell: UInt32s  # [F + 1] where the cells of each would begin if all were looked at
    log_feature: Floats  # [F] log prior of choosing the feature at a split
    log_stop: Floats  # [max_depth + 1] log prior of a stop at each depth; 0 at the last
    log_split: Floats  # [max_depth + 1] and of a split, before the rule
    uniform_cuts: bool  # whether a rule also pays log(valid cuts) of its feature
    max_depth: int


class Active(NamedTuple):
    """The A features that a proposal looks at."""

    used: Int32s  # [1] A
    feature: UInt32s  # [A]
    first: UInt32s  # [A + 1] where the cells of each begin
    share: Floats  # [A] prior of choosing the feature at a split, tilted


class Choice(NamedTuple):
    """What one node may do with the features that are looked at, relative to m(node)."""

    weight: Floats  # [C] of each cut, relative to the others of its feature
    mass: Floats  # [A] weight of all cuts of a feature
    total: Floats  # [3] log of the sum of all; the stop's weight and that sum, beside the masses


@njit(**INNER)
def log_marginal(precision: float, pull: float, variance: float) -> float:
    """Log m of a leaf with these sums; ``variance`` is scale^2."""
    spread = 1.0 + variance * precision
    return 0.5 * (variance * pull * pull / spread - math.log(spread))


@njit(**INNER)
def count_rows(
    codes: Codes, rows: UInt32s, active: Active, row_state: Floats, cells: Floats
) -> None:
    """Fill the cells of a node from its rows; ``row_state`` [2, n] is precision and pull."""
    n_active = active.used[0]
    feature, first = active.feature, active.first
    precision, pull = cells[0], cells[1]
    row_precision, row_pull = row_state[0], row_state[1]
    for i in range(first[n_active]):
        precision[i] = 0.0
        pull[i] = 0.0
    for row in rows:
        p, s = row_precision[row], row_pull[row]
        for a in range(n_active):
            i = first[a] + codes[row, feature[a]]
            precision[i] += p
            pull[i] += s
    accumulate(precision, first, n_active)
    accumulate(pull, first, n_active)


@njit(**INNER)
def accumulate(cells: Floats, first: UInt32s, n_features: int) -> None:
    """Turn sums of every code of some features into sums of all codes up to it."""
    for a in range(n_features):
        total = 0.0
        for i in range(first[a], first[a + 1]):
            total += cells[i]
            cells[i] = total


@njit(**INNER)
def count_precisions(table: SumTable, row_precision: Floats, known: Floats) -> None:
    """Fill the precisions of the cells of all features and all rows, which last for one sum."""
    first = table.first_cell
    for i in range(known.shape[0]):
        known[i] = 0.0
    n_features = first.shape[0] - 1
    for row in range(table.codes.shape[0]):
        p = row_precision[row]
        for f in range(n_features):
            known[first[f] + table.codes[row, f]] += p
    accumulate(known, first, n_features)


@njit(**INNER)
def count_pulls(
    table: SumTable, active: Active, row_pull: Floats, known: Floats, cells: Floats
) -> None:
    """Fill the cells of all rows, whose precisions are ``known``: half the work of counting."""
    n_active = active.used[0]
    feature, first, codes = active.feature, active.first, table.codes
    precision, pull = cells[0], cells[1]
    for a in range(n_active):
        i = table.first_cell[feature[a]]
        for k in range(first[a], first[a + 1]):
            precision[k] = known[i]
            pull[k] = 0.0
            i += np.uint32(1)
    for row in range(codes.shape[0]):
        s = row_pull[row]
        for a in range(n_active):
            pull[first[a] + codes[row, feature[a]]] += s
    accumulate(pull, first, n_active)


@njit(**INNER)
def subtract_cells(whole: Floats, part: Floats, n_cells: int, out: Floats) -> None:
    """Fill the cells of a node whose sibling and parent are known."""
    for k in range(2):
        one, other, rest = whole[k], part[k], out[k]
        for i in range(n_cells):
            rest[i] = one[i] - other[i]


@njit(**INNER, fastmath=CONTRACT, error_model="numpy")
def weigh_cuts(
    cells: Floats, n_cells: int, total: Floats, variance: float, base: float, weight: Floats
) -> None:
    """Weigh every cut by exp(-base) m(left) m(right), or 0 if it parts no rows."""
    left_precision, left_pull = cells[0], cells[1]
    precision, pull = total[PRECISION], total[PULL]
    half, both = 0.5 * variance, 2.0 + variance * precision
    for i in range(n_cells):  # no branch, no call: it runs on vectors
        p, s = left_precision[i], left_pull[i]
        left = 1.0 + variance * p
        right = both - left
        other = pull - s
        root = 1.0 / math.sqrt(left * right)
        gain = half * ((s * s * right + other * other * left) * (root * root)) - base
        weight[i] = fast_exp(gain) * root * ((p > 0.0) & (p < precision))


@njit(**INNER, fastmath=ANY_ORDER)
def add_cuts(
    cells: Floats, active: Active, precision: float, uniform: bool, scale: float, choice: Choice
) -> float:
    """Add up the weights of each feature's cuts, with its prior, and return the sum of all."""
    left, weight, first = cells[0], choice.weight, active.first
    total = 0.0
    for a in range(active.used[0]):
        mass, n_cuts = 0.0, 0
        for i in range(first[a], first[a + 1]):
            mass += weight[i]
            n_cuts += (left[i] > 0.0) & (left[i] < precision)
        mass *= scale * active.share[a]
        if uniform and n_cuts > 0:
            mass /= n_cuts
        choice.mass[a] = mass
        total += mass
    return total


@njit(**INNER)
def largest_gain(cells: Floats, n_cells: int, total: Floats, variance: float, base: float) -> float:
    """Largest exponent of a cut, relative to ``base``."""
    top = 0.0
    for i in range(n_cells):
        p, s = cells[0, i], cells[1, i]
        left = s * s / (1.0 + variance * p)
        right = (total[PULL] - s) ** 2 / (1.0 + variance * (total[PRECISION] - p))
        top = max(top, 0.5 * variance * (left + right) - base)
    return top


@njit(**INNER)
def weigh_node(
    cells: Floats,
    active: Active,
    total: Floats,
    depth: int,
    variance: float,
    table: SumTable,
    choice: Choice,
) -> float:
    """Log of the sum of the node's weights, relative to m(node); each cut's is in ``choice``."""
    stop = table.log_stop[depth]
    if depth >= table.max_depth or total[COUNT] < 1.5:
        choice.total[0], choice.total[1], choice.total[2] = stop, 1.0, 1.0
        return stop
    n_cells = active.first[active.used[0]]
    spread = 1.0 + variance * total[PRECISION]
    base = 0.5 * variance * total[PULL] * total[PULL] / spread
    scale = math.exp(table.log_split[depth]) * math.sqrt(spread)
    lift = cut = 0.0
    for attempt in range(2):
        weigh_cuts(cells, n_cells, total, variance, base + lift, choice.weight)
        cut = add_cuts(cells, active, total[PRECISION], table.uniform_cuts, scale, choice)
        if cut < ENDLESS:
            break
        if attempt == 0:
            lift = largest_gain(cells, n_cells, total, variance, base)
    choice.total[1] = math.exp(stop - lift)
    choice.total[2] = choice.total[1] + cut
    choice.total[0] = math.log(choice.total[2]) + lift
    return choice.total[0]


@njit(**INNER)
def draw_choice(active: Active, choice: Choice, rng: np.random.Generator) -> tuple[int, int]:
    """Draw what a weighed node does: position of the active feature (or ``STOP``), and the cut."""
    stop, total = choice.total[1], choice.total[2]
    left = rng.random() * total - stop
    if left < 0.0 or total <= stop:
        return STOP, 0
    last = STOP
    for a in range(active.used[0]):
        if choice.mass[a] > 0.0:
            last = a
            if left < choice.mass[a]:
                break
            left -= choice.mass[a]
    if last == STOP:  # rounding
        return STOP, 0
    begin, end = active.first[last], active.first[last + 1]
    total = 0.0
    for i in range(begin, end):
        total += choice.weight[i]
    left = rng.random() * total
    chosen = 0
    for cut, weight in enumerate(choice.weight[begin:end]):
        if weight > 0.0:
            chosen = cut
            left -= weight
            if left < 0.0:
                break
    return last, chosen
