"""Shapes of soft trees in pre-order: their prior, and what growing and pruning makes of them."""

from __future__ import annotations

import math

import numpy as np

from dtgfn._support.arrays import Int64s

Shape = tuple[bool, ...]  # in pre-order: True for a split, False for a leaf
STUMP: Shape = (True, False, False)


def n_splits(shape: Shape) -> int:
    """Number of splits; leaves are one more."""
    return sum(shape)


def children(shape: Shape) -> tuple[Int64s, Int64s]:
    """Left and right child [m] of the splits in pre-order: a split's index, or ``-1 - leaf``."""
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
