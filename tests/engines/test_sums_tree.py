"""One summed tree against the enumeration of all trees, the exact engine, and a walk by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keyword_engines import infer_exact
from numba import njit
from scipy.stats import chi2
from sum_twins import (
    LEAF,
    Measure,
    Stepped,
    Tree,
    leaves,
    log_m,
    make_stepped,
    make_table,
    n_splits,
    of_numbers,
    posterior,
    read_tree,
    write_tree,
)
from thoroughness import diagonal, examples

from dtgfn.engines.convergence import effective_draws
from dtgfn.engines.sums.chain import KNOWN_WORTH
from dtgfn.engines.sums.node_choice import (
    SumTable,
    count_precisions,
    count_pulls,
    count_rows,
    weigh_node,
)
from dtgfn.engines.sums.row_precisions import round_precisions
from dtgfn.engines.sums.scales import Prior
from dtgfn.engines.sums.sweep import NOISE, VARIANCE, Forest, Moves
from dtgfn.engines.sums.tree_draw import ROOT, GrownTree, Scratch, locate_rows, walk_tree
from dtgfn.trees.custom_leaf import CustomLeaf
from dtgfn.trees.score import BranchingPrior, PenaltyPrior, Rows, Score

# Of three columns the second is a category of three values, which is two features; code 2 of the
# first is empty, so that a cut there parts rows as another does.
CODES = np.array(
    [
        [0, 0, 1, 0],
        [1, 0, 0, 1],
        [3, 1, 0, 1],
        [3, 1, 0, 0],
        [0, 0, 1, 1],
        [1, 1, 0, 0],
        [4, 0, 0, 1],
    ]
)
COLUMN = [0, 1, 1, 2]
NUMBER = np.array([1.5, -0.8, 0.4, 0.9, 1.1, -1.9, 0.3])
WEIGHT = np.array([1.0, 2.0, 0.5, 1.0, 1.5, 1.0, 0.7])
PRIORS = {"branching": BranchingPrior(0.9, 0.6), "penalty": PenaltyPrior(1.7)}
FAR = 4.5  # standard errors


def fixed(variance: float) -> Prior:
    """Leaf scale and noise that are not drawn."""
    return Prior(1.5, 1.0, math.sqrt(variance), 1.0, fixed_scale=True, fixed_noise=True)


def errors(trace: np.ndarray, truth: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """How far the means of trace [draws, K] are from the truth, in standard errors."""
    size = np.array([effective_draws(column[None]) for column in trace.T])
    return np.asarray((trace.mean(axis=0) - truth) / np.sqrt(variance / size))


def moments_of_fit(
    measure: Measure,
    trees: list[Tree],
    probability: np.ndarray,
    precision: np.ndarray,
    pull: np.ndarray,
    variance: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Exact mean and second moment of what a tree says of each row [n]."""
    first, second = np.zeros(len(pull)), np.zeros(len(pull))
    for tree, share in zip(trees, probability, strict=True):
        for rows in leaves(measure, tree):
            index = list(rows)
            spread = 1 / (1 / variance + precision[index].sum())
            mean = spread * pull[index].sum()
            first[index] += share * mean
            second[index] += share * (mean**2 + spread)
    return first, second


@pytest.mark.parametrize(
    ("prior", "twigs", "columns"), diagonal(PRIORS, [0.0, 0.5, 1.0], [1.0, 0.4])
)
def test_a_step_leaves_the_enumerated_posterior_as_it_is(prior, twigs, columns):
    """Trees from the posterior, after a step, are from the posterior; and steps are taken."""
    table = make_table(CODES, COLUMN, prior=PRIORS[prior], max_depth=2)
    measure, variance, noise, n_starts = Measure(table), 1.3, 1.1, 20_000
    precision = WEIGHT / noise
    trees, probability = posterior(measure, precision, precision * NUMBER, variance)
    assert len(trees) > 100
    chain = make_stepped(
        table, of_numbers(NUMBER, WEIGHT), fixed(variance), moves=Moves(twigs, columns), seed=1
    )
    forest = chain.forest
    forest.numbers[[NOISE, VARIANCE]] = noise, variance
    index = {tree: k for k, tree in enumerate(trees)}
    starts = np.random.default_rng(2).choice(len(trees), n_starts, p=probability)
    ends, fit = np.empty(n_starts, dtype=int), np.empty((n_starts, len(NUMBER)))
    for k, start in enumerate(starts):
        set_tree(forest, trees[start])
        chain.sweep()
        ends[k], fit[k] = index[chain.tree()], forest.fit[0]
    assert misfit(starts, probability) < 1
    assert misfit(ends, probability) < 1
    assert (starts != ends).mean() > 0.1
    first, second = moments_of_fit(
        measure, trees, probability, precision, precision * NUMBER, variance
    )
    score = (fit.mean(axis=0) - first) / (fit.std(axis=0) / math.sqrt(n_starts))
    assert abs(score).max() < FAR
    square = fit**2
    score = (square.mean(axis=0) - second) / (square.std(axis=0) / math.sqrt(n_starts))
    assert abs(score).max() < FAR


def set_tree(forest: Forest, tree: Tree) -> None:
    """Make a tree whose leaves say nothing the state of a chain of one tree."""
    forest.size[0, 0] = write_tree(tree, forest.feature[0, 0], forest.cut[0, 0], forest.left[0, 0])
    forest.value[:] = 0.0
    forest.fit[:] = 0.0


def misfit(seen: np.ndarray, probability: np.ndarray) -> float:
    """Pearson's chi-square of frequencies, in units of its 1e-4 quantile; rare ones are one bin."""
    expected = probability * len(seen)
    observed = np.bincount(seen, minlength=len(probability))
    common = expected >= 10
    assert expected[~common].sum() >= 10 or common.all()
    observed = np.append(observed[common], observed[~common].sum())
    expected = np.append(expected[common], max(expected[~common].sum(), 1e-300))
    statistic = ((observed - expected) ** 2 / expected).sum()
    return float(statistic / chi2.isf(1e-4, len(expected) - 1))


def run(chain: Stepped, n_draws: int) -> tuple[list[Tree], np.ndarray]:
    """Trees and fit [draws, n] of a chain of one tree."""
    trees, fit = [], []
    for _ in range(200):  # from no splits at all
        chain.sweep()
    for _ in range(n_draws):
        chain.sweep()
        trees.append(chain.tree())
        fit.append(chain.forest.fit[0].copy())
    return trees, np.array(fit)


@pytest.mark.long
@pytest.mark.parametrize(
    ("prior", "twigs", "columns"), diagonal(PRIORS, [0.0, 0.5, 1.0], [1.0, 0.4])
)
def test_a_long_chain_visits_trees_as_often_as_the_posterior_says(prior, twigs, columns):
    """From no splits at all; with twigs alone a tree without splits would never be left."""
    table = make_table(CODES, COLUMN, prior=PRIORS[prior], max_depth=2)
    variance, noise, precision = 1.3, 1.1, WEIGHT / 1.1
    trees, probability = posterior(Measure(table), precision, precision * NUMBER, variance)
    moves = Moves(min(twigs, 0.9), columns)
    chain = make_stepped(table, of_numbers(NUMBER, WEIGHT), fixed(variance), moves=moves, seed=5)
    chain.forest.numbers[[NOISE, VARIANCE]] = noise, variance
    index = {tree: k for k, tree in enumerate(trees)}
    seen = np.array([index[tree] for tree in run(chain, 60_000)[0]])
    often = np.flatnonzero(probability > 0.004)
    assert len(often) > 20
    share = probability[often]
    assert abs(errors(seen[:, None] == often, share, share * (1 - share))).max() < FAR


def add_row(sums, target, weight, numbers):
    sums[0] += weight / numbers[0]
    sums[1] += weight * target / numbers[0]


def log_marginal(sums, numbers):
    spread = 1.0 + numbers[1] * sums[0]
    return 0.5 * (numbers[1] * sums[1] * sums[1] / spread - math.log(spread))


def write_mean(sums, numbers, out):
    out[0] = numbers[1] * sums[1] / (1.0 + numbers[1] * sums[0])


def row_mass(sums, numbers):
    return sums[0] * numbers[0]


@pytest.mark.parametrize(("twigs", "columns"), diagonal([0.0, 0.5], [1.0, 0.4]))
def test_on_a_larger_table_trees_are_those_of_the_exact_engine(twigs, columns):
    rng = np.random.default_rng(3)
    kind = rng.integers(0, 3, 40)
    codes = np.column_stack(
        [rng.integers(0, 6, 40), *(kind == k for k in range(3)), rng.integers(0, 4, 40)]
    )
    number = 0.8 * (codes[:, 0] > 2) - 0.9 * (kind == 1) + 0.7 * rng.normal(size=40)
    weight = rng.uniform(0.5, 1.5, 40)
    column, variance, noise, penalty = [0, 1, 1, 1, 2], 0.8, 0.5, 1.2
    leaf = CustomLeaf(2, 1, add_row, log_marginal, write_mean, row_mass, (noise, variance))
    rows = Rows(np.ascontiguousarray(codes, dtype=np.uint16), number, weight)
    truth = infer_exact(
        rows,
        Score(leaf, 3, PenaltyPrior(penalty)),
        column=np.array(column, dtype=np.int32),
        n_columns=3,
        n_trees=1,
        random_state=0,
        n_jobs=1,
    )
    table = make_table(codes, column, prior=PenaltyPrior(penalty), max_depth=3)
    chain = make_stepped(
        table, of_numbers(number, weight), fixed(variance), moves=Moves(twigs, columns), seed=2
    )
    chain.forest.numbers[[NOISE, VARIANCE]] = noise, variance
    drawn, fit = run(chain, 10_000)
    size = np.array([n_splits(tree) for tree in drawn])
    share = np.array(truth.size_probability)
    common = np.flatnonzero(share > 0.005)
    assert len(common) >= 4
    spread = share * (1 - share)
    score = errors(size[:, None] == common, share[common], spread[common])
    assert abs(score).max() < FAR
    used = np.array([[c in columns_of(tree, column) for c in range(3)] for tree in drawn])
    share = np.array(truth.column_inclusion)
    loose = share * (1 - share) > 1e-3
    score = errors(used[:, loose], share[loose], (share * (1 - share))[loose])
    assert loose.sum() >= 2
    assert abs(score).max() < FAR
    mean = truth.solution.average(rows.codes)[:, 0]
    assert abs(errors(fit, mean, fit.var(axis=0))).max() < FAR


def columns_of(tree: Tree, column: list[int]) -> set[int]:
    """Columns that a tree splits on."""
    if tree == LEAF:
        return set()
    return {column[tree[0]]} | columns_of(tree[2], column) | columns_of(tree[3], column)


# The identity that acceptance rests on.


@njit
def locate(tree, table):
    locate_rows(tree, table)


@njit
def weigh_and_walk(tree, start, drawing, variance, state, table, scratch, rng):
    cells = scratch.cells[ROOT]
    if start == 0 and scratch.known.shape[0] > 0:
        count_precisions(table, state[0], scratch.known)
        count_pulls(table, scratch.active, state[1], scratch.known, cells)
    else:
        rows = tree.order[tree.begin[start] : tree.end[start]]
        count_rows(table.codes, rows, scratch.active, state, cells)
    sums, depth = tree.sums[start], tree.depth[start]
    weigh_node(cells, scratch.active, sums, depth, variance, table, scratch.root_choice)
    return walk_tree(tree, start, drawing, variance, state, table, scratch, rng)


class Walk:
    """A tree in a chain's memory, ready to be walked from one of its nodes."""

    def __init__(self, table: SumTable, tree: Tree, active: list[int]) -> None:
        chain = make_stepped(
            table, of_numbers(np.zeros(len(table.codes))), fixed(1.0), n_summed=KNOWN_WORTH
        )
        self.table, self.active = table, active
        self.grown: GrownTree = chain.work.tree
        self.scratch: Scratch = chain.work.scratch
        grown = self.grown
        grown.size[0] = write_tree(tree, grown.feature, grown.cut, grown.left)
        locate(grown, table)

    def log_ratio(
        self,
        start: int,
        precision: np.ndarray,
        pull: np.ndarray,
        variance: float,
        log_tilt: float,
        drawing: bool = False,
    ) -> float:
        """What walk_tree says of the subtree at a node, or of one that it draws there."""
        grown, scratch = self.grown, self.scratch
        state = np.array([precision, pull])
        for node in range(grown.size[0]):
            rows = grown.order[grown.begin[node] : grown.end[node]]
            grown.sums[node] = len(rows), *state[:, rows].sum(axis=1)
        active = scratch.active
        active.used[0] = len(self.active)
        active.feature[: len(self.active)] = self.active
        active.first[1 : len(self.active) + 1] = np.cumsum(self.table.n_codes[self.active])
        active.share[: len(self.active)] = np.exp(self.table.log_feature[self.active] + log_tilt)
        rng = np.random.default_rng(0)
        return weigh_and_walk(grown, start, drawing, variance, state, self.table, scratch, rng)

    def rows(self, node: int) -> tuple[int, ...]:
        """Rows at a node."""
        grown = self.grown
        return tuple(sorted(grown.order[grown.begin[node] : grown.end[node]].tolist()))

    def below(self, node: int) -> Tree:
        """The subtree at a node."""
        return read_tree(self.grown.feature, self.grown.cut, self.grown.left, node)


def slow_log_ratio(
    measure: Measure,
    tree: Tree,
    rows: tuple[int, ...],
    depth: int,
    active: list[int],
    log_tilt: float,
    leaf: dict[str, object],
) -> tuple[float, float]:
    """Log R of a tree with its tilts, and log of the probability of drawing it node by node."""

    def log_leaf(some: tuple[int, ...]) -> float:
        return log_m(some, **leaf)

    weight = {LEAF: float(measure.table.log_stop[depth])}
    for feature, cut, pays in measure.splits(rows, depth):
        if feature in active:
            one, other = measure.sides(rows, feature, cut)
            gain = log_leaf(one) + log_leaf(other) - log_leaf(rows)
            weight[feature, cut] = pays + log_tilt + gain
    log_total = np.logaddexp.reduce(list(weight.values()))
    if tree == LEAF:
        return weight[LEAF] + log_leaf(rows), weight[LEAF] - log_total
    feature, cut, *below = tree
    log_r = measure.log_rule(rows, depth, feature) + log_tilt
    log_p = weight[feature, cut] - log_total
    for part, some in zip(below, measure.sides(rows, feature, cut), strict=True):
        more_r, more_p = slow_log_ratio(measure, part, some, depth + 1, active, log_tilt, leaf)
        log_r, log_p = log_r + more_r, log_p + more_p
    return log_r, log_p


def random_tree(
    measure: Measure, rows: tuple[int, ...], depth: int, active: list[int], rng: np.random.Generator
) -> Tree:
    """Any tree of some features."""
    found = [split for split in measure.splits(rows, depth) if split[0] in active]
    if not found or rng.random() < 0.2:
        return LEAF
    feature, cut, _ = found[rng.integers(len(found))]
    one, other = measure.sides(rows, feature, cut)
    return (
        feature,
        cut,
        random_tree(measure, one, depth + 1, active, rng),
        random_tree(measure, other, depth + 1, active, rng),
    )


@given(
    seed=st.integers(0, 2**32 - 1),
    n_rows=st.integers(1, 14),
    width=st.integers(1, 6),
    max_depth=st.integers(0, 4),
    prior=st.sampled_from(list(PRIORS)),
    log_tilt=st.sampled_from([0.0, 0.7]),
    log_variance=st.floats(-3, 3),
)
@examples(60)
def test_a_walk_adds_up_to_log_r_less_log_p(
    seed, n_rows, width, max_depth, prior, log_tilt, log_variance
):
    """Of a given tree and of one it draws, from the root and from any node below."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, width, size=(n_rows, 3))
    table = make_table(codes, [0, 1, 1], prior=PRIORS[prior], max_depth=max_depth)
    measure = Measure(table)
    chosen = rng.choice(3, rng.integers(1, 4), replace=False)
    active = sorted(set(chosen.tolist()) & set(table.by_column.tolist()))
    precision = rng.gamma(2.0, size=n_rows)
    round_precisions(precision)
    variance = math.exp(log_variance)
    leaf = {
        "precision": precision,
        "pull": precision * rng.normal(size=n_rows),
        "variance": variance,
    }
    tree = random_tree(measure, measure.everything, 0, active, rng)
    walk = Walk(table, tree, active)
    for start in {0, int(rng.integers(walk.grown.size[0]))}:
        depth = int(walk.grown.depth[start])
        found = walk.log_ratio(start, **leaf, log_tilt=log_tilt)
        log_r, log_p = slow_log_ratio(
            measure, walk.below(start), walk.rows(start), depth, active, log_tilt, leaf
        )
        assert found == pytest.approx(log_r - log_p, rel=1e-9, abs=1e-9)
    fresh = Walk(table, LEAF, active)
    found = fresh.log_ratio(0, **leaf, log_tilt=log_tilt, drawing=True)
    drawn = fresh.below(0)
    log_r, log_p = slow_log_ratio(measure, drawn, measure.everything, 0, active, log_tilt, leaf)
    assert found == pytest.approx(log_r - log_p, rel=1e-9, abs=1e-9)
    assert log_p > -math.inf
