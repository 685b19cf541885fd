"""The slow, obvious twins of summed trees: every tree of a small table, weighed by the formula.

A tree is a leaf, (), or a split: (feature, cut, left tree, right tree). Rows are tuples of numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from dtgfn.engines.sums import setup
from dtgfn.engines.sums.chain import SumChain, make_workspace, start_chain
from dtgfn.engines.sums.lines import LineTable, no_lines
from dtgfn.engines.sums.node_choice import SumTable
from dtgfn.engines.sums.scales import NUMBERS, Prior, Target
from dtgfn.engines.sums.sweep import Forest, Moves, Workspace
from dtgfn.trees.score import BranchingPrior, PenaltyPrior

Tree = tuple
LEAF: Tree = ()
ALL_COLUMNS = Moves(0.5, 1.0)


def make_table(
    codes: np.ndarray,
    column: list[int] | None = None,
    *,
    prior: PenaltyPrior | BranchingPrior,
    max_depth: int,
) -> SumTable:
    """Lay a table out as the engine does: columns, and the features of one, are equally probable.

    Of a penalty only splits pay, and all cuts the same.
    """
    codes = np.asarray(codes)
    column = list(range(codes.shape[1])) if column is None else column
    per_column = {c: column.count(c) for c in column}
    even = [-math.log(len(per_column)) - math.log(per_column[c]) for c in column]
    table = setup.make_table(codes, np.array(column, dtype=np.int32), max_depth, prior)
    branching = isinstance(prior, BranchingPrior)
    return table._replace(log_feature=np.array(even) if branching else np.zeros(len(column)))


@dataclass(frozen=True)
class Measure:
    """What trees of a table weigh before a target is seen; it need not add up to one."""

    table: SumTable

    @property
    def everything(self) -> tuple[int, ...]:
        """All rows."""
        return tuple(range(len(self.table.codes)))

    def sides(
        self, rows: tuple[int, ...], feature: int, cut: int
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Rows that go left, and rows that go right."""
        codes = self.table.codes
        left = tuple(i for i in rows if codes[i, feature] <= cut)
        return left, tuple(i for i in rows if codes[i, feature] > cut)

    def cuts(self, rows: tuple[int, ...], feature: int) -> list[int]:
        """Cuts of a feature that leave rows on both sides."""
        return [
            cut for cut in range(self.table.n_codes[feature]) if all(self.sides(rows, feature, cut))
        ]

    def log_rule(self, rows: tuple[int, ...], depth: int, feature: int) -> float:
        """What a split on a feature pays."""
        table = self.table
        pays = float(table.log_split[depth] + table.log_feature[feature])
        return pays - math.log(len(self.cuts(rows, feature))) if table.uniform_cuts else pays

    def splits(self, rows: tuple[int, ...], depth: int) -> list[tuple[int, int, float]]:
        """Every split of a node: feature, cut, and what it pays."""
        if depth == self.table.max_depth:
            return []
        return [
            (feature, cut, self.log_rule(rows, depth, feature))
            for feature in range(len(self.table.column))
            for cut in self.cuts(rows, feature)
        ]

    def trees(
        self, rows: tuple[int, ...] | None = None, depth: int = 0
    ) -> Iterator[tuple[Tree, float]]:
        """Every tree that may grow from a node, and the log of what it weighs."""
        rows = self.everything if rows is None else rows
        yield LEAF, float(self.table.log_stop[depth])
        for feature, cut, pays in self.splits(rows, depth):
            left, right = self.sides(rows, feature, cut)
            above = list(self.trees(right, depth + 1))
            for one, log_one in self.trees(left, depth + 1):
                for other, log_other in above:
                    yield (feature, cut, one, other), pays + log_one + log_other

    def prior(self) -> tuple[list[Tree], np.ndarray]:
        """Every tree, and its probability before any target is seen."""
        trees, logs = zip(*self.trees(), strict=True)
        return list(trees), np.exp(np.array(logs) - logsumexp(logs))


def leaves(
    measure: Measure, tree: Tree, rows: tuple[int, ...] | None = None
) -> list[tuple[int, ...]]:
    """Rows of each leaf, from left to right."""
    rows = measure.everything if rows is None else rows
    if tree == LEAF:
        return [rows]
    left, right = measure.sides(rows, tree[0], tree[1])
    return leaves(measure, tree[2], left) + leaves(measure, tree[3], right)


def log_m(rows: tuple[int, ...], precision: np.ndarray, pull: np.ndarray, variance: float) -> float:
    """Log density of the residuals of a leaf's rows, relative to that of a leaf that says 0.

    The rows' residuals are jointly normal: the leaf's value moves all of them.
    """
    index = list(rows)
    own = np.diag(1 / precision[index])
    residual = pull[index] / precision[index]

    def log_density(covariance: np.ndarray) -> float:
        squares = residual @ np.linalg.solve(covariance, residual)
        return float(-0.5 * (np.linalg.slogdet(covariance)[1] + squares))

    return log_density(own + variance) - log_density(own)


def posterior(
    measure: Measure, precision: np.ndarray, pull: np.ndarray, variance: float
) -> tuple[list[Tree], np.ndarray]:
    """Every tree and its probability, given residuals."""
    known: dict[tuple[int, ...], float] = {}

    def leaf(rows: tuple[int, ...]) -> float:
        if rows not in known:
            known[rows] = log_m(rows, precision, pull, variance)
        return known[rows]

    trees, logs = zip(*measure.trees(), strict=True)
    value = np.array(logs) + [sum(map(leaf, leaves(measure, tree))) for tree in trees]
    return list(trees), np.exp(value - logsumexp(value))


def n_splits(tree: Tree) -> int:
    """Splits of a tree."""
    return 0 if tree == LEAF else 1 + n_splits(tree[2]) + n_splits(tree[3])


def write_tree(tree: Tree, feature: np.ndarray, cut: np.ndarray, left: np.ndarray) -> int:
    """Write a tree into arrays of nodes as chains hold them; return how many it has."""
    waiting, size = [(0, tree)], 1
    while waiting:
        node, part = waiting.pop()
        feature[node], cut[node], left[node] = -1, 0, -1
        if part != LEAF:
            feature[node], cut[node], left[node] = part[0], part[1], size
            waiting += [(size, part[2]), (size + 1, part[3])]
            size += 2
    return size


def read_tree(feature: np.ndarray, cut: np.ndarray, left: np.ndarray, node: int = 0) -> Tree:
    """Read a tree from arrays of nodes."""
    if feature[node] < 0:
        return LEAF
    child = int(left[node])
    below = (read_tree(feature, cut, left, child + side) for side in range(2))
    return (int(feature[node]), int(cut[node]), *below)


def leaf_nodes(tree: Tree, left: np.ndarray, node: int = 0) -> list[int]:
    """Nodes of the leaves of a tree that was written to arrays, from left to right."""
    if tree == LEAF:
        return [node]
    child = int(left[node])
    return leaf_nodes(tree[2], left, child) + leaf_nodes(tree[3], left, child + 1)


@dataclass
class Stepped:
    """A chain that a test moves by hand, sweep by sweep."""

    chain: SumChain
    work: Workspace

    @property
    def forest(self) -> Forest:
        """Its state."""
        return self.chain.forest

    def sweep(self) -> None:
        """Draw every tree once, then noise and scale."""
        self.chain.sweep(self.work)

    def tree(self, s: int = 0, m: int = 0) -> Tree:
        """One of its trees."""
        forest = self.forest
        return read_tree(forest.feature[s, m], forest.cut[s, m], forest.left[s, m])


def make_stepped(
    table: SumTable,
    target: Target,
    prior: Prior,
    *,
    moves: Moves = ALL_COLUMNS,
    n_sums: int = 1,
    n_summed: int = 1,
    seed: int = 0,
    lines: LineTable | None = None,
) -> Stepped:
    """Return a chain that starts from trees without splits."""
    lines = no_lines() if lines is None else lines
    shared = setup.make_moves(table, target, prior, lines, n_sums, n_summed, moves)
    return Stepped(start_chain(shared, seed), make_workspace(shared))


def of_numbers(number: np.ndarray, weight: np.ndarray | None = None) -> Target:
    """Numbers as a target."""
    n = len(number)
    weight = np.ones(n) if weight is None else weight
    return Target(NUMBERS, number.astype(float), np.zeros(n, dtype=np.int32), weight, np.zeros(1))
