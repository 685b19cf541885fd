"""HMC-DF and HMC-DFI (Cochrane, Wills, Johnson 2023): reversible jumps between soft trees' shapes.

An iteration proposes to grow, prune or stay, runs the no-U-turn sampler in the current shape, jumps
(a new split comes from the prior, a pruned one is dropped), and runs it again in the new one.  The
two-sided ratio then holds the density where the jump left over the one where it arrived, so after
warm-up a rejected jump needs no second run.  Warm-up compares the ends of both runs instead, which
is the authors' declared bias towards trees that fit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dtgfn._support.arrays import Floats, Int64s
from dtgfn_bench.contract import Method, TrainingRows
from dtgfn_bench.rivals.nuts import sample
from dtgfn_bench.rivals.soft_prediction import Draw, SoftTrees, UnitBox
from dtgfn_bench.rivals.soft_shapes import (
    STUMP,
    Shape,
    grown,
    leaf_indices,
    log_prior,
    n_splits,
    prunable_indices,
    pruned,
)
from dtgfn_bench.rivals.soft_tree import (
    ClassRows,
    SoftTree,
    by_class,
    constrain,
    log_likelihood,
    soft_tree,
)

WARM_UP_MOVES = (0.5, 0.25)  # grow, prune; else stay
MOVES = (0.2, 0.2)


class Widths(NamedTuple):
    """A table's settings: split widths before and after annealing, and the shape prior's two."""

    h_first: float
    h_last: float
    alpha: float
    beta: float


# The authors' choice per table; other tables get Wine's.
FEATURE_WIDTHS = {
    "iris": Widths(0.01, 0.01, 0.45, 1.0),
    "wine": Widths(0.025, 0.025, 0.45, 2.0),
    "breast-cancer-original": Widths(0.025, 0.025, 0.45, 2.5),
    "raisin": Widths(0.005, 0.001, 0.45, 2.0),
}
SIMPLEX_WIDTHS = {
    "iris": Widths(0.01, 0.01, 0.7, 1.0),
    "wine": Widths(0.025, 0.025, 0.7, 1.5),
    "breast-cancer-original": Widths(0.1, 0.025, 0.95, 2.0),
    "raisin": Widths(0.05, 0.001, 0.7, 2.5),
}


class State(NamedTuple):
    """A tree of the chain: feature [m] is -1 where directions are points of the simplex."""

    shape: Shape
    feature: Int64s
    q: Floats


class Jump(NamedTuple):
    """A proposed shape; ``split`` is the one that comes or goes, ``log_ratio`` back over forth."""

    shape: Shape
    split: int
    log_ratio: float


@dataclass
class Sampler:
    """One chain's data, settings and random numbers."""

    rows: ClassRows
    widths: Widths
    simplex: bool
    adaptation: int
    max_depth: int
    rng: np.random.Generator

    def __post_init__(self) -> None:
        self._words = self.rng.integers(2**64, size=1, dtype=np.uint64)

    def tree(self, state: State) -> SoftTree:
        """A state's tree on the training rows."""
        return soft_tree(state.shape, state.feature, self.rows)

    def start(self) -> State:
        """One split from the prior."""
        feature, q = self._new_split()
        return State(STUMP, feature, q)

    def log_likelihood(self, state: State) -> float:
        """Log likelihood of a state at the last width."""
        m, d = n_splits(state.shape), self.rows.columns.shape[0]
        tau, direction, none = np.empty(m), np.empty((m, d)), np.empty(0)
        tree = self.tree(state)
        constrain(tree, state.q, tau, direction)
        return float(log_likelihood(tree, tau, direction, self.widths.h_last, none, direction))

    def run(self, state: State) -> State:
        """Adapt from a state and keep one draw."""
        feature, q = state.feature.copy(), state.q.copy()
        tree = self.tree(State(state.shape, feature, q))
        variance = np.ones(q.size)
        widths = (self.widths.h_first, self.widths.h_last)
        n, depth = self.adaptation, self.max_depth
        sample(tree, q, widths, n, 0.1, variance, depth, self._words, np.empty((1, q.size)))
        return State(state.shape, feature, q)

    def propose(self, shape: Shape, moves: tuple[float, float]) -> Jump | None:
        """Grow or prune somewhere; None to stay.  A single split can only grow."""
        if self.rng.random() >= sum(moves):
            return None
        odds = moves[0] / sum(moves)
        if self.rng.random() < grow_chance(shape, odds):
            index = int(self.rng.choice(leaf_indices(shape)))
            larger = grown(shape, index)
            return Jump(larger, sum(shape[:index]), -self._forth(shape, larger, odds))
        index = int(self.rng.choice(prunable_indices(shape)))
        smaller = pruned(shape, index)
        return Jump(smaller, sum(shape[:index]), self._forth(smaller, shape, odds))

    def _forth(self, smaller: Shape, larger: Shape, odds: float) -> float:
        """Log chance of growing over that of pruning back, and of the prior the other way round."""
        grow = grow_chance(smaller, odds) / len(leaf_indices(smaller))
        prune = (1.0 - grow_chance(larger, odds)) / len(prunable_indices(larger))
        alpha, beta = self.widths.alpha, self.widths.beta
        return (
            math.log(grow / prune)
            + log_prior(smaller, alpha, beta)
            - log_prior(larger, alpha, beta)
        )

    def land(self, state: State, jump: Jump) -> State:
        """Map a state to the shape of a jump."""
        m, d = n_splits(state.shape), self.rows.columns.shape[0]
        rows = state.q[:m, None]
        if self.simplex:
            rows = np.hstack([rows, state.q[m:].reshape(m, d - 1)])
        feature = state.feature
        if n_splits(jump.shape) > m:
            new_feature, new_q = self._new_split()
            rows = np.insert(rows, jump.split, new_q, axis=0)
            feature = np.insert(feature, jump.split, new_feature)
        else:
            rows = np.delete(rows, jump.split, axis=0)
            feature = np.delete(feature, jump.split)
        return State(jump.shape, feature, np.concatenate([rows[:, 0], rows[:, 1:].ravel()]))

    def _new_split(self) -> tuple[Int64s, Floats]:
        """A split from the prior: its feature [1], and unconstrained parameters."""
        d = self.rows.columns.shape[0]
        tau = self.rng.uniform(1e-12, 1.0)
        logit = np.array([math.log(tau) - math.log1p(-tau)])
        if not self.simplex:
            return np.array([self.rng.integers(d)]), logit
        share = self.rng.dirichlet(np.ones(d)) + 1e-300
        rest = np.cumsum(share[::-1])[::-1]
        sticks = np.log(share[:-1]) - np.log(rest[1:]) + np.log(np.arange(d - 1, 0, -1))
        return np.array([-1]), np.concatenate([logit, sticks])

    def iterate(self, state: State, warm_up: bool) -> State:
        """One iteration of the chain.

        The constant densities of new parameters cancel against their prior.
        """
        jump = self.propose(state.shape, WARM_UP_MOVES if warm_up else MOVES)
        left = self.run(state)
        arrived = left if jump is None else self.land(left, jump)
        log_ratio = 0.0 if jump is None else jump.log_ratio
        bar = math.log(1.0 - self.rng.random())
        if warm_up:
            end = self.run(arrived)
            gain = self.log_likelihood(end) - self.log_likelihood(state)
            return end if bar < log_ratio + gain else state
        if jump is not None:  # to stay is always accepted: the ends' densities cancel
            gain = self.log_likelihood(arrived) - self.log_likelihood(left)
            if bar >= log_ratio + gain:
                return state
        return self.run(arrived)


def grow_chance(shape: Shape, odds: float) -> float:
    """Chance that a jump from a shape grows it."""
    return 1.0 if shape == STUMP else odds


def fit_rjhmc(
    rows: TrainingRows,
    seed: int,
    *,
    simplex: bool,
    warm_up: int,
    draws: int,
    adaptation: int,
    max_depth: int,
) -> SoftTrees:
    """Keep the draws of one chain after its warm-up."""
    table = (SIMPLEX_WIDTHS if simplex else FEATURE_WIDTHS).get(rows.table)
    widths = table or (SIMPLEX_WIDTHS if simplex else FEATURE_WIDTHS)["wine"]
    ordered = by_class(UnitBox(rows.X).columns(rows.X), rows.y, rows.n_classes)
    rng = np.random.default_rng(seed)
    sampler = Sampler(ordered, widths, simplex, adaptation, max_depth, rng)
    state = sampler.run(sampler.start())
    kept = []
    for turn in range(warm_up + draws):
        state = sampler.iterate(state, turn < warm_up)
        if turn >= warm_up:
            kept.append(Draw(state.shape, state.feature, state.q, 1.0 / draws))
    return SoftTrees(rows, kept, widths.h_last)


def fit_hmc_df(rows: TrainingRows, seed: int, **settings: int) -> SoftTrees:
    """Splits on one feature each."""
    return fit_rjhmc(rows, seed, simplex=False, **settings)


def fit_hmc_dfi(rows: TrainingRows, seed: int, **settings: int) -> SoftTrees:
    """Splits on a convex combination of features each."""
    return fit_rjhmc(rows, seed, simplex=True, **settings)


QUICK = {"warm_up": 10, "draws": 20, "adaptation": 20, "max_depth": 6}
AS_THEIRS = {"warm_up": 200, "draws": 800, "adaptation": 500, "max_depth": 10}
CUT = AS_THEIRS | {"warm_up": 100, "draws": 100}  # convex combinations cost ten times as much
SHORT = {"warm_up": 2, "draws": 4, "adaptation": 6, "max_depth": 3}

NOTE = (
    "Reversible-jump HMC over soft trees, {split} per split; {length}, 500 adaptation steps per "
    "NUTS run of depth at most 10 (their ten chains are ten seeds); leaf likelihoods keep their "
    "constant; widths and shape prior are the authors' per table, Wine's elsewhere."
)
LENGTH = "one chain of its authors' length, 200 warm-up iterations and 800 draws"
CUT_LENGTH = "one chain cut to 100 warm-up iterations and 100 draws of its authors' 200 and 800"

METHODS = (
    Method(
        name="hmc-df",
        label="HMC-DF",
        fit=fit_hmc_df,
        note=NOTE.format(split="one feature", length=LENGTH),
        settings=AS_THEIRS,
        quick=QUICK,
        canary=SHORT,
        revision=2,  # one chain of full length, not four short ones pooled
    ),
    Method(
        name="hmc-dfi",
        label="HMC-DFI, cut to a fifth of its chain",
        fit=fit_hmc_dfi,
        note=NOTE.format(split="a convex combination of features", length=CUT_LENGTH),
        settings=CUT,
        quick=QUICK,
        canary=SHORT,
        revision=2,  # one chain of full length, not four short ones pooled
    ),
)
