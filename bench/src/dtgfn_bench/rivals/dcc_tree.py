"""DCC-Tree (Cochrane, Wills, Johnson 2024): every shape its own problem, mixed by their evidence.

Shapes that the search proposes often enough become active and get chains of the no-U-turn sampler;
a utility chooses which active shape's chains run on, and from it a neighbour is proposed.  Around
every draw a Gaussian with its chain's covariance is an importance proposal (layered adaptive
importance sampling): the weights' mean is the shape's evidence, prior included, and the weighted
points of the active shapes predict.  The authors also run a random inactive shape each time;
nothing depends on that until the shape becomes active, so it is only counted, and run then.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from dtgfn._support.arrays import Floats, Int64s
from dtgfn_bench.contract import Method, TrainingRows
from dtgfn_bench.rivals.nuts import sample
from dtgfn_bench.rivals.rjhmc import SIMPLEX_WIDTHS, grow_chance
from dtgfn_bench.rivals.soft_prediction import Draw, SoftTrees, UnitBox
from dtgfn_bench.rivals.soft_shapes import (
    Shape,
    draw_shape,
    grown,
    leaf_indices,
    log_prior,
    n_splits,
    prunable_indices,
    pruned,
)
from dtgfn_bench.rivals.soft_tree import (
    SoftTree,
    by_class,
    log_densities,
    n_parameters,
    soft_tree,
)

ALPHA, BETA = 0.95, 1.0  # of the shapes' prior
MOVE, GROW = 0.9, 2 / 3  # chances to leave a shape, and then to grow: .6, .3 and .1 in all
OPTIMISM = 1.0
KEPT = 20  # points of a run that predict, drawn by weight


class Plan(NamedTuple):
    """How much to run."""

    chains: int
    warm_up: int
    draws: int
    points: int  # importance draws around each of the chain's
    max_depth: int
    h_first: float
    h_last: float


@dataclass
class Chain:
    """A chain's state and adaptation."""

    q: Floats
    variance: Floats
    step: float = 0.1


@dataclass(eq=False)
class Problem:
    """One shape: its chains, sums of its weights, the points it keeps, how often it came up.

    ``chosen`` counts how often it was to be run, ``runs`` how often it was.
    """

    shape: Shape
    proposed: int = 0
    chosen: int = 0
    runs: int = 0
    chains: list[Chain] = field(default_factory=list)
    n_weights: int = 0
    log_sum: float = -math.inf
    log_sum_of_squares: float = -math.inf
    kept: list[tuple[Floats, float]] = field(default_factory=list)  # points, log weight of each

    def add(self, points: Floats, log_weights: Floats, rng: np.random.Generator) -> None:
        """Take in a run's weighted points; keep some, drawn systematically by weight."""
        of_run = float(logsumexp(log_weights))
        self.n_weights += log_weights.size
        self.log_sum = float(np.logaddexp(self.log_sum, of_run))
        squares = float(logsumexp(2.0 * log_weights))
        self.log_sum_of_squares = float(np.logaddexp(self.log_sum_of_squares, squares))
        share = np.cumsum(np.exp(log_weights - of_run))
        places = (np.arange(KEPT) + rng.random()) / KEPT * share[-1]
        self.kept.append((points[np.searchsorted(share, places)], of_run - math.log(KEPT)))

    def log_evidence(self) -> float:
        """Log of the mean weight."""
        return self.log_sum - math.log(self.n_weights)

    def log_need(self) -> float:
        """Log of the root of squared evidence plus the weights' variance."""
        return 0.5 * (self.log_sum_of_squares - math.log(self.n_weights))


class Search:
    """The problems at hand, and what runs them."""

    def __init__(self, rows: TrainingRows, plan: Plan, rng: np.random.Generator) -> None:
        self._rows = by_class(UnitBox(rows.X).columns(rows.X), rows.y, rows.n_classes)
        self._plan = plan
        self._rng = rng
        self._words = rng.integers(2**64, size=1, dtype=np.uint64)
        self.problems: dict[Shape, Problem] = {}

    def propose(self, shape: Shape) -> None:
        """Count a shape once more."""
        self.problems.setdefault(shape, Problem(shape)).proposed += 1

    def propose_neighbour(self, shape: Shape) -> None:
        """Count a shape next to this one, or this one."""
        if self._rng.random() >= MOVE:
            self.propose(shape)
        elif self._rng.random() < grow_chance(shape, GROW):
            self.propose(grown(shape, int(self._rng.choice(leaf_indices(shape)))))
        else:
            self.propose(pruned(shape, int(self._rng.choice(prunable_indices(shape)))))

    def tree(self, shape: Shape) -> SoftTree:
        """A shape on the training rows, with simplex directions."""
        feature: Int64s = np.full(n_splits(shape), -1)
        return soft_tree(shape, feature, self._rows)

    def run(self, problem: Problem) -> None:
        """Run a problem's chains on (the first time: adapt them), and weight points around."""
        plan, tree = self._plan, self.tree(problem.shape)
        first = problem.runs == 0
        problem.runs += 1
        if first:
            size = n_parameters(tree)
            for _ in range(plan.chains):
                problem.chains.append(Chain(self._rng.uniform(-2.0, 2.0, size), np.ones(size)))
        found = [self._weighted(problem, chain, first) for chain in problem.chains]
        points, log_weights = zip(*found, strict=True)
        problem.add(np.concatenate(points), np.concatenate(log_weights), self._rng)

    def _weighted(self, problem: Problem, chain: Chain, first: bool) -> tuple[Floats, Floats]:
        """Run one chain on; points around its draws, and their log weights."""
        plan, tree = self._plan, self.tree(problem.shape)
        draws = np.empty((plan.draws, chain.q.size))
        chain.step = sample(
            tree,
            chain.q,
            (plan.h_first if first else plan.h_last, plan.h_last),
            plan.warm_up if first else 0,
            chain.step,
            chain.variance,
            plan.max_depth,
            self._words,
            draws,
        )
        points, log_proposal = gaussians(draws, plan.points, self._rng)
        target = log_densities(tree, points, plan.h_last)
        return points, log_prior(problem.shape, ALPHA, BETA) + target - log_proposal

    def active(self, threshold: int) -> list[Problem]:
        """Problems proposed often enough, or as often as any."""
        threshold = min(threshold, max(p.proposed for p in self.problems.values()))
        return [p for p in self.problems.values() if p.proposed >= threshold]

    def iterate(self, threshold: int) -> None:
        """Run the most useful of the active problems; propose a neighbour; count an inactive one.

        A problem that has just become active makes up for the runs it was chosen for before.
        """
        active = self.active(threshold)
        for problem in active:
            problem.chosen = max(problem.chosen, 1)
            while problem.runs < problem.chosen:
                self.run(problem)
        best = most_useful(active)
        best.chosen += 1
        self.run(best)
        self.propose_neighbour(best.shape)
        inactive = [p for p in self.problems.values() if p not in active]
        if inactive:
            inactive[int(self._rng.integers(len(inactive)))].chosen += 1


def gaussians(draws: Floats, points: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Points around each draw, from a Gaussian with the draws' covariance, and their log densities.

    The covariance is shrunk to its diagonal, more so the fewer draws there are per dimension.
    """
    n, size = draws.shape
    covariance = np.atleast_2d(np.cov(draws, rowvar=False))
    diagonal = np.diag(covariance) + 1e-10
    trust = (n - 1) / (n - 1 + size)
    factor = np.linalg.cholesky(
        trust * covariance + np.diag(diagonal - trust * np.diag(covariance))
    )
    noise = rng.standard_normal((n, points, size))
    placed = draws[:, None] + noise @ factor.T
    log_proposal = -0.5 * (noise**2).sum(axis=2) - np.log(np.diag(factor)).sum()
    return placed.reshape(-1, size), log_proposal.ravel() - 0.5 * size * math.log(2.0 * math.pi)


def most_useful(active: list[Problem]) -> Problem:
    """The problem of largest utility: much weight or uncertain weight, and seldom run."""
    runs = np.array([problem.chosen for problem in active])
    need = np.array([problem.log_need() for problem in active])
    bonus = OPTIMISM * math.log(runs.sum()) / np.sqrt(runs)
    return active[int(np.argmax((np.exp(need - need.max()) + bonus) / runs))]


def fit_dcc_tree(
    rows: TrainingRows,
    seed: int,
    *,
    iterations: int,
    first_shapes: int,
    threshold: int,
    chains: int,
    warm_up: int,
    draws: int,
    points: int,
    max_depth: int,
) -> SoftTrees:
    """Search, then mix the active problems."""
    widths = SIMPLEX_WIDTHS.get(rows.table, SIMPLEX_WIDTHS["wine"])
    rng = np.random.default_rng(seed)
    plan = Plan(chains, warm_up, draws, points, max_depth, widths.h_first, widths.h_last)
    search = Search(rows, plan, rng)
    for _ in range(first_shapes):
        shape = draw_shape(ALPHA, BETA, rng)
        if shape[0]:  # the smallest tree has one split
            search.propose(shape)
    for _ in range(iterations):
        search.iterate(threshold)
    return SoftTrees(rows, mixture(search, threshold), widths.h_last)


def mixture(search: Search, threshold: int) -> list[Draw]:
    """The points that predict: an active problem's share of the evidence, shared out by weight."""
    run = [problem for problem in search.active(threshold) if problem.runs]
    evidence = np.array([problem.log_evidence() for problem in run])
    share = np.exp(evidence - logsumexp(evidence))
    kept = []
    for problem, part in zip(run, share, strict=True):
        feature = search.tree(problem.shape).feature
        for points, log_weight in problem.kept:
            weight = float(part * math.exp(log_weight - problem.log_sum))
            kept += [Draw(problem.shape, feature, point, weight) for point in points]
    return [draw for draw in kept if draw.weight > 0.0]


METHODS = (
    Method(
        name="dcc-tree",
        label="DCC-Tree, cut to a fifth of its search",
        fit=fit_dcc_tree,
        note=(
            "Soft trees, every shape its own problem, mixed by importance-sampled evidence; cut "
            "to 100 search iterations of 500, all else at its authors' length: 16 chains per "
            "shape with 1000 warm-up steps and 100 draws per run, NUTS depth at most 10, 10 "
            "points per draw, 100 shapes from the prior, active from 5 proposals (no limit of "
            "active shapes, theirs is 100; chains are not begun again when one is stuck); "
            "inactive shapes are run when they become active, which changes nothing; 20 points of "
            "a run, drawn by weight, predict, as posterior means (the release divides class "
            "counts by the classes' sizes); proposal covariances are shrunk to their diagonal, "
            "leaf likelihoods keep their constant; widths are the authors' per table, Wine's "
            "elsewhere."
        ),
        revision=2,  # chains of the authors' length; inactive shapes do not predict
        settings={
            "iterations": 100,
            "first_shapes": 100,
            "threshold": 5,
            "chains": 16,
            "warm_up": 1000,
            "draws": 100,
            "points": 10,
            "max_depth": 10,
        },
        quick={
            "iterations": 4,
            "first_shapes": 20,
            "chains": 1,
            "warm_up": 60,
            "draws": 25,
            "max_depth": 5,
        },
        canary={"warm_up": 8, "draws": 5, "max_depth": 3},
    ),
)
