"""Wu, Tjelmeland, West 2007: the chain against every tree of a tiny table, the prior, the moves."""

import math
from collections import Counter
from random import Random

import numpy as np
import pytest
from dtgfn_bench.contract import TrainingRows
from dtgfn_bench.rivals.wu import METHODS, run_chain
from dtgfn_bench.rivals.wu_moves import SHARES, grow, restructure, restructure_log_probability
from dtgfn_bench.rivals.wu_tree import Node, make_problem, splits_of, walk
from hypothesis import given, settings
from hypothesis import strategies as st

CODES = np.array([[0, 0], [0, 2], [1, 1], [2, 0], [2, 2]])
LABELS = np.array([0, 1, 0, 1, 1])
MEAN, CONCENTRATION = 2.0, 0.5


def tiny(codes=CODES, labels=LABELS, n_thresholds=2):
    return make_problem(
        codes,
        labels,
        n_classes=2,
        n_thresholds=n_thresholds,
        concentration=CONCENTRATION,
        mean_splits=MEAN,
    )


def key(tree: Node):
    return tuple(sorted(splits_of(tree).items()))


def every_tree(rows, path=()):
    """All trees whose leaves hold rows: splits by path, leaves' rows, product of ball chances."""
    yield {}, [rows], 1.0
    for feature in (0, 1):
        for cut in (0, 1):
            left = [i for i in rows if CODES[i, feature] <= cut]
            right = [i for i in rows if CODES[i, feature] > cut]
            if not left or not right:
                continue
            for one, one_leaves, one_chance in every_tree(left, (*path, 0)):
                for two, two_leaves, two_chance in every_tree(right, (*path, 1)):
                    leaves = one_leaves + two_leaves
                    chance = one_chance * two_chance / (len(leaves) - 1)
                    yield {path: (feature, cut), **one, **two}, leaves, chance


def marginal(rows):
    """One row after the other, each given those before (Polya's urn)."""
    counts, value = [CONCENTRATION] * 2, 1.0
    for i in rows:
        value *= counts[LABELS[i]] / sum(counts)
        counts[LABELS[i]] += 1
    return value


def brute_force():
    weight = {}
    for splits, leaves, chance in every_tree(list(range(len(CODES)))):
        n = len(leaves) - 1
        poisson = math.exp(-MEAN) * MEAN**n / math.factorial(n)
        rules = (1 / (2 * 2)) ** n
        likelihood = math.prod(marginal(leaf) for leaf in leaves)
        weight[tuple(sorted(splits.items()))] = poisson * chance * rules * likelihood
    return weight


def test_chain_visits_trees_as_often_as_they_are_probable():
    weight = brute_force()
    total = sum(weight.values())
    n_steps = 50_000
    seen = Counter(key(tree) for tree in run_chain(tiny(), n_steps, Random(1)))
    assert set(seen) <= set(weight)
    distance = 0.5 * sum(abs(seen[k] / n_steps - w / total) for k, w in weight.items())
    assert distance < 0.03


def test_target_is_the_formula():
    problem, weight = tiny(), brute_force()
    random = Random(3)
    root = problem.leaf((1 << 5) - 1)
    offset = problem.log_target(root) - math.log(weight[()])
    for tree in run_chain(problem, 300, random):
        assert problem.log_target(tree) - math.log(weight[key(tree)]) == pytest.approx(offset)


def shapes(n_leaves):
    if n_leaves == 1:
        return ["leaf"]
    return [
        (left, right)
        for i in range(1, n_leaves)
        for left in shapes(i)
        for right in shapes(n_leaves - i)
    ]


def test_pinball_prior_sums_to_one_over_shapes():
    problem = tiny()

    def build(shape):
        if shape == "leaf":
            return Node(0, 0.0)
        return problem.split(0, 0, build(shape[0]), build(shape[1]))

    for n_leaves in (1, 2, 3, 4, 6):
        rules = (n_leaves - 1) * problem.log_rule
        chances = [math.exp(build(shape).value + rules) for shape in shapes(n_leaves)]
        assert sum(chances) == pytest.approx(1.0)


def random_tree(seed, n_rows=14, n_splits=6):
    rng, random = np.random.default_rng(seed), Random(seed)
    codes = rng.integers(0, 6, size=(n_rows, 3))
    problem = tiny(codes, rng.integers(0, 2, size=n_rows), n_thresholds=5)
    tree = problem.leaf((1 << n_rows) - 1)
    for _ in range(n_splits):
        grown = grow(problem, tree, random)
        tree = tree if grown is None else grown[0]
    return problem, tree, random


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000))
def test_restructure_keeps_the_partition_and_can_be_undone(seed):
    problem, tree, random = random_tree(seed)
    proposed = restructure(problem, tree, random)
    if proposed is None:
        return
    new, log_q = proposed
    leaves = [{n.rows for _, n in walk(t) if not n.children} for t in (tree, new)]
    assert leaves[0] == leaves[1]
    assert problem.routed(tree.rows, new) == new
    back = restructure_log_probability(problem, tree)
    assert back <= 0
    assert log_q == pytest.approx(back - restructure_log_probability(problem, new))


@pytest.mark.parametrize("seed", [0, 4, 9])
def test_restructure_draws_trees_as_often_as_it_says(seed):
    problem, tree, random = random_tree(seed, n_rows=6, n_splits=3)
    drawn, said, n = Counter(), {}, 1000
    for _ in range(n):
        proposed = restructure(problem, tree, random)
        if proposed is not None:
            drawn[key(proposed[0])] += 1
            said[key(proposed[0])] = restructure_log_probability(problem, proposed[0])
    assert drawn
    for k, count in drawn.items():
        chance = math.exp(said[k])
        assert abs(count / n - chance) < 5 * math.sqrt(chance / n)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_every_move_leaves_values_that_a_fresh_sum_gives(seed):
    problem, tree, random = random_tree(seed)
    for move in SHARES:
        proposed = move(problem, tree, random)
        if proposed is not None:
            fresh = problem.routed(tree.rows, proposed[0])
            assert fresh is not None
            assert fresh.value == pytest.approx(proposed[0].value)
            assert fresh.n_leaves == proposed[0].n_leaves
            assert key(fresh) == key(proposed[0])


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 2**14 - 1))
def test_reach_is_lowest_and_highest_code(seed, rows):
    problem, _, _ = random_tree(seed)
    codes = np.random.default_rng(seed).integers(0, 6, size=(14, 3))
    mine = codes[[i for i in range(14) if rows >> i & 1]]
    assert problem.reaches(rows).tolist() == [mine.min(axis=0).tolist(), mine.max(axis=0).tolist()]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_method_keeps_the_contract(method):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = np.where(X[:, 0] > 0, 2, 0)
    rows = TrainingRows(X, y, 3, "made")
    given = {**method.settings, **method.quick, "n_steps": 800}
    one, two = (method.fit(rows, 5, **given) for _ in range(2))
    new = rng.normal(size=(40, 3))
    probability = one.predict_proba(new)
    assert probability.shape == (40, 3)
    np.testing.assert_allclose(probability.sum(axis=1), 1)
    np.testing.assert_array_equal(probability, two.predict_proba(new))
    assert (probability.argmax(axis=1) == np.where(new[:, 0] > 0, 2, 0)).mean() > 0.9
    assert one.size() >= 3
