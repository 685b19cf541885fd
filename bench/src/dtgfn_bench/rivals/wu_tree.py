"""Trees of Wu, Tjelmeland, West (2007): sets of rows as bits, and the pinball prior's target.

M - 1 is Poisson. M balls drop at the root; a node with m > 1 balls sends i of them to the left, i
uniform on 1..m-1, and a node with one ball is a leaf. A split's feature is uniform, and so is its
cut on the feature's grid. With Dirichlet leaves m(l), over trees whose leaves all hold a row::

    P(T | D) ~ Poisson(M - 1) * prod over splits 1 / [(m - 1) d t] * prod over leaves m(l)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dtgfn._support.arrays import Int64s

Path = tuple[int, ...]

KNOWN = 4096  # leaves whose reaches are remembered: most stay from one step to the next


class Node(NamedTuple):
    """A subtree; of a leaf ``feature`` is -1.  Bit i of ``rows`` is training row i.

    ``value`` sums the log prior of splits and balls and the log likelihood of the subtree.
    """

    rows: int
    value: float
    n_leaves: int = 1
    feature: int = -1
    cut: int = 0
    children: tuple[Node, ...] = ()


@dataclass(frozen=True, eq=False)
class Problem:
    """Training rows as bits, and the tables of logarithms that the target needs."""

    below: list[list[int]]  # [d][codes] rows with code <= c
    members: list[int]  # [C] rows of the class
    n_rows: int
    log_rule: float  # log(d t)
    log_size: float  # log of the Poisson mean
    log_class: list[float]  # [n + 1] of a count
    log_total: list[float]  # [n + 1] of a number of rows
    known: dict[int, Int64s] = field(default_factory=dict)

    def leaf(self, rows: int) -> Node:
        """Make a leaf of some rows."""
        value = -self.log_total[rows.bit_count()]
        for member in self.members:
            value += self.log_class[(rows & member).bit_count()]
        return Node(rows, value)

    def split(self, feature: int, cut: int, left: Node, right: Node) -> Node:
        """Put a split above two subtrees."""
        n_leaves = left.n_leaves + right.n_leaves
        prior = -self.log_rule - math.log(n_leaves - 1)
        return Node(
            left.rows | right.rows,
            left.value + right.value + prior,
            n_leaves,
            feature,
            cut,
            (left, right),
        )

    def routed(self, rows: int, like: Node) -> Node | None:
        """Send rows down the rules of a subtree; None if a leaf gets none."""
        if not like.children:
            return self.leaf(rows)
        left = rows & self.below[like.feature][like.cut]
        if not left or left == rows:
            return None
        sides = []
        for part, child in zip((left, rows ^ left), like.children, strict=True):
            side = self.routed(part, child)
            if side is None:
                return None
            sides.append(side)
        return self.split(like.feature, like.cut, sides[0], sides[1])

    def reach(self, rows: int, feature: int) -> tuple[int, int]:
        """Lowest and highest code of rows; the cuts from one to below the other part them."""
        below = self.below[feature]
        low, high = 0, len(below) - 1
        while low < high:
            middle = (low + high) // 2
            if rows & below[middle]:
                high = middle
            else:
                low = middle + 1
        lowest, high = low, len(below) - 1
        while low < high:
            middle = (low + high) // 2
            if rows & below[middle] == rows:
                high = middle
            else:
                low = middle + 1
        return lowest, low

    def reaches(self, rows: int) -> Int64s:
        """Lowest and highest code of rows in every feature [2, d]."""
        if rows not in self.known:
            if len(self.known) == KNOWN:
                self.known.clear()
            pairs = [self.reach(rows, feature) for feature in range(len(self.below))]
            self.known[rows] = np.array(pairs, dtype=np.int64).T
        return self.known[rows]

    def log_target(self, tree: Node) -> float:
        """Log of the posterior, up to a constant."""
        n_splits = tree.n_leaves - 1
        return tree.value + n_splits * self.log_size - math.lgamma(n_splits + 1)


def make_problem(
    codes: npt.NDArray[np.integer],
    labels: Int64s,
    *,
    n_classes: int,
    n_thresholds: int,
    concentration: float,
    mean_splits: float,
) -> Problem:
    """Turn rows of codes [n, d] (0..n_thresholds) and classes [n] into bits and tables."""
    n_rows, n_features = codes.shape
    counts = range(n_rows + 1)
    mass = n_classes * concentration
    return Problem(
        below=[
            [_as_bits(column <= code) for code in range(n_thresholds + 1)] for column in codes.T
        ],
        members=[_as_bits(labels == c) for c in range(n_classes)],
        n_rows=n_rows,
        log_rule=math.log(n_features * n_thresholds),
        log_size=math.log(mean_splits),
        log_class=[math.lgamma(k + concentration) - math.lgamma(concentration) for k in counts],
        log_total=[math.lgamma(k + mass) - math.lgamma(mass) for k in counts],
    )


def _as_bits(mask: npt.NDArray[np.bool_]) -> int:
    return int.from_bytes(np.packbits(mask, bitorder="little").tobytes(), "little")


def walk(tree: Node, path: Path = ()) -> list[tuple[Path, Node]]:
    """Every node with its path of turns (0 left, 1 right), parents first."""
    found = [(path, tree)]
    for turn, child in enumerate(tree.children):
        found += walk(child, (*path, turn))
    return found


def replaced(problem: Problem, tree: Node, path: Path, subtree: Node) -> Node:
    """Return the tree with another subtree (of the same rows) at a path."""
    if not path:
        return subtree
    sides = list(tree.children)
    sides[path[0]] = replaced(problem, sides[path[0]], path[1:], subtree)
    return problem.split(tree.feature, tree.cut, sides[0], sides[1])


def splits_of(tree: Node) -> dict[Path, tuple[int, int]]:
    """The tree as ``dtgfn.trees.batch.from_splits`` reads it."""
    return {path: (node.feature, node.cut) for path, node in walk(tree) if node.children}
