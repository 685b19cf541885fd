"""Bayesian CART of Wu, Tjelmeland, West (2007): chains over trees with the pinball prior."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

import numpy as np

from dtgfn._support.arrays import Floats, Int64s
from dtgfn.data.binning import Binner, encode, fit_binner
from dtgfn.data.tables import as_table
from dtgfn.trees.batch import TreeBatch, from_splits, node_sums, route
from dtgfn.trees.leaf_models import DirichletLeaf
from dtgfn_bench.contract import Method, TrainingRows
from dtgfn_bench.rivals.wu_moves import SHARES
from dtgfn_bench.rivals.wu_tree import Node, Problem, make_problem, splits_of

START_SPLITS = 8  # a chain starts from fewer random splits than this


def run_chain(problem: Problem, n_steps: int, random: Random) -> Iterator[Node]:
    """Yield the tree after each step of a Metropolis-Hastings chain."""
    moves, shares = list(SHARES), list(SHARES.values())
    grow = moves[0]
    tree = problem.leaf((1 << problem.n_rows) - 1)
    for _ in range(random.randrange(START_SPLITS)):
        grown = grow(problem, tree, random)
        tree = tree if grown is None else grown[0]
    value = problem.log_target(tree)
    for move in random.choices(moves, shares, k=n_steps):
        proposed = move(problem, tree, random)
        if proposed is not None:
            new, log_q = proposed
            new_value = problem.log_target(new)
            log_ratio = new_value - value + log_q
            if log_ratio >= 0 or random.random() < math.exp(log_ratio):
                tree, value = new, new_value
        yield tree


def sample_trees(
    problem: Problem, *, n_chains: int, n_steps: int, n_trees: int, seed: int
) -> tuple[list[Node], Node]:
    """Trees spread evenly over the second halves of chains, and the best tree of all steps."""
    random, draws = Random(seed), []
    best: Node | None = None
    best_value = -math.inf
    for quota in (len(part) for part in np.array_split(np.arange(n_trees), n_chains)):
        kept = np.linspace(n_steps // 2, n_steps - 1, quota).astype(int).tolist()
        last: Node | None = None
        for step, tree in enumerate(run_chain(problem, n_steps, random)):
            if tree is not last and problem.log_target(tree) > best_value:
                best, best_value = tree, problem.log_target(tree)
            last = tree
            while kept and kept[0] == step:
                draws.append(tree)
                kept.pop(0)
    assert best is not None, "a chain has steps"
    return draws, best


@dataclass(frozen=True)
class FittedTrees:
    """Trees with the class probabilities [B, N, C] of their leaves, averaged evenly."""

    trees: TreeBatch
    probability: Floats
    binner: Binner

    def predict_proba(self, X: Floats) -> Floats:
        """Mean class probabilities [n, C]."""
        leaf = route(self.trees, encode(self.binner, as_table(X)))
        total = np.zeros((len(X), self.probability.shape[2]))
        for tree, leaves in enumerate(leaf):
            total += self.probability[tree, leaves]
        return total / len(leaf)

    def draw_accuracy(self, X: Floats, y: Int64s) -> float:
        """Mean of the trees' own accuracies."""
        leaf = route(self.trees, encode(self.binner, as_table(X))).astype(np.int64)
        label = np.take_along_axis(self.probability.argmax(axis=2), leaf, axis=1)
        return float((label == y).mean())

    def size(self) -> float:
        """Mean number of nodes."""
        return float(self.trees.n_nodes.mean())


def fit(
    rows: TrainingRows,
    seed: int,
    *,
    single: bool,
    n_chains: int,
    n_steps: int,
    n_trees: int,
    mean_splits: float,
    leaf_concentration: float,
    n_thresholds: int,
) -> FittedTrees:
    """Run chains; keep the best tree (``single``) or ``n_trees`` draws."""
    table = as_table(rows.X)
    binner = fit_binner(table, binning="uniform", n_thresholds=n_thresholds)
    codes = encode(binner, table)
    problem = make_problem(
        codes,
        rows.y,
        n_classes=rows.n_classes,
        n_thresholds=n_thresholds,
        concentration=leaf_concentration,
        mean_splits=mean_splits,
    )
    draws, best = sample_trees(
        problem, n_chains=n_chains, n_steps=n_steps, n_trees=n_trees, seed=seed
    )
    trees = from_splits([splits_of(tree) for tree in ([best] if single else draws)])
    leaf = DirichletLeaf(rows.n_classes, leaf_concentration)
    counts, _ = node_sums(trees, codes, rows.y.astype(np.int32), np.ones(len(rows.y)), leaf)
    mass = counts + leaf_concentration
    return FittedTrees(trees, mass / mass.sum(axis=2, keepdims=True), binner)


SETTINGS = {
    "n_chains": 4,
    "n_steps": 20_000,
    "n_trees": 1000,
    "mean_splits": 5.0,
    "leaf_concentration": 1.0,
    "n_thresholds": 99,
}
QUICK = {"n_chains": 2, "n_steps": 1000, "n_trees": 100}
NOTE = (
    "Pinball prior (splits Poisson with mean 5, balls uniform), moves grow, prune, change, shift, "
    "swap and restructure, 4 chains of 20,000 steps on 99 uniform thresholds; their mean, rates of "
    "moves and leaf prior were not available to us (ours: 5; .2, .2, .25, .15, .1, .1; "
    "Dirichlet(1)), and leaves without rows are ruled out; {reading}."
)

METHODS: tuple[Method, ...] = (
    Method(
        name="wu",
        label="Wu et al. 2007",
        fit=fit,
        note=NOTE.format(reading="the tree of highest posterior that any chain met"),
        settings={**SETTINGS, "single": True},
        quick=QUICK,
    ),
    Method(
        name="wu-ensemble",
        label="Wu et al. 2007, average",
        fit=fit,
        note=NOTE.format(reading="the average of 1000 trees of the chains' second halves"),
        settings={**SETTINGS, "single": False},
        quick=QUICK,
    ),
)
