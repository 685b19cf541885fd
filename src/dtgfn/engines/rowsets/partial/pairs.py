"""Pairs of columns that tell the target only together, found by matrix products.

Where pairs of cuts are too many to be summed, the look-ahead of a cut sees one split, and an XOR
of two columns is nothing to it. With x_f = 1 or -1 on either side of a middle threshold of column f
and y the target without its mean, the sums over rows of ::

    y x_f x_g

of all pairs are one product of matrices. A pair whose sum, without what f and g tell alone, is far
beyond chance is looked at in full: the best thresholds of both are cuts for scouts to look at. All
numbers in the product are whole and few enough to be exact, so threads do not change them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from dtgfn._support import clock
from dtgfn._support.arrays import Float32s, Floats, Int32s, Int64s, UInt64s
from dtgfn._support.compiled import njit
from dtgfn.engines.rowsets.graph import rows_of
from dtgfn.engines.rowsets.problem import Loops
from dtgfn.trees.leaf_models import DirichletTerms, NormalTerms, log_marginal

MOST_ROWS = 2048  # of a row set that are looked at; products of so many numbers are exact
LEVELS = (0.5, 0.25, 0.75)  # of the rows on one side of a threshold
MOST_SIGNS = 6000  # columns times levels; with more columns only the first level is tried
MOST_CLASSES = 4
# Columns at a time, between which the clock is looked at, and products that may take.
BLOCK, PRODUCTS = 512, 4_000_000_000
FAR = 4.5  # standard errors; of a million pairs of noise some are as far


def find_pairs(
    bits: UInt64s, loops: Loops, most: int, deadline: float = math.inf
) -> npt.NDArray[np.int32]:
    """Return cuts [M, 2], feature and lowest threshold, of at most ``most`` pairs of a row set."""
    target = target_signs(loops)
    if target is None or loops.ranks.shape[0] < 2:
        return np.zeros((0, 2), np.int32)
    rows = np.empty(loops.ranks.shape[1], np.int32)
    rows = rows[: rows_of(bits, rows)]
    some = rows if rows.size <= MOST_ROWS else rows[:: -(-rows.size // MOST_ROWS)]
    signs, feature = column_signs(loops, some)
    found: dict[tuple[int, int], float] = {}
    for y in centred(target[some]):
        for f, g, far in far_pairs(signs, feature, y, most, deadline):
            found[f, g] = max(far, found.get((f, g), 0.0))
    best = sorted(found, key=lambda pair: (-found[pair], pair))[:most]
    cuts: dict[tuple[int, int], None] = {}
    for f, g in best:
        low_f, low_g = best_thresholds(rows, f, g, loops)
        cuts |= {(f, low_f): None, (g, low_g): None} if low_f >= 0 else {}
    return np.array(list(cuts), np.int32).reshape(-1, 2)


def target_signs(loops: Loops) -> Floats | None:
    """What each row [P, J] says of the target; None for leaf models that nothing is known of."""
    if isinstance(loops.leaf, DirichletTerms):
        return loops.sums if loops.sums.shape[1] > 2 else loops.sums[:, 1:]
    if isinstance(loops.leaf, NormalTerms):
        return loops.sums[:, 1:2]
    return None


def centred(target: Floats) -> Iterator[Float32s]:
    """Yield whole numbers [n] with the mean zero: one class against the rest, or ranks."""
    n_rows = len(target)
    frequent = np.argsort(-target.sum(axis=0), kind="stable")[:MOST_CLASSES]
    for j in frequent:
        order = np.argsort(target[:, j], kind="stable")
        values, group = np.unique(target[order, j], return_inverse=True)
        first = np.searchsorted(group, np.arange(len(values)), side="left")
        last = np.searchsorted(group, np.arange(len(values)), side="right")
        y = np.empty(n_rows, np.float32)
        y[order] = (first + last - n_rows)[group]  # twice the mean rank of equal ones
        if len(values) > 1:
            yield y


def column_signs(loops: Loops, rows: Int32s) -> tuple[Float32s, Int64s]:
    """Sides [n, signs] of rows at middle thresholds of columns, and whose [signs] they are."""
    ranks: npt.NDArray[np.generic] = loops.ranks[:, rows]
    in_order = np.sort(ranks, axis=1)
    n_features = len(ranks)
    parts, feature = [], []
    for level in LEVELS[: max(min(len(LEVELS), MOST_SIGNS // n_features), 1)]:
        middle = in_order[:, int(level * rows.size)]
        # The rows from the middle on, but not all of them.
        middle = np.where(middle == in_order[:, 0], middle + 1, middle)
        right = ranks >= middle[:, None]
        both = np.flatnonzero(right.any(axis=1) & ~right.all(axis=1))
        parts.append(np.where(right[both], np.float32(1), np.float32(-1)))
        feature.append(both)
    return np.ascontiguousarray(np.concatenate(parts).T), np.concatenate(feature)


def far_pairs(
    signs: Float32s, feature: Int64s, y: Float32s, most: int, deadline: float
) -> Iterator[tuple[int, int, float]]:
    """Yield pairs of columns beyond chance with how far they are, the farthest of each block."""
    mean = signs.mean(axis=0, dtype=np.float64)
    alone = (y @ signs).astype(np.float64)
    spread = np.sqrt(np.maximum(1.0 - mean**2, 1e-9))
    error = math.sqrt(float((y.astype(np.float64) ** 2).sum()))
    block = int(np.clip(PRODUCTS // signs.size, 16, BLOCK))
    for begin in range(0, len(feature), block):
        if begin and clock.monotonic() > deadline:
            return
        some = slice(begin, begin + block)
        together = ((signs[:, some] * y[:, None]).T @ signs[:, begin:]).astype(np.float64)
        together -= alone[some, None] * mean[begin:] + mean[some, None] * alone[begin:]
        far = np.abs(together) / (error * spread[some, None] * spread[begin:])
        far[feature[some, None] == feature[begin:]] = 0.0
        flat = far.ravel()
        top = (
            np.argsort(-flat, kind="stable")[: 2 * most]
            if flat.size <= 1 << 20
            else largest(flat, 2 * most)
        )
        for position in top[flat[top] > FAR]:
            i, j = divmod(int(position), far.shape[1])
            f, g = sorted((int(feature[begin + i]), int(feature[begin + j])))
            yield f, g, float(flat[position])


def largest(values: Floats, number: int) -> Int64s:
    """Positions of the largest values, largest first."""
    lowest = np.partition(values, values.size - number)[values.size - number]
    there = np.flatnonzero(values >= lowest)
    return there[np.argsort(-values[there], kind="stable")][:number]


@njit(cache=True, nogil=True)
def best_thresholds(rows: Int32s, f: int, g: int, loops: Loops) -> tuple[int, int]:
    """Thresholds of two features whose four corners are likeliest as leaves; -1 if there are none.

    Both are the lowest of those that cut these rows alike.
    """
    n_ranks, n_sums = loops.rank_code.shape[1], loops.sums.shape[1]
    corner = np.zeros((n_ranks + 1, n_ranks + 1, n_sums))  # sums of ranks below both
    here_f, here_g = np.zeros(n_ranks, np.bool_), np.zeros(n_ranks, np.bool_)
    for row in rows:
        a, b = loops.ranks[f, row], loops.ranks[g, row]
        here_f[a], here_g[b] = True, True
        for c in range(n_sums):
            corner[a + 1, b + 1, c] += loops.sums[row, c]
    for a in range(n_ranks):
        for b in range(n_ranks):
            for c in range(n_sums):
                corner[a + 1, b + 1, c] += (
                    corner[a, b + 1, c] + corner[a + 1, b, c] - corner[a, b, c]
                )
    ranks_f, ranks_g = np.flatnonzero(here_f), np.flatnonzero(here_g)
    best, low_f, low_g = -math.inf, -1, -1
    part = np.empty(n_sums)
    for i in ranks_f[:-1]:
        for j in ranks_g[:-1]:
            value = 0.0
            for side in range(4):
                for c in range(n_sums):
                    low = corner[i + 1, j + 1, c]
                    if side == 1:
                        low = corner[i + 1, n_ranks, c] - low
                    elif side == 2:
                        low = corner[n_ranks, j + 1, c] - low
                    elif side == 3:
                        low += corner[n_ranks, n_ranks, c]
                        low -= corner[i + 1, n_ranks, c] + corner[n_ranks, j + 1, c]
                    part[c] = max(low, 0.0) if c == 0 else low
                value += log_marginal(part, loops.leaf)
            if value > best:
                best = value
                low_f, low_g = loops.rank_code[f, i], loops.rank_code[g, j]
    return low_f, low_g
