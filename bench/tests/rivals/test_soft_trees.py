"""Soft Bayesian trees: gradients, the sampler, jumps between shapes, evidence, hard limits."""

import itertools
import math

import numpy as np
import pytest
from dtgfn_bench.contract import TrainingRows
from dtgfn_bench.rivals import dcc_tree, rjhmc
from dtgfn_bench.rivals.nuts import sample
from dtgfn_bench.rivals.rjhmc import Sampler, Widths
from dtgfn_bench.rivals.soft_prediction import Draw, SoftTrees, predict
from dtgfn_bench.rivals.soft_shapes import (
    STUMP,
    children,
    draw_shape,
    grown,
    leaf_indices,
    log_prior,
    n_splits,
    prunable_indices,
    pruned,
)
from dtgfn_bench.rivals.soft_tree import (
    by_class,
    constrain,
    log_densities,
    log_density,
    log_likelihood,
    n_parameters,
    soft_tree,
)
from dtgfn_bench.rivals.vector_functions import exponential, log_gamma, sigmoid
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import digamma, expit, gammaln, logsumexp

NONE = np.empty(0)
METHODS = {method.name: method for method in (*rjhmc.METHODS, *dcc_tree.METHODS)}


def shapes(n):
    """All shapes of n splits."""
    if n == 0:
        return [(False,)]
    return [
        (True, *left, *right)
        for k in range(n)
        for left, right in itertools.product(shapes(k), shapes(n - 1 - k))
    ]


def slow_log_likelihood(shape, taus, columns, y, n_classes, h):
    """By the definition, for one feature; taus [grid, m]."""
    left, right = children(shape)
    psi = expit((columns[0][None, None] - taus[:, :, None]) / h)
    total = np.zeros(len(taus))

    def descend(node, reach):
        nonlocal total
        if node >= 0:
            descend(left[node], reach * (1 - psi[:, node]))
            descend(right[node], reach * psi[:, node])
            return
        count = np.stack([(reach * (y == c)).sum(axis=1) for c in range(n_classes)], axis=1)
        total = total + gammaln(count + 1).sum(axis=1)
        total += gammaln(n_classes) - gammaln(count.sum(axis=1) + n_classes)

    descend(0, np.ones((len(taus), len(y))))
    return total


@pytest.fixture(scope="module")
def line():
    """Twelve rows of one feature whose class changes about half-way, columns [1, 12]."""
    rng = np.random.default_rng(5)
    x = rng.random(12)
    return x[None], (x + rng.normal(0, 0.2, 12) > 0.5).astype(np.int64)


def grid_log_evidence(shape, columns, y, h, cells):
    """Log of the likelihood's mean over tau in the unit cube."""
    middle = (np.arange(cells) + 0.5) / cells
    taus = np.stack(np.meshgrid(*[middle] * n_splits(shape), indexing="ij"), axis=-1)
    taus = taus.reshape(-1, n_splits(shape))
    values = slow_log_likelihood(shape, taus, columns, y, 2, h)
    return logsumexp(values) - math.log(len(values))


def test_a_shape_grows_and_prunes_back_and_counts_like_catalan():
    assert [len(set(shapes(n))) for n in range(5)] == [1, 1, 2, 5, 14]
    for shape in shapes(4):
        for place in leaf_indices(shape):
            larger = grown(shape, place)
            assert place in prunable_indices(larger)
            assert pruned(larger, place) == shape
        left, right = children(shape)
        assert sorted([*left, *right]) == [*range(-5, 0), *range(1, 4)]


def test_the_prior_of_shapes_sums_to_one_and_is_drawn():
    alpha, beta = 0.6, 2.0
    listed = [shape for n in range(7) for shape in shapes(n)]
    chance = {shape: math.exp(log_prior(shape, alpha, beta)) for shape in listed}
    assert sum(chance.values()) == pytest.approx(1.0, abs=1e-3)
    rng = np.random.default_rng(0)
    drawn = [draw_shape(alpha, beta, rng) for _ in range(4000)]
    assert drawn.count(STUMP) / 4000 == pytest.approx(chance[STUMP], abs=0.03)


@pytest.mark.parametrize("x", [0.1, 1.0, 3.7, 8.0, 250.0, 1e5])
def test_log_gamma_and_its_slope_are_the_librarys(x):
    assert log_gamma(x) == pytest.approx((gammaln(x), digamma(x)), rel=1e-11, abs=1e-10)


def test_exponential_and_sigmoid_are_the_librarys():
    for x in np.linspace(-600.0, 600.0, 1001):
        assert exponential(x) == pytest.approx(math.exp(x), rel=1e-14)
    for z in np.linspace(-29.0, 29.0, 101):
        assert sigmoid(z) == pytest.approx(expit(z), rel=1e-14)
    for z in (30.0, 700.0, 1e6):
        assert sigmoid(z) == pytest.approx(1.0, abs=1e-12)
        assert 0.0 <= sigmoid(-z) < 1e-12


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.booleans(), st.integers(1, 5))
def test_the_gradient_is_that_of_finite_differences(seed, simplex, d):
    rng = np.random.default_rng(seed)
    shape = shapes(3)[seed % 5]
    columns, y = rng.random((d, 20)), rng.integers(0, 3, 20)
    feature = np.full(3, -1) if simplex else rng.integers(0, d, 3)
    tree = soft_tree(shape, feature, by_class(columns, y, 3))
    q = rng.normal(size=n_parameters(tree))
    gradient = np.empty(q.size)
    value = log_density(tree, q, 0.1, gradient)
    assert log_density(tree, q, 0.1, NONE) == pytest.approx(value, rel=1e-12)
    for i in range(q.size):
        step = 1e-5 * np.eye(q.size)[i]
        up, down = (log_density(tree, q + s, 0.1, NONE) for s in (step, -step))
        assert gradient[i] == pytest.approx((up - down) / 2e-5, rel=1e-5, abs=1e-5)


def test_the_likelihood_is_its_definition(line):
    columns, y = line
    taus = np.random.default_rng(0).random((5, 3))
    for shape in shapes(3):
        tree = soft_tree(shape, np.zeros(3, dtype=np.int64), by_class(columns, y, 2))
        slow = slow_log_likelihood(shape, taus, columns, y, 2, 0.05)
        for tau, expected in zip(taus, slow, strict=True):
            got = log_likelihood(tree, tau, np.ones((3, 1)), 0.05, NONE, np.ones((3, 1)))
            assert got == pytest.approx(expected, rel=1e-9)


def test_without_rows_the_sampler_draws_the_prior():
    """Tau uniform, its logit logistic, directions Dirichlet(1, 1, 1, 1): all moments are known."""
    none = by_class(np.empty((4, 0)), np.empty(0, np.int64), 2)
    tree = soft_tree(shapes(2)[0], np.full(2, -1), none)
    q, draws = np.zeros(8), np.empty((6000, 8))
    words = np.array([1], dtype=np.uint64)
    sample(tree, q, (0.1, 0.1), 300, 0.1, np.ones(8), 8, words, draws)
    tau = expit(draws[:, :2])
    np.testing.assert_allclose(tau.mean(axis=0), 0.5, atol=0.02)
    np.testing.assert_allclose(tau.var(axis=0), 1 / 12, rtol=0.08)
    np.testing.assert_allclose(draws[:, :2].var(axis=0), np.pi**2 / 3, rtol=0.15)
    directions = np.empty((6000, 2, 4))
    for row, direction in zip(draws, directions, strict=True):
        constrain(tree, row, np.empty(2), direction)
    np.testing.assert_allclose(directions.sum(axis=2), 1.0)
    np.testing.assert_allclose(directions.mean(axis=0), 0.25, atol=0.02)
    np.testing.assert_allclose(directions.var(axis=0), 3 / 80, rtol=0.15)


def test_the_sampler_draws_a_cut_as_numerical_integration_says(line):
    columns, y = line
    tree = soft_tree(STUMP, np.array([0]), by_class(columns, y, 2))
    draws = np.empty((8000, 1))
    words = np.array([3], dtype=np.uint64)
    sample(tree, np.zeros(1), (0.05, 0.05), 300, 0.1, np.ones(1), 8, words, draws)
    grid = (np.arange(2000) + 0.5) / 2000
    value = slow_log_likelihood(STUMP, grid[:, None], columns, y, 2, 0.05)
    weight = np.exp(value - logsumexp(value))
    for cut in (0.2, 0.4, 0.5, 0.6, 0.8):
        assert (expit(draws) < cut).mean() == pytest.approx(weight[grid < cut].sum(), abs=0.03)


def test_features_are_drawn_as_their_posterior_says():
    """One split, three features, cuts integrated out on a grid."""
    rng = np.random.default_rng(2)
    columns = rng.random((3, 15))
    y = (columns[1] + rng.normal(0, 0.3, 15) > 0.5).astype(np.int64)
    evidence = [grid_log_evidence(STUMP, columns[[f]], y, 0.05, 500) for f in range(3)]
    tree = soft_tree(STUMP, np.array([0]), by_class(columns, y, 2))
    q, seen = np.zeros(1), np.zeros(3)
    words = np.array([7], dtype=np.uint64)
    for _ in range(6000):
        sample(tree, q, (0.05, 0.05), 0, 0.7, np.ones(1), 6, words, np.empty((1, 1)))
        seen[tree.feature[0]] += 1
    np.testing.assert_allclose(seen / 6000, np.exp(evidence - logsumexp(evidence)), atol=0.05)


@pytest.mark.parametrize("simplex", [False, True])
def test_jumps_visit_tree_sizes_as_their_evidence_says(line, simplex):
    columns, y = line
    widths = Widths(0.05, 0.05, 0.7, 1.5)
    known = np.array(
        [
            logsumexp(
                [
                    log_prior(shape, widths.alpha, widths.beta)
                    + grid_log_evidence(shape, columns, y, 0.05, cells)
                    for shape in shapes(n)
                ]
            )
            for n, cells in ((1, 500), (2, 100), (3, 30), (4, 12))
        ]
    )
    rng = np.random.default_rng(1)
    sampler = Sampler(by_class(columns, y, 2), widths, simplex, 12, 6, rng)
    state = sampler.start()
    seen = np.zeros(50)
    for _ in range(6000):
        state = sampler.iterate(state, warm_up=False)
        seen[n_splits(state.shape)] += 1
    assert seen[5:].sum() < 600
    got = seen[1:5] / seen[1:5].sum()
    np.testing.assert_allclose(got, np.exp(known - logsumexp(known)), atol=0.05)


def test_the_evidence_of_one_split_is_that_of_numerical_integration(line):
    columns, y = line
    rows = TrainingRows(columns.T, y, 2, "none")
    plan = dcc_tree.Plan(4, 100, 200, 10, 6, 0.05, 0.05)
    search = dcc_tree.Search(rows, plan, np.random.default_rng(0))
    search._rows = by_class(columns, y, 2)  # as they are, not stretched to the unit interval
    search.propose(STUMP)
    problem = search.problems[STUMP]
    search.run(problem)
    expected = grid_log_evidence(STUMP, columns, y, 0.05, 2000)
    expected += log_prior(STUMP, dcc_tree.ALPHA, dcc_tree.BETA)
    assert problem.log_evidence() == pytest.approx(expected, abs=0.1)


def test_importance_weights_of_a_gaussian_integrate_to_one():
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(200, 2)) * [1.0, 0.3]
    points, log_proposal = dcc_tree.gaussians(draws, 50, rng)
    target = -0.5 * ((points / [1.0, 0.3]) ** 2).sum(axis=1) - math.log(2 * math.pi * 0.3)
    assert np.exp(target - log_proposal).mean() == pytest.approx(1.0, abs=0.15)


def test_narrow_splits_predict_as_a_hard_tree():
    rng = np.random.default_rng(3)
    columns, y = rng.random((2, 40)), rng.integers(0, 3, 40)
    rows = by_class(columns, y, 3)
    tree = soft_tree(shapes(2)[1], np.array([0, 1]), rows)  # root, then its left child
    cuts = np.array([0.6, 0.3])
    new = rng.random((2, 25))
    leaf = [np.where(x[0] > 0.6, 2, np.where(x[1] > 0.3, 1, 0)) for x in (columns, new)]
    count = np.array([[1 + ((leaf[0] == k) & (y == c)).sum() for c in range(3)] for k in range(3)])
    hard = (count / count.sum(axis=1, keepdims=True))[leaf[1]]
    got = predict(tree, np.log(cuts / (1 - cuts)), 1e-9, new)
    np.testing.assert_allclose(got, hard, atol=1e-12)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_a_quick_fit_tells_two_classes_and_repeats_itself(name):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3)) * [1.0, 100.0, 1e-3]
    X[:, 2] = 0.0  # a constant column
    y = (X[:, 0] > 0).astype(np.int64)
    method = METHODS[name]
    plan = {**method.settings, **method.quick}
    rows = TrainingRows(X, y, 3, "somewhere")  # the third class is not in training
    fits = [method.fit(rows, 4, **plan) for _ in range(2)]
    probability = [fitted.predict_proba(X) for fitted in fits]
    np.testing.assert_array_equal(*probability)
    assert probability[0].shape == (60, 3)
    np.testing.assert_allclose(probability[0].sum(axis=1), 1.0)
    assert (probability[0].argmax(axis=1) == y).mean() > 0.9
    assert fits[0].size() > 2.999


def test_a_drawn_tree_is_as_accurate_as_its_leaves_labels_say():
    """Two hard stumps of weights 3 and 1: right on all rows, and on those left of 0.25 or right."""
    X = np.linspace(0.0, 1.0, 21)[:, None]
    y = (X[:, 0] > 0.5).astype(np.int64)
    logit = lambda cut: np.array([math.log(cut / (1 - cut))])  # noqa: E731
    draws = [
        Draw(STUMP, np.array([0]), logit(0.52), 3.0),
        Draw(STUMP, np.array([0]), logit(0.23), 1.0),
    ]
    trees = SoftTrees(TrainingRows(X, y, 2, "none"), draws, 1e-6)
    wrong = ((X[:, 0] > 0.23) & (y == 0)).mean()
    assert trees.draw_accuracy(X, y) == pytest.approx(1.0 - wrong / 4)


def test_inactive_shapes_are_only_counted_and_make_up_for_it(line):
    columns, y = line
    rows = TrainingRows(columns.T, y, 2, "none")
    plan = dcc_tree.Plan(1, 20, 10, 2, 4, 0.05, 0.05)
    search = dcc_tree.Search(rows, plan, np.random.default_rng(0))
    late = shapes(2)[0]
    for _ in range(5):
        search.propose(STUMP)
    search.propose(late)
    search.iterate(5)
    assert search.problems[late].runs == 0
    search.problems[late].proposed = 5
    search.problems[late].chosen = 3
    search.iterate(5)
    assert search.problems[late].runs == search.problems[late].chosen >= 3
    drawn = dcc_tree.mixture(search, 5)
    assert sum(draw.weight for draw in drawn) == pytest.approx(1.0)
    assert {draw.shape for draw in drawn} == {STUMP, late}


def test_densities_at_points_are_those_of_each():
    rng = np.random.default_rng(0)
    tree = soft_tree(STUMP, np.array([-1]), by_class(rng.random((3, 9)), rng.integers(0, 2, 9), 2))
    points = rng.normal(size=(4, 3))
    each = [log_density(tree, point, 0.1, NONE) for point in points]
    np.testing.assert_allclose(log_densities(tree, points, 0.1), each)
