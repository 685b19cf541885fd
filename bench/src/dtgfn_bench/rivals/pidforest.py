"""PIDForest: how empty a box can be drawn around a row (Gopalan, Sharan, Wieder 2019)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from numba import njit

from dtgfn._support.arrays import Floats, Int64s
from dtgfn_bench.contract import Method, TrainingRows


@njit(cache=True)  # type: ignore[untyped-decorator]
def _partition_errors(values: Floats, weights: Floats, errors: Floats, starts: Int64s) -> None:
    """Write least errors [K, n + 1] of the first values in k + 1 buckets, and the last's start."""
    n = len(values)
    errors[:] = np.inf
    errors[:, 0] = 0.0
    for start in range(n):
        weight, mean, error = 0.0, 0.0, 0.0
        for end in range(start + 1, n + 1):
            # Welford's update of the error of one bucket [start, end).
            weight += weights[end - 1]
            step = values[end - 1] - mean
            mean += step * weights[end - 1] / weight
            error += weights[end - 1] * step * (values[end - 1] - mean)
            if start == 0:
                errors[0, end] = error
                continue
            for k in range(1, len(errors)):
                if errors[k - 1, start] + error < errors[k, end]:
                    errors[k, end] = errors[k - 1, start] + error
                    starts[k, end] = start


@njit(cache=True)  # type: ignore[untyped-decorator]
def best_histogram(values: Floats, weights: Floats, n_buckets: int) -> tuple[float, Int64s]:
    """Share of squared error that the best histogram of <= n_buckets saves, and its inner starts.

    ``values`` [n] in order, each standing ``weights`` times.
    """
    n = len(values)
    errors = np.empty((min(n_buckets, n), n + 1))
    starts = np.zeros(errors.shape, dtype=np.int64)
    _partition_errors(values, weights, errors, starts)
    one, level = errors[0, n], 0
    if one <= 1e-12 * np.sum(weights * values**2):
        return 0.0, starts[0, :0]
    for k in range(1, len(errors)):  # the fewest buckets that are as good as any
        if errors[k, n] < errors[level, n] - 1e-12 * one:
            level = k
    found, end = np.empty(level, dtype=np.int64), n
    for k in range(level, 0, -1):
        end = starts[k, end]
        found[k - 1] = end
    return 1 - errors[level, n] / one, found


@njit(cache=True)  # type: ignore[untyped-decorator]
def gap_histogram(column: Floats, low: float, high: float, n_buckets: int) -> tuple[float, Floats]:
    """The saving of a column's best histogram of sparsity in [low, high), and its cuts."""
    values = np.unique(column)
    n = len(values)
    if n == 1:
        return 0.0, values[:0]
    edges = np.empty(n + 1)
    edges[0], edges[n] = low, high
    edges[1:n] = (values[1:] + values[:-1]) / 2
    weights = np.zeros(n)
    for rank in np.searchsorted(values, column):
        weights[rank] += 1.0
    saving, starts = best_histogram((edges[1:] - edges[:-1]) / weights, weights, n_buckets)
    return saving, edges[starts]


@dataclass
class BoxTree:
    """Nodes in the order they were opened; ``child`` is the first of a run, -1 at a leaf."""

    axis: list[int] = field(default_factory=list)
    cuts: list[list[float]] = field(default_factory=list)
    child: list[int] = field(default_factory=list)
    log_volume: list[float] = field(default_factory=list)

    def leaves(self, X: Floats) -> Int64s:
        """The leaf [n] of each row of the root's box."""
        width = max(1, *(len(own) for own in self.cuts))
        cuts = np.array([own + [np.inf] * (width - len(own)) for own in self.cuts])
        axis, child = np.array(self.axis), np.array(self.child)
        at, live = np.zeros(len(X), dtype=np.int64), np.arange(len(X))
        while len(live := live[child[at[live]] >= 0]):
            node = at[live]
            interval = (X[live, axis[node]][:, None] >= cuts[node]).sum(axis=1)
            at[live] = child[node] + interval
        return at


def grow(
    X: Floats, low: Floats, high: Floats, depth: int, buckets: int, random: np.random.Generator
) -> BoxTree:
    """Split boxes by histograms of their gaps; axes that save more error are taken more often."""
    tree, node = BoxTree(), 0
    open_boxes = [(X, low, high, 0)]
    while node < len(open_boxes):
        inside, low, high, level = open_boxes[node]
        tree.log_volume.append(float(np.log(high - low).sum()))
        splits: list[tuple[float, Floats]] = []
        if level < depth and len(inside) > 1:
            columns = zip(np.ascontiguousarray(inside.T), low, high, strict=True)
            splits = [gap_histogram(column, a, b, buckets) for column, a, b in columns]
        savings = np.array([saving for saving, _ in splits])
        axis = -1
        if savings.sum() > 0:
            axis = int(random.choice(len(savings), p=savings / savings.sum()))
        cuts = splits[axis][1].tolist() if axis >= 0 else []
        tree.axis.append(axis)
        tree.cuts.append(cuts)
        tree.child.append(len(open_boxes) if cuts else -1)
        if cuts:
            open_boxes += _parts(inside, low, high, axis, cuts, level + 1)
        node += 1
    return tree


def _parts(
    X: Floats, low: Floats, high: Floats, axis: int, cuts: list[float], level: int
) -> list[tuple[Floats, Floats, Floats, int]]:
    """The boxes that cuts along an axis leave, each with its rows."""
    edges = [low[axis], *cuts, high[axis]]
    interval = np.searchsorted(cuts, X[:, axis], "right")
    parts = []
    for k in range(len(cuts) + 1):
        start, end = low.copy(), high.copy()
        start[axis], end[axis] = edges[k], edges[k + 1]
        parts.append((X[interval == k], start, end, level))
    return parts


@dataclass(frozen=True)
class FittedBoxForest:
    """Trees with the -log density [N] of their boxes; ``varies`` [d] marks columns to split."""

    trees: list[BoxTree]
    sparsity: list[Floats]
    low: Floats
    high: Floats
    varies: npt.NDArray[np.bool_]
    X: Floats

    def score(self, X: Floats) -> Floats:
        """Median sparsity over trees; outside the training box, more than any leaf's.

        No training row lies out there, so such rows come first, farther ones (in box sides) before
        nearer ones.
        """
        below, above = np.maximum(self.low - X, 0), np.maximum(X - self.high, 0)
        side = np.where(self.varies, self.high - self.low, 1.0)
        outside = (below + above > 0) | ((self.high <= X) & self.varies)
        out = outside.any(axis=1)
        scores = np.empty(len(X))
        scores[out] = max(own.max() for own in self.sparsity) + 1
        scores[out] += ((below + above) / side).sum(axis=1)[out]
        inside = X[~out][:, self.varies]
        if len(inside):
            trees = zip(self.trees, self.sparsity, strict=True)
            scores[~out] = np.median([own[tree.leaves(inside)] for tree, own in trees], axis=0)
        return scores

    def training_scores(self) -> Floats:
        """The training rows through the same trees."""
        return self.score(self.X)

    def size(self) -> float:
        """Mean nodes per tree."""
        return float(np.mean([len(tree.axis) for tree in self.trees]))


def _sparsity(tree: BoxTree, X: Floats) -> Floats:
    """-log(rows per volume) of leaves; nodes inside the tree get -inf, no row ends there."""
    count = np.bincount(tree.leaves(X), minlength=len(tree.axis))
    found = np.full(len(count), -np.inf)
    ends = np.array(tree.child) < 0
    found[ends] = np.array(tree.log_volume)[ends] - np.log(count[ends])
    return found


def fit_pidforest(
    rows: TrainingRows, seed: int, n_trees: int, n_rows: int, depth: int, n_buckets: int
) -> FittedBoxForest:
    """Grow trees on samples, then count all training rows in their boxes."""
    random = np.random.default_rng(seed)
    X = rows.X
    distinct = [np.unique(column) for column in X.T]
    varies = np.array([len(values) > 1 for values in distinct])
    # The box ends half a gap beyond the outermost values.
    low = np.array([v[0] - (v[1] - v[0]) / 2 if len(v) > 1 else v[0] for v in distinct])
    high = np.array([v[-1] + (v[-1] - v[-2]) / 2 if len(v) > 1 else v[0] for v in distinct])
    inner, box = X[:, varies], (low[varies], high[varies])
    trees = []
    for _ in range(n_trees):
        sample = inner[random.permutation(len(X))[:n_rows]]
        trees.append(grow(sample, *box, depth, n_buckets, random))
    return FittedBoxForest(trees, [_sparsity(tree, inner) for tree in trees], low, high, varies, X)


METHODS: tuple[Method, ...] = (
    Method(
        name="pidforest",
        label="PIDForest",
        fit=fit_pidforest,
        detects=True,
        note="50 trees of 100 rows, depth 10, 3 buckets, median over trees as released; histograms "
        "are exact (theirs within 10 %), and rows outside the training box, which their code gives "
        "a middling score, are the most anomalous.",
        settings={"n_trees": 50, "n_rows": 100, "depth": 10, "n_buckets": 3},
        quick={"n_trees": 8},
    ),
)
