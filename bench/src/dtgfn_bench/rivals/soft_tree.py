"""Soft Bayesian trees (Cochrane, Wills, Johnson 2023): shapes, posterior density, predictions.

A row goes right at split j with probability ``sigmoid((x . direction_j - tau_j) / h)``, counts in
every leaf with the probability of getting there, and a leaf's class counts have a Dirichlet-
multinomial likelihood (one pseudo-count per class; the authors' code leaves out its constant
Gamma(classes) per leaf, which with three classes halves a leaf).  ``tau`` is uniform on [0, 1].  A
direction is either one feature, uniform ("DF"), or a point of the simplex, Dirichlet(1, ..., 1)
("DFI").  Densities below are those of the unconstrained parameters that a sampler moves.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from dtgfn._support.arrays import Floats, Int64s, UInt64s
from dtgfn._support.splitmix import draw_below, draw_uniform
from dtgfn_bench.contract import TrainingRows

Shape = tuple[bool, ...]  # in pre-order: True for a split, False for a leaf
STUMP: Shape = (True, False, False)
FAR = 30.0  # widths from the cut; a row so far off is wholly on its side, to 1e-13


class SoftTree(NamedTuple):
    """A tree's shape and data, as the compiled loops take them.

    ``left`` and ``right`` [m] of the splits in pre-order: a split's index, or ``-1 - leaf``.
    ``feature`` [m] is -1 throughout where directions are points of the simplex.  ``columns`` [d, n]
    is the table by columns, so that the loops run along memory.
    """

    feature: Int64s
    left: Int64s
    right: Int64s
    columns: Floats
    y: Int64s
    n_classes: int


def n_splits(shape: Shape) -> int:
    """Number of splits; leaves are one more."""
    return sum(shape)


def children(shape: Shape) -> tuple[Int64s, Int64s]:
    """``left`` and ``right`` of a `SoftTree`."""
    sides = np.zeros((2, n_splits(shape)), dtype=np.int64)
    pending: list[tuple[int, int]] = []  # (side, split) whose child comes next, innermost last
    split = leaf = 0
    for is_split in shape:
        if pending:
            side, parent = pending.pop()
            sides[side, parent] = split if is_split else -1 - leaf
        if is_split:
            pending += [(1, split), (0, split)]
            split += 1
        else:
            leaf += 1
    return sides[0], sides[1]


def depths(shape: Shape) -> list[int]:
    """Depth of every node, in pre-order; the root has 0."""
    found = []
    pending = [0]
    for is_split in shape:
        depth = pending.pop()
        found.append(depth)
        if is_split:
            pending += [depth + 1, depth + 1]
    return found


def log_prior(shape: Shape, alpha: float, beta: float) -> float:
    """Chipman, George and McCulloch's prior: a node splits with chance alpha (1 + depth)^-beta."""
    total = 0.0
    for is_split, depth in zip(shape, depths(shape), strict=True):
        split = alpha * (1.0 + depth) ** -beta
        total += math.log(split if is_split else 1.0 - split)
    return total


def draw_shape(alpha: float, beta: float, rng: np.random.Generator) -> Shape:
    """A shape from the prior."""
    shape: list[bool] = []
    pending = [0]
    while pending:
        depth = pending.pop()
        shape.append(bool(rng.random() < alpha * (1.0 + depth) ** -beta))
        if shape[-1]:
            pending += [depth + 1, depth + 1]
    return tuple(shape)


def leaf_indices(shape: Shape) -> list[int]:
    """Where leaves stand in the pre-order: each can grow."""
    return [index for index, is_split in enumerate(shape) if not is_split]


def prunable_indices(shape: Shape) -> list[int]:
    """Where splits with two leaves stand in the pre-order."""
    return [p for p in range(len(shape) - 2) if shape[p : p + 3] == STUMP]


def grown(shape: Shape, index: int) -> Shape:
    """The leaf at ``index`` made a split."""
    return shape[:index] + STUMP + shape[index + 1 :]


def pruned(shape: Shape, index: int) -> Shape:
    """The split at ``index`` made a leaf."""
    return (*shape[:index], False, *shape[index + 3 :])


def soft_tree(
    shape: Shape, feature: Int64s, columns: Floats, y: Int64s, n_classes: int
) -> SoftTree:
    """A shape with its data."""
    left, right = children(shape)
    return SoftTree(feature, left, right, columns, y, n_classes)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def digamma(x: float) -> float:
    """Derivative of log gamma, for x > 0."""
    total = 0.0
    while x < 8.0:
        total -= 1.0 / x
        x += 1.0
    inverse = 1.0 / (x * x)
    series = inverse * (1 / 12 - inverse * (1 / 120 - inverse * (1 / 252 - inverse / 240)))
    return total + math.log(x) - 0.5 / x - series


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def sigmoid(z: float) -> float:
    """1 / (1 + exp(-z)), flat beyond FAR."""
    if z > FAR:
        return 1.0
    if z < -FAR:
        return 0.0
    return 1.0 / (1.0 + math.exp(-z))


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def arrive(
    tree: SoftTree,
    columns: Floats,
    tau: Floats,
    direction: Floats,
    h: float,
    right: Floats,
    at: Floats,
) -> None:
    """Write the chance [m, n] that a row goes right, and [m + leaves, n] that it gets to a node."""
    m, d, n = tau.shape[0], columns.shape[0], columns.shape[1]
    for i in range(n):
        at[0, i] = 1.0
    for j in range(m):
        if tree.feature[j] >= 0:
            for i in range(n):
                right[j, i] = columns[tree.feature[j], i]
        else:
            for i in range(n):
                right[j, i] = 0.0
            for f in range(d):
                for i in range(n):
                    right[j, i] += direction[j, f] * columns[f, i]
        a, b = tree.left[j], tree.right[j]
        a, b = (a if a >= 0 else m - 1 - a), (b if b >= 0 else m - 1 - b)
        for i in range(n):
            chance = sigmoid((right[j, i] - tau[j]) / h)
            right[j, i] = chance
            at[b, i] = at[j, i] * chance
            at[a, i] = at[j, i] - at[b, i]


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def log_likelihood(
    tree: SoftTree, tau: Floats, direction: Floats, h: float, by_tau: Floats, by_direction: Floats
) -> float:
    """Log likelihood; its gradients too, unless ``by_tau`` is empty."""
    y, m, n, K = tree.y, tau.shape[0], tree.columns.shape[1], tree.n_classes
    right, at = np.empty((m, n)), np.empty((2 * m + 1, n))
    arrive(tree, tree.columns, tau, direction, h, right, at)
    slope = np.empty((m + 1, K))  # of the likelihood by a leaf's count of a class
    total = 0.0
    for leaf in range(m + 1):
        count = np.zeros(K)
        of_all = float(K)
        for i in range(n):
            count[y[i]] += at[m + leaf, i]
            of_all += at[m + leaf, i]
        total += math.lgamma(K) - math.lgamma(of_all)
        for c in range(K):
            total += math.lgamma(count[c] + 1.0)
            slope[leaf, c] = digamma(count[c] + 1.0) - digamma(of_all)
    if by_tau.shape[0] == 0:
        return total
    below = np.empty((2 * m + 1, n))  # a row's mean slope over the leaves below a node
    for leaf in range(m + 1):
        for i in range(n):
            below[m + leaf, i] = slope[leaf, y[i]]
    for j in range(m - 1, -1, -1):
        a, b = tree.left[j], tree.right[j]
        a, b = (a if a >= 0 else m - 1 - a), (b if b >= 0 else m - 1 - b)
        for i in range(n):
            chance = right[j, i]
            gain = below[b, i] - below[a, i]
            below[j, i] = below[a, i] + chance * gain
            right[j, i] = at[j, i] * chance * (1.0 - chance) * gain / h  # slope by the projection
        of_rows = 0.0
        for i in range(n):
            of_rows += right[j, i]
        by_tau[j] = -of_rows
        for f in range(tree.columns.shape[0] if tree.feature[j] < 0 else 0):
            of_rows = 0.0
            for i in range(n):
                of_rows += right[j, i] * tree.columns[f, i]
            by_direction[j, f] = of_rows
    return total


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def n_parameters(tree: SoftTree) -> int:
    """Length of the unconstrained vector: a logit per tau, d - 1 sticks per simplex direction."""
    m = tree.left.shape[0]
    return m if tree.feature[0] >= 0 else m * tree.columns.shape[0]


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def constrain(tree: SoftTree, q: Floats, tau: Floats, direction: Floats) -> float:
    """Write tau [m] and direction [m, d] of q; return log prior density + log Jacobian.

    Sticks: share k takes ``sigmoid(q_k - log(d - k))`` of what is left, so zeros are even shares.
    """
    m, d = tau.shape[0], tree.columns.shape[0]
    total = 0.0
    for j in range(m):
        tau[j] = 1.0 / (1.0 + math.exp(-q[j]))
        total -= abs(q[j]) + 2.0 * math.log1p(math.exp(-abs(q[j])))
    if tree.feature[0] >= 0:
        return total - m * math.log(d)
    for j in range(m):
        total += math.lgamma(d)
        log_rest = 0.0
        for k in range(d - 1):
            z = q[m + j * (d - 1) + k] - math.log(d - 1 - k)
            log_share = min(z, 0.0) - math.log1p(math.exp(-abs(z)))
            direction[j, k] = math.exp(log_rest + log_share)
            total += log_rest + 2.0 * log_share - z
            log_rest += log_share - z
        direction[j, d - 1] = math.exp(log_rest)
    return total


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def log_density(tree: SoftTree, q: Floats, h: float, gradient: Floats) -> float:
    """Log of likelihood x prior x Jacobian at q, and its gradient unless that is empty."""
    m, d = tree.left.shape[0], tree.columns.shape[0]
    tau, direction = np.empty(m), np.empty((m, d))
    total = constrain(tree, q, tau, direction)
    if gradient.shape[0] == 0:
        return total + log_likelihood(tree, tau, direction, h, gradient, direction)
    by_tau, by_direction = np.empty(m), np.empty((m, d))
    total += log_likelihood(tree, tau, direction, h, by_tau, by_direction)
    for j in range(m):
        gradient[j] = by_tau[j] * tau[j] * (1.0 - tau[j]) + 1.0 - 2.0 * tau[j]
    if tree.feature[0] >= 0:
        return total
    for j in range(m):
        by_rest = by_direction[j, d - 1] * direction[j, d - 1]  # derivative by log of what is left
        for k in range(d - 2, -1, -1):
            index = m + j * (d - 1) + k
            share = 1.0 / (1.0 + math.exp(-q[index]) * (d - 1 - k))
            own = by_direction[j, k] * direction[j, k]
            gradient[index] = own * (1.0 - share) - by_rest * share + 1.0 - 2.0 * share
            by_rest += own + 1.0
    return total


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def walk_features(tree: SoftTree, q: Floats, value: float, h: float, state: UInt64s) -> float:
    """One Metropolis proposal of another feature per split, in place; return the log density."""
    none = np.empty(0)
    m, d = tree.left.shape[0], tree.columns.shape[0]
    for _ in range(m if d > 1 else 0):
        j = draw_below(state, m)
        old = tree.feature[j]
        tree.feature[j] = draw_below(state, d)
        if tree.feature[j] == old:
            continue
        proposed = log_density(tree, q, h, none)
        if math.log(1.0 - draw_uniform(state)) < proposed - value:
            value = proposed
        else:
            tree.feature[j] = old
    return value


def predict(tree: SoftTree, q: Floats, h: float, columns: Floats) -> Floats:
    """A tree's class probabilities [n, K] of other rows: its leaves' posterior means, softly."""
    m, d = tree.left.shape[0], columns.shape[0]
    tau, direction = np.empty(m), np.empty((m, d))
    constrain(tree, q, tau, direction)
    at = []
    for table in (tree.columns, columns):
        n = table.shape[1]
        at.append(np.empty((2 * m + 1, n)))
        arrive(tree, table, tau, direction, h, np.empty((m, n)), at[-1])
    leaf = 1.0 + at[0][m:] @ np.eye(tree.n_classes)[tree.y]
    return at[1][m:].T @ (leaf / leaf.sum(axis=1, keepdims=True))


class UnitBox:
    """Columns scaled to [0, 1] by the training rows."""

    def __init__(self, X: Floats) -> None:
        self._low = X.min(axis=0)
        width = X.max(axis=0) - self._low
        self._width = np.where(width > 0.0, width, 1.0)

    def columns(self, X: Floats) -> Floats:
        """Columns [d, n] of rows [n, d] on that scale."""
        return np.ascontiguousarray(((X - self._low) / self._width).T)


class Draw(NamedTuple):
    """A tree of a sample: its shape, features, unconstrained parameters and weight."""

    shape: Shape
    feature: Int64s
    q: Floats
    weight: float


class SoftTrees:
    """Weighted soft trees that predict together."""

    def __init__(self, rows: TrainingRows, draws: list[Draw], h: float) -> None:
        self._box = UnitBox(rows.X)
        self._columns = self._box.columns(rows.X)
        self._y, self._n_classes = rows.y, rows.n_classes
        self._draws = draws
        self._h = h

    def predict_proba(self, X: Floats) -> Floats:
        """Weighted mean of the trees' class probabilities."""
        scaled = self._box.columns(X)
        probability = np.zeros((X.shape[0], self._n_classes))
        for draw in self._draws:
            tree = soft_tree(draw.shape, draw.feature, self._columns, self._y, self._n_classes)
            probability += draw.weight * predict(tree, draw.q, self._h, scaled)
        return probability / probability.sum(axis=1, keepdims=True)

    def size(self) -> float:
        """Weighted mean number of nodes."""
        weight = np.array([draw.weight for draw in self._draws])
        nodes = np.array([len(draw.shape) for draw in self._draws])
        return float(weight @ nodes / weight.sum())
