"""The slow, obvious twin: every tree of a small table, one by one, scored by the formula.

Nothing here is clever and nothing comes from dtgfn (but the container of a tree), so that an
agreement between the two means something.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from scipy.special import logsumexp

from dtgfn.trees.batch import TreeBatch, from_splits
from dtgfn.trees.leaf_models import DirichletLeaf
from dtgfn.trees.score import Rows, Score, SplitPenalty, make_score

# A tree is a leaf, (), or a split: (feature, cut, left tree, right tree).
Tree = tuple
LEAF: Tree = ()


@dataclass(frozen=True)
class Case:
    """A small table of codes and everything that the target depends on."""

    codes: np.ndarray
    labels: np.ndarray
    n_classes: int
    weight: np.ndarray = field(default_factory=lambda: np.zeros(0))  # all ones if not given
    max_depth: int = 2
    leaf_concentration: float = 0.1
    split_penalty: SplitPenalty = "mdl"
    n_thresholds: int = 9
    temperature: float = 1.0
    column: tuple[int, ...] = ()  # of each feature; its own number if not given
    n_columns: int = 0

    def __post_init__(self) -> None:
        n_rows, n_features = self.codes.shape
        if not self.weight.size:
            object.__setattr__(self, "weight", np.ones(n_rows))
        if not self.column:
            object.__setattr__(self, "column", tuple(range(n_features)))
        if not self.n_columns:
            object.__setattr__(self, "n_columns", max(self.column, default=0) + 1)

    def but(self, **changes: object) -> Case:
        """Return the same case with some fields changed."""
        return replace(self, **changes)

    @property
    def rows(self) -> Rows:
        """The table as dtgfn's engines want it."""
        return Rows(
            np.ascontiguousarray(self.codes, dtype=np.uint16),
            np.asarray(self.labels, dtype=np.int32),
            np.asarray(self.weight, dtype=np.float64),
        )

    @property
    def score(self) -> Score:
        """The target as dtgfn's engines want it."""
        return make_score(
            DirichletLeaf(self.n_classes, self.leaf_concentration),
            n_features=self.codes.shape[1],
            n_thresholds=self.n_thresholds,
            max_depth=self.max_depth,
            split_penalty=self.split_penalty,
            temperature=self.temperature,
        )

    @property
    def columns(self) -> np.ndarray:
        """Source column of each feature as dtgfn's engines want it."""
        return np.array(self.column, dtype=np.int32)


class Enumeration:
    """Every tree of a case and what follows from them."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.everything = tuple(range(len(case.codes)))
        self._codes = case.codes.tolist()
        self._labels = [int(label) for label in case.labels]
        self._weight = [float(weight) for weight in case.weight]
        # Only remembered, never shared between depths or trees in any clever way.
        self._sides: dict[tuple[tuple[int, ...], int, int], tuple] = {}
        self._splits: dict[tuple[int, ...], list[tuple[int, int]]] = {}
        self._counts: dict[tuple[int, ...], list[float]] = {}

    # The trees.

    def sides(
        self, rows: tuple[int, ...], feature: int, cut: int
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Rows that go left and rows that go right."""
        if (rows, feature, cut) not in self._sides:
            left = tuple(i for i in rows if self._codes[i][feature] <= cut)
            right = tuple(i for i in rows if self._codes[i][feature] > cut)
            self._sides[rows, feature, cut] = left, right
        return self._sides[rows, feature, cut]

    def valid_splits(self, rows: tuple[int, ...]) -> list[tuple[int, int]]:
        """Every (feature, cut) that sends at least one row to each side."""
        if rows not in self._splits:
            largest = max((max(codes) for codes in self._codes if codes), default=0)
            self._splits[rows] = [
                (feature, cut)
                for feature in range(self.case.codes.shape[1])
                for cut in range(largest + 1)
                if all(self.sides(rows, feature, cut))
            ]
        return self._splits[rows]

    def all_trees(self, rows: tuple[int, ...], depth: int) -> Iterator[Tree]:
        """Every tree that may grow from a node with these rows."""
        yield LEAF
        if depth == self.case.max_depth:
            return
        for feature, cut in self.valid_splits(rows):
            left_rows, right_rows = self.sides(rows, feature, cut)
            right_trees = list(self.all_trees(right_rows, depth + 1))
            for left in self.all_trees(left_rows, depth + 1):
                for right in right_trees:
                    yield (feature, cut, left, right)

    @cached_property
    def trees(self) -> list[Tree]:
        """Every tree of the case."""
        return list(self.all_trees(self.everything, 0))

    def n_trees(self) -> int:
        """How many trees there are, without making them."""
        known: dict[tuple[tuple[int, ...], int], int] = {}

        def count(rows: tuple[int, ...], depth: int) -> int:
            if depth == self.case.max_depth:
                return 1
            if (rows, depth) not in known:
                total = 1
                for split in self.valid_splits(rows):
                    left, right = self.sides(rows, *split)
                    total += count(left, depth + 1) * count(right, depth + 1)
                known[rows, depth] = total
            return known[rows, depth]

        return count(self.everything, 0)

    # The score of one tree.

    def class_counts(self, rows: tuple[int, ...]) -> list[float]:
        """Weight of each class."""
        if rows not in self._counts:
            counts = [0.0] * self.case.n_classes
            for i in rows:
                counts[self._labels[i]] += self._weight[i]
            self._counts[rows] = counts
        return self._counts[rows]

    def log_marginal(self, rows: tuple[int, ...]) -> float:
        """Return ln B(n + a) - ln B(a)."""

        def log_beta(values: list[float]) -> float:
            return math.fsum(map(math.lgamma, values)) - math.lgamma(math.fsum(values))

        a = self.case.leaf_concentration
        counts = self.class_counts(rows)
        return log_beta([n + a for n in counts]) - log_beta([a for _ in counts])

    def log_split(self, rows: tuple[int, ...], feature: int, depth: int) -> float:
        """Log prior of a valid split on a feature."""
        prior = self.case.split_penalty
        n_features = max(self.case.codes.shape[1], 1)
        if prior == "paper":
            return -(math.log(4) + math.log(n_features))
        if prior == "mdl":
            return -(math.log(4) + math.log(n_features) + math.log(self.case.n_thresholds))
        if isinstance(prior, int | float):
            return -prior
        valid = self.valid_splits(rows)
        varying = len({f for f, _ in valid})
        cuts = sum(f == feature for f, _ in valid)
        return math.log(self.split_probability(depth)) - math.log(varying) - math.log(cuts)

    def log_stop(self, rows: tuple[int, ...], depth: int) -> float:
        """Log prior of a leaf."""
        prior = self.case.split_penalty
        if isinstance(prior, int | float) or prior in ("mdl", "paper"):
            return 0.0
        if depth == self.case.max_depth or not self.valid_splits(rows):
            return 0.0
        return math.log(1 - self.split_probability(depth))

    def split_probability(self, depth: int) -> float:
        """BCART's probability that a node splits."""
        prior = self.case.split_penalty
        _, base, decay = ("bcart", 0.95, 0.5) if prior == "bcart" else prior
        return base * (1 + depth) ** -decay

    def log_reward(self, tree: Tree) -> float:
        """Log R of any tree, -inf if it is not valid."""

        def walk(tree: Tree, rows: tuple[int, ...], depth: int) -> float:
            if depth > self.case.max_depth or not rows:
                return -math.inf
            if tree == LEAF:
                return self.log_marginal(rows) + self.log_stop(rows, depth)
            feature, cut, left_tree, right_tree = tree
            left, right = self.sides(rows, feature, cut)
            if not left or not right:
                return -math.inf
            below = walk(left_tree, left, depth + 1) + walk(right_tree, right, depth + 1)
            return self.log_split(rows, feature, depth) + below

        return walk(tree, self.everything, 0)

    @cached_property
    def log_rewards(self) -> np.ndarray:
        """Log R of every tree, before the temperature."""
        return np.array([self.log_reward(tree) for tree in self.trees])

    # The posterior.

    @cached_property
    def log_z(self) -> float:
        """Log of the sum of R^(1/T) over all trees."""
        return float(logsumexp(self.log_rewards / self.case.temperature))

    @cached_property
    def probability(self) -> np.ndarray:
        """Posterior probability of every tree."""
        return np.exp(self.log_rewards / self.case.temperature - self.log_z)

    @property
    def best_log_reward(self) -> float:
        """Log R of the most probable tree."""
        return float(self.log_rewards.max())

    def parting(self, tree: Tree) -> Tree:
        """The tree told by what its splits do: feature and the rows on both sides, not the cut."""

        def walk(tree: Tree, rows: tuple[int, ...]) -> Tree:
            if tree == LEAF:
                return rows
            feature, cut, left_tree, right_tree = tree
            left, right = self.sides(rows, feature, cut)
            return feature, walk(left_tree, left), walk(right_tree, right)

        return walk(tree, self.everything)

    @cached_property
    def log_masses(self) -> dict[Tree, float]:
        """Log of the sum of R^(1/T) over all trees that part the rows alike at every split."""
        members: dict[Tree, list[float]] = {}
        for tree, reward in zip(self.trees, self.log_rewards, strict=True):
            members.setdefault(self.parting(tree), []).append(reward / self.case.temperature)
        return {parting: float(logsumexp(logs)) for parting, logs in members.items()}

    @property
    def best_log_mass(self) -> float:
        """The greatest of these."""
        return max(self.log_masses.values())

    @property
    def size_probability(self) -> np.ndarray:
        """P(the tree has s splits)."""
        return np.bincount([n_splits(tree) for tree in self.trees], self.probability)

    @property
    def column_inclusion(self) -> np.ndarray:
        """P(some split of the tree is on a feature of the column)."""
        inclusion = np.zeros(self.case.n_columns)
        for tree, probability in zip(self.trees, self.probability, strict=True):
            for column in {self.case.column[f] for f in features(tree)}:
                inclusion[column] += probability
        return inclusion

    def predict(self, tree: Tree, codes: np.ndarray) -> np.ndarray:
        """Predictive mean (n_l + a) / (n + C a) [n, C] of the leaf that each new row reaches."""
        prediction = np.empty((len(codes), self.case.n_classes))

        def walk(tree: Tree, rows: tuple[int, ...], queries: np.ndarray) -> None:
            if tree == LEAF:
                counts = np.array(self.class_counts(rows)) + self.case.leaf_concentration
                prediction[queries] = counts / counts.sum()
                return
            feature, cut, left_tree, right_tree = tree
            left, right = self.sides(rows, feature, cut)
            goes_left = codes[queries, feature] <= cut
            walk(left_tree, left, queries[goes_left])
            walk(right_tree, right, queries[~goes_left])

        walk(tree, self.everything, np.arange(len(codes)))
        return prediction

    def average(self, codes: np.ndarray) -> np.ndarray:
        """Posterior mean of the predictions [n, C] for new rows of codes."""
        total = np.zeros((len(codes), self.case.n_classes))
        for tree, probability in zip(self.trees, self.probability, strict=True):
            total += probability * self.predict(tree, codes)
        return total


def n_splits(tree: Tree) -> int:
    """Number of splits of a tree."""
    return 0 if tree == LEAF else 1 + n_splits(tree[2]) + n_splits(tree[3])


def depth(tree: Tree) -> int:
    """Number of edges on the longest path of a tree."""
    return 0 if tree == LEAF else 1 + max(depth(tree[2]), depth(tree[3]))


def features(tree: Tree) -> set[int]:
    """Features that a tree splits on."""
    return set() if tree == LEAF else {tree[0]} | features(tree[2]) | features(tree[3])


def splits_by_path(tree: Tree, path: tuple[int, ...] = ()) -> dict[tuple[int, ...], tuple]:
    """Write a tree as path of turns -> (feature, cut)."""
    if tree == LEAF:
        return {}
    left, right = splits_by_path(tree[2], (*path, 0)), splits_by_path(tree[3], (*path, 1))
    return {path: (tree[0], tree[1])} | left | right


def to_batch(trees: list[Tree]) -> TreeBatch:
    """Trees as dtgfn's flat arrays."""
    return from_splits([splits_by_path(tree) for tree in trees])


def from_batch(batch: TreeBatch, b: int, node: int = 0) -> Tree:
    """Tree b of a batch."""
    if batch.feature[b, node] < 0:
        return LEAF
    left = int(batch.left[b, node])
    split = (int(batch.feature[b, node]), int(batch.cut[b, node]))
    return (*split, from_batch(batch, b, left), from_batch(batch, b, left + 1))
