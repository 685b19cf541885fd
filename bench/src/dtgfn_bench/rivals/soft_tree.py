"""Soft Bayesian trees (Cochrane, Wills, Johnson 2023): the posterior density and its gradient.

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
from dtgfn_bench.rivals.soft_shapes import Shape, children
from dtgfn_bench.rivals.vector_functions import log_gamma, sigmoid

# Sums in a fixed order or checks for division by zero would keep loops from being vector code.
compiled = njit(
    cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "nsz", "contract"}
)


class ClassRows(NamedTuple):
    """Rows ordered by class: ``columns`` [d, n], class c from ``first[c]`` to ``first[c + 1]``.

    By columns and by class, so that the loops run along memory.
    """

    columns: Floats
    first: Int64s


class SoftTree(NamedTuple):
    """A tree's shape and rows, as the compiled loops take them.

    ``left`` and ``right`` [m] of the splits in pre-order: a split's index, or ``-1 - leaf``.
    ``feature`` [m] is -1 throughout where directions are points of the simplex.
    """

    feature: Int64s
    left: Int64s
    right: Int64s
    columns: Floats
    first: Int64s


def by_class(columns: Floats, y: Int64s, n_classes: int) -> ClassRows:
    """Order columns [d, n] by their rows' classes."""
    ordered = np.ascontiguousarray(columns[:, np.argsort(y, kind="stable")])
    counts = np.bincount(y, minlength=n_classes)
    return ClassRows(ordered, np.concatenate([[0], np.cumsum(counts)]).astype(np.int64))


def soft_tree(shape: Shape, feature: Int64s, rows: ClassRows) -> SoftTree:
    """A shape with its rows."""
    left, right = children(shape)
    return SoftTree(feature, left, right, rows.columns, rows.first)


@compiled  # type: ignore[untyped-decorator]
def project(columns: Floats, share: Floats, along: Floats) -> None:
    """Write the mean of columns [d, n] with shares [d]."""
    n = along.shape[0]
    along[:] = 0.0
    for f in range(columns.shape[0]):
        factor, column = share[f], columns[f]
        for i in range(n):
            along[i] += factor * column[i]


@compiled  # type: ignore[untyped-decorator]
def chances(along: Floats, cut: float, sharpness: float, goes: Floats) -> None:
    """Write the chance that a row goes right; in place it would be no vector code."""
    for i in range(goes.shape[0]):
        goes[i] = sigmoid((along[i] - cut) * sharpness)


@compiled  # type: ignore[untyped-decorator]
def share_out(here: Floats, goes: Floats, to_left: Floats, to_right: Floats) -> None:
    """Write the chances of getting to both children."""
    for i in range(here.shape[0]):
        to_right[i] = here[i] * goes[i]
        to_left[i] = here[i] - here[i] * goes[i]


@compiled  # type: ignore[untyped-decorator]
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
    m = tau.shape[0]
    at[0] = 1.0
    for j in range(m):
        a, b = tree.left[j], tree.right[j]
        a, b = (a if a >= 0 else m - 1 - a), (b if b >= 0 else m - 1 - b)
        if tree.feature[j] >= 0:
            chances(columns[tree.feature[j]], tau[j], 1.0 / h, right[j])
        else:
            project(columns, direction[j], at[a])  # for a moment
            chances(at[a], tau[j], 1.0 / h, right[j])
        share_out(at[j], right[j], at[a], at[b])


@compiled  # type: ignore[untyped-decorator]
def log_likelihood(
    tree: SoftTree, tau: Floats, direction: Floats, h: float, by_tau: Floats, by_direction: Floats
) -> float:
    """Log likelihood; its gradients too, unless ``by_tau`` is empty."""
    first, m, n = tree.first, tau.shape[0], tree.columns.shape[1]
    K = first.shape[0] - 1
    right, at = np.empty((m, n)), np.empty((2 * m + 1, n))
    arrive(tree, tree.columns, tau, direction, h, right, at)
    slope = np.empty((m + 1, K))  # of the likelihood by a leaf's count of a class
    total = (m + 1) * math.lgamma(K)
    for leaf in range(m + 1):
        of_all = float(K)
        for c in range(K):
            count = at[m + leaf, first[c] : first[c + 1]].sum()
            of_all += count
            value, slope[leaf, c] = log_gamma(count + 1.0)
            total += value
        value, of_leaf = log_gamma(of_all)
        total -= value
        for c in range(K):
            slope[leaf, c] -= of_leaf
    if by_tau.shape[0] > 0:
        descend_back(tree, slope, right, at, h, by_tau, by_direction)
    return float(total)


@compiled  # type: ignore[untyped-decorator]
def mix(goes: Floats, of_left: Floats, of_right: Floats, mixed: Floats) -> None:
    """Write the children's values, mixed by the chance of going right."""
    for i in range(goes.shape[0]):
        mixed[i] = of_left[i] + goes[i] * (of_right[i] - of_left[i])


@compiled  # type: ignore[untyped-decorator]
def lean(here: Floats, of_left: Floats, of_right: Floats, sharpness: float, goes: Floats) -> None:
    """Turn chances of going right into slopes by the projection, given those by both children."""
    for i in range(goes.shape[0]):
        flow = here[i] * goes[i] * (1.0 - goes[i])
        goes[i] = flow * (of_right[i] - of_left[i]) * sharpness


@compiled  # type: ignore[untyped-decorator]
def dot(a: Floats, b: Floats) -> float:
    """Sum of products."""
    total = 0.0
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    return total


@compiled  # type: ignore[untyped-decorator]
def descend_back(
    tree: SoftTree,
    slope: Floats,
    right: Floats,
    at: Floats,
    h: float,
    by_tau: Floats,
    by_direction: Floats,
) -> None:
    """Write gradients of the likelihood from its slopes [leaves, K] by the leaves' counts.

    ``right`` is lost: it becomes the slopes by the rows' projections.
    """
    first, m, n = tree.first, right.shape[0], right.shape[1]
    below = np.empty((2 * m + 1, n))  # a row's mean slope over the leaves below a node
    for leaf in range(m + 1):
        for c in range(first.shape[0] - 1):
            below[m + leaf, first[c] : first[c + 1]] = slope[leaf, c]
    for j in range(m - 1, -1, -1):
        a, b = tree.left[j], tree.right[j]
        a, b = (a if a >= 0 else m - 1 - a), (b if b >= 0 else m - 1 - b)
        mix(right[j], below[a], below[b], below[j])
        lean(at[j], below[a], below[b], 1.0 / h, right[j])
        by_tau[j] = -right[j].sum()
        for f in range(tree.columns.shape[0] if tree.feature[j] < 0 else 0):
            by_direction[j, f] = dot(right[j], tree.columns[f])


@compiled  # type: ignore[untyped-decorator]
def n_parameters(tree: SoftTree) -> int:
    """Length of the unconstrained vector: a logit per tau, d - 1 sticks per simplex direction."""
    m = tree.left.shape[0]
    return m if tree.feature[0] >= 0 else m * tree.columns.shape[0]


@compiled  # type: ignore[untyped-decorator]
def constrain(tree: SoftTree, q: Floats, tau: Floats, direction: Floats) -> float:
    """Write tau [m] and direction [m, d] of q; return log prior density + log Jacobian.

    Sticks: share k takes ``sigmoid(q_k - log(d - 1 - k))`` of the rest, so zeros are even shares.
    """
    m, d = tau.shape[0], tree.columns.shape[0]
    total = 0.0
    for j in range(m):
        tau[j] = 1.0 / (1.0 + math.exp(-q[j]))
        total -= abs(q[j]) + 2.0 * math.log1p(math.exp(-abs(q[j])))
    if tree.feature[0] >= 0:
        return total - m * math.log(d)
    constant = math.lgamma(d)
    for left in range(1, d):
        constant += left * math.log(left)
    total += m * constant
    for j in range(m):
        rest = 1.0
        for k in range(d - 1):
            left, stick = d - 1 - k, q[m + j * (d - 1) + k]
            odds = left * math.exp(-stick)  # of leaving what is left to the others
            share = 1.0 / (1.0 + odds)
            direction[j, k] = rest * share
            rest *= odds * share
            total -= left * stick + (left + 1.0) * math.log1p(odds)
        direction[j, d - 1] = rest
    return total


@compiled  # type: ignore[untyped-decorator]
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


@compiled  # type: ignore[untyped-decorator]
def log_densities(tree: SoftTree, points: Floats, h: float) -> Floats:
    """Log densities at points [P, parameters]."""
    none, found = np.empty(0), np.empty(points.shape[0])
    for i in range(points.shape[0]):
        found[i] = log_density(tree, points[i], h, none)
    return found


@compiled  # type: ignore[untyped-decorator]
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
