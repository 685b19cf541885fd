"""Search for the one tree that comes nearest to given predictions.

Every row has sums of what is to be predicted (its teacher's class probabilities, or a number), and
a leaf predicts their mean, so the loss of a leaf is known from the sums of its rows alone::

    classes   - sum_c s_c log(s_c / s)              the teacher's expected log loss, in nats
    numbers   (sum w y^2 - (sum w y)^2 / sum w)     the squared distance

Searched are all trees over the binned columns. With at most two splits all of them are looked at.
Larger trees are grown from the most promising root cuts, judged by what the best split of both
sides gains (so an interaction of two columns is seen), the rest best first; then the subtree of
every node is searched again in the same way, until that gains nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dtgfn._support.arrays import Codes, Floats, Int32s, Int64s
from dtgfn._support.compiled import njit
from dtgfn.trees.batch import TreeBatch, from_splits

BEAM = 24  # root cuts of a subtree from which trees are grown
PASSES = 4  # over all subtrees, at most
ALL_CUTS = 400_000_000  # steps that may go into looking behind every cut of a subtree
LEAST_GAIN = 1e-9  # of the loss: what rounding may make

Splits = dict[tuple[int, ...], tuple[int, int]]


class Taught(NamedTuple):
    """Rows with what a teacher says of them."""

    codes: Codes  # [n, d]
    sums: Floats  # [n, K] weight times class probabilities, or weight times (1, y, y^2)
    classes: bool


@dataclass(frozen=True)
class FoundTree:
    """A tree, a batch of one, its loss over all rows, and whether all trees were looked at."""

    tree: TreeBatch
    loss: float
    complete: bool


def search_tree(taught: Taught, max_splits: int, max_depth: int, penalty: float = 0.0) -> FoundTree:
    """Find the tree of at most so many splits with the least loss plus penalty per split."""
    search = _Search(taught, max_depth, penalty)
    rows = np.arange(len(taught.codes))
    splits, value = search.solve(rows, max_splits, 0)
    complete = search.complete and max_splits <= 2
    for _ in range(PASSES if max_splits > 2 else 0):
        again, better = search.improve(splits, rows)
        if better >= value - LEAST_GAIN * max(abs(value), 1.0):
            break
        splits, value = again, better
    return FoundTree(from_splits([splits]), value - penalty * len(splits), complete)


class _Grown(NamedTuple):
    """A tree on some rows: its splits and its loss, penalties included."""

    splits: Splits
    value: float


class _Search:
    """What all subtrees of a search share."""

    def __init__(self, taught: Taught, max_depth: int, penalty: float) -> None:
        self.taught, self.max_depth, self.penalty = taught, max_depth, penalty
        self.n_codes = taught.codes.max(axis=0).astype(np.int32) + 1
        self.complete = True
        self.width = int(self.n_codes.max(initial=1))

    def _loss(self, rows: Int64s) -> float:
        return float(leaf_loss(self.taught.sums[rows].sum(axis=0), self.taught.classes))

    def solve(self, rows: Int64s, n_splits: int, depth: int) -> _Grown:
        """Find the best tree known of at most so many splits on some rows."""
        alone = _Grown({}, self._loss(rows))
        if n_splits < 1 or depth >= self.max_depth or len(rows) < 2:
            return alone
        best, tried = alone, self._root_cuts(rows, n_splits, depth)
        for feature, cut in tried:
            found = self._through(rows, feature, cut, n_splits, depth)
            if found.value < best.value - LEAST_GAIN * max(abs(best.value), 1.0):
                best = found
        return best

    def _root_cuts(self, rows: Int64s, n_splits: int, depth: int) -> list[tuple[int, int]]:
        """The cuts of some rows that promise most."""
        codes, sums, classes = self.taught
        given = (codes, sums, rows, self.n_codes, self.width, classes)
        feature, cut, value = list_cuts(*given)
        if n_splits == 1 or depth + 1 >= self.max_depth:
            return _first(feature, cut, value, 1)
        steps = 2.0 * len(feature) * (len(rows) * codes.shape[1] + self.n_codes.sum())
        if steps * sums.shape[1] <= ALL_CUTS:
            value = look_behind(*given, feature, cut, n_splits > 2)
        else:
            self.complete = False
        return _first(feature, cut, value, 1 if n_splits == 2 and self.complete else BEAM)

    def _through(self, rows: Int64s, feature: int, cut: int, n_splits: int, depth: int) -> _Grown:
        """Grow the sides of a cut, the split that gains most first."""
        right = self.taught.codes[rows, feature] > cut
        codes, sums, classes = self.taught
        arrays = (codes, sums, rows, right, self.n_codes, self.width, classes)
        limits = (n_splits - 1, self.max_depth - depth, self.penalty)
        features, cuts, left, used, value = grow(*arrays, *limits)
        splits = {(): (feature, cut), **_paths(features, cuts, left, used)}
        return _Grown(splits, float(value) + self.penalty)

    def improve(self, splits: Splits, rows: Int64s) -> _Grown:
        """Search the subtree of every node again, from the leaves up, with the splits it has."""

        def again(path: tuple[int, ...], rows: Int64s) -> _Grown:
            if path not in splits:
                return _Grown({}, self._loss(rows))
            feature, cut = splits[path]
            right = self.taught.codes[rows, feature] > cut
            sides = [again((*path, s), rows[right == bool(s)]) for s in (0, 1)]
            kept: Splits = {(): (feature, cut)}
            for side, below in enumerate(sides):
                kept |= {(side, *at): split for at, split in below.splits.items()}
            value = self.penalty + sides[0].value + sides[1].value
            own = sum(at[: len(path)] == path for at in splits)
            new = self.solve(rows, own, len(path))
            return new if new.value < value else _Grown(kept, value)

        return again((), rows)


def _first(feature: Int32s, cut: Int32s, value: Floats, most: int) -> list[tuple[int, int]]:
    """The cuts with the least values, at most so many."""
    order = np.argsort(value, kind="stable")[:most]
    return [(int(feature[i]), int(cut[i])) for i in order]


def _paths(feature: Int32s, cut: Int32s, left: Int32s, n_nodes: int) -> Splits:
    """Splits below the root of a grown tree, by their paths; nodes 0 and 1 are the root's sides."""
    found: Splits = {}
    path: dict[int, tuple[int, ...]] = {0: (0,), 1: (1,)}
    for node in range(n_nodes):
        if feature[node] >= 0:
            found[path[node]] = int(feature[node]), int(cut[node])
            for side in (0, 1):
                path[int(left[node]) + side] = (*path[node], side)
    return found


@njit(cache=True, nogil=True)
def leaf_loss(total: Floats, classes: bool) -> float:
    """Loss of a leaf that predicts the mean of its sums [K]."""
    if not classes:
        return 0.0 if total[0] <= 0.0 else max(total[2] - total[1] * total[1] / total[0], 0.0)
    whole, loss = 0.0, 0.0
    for c in range(total.shape[0]):
        whole += total[c]
    for c in range(total.shape[0]):
        if total[c] > 0.0:
            loss -= total[c] * math.log(total[c] / whole)
    return loss


@njit(cache=True, nogil=True)
def _histogram(
    f: int, codes: Codes, sums: Floats, rows: Int64s, width: int, bucket: Floats, seen: Int32s
) -> None:
    """Sums of the rows of each code of a feature [width, K], and how many there are [width]."""
    bucket[:width] = 0.0
    seen[:width] = 0
    for i in rows:
        code = codes[i, f]
        seen[code] += 1
        for c in range(sums.shape[1]):
            bucket[code, c] += sums[i, c]


@njit(cache=True, nogil=True)
def list_cuts(
    codes: Codes, sums: Floats, rows: Int64s, n_codes: Int32s, width: int, classes: bool
) -> tuple[Int32s, Int32s, Floats]:
    """Feature, cut (in the middle of those that part alike) and loss of all cuts of some rows."""
    n_sums = sums.shape[1]
    total = np.zeros(n_sums)
    for i in rows:
        for c in range(n_sums):
            total[c] += sums[i, c]
    most = 0
    for f in range(codes.shape[1]):
        most += min(n_codes[f], len(rows))
    feature, cut = np.empty(most, np.int32), np.empty(most, np.int32)
    value = np.empty(most)
    bucket, seen = np.empty((width, n_sums)), np.empty(width, np.int32)
    left, right = np.empty(n_sums), np.empty(n_sums)
    n = 0
    for f in range(codes.shape[1]):
        _histogram(f, codes, sums, rows, n_codes[f], bucket, seen)
        previous = -1
        left[:] = 0.0
        for code in range(n_codes[f]):
            if seen[code] == 0:
                continue
            if previous >= 0:
                for c in range(n_sums):
                    right[c] = total[c] - left[c]
                feature[n], cut[n] = f, (previous + code - 1) // 2
                value[n] = leaf_loss(left, classes) + leaf_loss(right, classes)
                n += 1
            previous = code
            for c in range(n_sums):
                left[c] += bucket[code, c]
    return feature[:n], cut[:n], value[:n]


@njit(cache=True, nogil=True)
def best_cut(
    codes: Codes, sums: Floats, rows: Int64s, n_codes: Int32s, width: int, classes: bool
) -> tuple[int, int, float]:
    """Feature and cut of the least loss, and that loss; feature -1 if nothing can be cut."""
    feature, cut, value = list_cuts(codes, sums, rows, n_codes, width, classes)
    if len(value) == 0:
        return -1, -1, math.inf
    best = np.argmin(value)
    return feature[best], cut[best], value[best]


@njit(cache=True, nogil=True)
def look_behind(
    codes: Codes,
    sums: Floats,
    rows: Int64s,
    n_codes: Int32s,
    width: int,
    classes: bool,
    feature: Int32s,
    cut: Int32s,
    both: bool,
) -> Floats:
    """Loss of every cut with the best split of both its sides, or of the one that gains more."""
    out = np.empty(len(feature))
    for u in range(len(feature)):
        goes_right = np.empty(len(rows), np.bool_)
        for k in range(len(rows)):
            goes_right[k] = codes[rows[k], feature[u]] > cut[u]
        total, gain = 0.0, 0.0
        for side in range(2):
            part = rows[goes_right == (side == 1)]
            own = np.zeros(sums.shape[1])
            for i in part:
                for c in range(sums.shape[1]):
                    own[c] += sums[i, c]
            loss = leaf_loss(own, classes)
            split = max(loss - best_cut(codes, sums, part, n_codes, width, classes)[2], 0.0)
            total += loss
            gain = gain + split if both else max(gain, split)
        out[u] = total - gain
    return out


@njit(cache=True, nogil=True)
def grow(
    codes: Codes,
    sums: Floats,
    rows: Int64s,
    right: np.ndarray,
    n_codes: Int32s,
    width: int,
    classes: bool,
    n_splits: int,
    levels: int,
    penalty: float,
) -> tuple[Int32s, Int32s, Int32s, int, float]:
    """Grow both sides of a cut, the leaf whose best split gains most first.

    Returns feature, cut and left child of nodes (0 and 1 are the sides), their number, and the loss
    with penalties.
    """
    most = 2 * n_splits + 2
    feature, cut = np.full(most, -1, np.int32), np.full(most, -1, np.int32)
    left, depth = np.full(most, -1, np.int32), np.zeros(most, np.int32)
    planned, where = np.full(most, -1, np.int32), np.full(most, -1, np.int32)
    gain, loss = np.zeros(most), np.zeros(most)
    member = [rows[~right], rows[right]]
    value = 0.0
    used, done = 2, 0
    fresh = 0
    while True:
        for node in range(fresh, used):
            part = member[node]
            own = np.zeros(sums.shape[1])
            for i in part:
                for c in range(sums.shape[1]):
                    own[c] += sums[i, c]
            loss[node] = leaf_loss(own, classes)
            value += loss[node]
            if depth[node] + 1 < levels and len(part) > 1 and done < n_splits:
                f, at, split = best_cut(codes, sums, part, n_codes, width, classes)
                planned[node], where[node], gain[node] = f, at, loss[node] - split
        fresh = used
        best = -1
        for node in range(used):
            wanted = feature[node] < 0 and planned[node] >= 0
            if wanted and gain[node] > penalty and (best < 0 or gain[node] > gain[best]):
                best = node
        if best < 0 or done == n_splits or gain[best] <= 0.0:
            break
        feature[best], cut[best], left[best] = planned[best], where[best], used
        part = member[best]
        goes = np.empty(len(part), np.bool_)
        for k in range(len(part)):
            goes[k] = codes[part[k], feature[best]] > cut[best]
        member.append(part[~goes])
        member.append(part[goes])
        depth[used], depth[used + 1] = depth[best] + 1, depth[best] + 1
        value += penalty - loss[best]
        used += 2
        done += 1
    return feature, cut, left, used, value
