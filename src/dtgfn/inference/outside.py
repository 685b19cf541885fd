"""What trees say of the rows that their bags lack, and how sharp this asks their average to be.

A row that is not in a tree's bag had no say in its splits, and leaving it out of its leaf's sums is
closed form, so every row can be scored by trees that never saw it. A row of weight w > 1 is w rows
alike, each left out by itself: of a bag with k copies of them a part (1 - 1 / w)^k of the rows is
out.

Averages over trees that know only part of what there is to know are too cautious. The sharpness s
that gives rows out of bag the best log score mends that. Of classes it is a power of the average;
of numbers, where a power s of a normal density divides its variance by s, it does just this to the
mixture over trees, and leaves the mean where it is::

    P(y | x) proportional to (mean over trees of P(y | x, T))^s
    p(y | x) = sqrt(s) mean over trees of p(mean + sqrt(s) (y - mean) | x, T)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.optimize import minimize_scalar

from dtgfn._support.arrays import Floats, Int32s, Int64s
from dtgfn.inference.resampling import Copies
from dtgfn.inference.temperature import LeaveOneOut
from dtgfn.posterior.moments import Students, leaf_students, student_constant, student_density
from dtgfn.posterior.prediction import sharpened
from dtgfn.trees.batch import TreeBatch, node_sums, route
from dtgfn.trees.leaf_models import DirichletLeaf, NormalLeaf
from dtgfn.trees.score import Rows, Score

SHARPEST = 10.0
MOST_SHARPENED = 4_000_000  # probabilities that the sharpness is chosen by
MOST_DENSITIES = 1_000_000  # of one tree for one row each, that numbers are scored by
CHUNK = 1_000_000  # probabilities looked at together
LEAST = 1e-300  # a density below is not told from none


class Outside(Protocol):
    """What the trees of all bags say of the rows that their bags lack."""

    def hear(self, trees: TreeBatch, copies: Copies) -> Any:
        """Return what the trees of a bag say that holds each row so many times [n]."""

    def add(self, heard: Any) -> None:
        """Add what the trees of one more bag say."""

    @property
    def any(self) -> bool:
        """Whether any row is out of any bag: else there is no score."""

    def best_sharpness(self) -> float:
        """Return the sharpness with the best log score, 1 if there is none."""

    def scored(self, sharpness: float) -> LeaveOneOut:
        """Score the rows; ``effective`` is the share of the trees that tell of a row."""


def make_outside(rows: Rows, score: Score, n_trees: int) -> Outside:
    """Nothing heard yet, of rows that so many trees will tell of."""
    if isinstance(score.leaf, DirichletLeaf):
        return OutsideClasses(rows, score.leaf)
    if isinstance(score.leaf, NormalLeaf):
        return OutsideNumbers(rows, score.leaf, n_trees)
    raise TypeError(
        f"Leaves are {type(score.leaf).__name__}, neither classes nor numbers; bags leave rows out "
        "in closed form of these only."
    )


class HeardClasses(NamedTuple):
    """Summed probabilities [n, C] of a bag's trees, part of each row that is out [n], trees."""

    total: Floats
    part: Floats
    n_trees: int


class OutsideClasses:
    """Sums over trees of P(y | x_i) [n, C] by trees whose bag lacks row i, without its count."""

    def __init__(self, rows: Rows, leaf: DirichletLeaf) -> None:
        self.rows, self.leaf = rows, leaf
        self.labels: Int32s = rows.target.astype(np.int32, copy=False)
        self.total = np.zeros((len(self.labels), leaf.n_classes))
        self.n_telling = np.zeros(len(self.labels))
        self.n_trees = 0

    def hear(self, trees: TreeBatch, copies: Copies) -> HeardClasses:
        """Return what the trees of a bag say that holds each row so many times [n]."""
        rows, labels, leaf = self.rows, self.labels, self.leaf
        counts, _ = node_sums(trees, rows.codes, labels, rows.weight, leaf)
        part = absent_part(rows.weight, copies)
        outside = np.flatnonzero(part)
        total = np.zeros(self.total.shape)
        step = max(CHUNK // (len(trees) * leaf.n_classes), 1)
        for first in range(0, outside.size, step):
            some = outside[first : first + step]
            at = route(trees, rows.codes[some])
            at_leaf = counts[np.arange(len(trees))[:, None], at] + leaf.concentration
            at_leaf[:, np.arange(some.size), labels[some]] -= np.minimum(rows.weight[some], 1)
            says = (at_leaf / at_leaf.sum(axis=-1, keepdims=True)).sum(axis=0)
            total[some] = part[some, None] * says
        return HeardClasses(total, part, len(trees))

    def add(self, heard: HeardClasses) -> None:
        """Add what the trees of one more bag say."""
        self.total += heard.total
        self.n_telling += heard.part * heard.n_trees
        self.n_trees += heard.n_trees

    @property
    def any(self) -> bool:
        """Whether any row is out of any bag."""
        return bool(self.n_telling.any())

    def probability(self) -> tuple[Floats, Floats]:
        """P(y | x_i) [n, C], and the share of the trees that tell [n]: an even guess where none."""
        share = self.n_telling / self.n_trees
        total = np.where(share[:, None] == 0, 1.0, self.total)
        return total / total.sum(axis=1, keepdims=True), share

    def best_sharpness(self) -> float:
        """Return the power with the best log score, 1 if there is none."""
        probability, share = self.probability()
        seen = share > 0
        return best_power(probability[seen], self.labels[seen], self.rows.weight[seen])

    def scored(self, sharpness: float) -> LeaveOneOut:
        """Score every row; those in every bag have weight 0, unless all are."""
        probability, share = self.probability()
        sharp = sharpened(probability, sharpness)
        log_prob = np.log(sharp[np.arange(len(sharp)), self.labels])
        return LeaveOneOut(log_prob, share, counted_weight(self.rows.weight, share))


class HeardNumbers(NamedTuple):
    """Predictive distributions of rows out of a bag, by each of its trees [E].

    ``row`` is the index among the judged rows, ``part`` how much of it is out.
    """

    row: Int64s
    part: Floats
    students: Students
    n_trees: int


class OutsideNumbers:
    """Student t distributions of z_i by trees whose bag lacks row i, without its own part.

    Of a large table rows at even steps are judged, as many as there is room for.
    """

    def __init__(self, rows: Rows, leaf: NormalLeaf, n_trees: int) -> None:
        self.rows, self.leaf = rows, leaf
        n_rows = len(rows.target)
        self.judged = np.arange(0, n_rows, -(-n_rows * n_trees // MOST_DENSITIES))
        self.target: Floats = rows.target[self.judged].astype(np.float64, copy=False)
        self.heard: list[HeardNumbers] = []
        self._joined: HeardNumbers | None = None

    def hear(self, trees: TreeBatch, copies: Copies) -> HeardNumbers:
        """Return what the trees of a bag say that holds each row so many times [n]."""
        rows, judged = self.rows, self.judged
        sums, _ = node_sums(trees, rows.codes, rows.target, rows.weight, self.leaf)
        part = absent_part(rows.weight[judged], copies[judged])
        row = np.flatnonzero(part)
        some = judged[row]
        at_leaf = sums[np.arange(len(trees))[:, None], route(trees, rows.codes[some])]
        z, own = rows.target[some], np.minimum(rows.weight[some], 1)
        students = leaf_students(at_leaf - np.stack([own, own * z, own * z**2], axis=1), self.leaf)
        every = np.broadcast_to(row, (len(trees), row.size)).ravel()
        return HeardNumbers(every, part[every], Students(*map(np.ravel, students)), len(trees))

    def add(self, heard: HeardNumbers) -> None:
        """Add what the trees of one more bag say."""
        self.heard.append(heard)
        self._joined = None

    @property
    def all_heard(self) -> HeardNumbers:
        """What all bags say, one after the other."""
        if self._joined is None:
            row, part, students, n_trees = zip(*self.heard, strict=True)
            joined = Students(*map(np.concatenate, zip(*students, strict=True)))
            every = np.concatenate(row), np.concatenate(part), joined, sum(n_trees)
            self._joined = HeardNumbers(*every)
        return self._joined

    @property
    def any(self) -> bool:
        """Whether any row is out of any bag."""
        return self.all_heard.row.size > 0

    def share(self) -> Floats:
        """Share of the trees that tell of each judged row."""
        heard = self.all_heard
        return np.bincount(heard.row, heard.part, len(self.judged)) / heard.n_trees

    def density(self) -> Callable[[float], Floats]:
        """p(z_i) of each judged row at a sharpness, 0 where no tree tells."""
        heard, n_judged = self.all_heard, len(self.judged)
        row, students = heard.row, heard.students
        constant = student_constant(students)
        telling = np.bincount(row, heard.part, n_judged)
        weight = heard.part / telling[row]
        mean = np.bincount(row, weight * students.center, n_judged)
        off = self.target - mean

        def at(sharpness: float) -> Floats:
            root = math.sqrt(sharpness)
            density = student_density(students, constant, (mean + root * off)[row])
            return np.asarray(root * np.bincount(row, weight * density, n_judged))

        return at

    def best_sharpness(self) -> float:
        """Return the sharpness with the best log score, 1 if there is none."""
        if not self.any:
            return 1.0
        density, seen = self.density(), self.share() > 0
        weight = self.rows.weight[self.judged][seen]
        # One row's worth of doubt, as for classes.
        guess = density_of_nothing(self.leaf, self.target[seen])
        doubt = 1 / (weight.sum() + 1)

        def loss(sharpness: float) -> float:
            mixed = (1 - doubt) * density(sharpness)[seen] + doubt * guess
            return -float(weight @ np.log(np.maximum(mixed, LEAST)))

        return least(loss)

    def scored(self, sharpness: float) -> LeaveOneOut:
        """Score the judged rows in the target's units; those in every bag have weight 0."""
        share, weight = self.share(), self.rows.weight[self.judged]
        if self.any:
            density = self.density()(sharpness)
        else:
            density = density_of_nothing(self.leaf, self.target)
        log_prob = np.log(np.maximum(density, LEAST)) - math.log(self.leaf.scale)
        return LeaveOneOut(log_prob, share, counted_weight(weight, share))


def absent_part(weight: Floats, copies: Copies) -> Floats:
    """Part of each row [n] that is out of a bag which holds it so many times [n]."""
    return np.asarray((1 - 1 / np.maximum(weight, 1)) ** copies)


def counted_weight(weight: Floats, share: Floats) -> Floats:
    """Weights [n] of rows of which some tree tells, 0 for others, unless none tells of any."""
    return np.where((share > 0) | (share.max() == 0), weight, 0.0)


def density_of_nothing(leaf: NormalLeaf, z: Floats) -> Floats:
    """Density at z [n] by a leaf without any row."""
    nothing = leaf_students(np.zeros(3), leaf)
    return student_density(nothing, student_constant(nothing), z)


def best_power(probability: Floats, target: Int32s, weight: Floats) -> float:
    """Power of probabilities [n, C] with the best log score of the targets [n].

    The log score is concave in the power; one row's worth of doubt keeps it from running away on
    rows that are all right.
    """
    if not len(target) or probability.shape[1] < 2:
        return 1.0
    every = -(-probability.size // MOST_SHARPENED)  # of a large table, rows at even steps
    probability, target, weight = probability[::every], target[::every], weight[::every]
    row, even = np.arange(len(target)), 1 / probability.shape[1]

    def loss(power: float) -> float:
        sharp = sharpened(probability, power)[row, target]
        doubt = 1 / (weight.sum() + 1)
        mixed = np.log((1 - doubt) * sharp + doubt * even)
        return -float(weight @ mixed)

    return least(loss)


def least(loss: Callable[[float], float]) -> float:
    """Sharpness of the least loss, from 1 / ``SHARPEST`` to ``SHARPEST``."""
    edge = math.log(SHARPEST)
    found = minimize_scalar(lambda x: loss(math.exp(x)), bounds=(-edge, edge), method="bounded")
    return math.exp(found.x)
