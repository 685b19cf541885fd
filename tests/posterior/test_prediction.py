"""Prediction: the compiled average, weights of trees, values of leaves, intervals, uncertainty."""

from dataclasses import replace

import numpy as np
import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import betainc, entr, logsumexp
from thoroughness import examples

from dtgfn import infer
from dtgfn.posterior.prediction import (
    Predictor,
    average_outputs,
    average_trees,
    draw_dirichlet,
    leaf_probabilities,
    tree_weights,
)
from dtgfn.posterior.uncertainty import credible_interval, expected_entropy, uncertainty
from dtgfn.posterior.weighted_trees import sampled_posterior
from dtgfn.trees.batch import from_splits, node_sums, route
from dtgfn.trees.flat_trees import WeightedTrees, average, flatten, sum_leaves
from dtgfn.trees.leaf_models import DirichletLeaf, NormalLeaf
from dtgfn.trees.score import Rows, log_reward, make_score

N_CODES = 8
WIDEST_CELL = np.pi / 2 / 1024  # of the intervals' grid


def random_splits(rng, n_features, max_depth):
    """One tree, split with probability 0.8 at each place above max_depth."""
    splits = {}
    places = [()]
    while places:
        path = places.pop()
        if len(path) < max_depth and rng.random() < 0.8:
            splits[path] = int(rng.integers(n_features)), int(rng.integers(N_CODES - 1))
            places += [(*path, 0), (*path, 1)]
    return splits


def random_trees(rng, n_trees, n_features=3, max_depth=3):
    """Trees with some copies among them."""
    trees = [random_splits(rng, n_features, max_depth) for _ in range(n_trees)]
    return from_splits([trees[i] for i in rng.integers(0, n_trees, n_trees)])


def random_codes(rng, n_rows, n_features=3):
    return rng.integers(0, N_CODES, (n_rows, n_features)).astype(np.uint16)


def make_posterior(
    seed=0,
    *,
    trees=None,
    n_trees=12,
    n_rows=40,
    n_classes=3,
    temperature=1.0,
    leaf_concentration=0.1,
):
    """Trees of no engine with arbitrary importance weights."""
    rng = np.random.default_rng(seed)
    trees = random_trees(rng, n_trees) if trees is None else trees
    labels = rng.integers(0, n_classes, n_rows).astype(np.int32)
    rows = Rows(random_codes(rng, n_rows), labels, rng.integers(1, 3, n_rows) * 1.0)
    score = make_score(
        DirichletLeaf(n_classes, leaf_concentration),
        n_features=3,
        n_thresholds=7,
        temperature=temperature,
    )
    return sampled_posterior(
        trees,
        log_reward=np.maximum(log_reward(trees, rows, score), -1e3),
        log_prob=np.full(len(trees), np.nan),
        log_weight=rng.normal(size=len(trees)),
        log_evidence=np.nan,
        log_evidence_error=np.nan,
        rows=rows,
        score=score,
        column=np.arange(3, dtype=np.int32),
        n_columns=3,
        engine="none",
    )


def slow_average(posterior, weights, codes):
    """One tree after the other, one row after the other."""
    probability = leaf_probabilities(posterior.trees, posterior.rows, posterior.score)
    leaf = route(posterior.trees, codes)
    out = np.zeros((len(codes), posterior.score.leaf.n_outputs))
    for b, weight in enumerate(weights):
        for i in range(len(codes)):
            out[i] += weight * probability[b, leaf[b, i]]
    return out


# The loops.


@examples(40)
@given(
    seed=st.integers(0, 10**6),
    n_trees=st.integers(1, 9),
    n_rows=st.integers(0, 11),
    n_features=st.integers(1, 3),
    max_depth=st.integers(0, 5),
    n_values=st.integers(1, 4),
)
def test_average_is_the_weighted_sum_of_what_the_leaves_say(
    seed, n_trees, n_rows, n_features, max_depth, n_values
):
    rng = np.random.default_rng(seed)
    trees = random_trees(rng, n_trees, n_features, max_depth)
    codes = random_codes(rng, n_rows, n_features)
    flat = flatten(trees)
    values = rng.normal(size=(int(flat.first_leaf[-1]), n_values))
    weights = rng.random(n_trees)
    expected = np.zeros((n_rows, n_values))
    for b, leaf in enumerate(route(trees, codes)):
        leaves = np.flatnonzero(trees.feature[b, : trees.n_nodes[b]] < 0)
        number = flat.first_leaf[b] + np.searchsorted(leaves, leaf)
        expected += weights[b] * values[number]
    weighted = WeightedTrees(flat, values, weights)
    np.testing.assert_allclose(average(weighted, codes), expected, atol=1e-12)


@examples(20)
@given(seed=st.integers(0, 10**6), n_trees=st.integers(1, 9), n_rows=st.integers(1, 50))
def test_sums_in_leaves_are_the_counts_of_routed_rows(seed, n_trees, n_rows):
    rng = np.random.default_rng(seed)
    trees, codes = random_trees(rng, n_trees), random_codes(rng, n_rows)
    labels, weight = rng.integers(0, 4, n_rows).astype(np.int32), rng.random(n_rows)
    counts, _ = node_sums(trees, codes, labels, weight, DirichletLeaf(4))
    used = np.arange(trees.feature.shape[1]) < trees.n_nodes[:, None]
    found = sum_leaves(flatten(trees), codes, np.eye(4)[labels] * weight[:, None])
    np.testing.assert_allclose(found, counts[used & (trees.feature < 0)], atol=1e-12)


def test_threads_do_not_change_a_single_bit():
    rng = np.random.default_rng(0)
    trees, codes = random_trees(rng, 300), random_codes(rng, 3001)
    flat = flatten(trees)
    forest = WeightedTrees(flat, rng.random((int(flat.first_leaf[-1]), 2)), rng.random(300))
    statistics = rng.random((len(codes), 3))
    for n_jobs in (2, 3, -1, None):
        np.testing.assert_array_equal(average(forest, codes, n_jobs), average(forest, codes, 1))
        np.testing.assert_array_equal(
            sum_leaves(flat, codes, statistics, n_jobs), sum_leaves(flat, codes, statistics, 1)
        )


def test_codes_may_come_in_any_layout():
    posterior = make_posterior()
    codes = random_codes(np.random.default_rng(1), 30)
    forest = Predictor(posterior).weighted_trees
    expected = average(forest, codes)
    frozen = codes.copy()
    frozen.flags.writeable = False
    for same in (np.asfortranarray(codes), frozen, codes.astype(np.int64)):
        np.testing.assert_array_equal(average(forest, same), expected)
    np.testing.assert_array_equal(average(forest, codes[::2]), expected[::2])


# Weights of trees.


@examples(20)
@given(seed=st.integers(0, 10**6), temperature=st.sampled_from([0.5, 1.0, 4.0]))
def test_each_weighting_is_its_formula(seed, temperature):
    posterior = make_posterior(seed, temperature=temperature)
    codes = random_codes(np.random.default_rng(seed), 20)
    keys = [tuple(map(tuple, (t.feature, t.cut, t.left))) for t in tree_list(posterior.trees)]
    distinct = dict(zip(keys, posterior.log_reward, strict=True))
    evidence = logsumexp(np.array(list(distinct.values())) / temperature)
    weights = {
        "uniform": np.full(12, 1 / 12),
        "importance": np.exp(posterior.log_weight) / np.exp(posterior.log_weight).sum(),
        "posterior": np.array(
            [np.exp(distinct[key] / temperature - evidence) / keys.count(key) for key in keys]
        ),
    }
    for weighting, expected in weights.items():
        found = tree_weights(posterior, weighting)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(
            average_outputs(posterior, codes, weighting=weighting),
            slow_average(posterior, expected, codes),
            atol=1e-12,
        )


def tree_list(trees):
    """Trees one by one, without unused slots."""
    parts = (trees[b : b + 1] for b in range(len(trees)))
    for part in parts:
        n = int(part.n_nodes[0])
        yield replace(part, feature=part.feature[0, :n], cut=part.cut[0, :n], left=part.left[0, :n])


def test_equal_trees_are_merged_and_counted_once():
    posterior = make_posterior(n_trees=30)
    predictor = Predictor(posterior)
    forest = predictor.weighted_trees
    n_distinct = len({tuple(map(tuple, (t.feature, t.cut))) for t in tree_list(posterior.trees)})
    assert len(forest.weights) == n_distinct < 30
    assert forest.weights.sum() == pytest.approx(1.0)
    assert predictor.counted.member.shape == (30,)
    assert predictor.weighted_trees is forest
    assert predictor.counted.trees is forest.trees


def test_the_default_of_an_exact_engine_stays_exact():
    rng = np.random.default_rng(0)
    X, y = rng.random((40, 2)), rng.integers(0, 2, 40)
    posterior = infer(X, y, engine="exact", max_depth=2, n_thresholds=4, n_trees=5, random_state=0)
    codes = posterior.rows.codes
    assert Predictor(posterior).knows_average
    np.testing.assert_array_equal(
        average_outputs(posterior, codes), posterior.solution.average(codes)
    )
    sampled = average_outputs(posterior, codes, weighting="uniform")
    np.testing.assert_allclose(sampled, slow_average(posterior, np.full(5, 0.2), codes), atol=1e-12)


def test_the_best_tree_predicts_alone():
    posterior = make_posterior()
    codes = random_codes(np.random.default_rng(1), 20)
    alone = average_trees(posterior.best_tree, np.ones(1), posterior.rows, posterior.score, codes)
    for weighting in ("uniform", "importance", "posterior"):
        found = average_outputs(posterior, codes, tree="best", weighting=weighting)
        np.testing.assert_array_equal(found, alone)


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"weighting": "equal"}, r"weighting='equal' is not known; give one of uniform, imp"),
        ({"leaf": "median"}, r"leaf='median' is not known; give one of mean, dirichlet\."),
        ({"tree": "worst"}, r"tree='worst' is not known; give one of None, best, paper\."),
        ({"tree": "best", "weighting": 3}, r"weighting=3 is not known"),
    ],
)
def test_unknown_names_are_refused(choice, message):
    posterior = make_posterior()
    with pytest.raises(ValueError, match=message):
        average_outputs(posterior, posterior.rows.codes, **choice)


def number_posterior():
    """The same trees, but leaves that hold numbers."""
    posterior = make_posterior()
    numbers = np.random.default_rng(1).normal(size=40)
    score = replace(posterior.score, leaf=NormalLeaf())
    return replace(posterior, score=score, rows=replace(posterior.rows, target=numbers))


def test_leaves_may_hold_numbers():
    posterior = number_posterior()
    codes = random_codes(np.random.default_rng(1), 20)
    expected = slow_average(posterior, posterior.weights, codes)
    np.testing.assert_allclose(average_outputs(posterior, codes), expected, atol=1e-12)


@pytest.mark.parametrize(
    "ask",
    [
        uncertainty,
        credible_interval,
        lambda predictor, _: predictor.drawn_trees(),
    ],
)
def test_numbers_have_no_class_probabilities(ask):
    posterior = number_posterior()
    with pytest.raises(TypeError, match=r"Leaves are NormalLeaf, not classes; fit a DTGFNClass"):
        ask(Predictor(posterior), posterior.rows.codes)


# Dirichlet draws.


def test_dirichlet_draws_follow_the_seed_and_average_to_the_mean():
    posterior = make_posterior(leaf_concentration=0.5)
    codes = random_codes(np.random.default_rng(1), 10)
    draw = [average_outputs(posterior, codes, leaf="dirichlet", random_state=s) for s in range(400)]
    again = average_outputs(posterior, codes, leaf="dirichlet", random_state=7)
    np.testing.assert_array_equal(again, draw[7])
    assert np.abs(draw[7] - draw[8]).max() > 1e-3
    np.testing.assert_allclose(draw[7].sum(axis=1), 1.0)
    error = np.std(draw, axis=0) / 20
    assert (np.abs(np.mean(draw, axis=0) - average_outputs(posterior, codes)) < 5 * error).all()


def test_each_copy_of_a_tree_has_its_own_draw():
    """The average of k draws varies k times less than one draw."""
    codes = np.zeros((1, 3), dtype=np.uint16)
    variance = []
    for copies in (1, 8):
        posterior = make_posterior(trees=from_splits([{(): (0, 3)}] * copies))
        predictor = Predictor(posterior, "uniform")
        forests = [predictor.drawn_trees(seed) for seed in range(500)]
        assert len(forests[0].weights) == 1
        variance.append(np.var([average(forest, codes)[0, 0] for forest in forests]))
    assert 5.5 < variance[0] / variance[1] < 11


def test_dirichlet_draws_have_the_right_moments_however_small_the_parameters():
    rng = np.random.default_rng(0)
    parameters = np.array([0.01, 0.3, 2.0])
    draws = draw_dirichlet(np.tile(parameters, (20_000, 1)), rng)
    mean = parameters / parameters.sum()
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=0.01)
    variance = mean * (1 - mean) / (parameters.sum() + 1)
    np.testing.assert_allclose(draws.var(axis=0), variance, atol=0.005)
    assert np.isfinite(draw_dirichlet(np.full((1000, 2), 1e-6), rng)).all()


# Credible intervals.


def mixture(posterior, weights, row):
    """Dirichlet parameters [B, C] of the leaves that one row reaches."""
    trees, rows = posterior.trees, posterior.rows
    counts, _ = node_sums(trees, rows.codes, rows.target, rows.weight, posterior.score.leaf)
    leaf = route(trees, row[None])[:, 0]
    return counts[np.arange(len(trees)), leaf] + posterior.score.leaf.concentration


def slow_quantile(parameters, weights, c, quantile):
    """Solve the mixture's distribution function for the quantile."""
    a, b = parameters[:, c], parameters.sum(axis=1) - parameters[:, c]
    return brentq(lambda p: weights @ betainc(a, b, p) - quantile, 0.0, 1.0, xtol=1e-12)


@examples(25)
@given(
    seed=st.integers(0, 10**6),
    n_classes=st.integers(2, 3),
    concentration=st.sampled_from([0.01, 0.1, 1.0]),
    times=st.sampled_from([1.0, 10.0, 3000.0]),
    level=st.sampled_from([0.5, 0.9, 0.99]),
)
def test_intervals_solve_the_mixture(seed, n_classes, concentration, times, level):
    posterior = make_posterior(seed, n_classes=n_classes, leaf_concentration=concentration)
    rows = replace(posterior.rows, weight=posterior.rows.weight * times)
    posterior = replace(posterior, rows=rows)
    codes = random_codes(np.random.default_rng(seed), 3)
    bounds = credible_interval(Predictor(posterior), codes, level)
    for i, row in enumerate(codes):
        parameters = mixture(posterior, posterior.weights, row)
        for c in range(n_classes):
            for found, tail in zip(bounds, ((1 - level) / 2, (1 + level) / 2), strict=True):
                # Where no probability lies a quantile may be anywhere; else it is in its cell.
                low, high = (
                    slow_quantile(parameters, posterior.weights, c, np.clip(tail + error, 0, 1))
                    for error in (-1e-6, 1e-6)
                )
                assert low - WIDEST_CELL <= found[i, c] <= high + WIDEST_CELL


def test_intervals_agree_with_draws():
    posterior = make_posterior(3, n_trees=5)
    rng = np.random.default_rng(0)
    row = posterior.rows.codes[:1]
    parameters = mixture(posterior, posterior.weights, row[0])
    component = rng.choice(5, 200_000, p=posterior.weights)
    draws = draw_dirichlet(parameters[component], rng)
    lower, upper = credible_interval(Predictor(posterior), row, 0.8)
    np.testing.assert_allclose(
        np.array([lower[0], upper[0]]), np.quantile(draws, [0.1, 0.9], axis=0), atol=0.01
    )


def test_intervals_hold_the_mean_and_grow_with_the_level():
    posterior = make_posterior(1, n_classes=2)
    codes = random_codes(np.random.default_rng(5), 5000)
    predictor = Predictor(posterior, n_jobs=2)
    narrow = credible_interval(predictor, codes, 0.5)
    lower, upper = credible_interval(predictor, codes, 0.95)
    mean = average_outputs(posterior, codes)
    assert ((lower <= mean) & (mean <= upper)).all()
    assert ((lower <= narrow[0]) & (narrow[1] <= upper)).all()
    np.testing.assert_allclose(lower[:, 0], 1 - upper[:, 1])
    # In parts or alone, a row gets the same interval.
    alone = credible_interval(predictor, codes[4500:4501], 0.95)[0]
    np.testing.assert_array_equal(alone, lower[4500:4501])


def test_a_single_class_is_certain():
    posterior = make_posterior(n_classes=1)
    lower, upper = credible_interval(Predictor(posterior), posterior.rows.codes)
    assert (lower == 1).all()
    assert (upper == 1).all()
    parts = uncertainty(Predictor(posterior), posterior.rows.codes)
    np.testing.assert_allclose(parts.total, 0, atol=1e-12)


@pytest.mark.parametrize("level", [0, 1, 1.5, -0.1, "90%", True, None])
def test_levels_that_are_none_are_refused(level):
    posterior = make_posterior()
    with pytest.raises(ValueError, match=r"level=.* is not usable; give a probability between"):
        credible_interval(Predictor(posterior), posterior.rows.codes, level)


# Noise and model.


@examples(30)
@given(
    seed=st.integers(0, 10**6),
    n_classes=st.integers(1, 4),
    concentration=st.sampled_from([1e-6, 0.1, 100.0]),
    weighting=st.sampled_from(["uniform", "importance", "posterior"]),
    tree=st.sampled_from([None, "best"]),
)
def test_parts_add_up_and_none_is_negative(seed, n_classes, concentration, weighting, tree):
    posterior = make_posterior(seed, n_classes=n_classes, leaf_concentration=concentration)
    codes = random_codes(np.random.default_rng(seed), 20)
    parts = uncertainty(Predictor(posterior, weighting, tree), codes)
    np.testing.assert_array_equal(parts.total, parts.noise + parts.model)
    assert (parts.noise >= 0).all()
    assert (parts.model >= 0).all()
    assert (parts.total <= np.log(n_classes) + 1e-9).all()
    mean = average_outputs(posterior, codes, weighting=weighting, tree=tree)
    np.testing.assert_allclose(parts.total, entr(mean).sum(axis=1), atol=1e-9)


def test_noise_is_the_mean_entropy_over_trees_and_draws_of_their_leaves():
    posterior = make_posterior(4, leaf_concentration=0.3)
    rng = np.random.default_rng(0)
    codes = random_codes(rng, 4)
    parts = uncertainty(Predictor(posterior), codes)
    for i, row in enumerate(codes):
        component = rng.choice(12, 100_000, p=posterior.weights)
        draws = draw_dirichlet(mixture(posterior, posterior.weights, row)[component], rng)
        assert parts.noise[i] == pytest.approx(entr(draws).sum(axis=1).mean(), abs=0.005)
        assert parts.total[i] == pytest.approx(entr(draws.mean(axis=0)).sum(), abs=0.01)


def test_many_rows_leave_only_noise_and_few_leave_doubt():
    posterior = make_posterior(trees=from_splits([{(): (0, 3)}]))
    model, total = [], []
    for times in (1.0, 100.0, 1e6):
        rows = replace(posterior.rows, weight=posterior.rows.weight * times)
        parts = uncertainty(Predictor(replace(posterior, rows=rows)), posterior.rows.codes)
        model.append(parts.model.max())
        total.append(parts.total.min())
    assert model[0] > model[1] > model[2]
    assert model[2] < 1e-6 < 0.3 < min(total)


def test_trees_that_contradict_each_other_are_doubt_about_the_model():
    """Two sure trees of opposite opinions: all of log 2 is about which one is right."""
    labels = np.array([0, 0, 1, 1], dtype=np.int32)
    codes = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], dtype=np.uint16)
    posterior = make_posterior(n_classes=2, leaf_concentration=1e-6)
    # The second tree sees the same rows through a column that says the opposite of the first.
    codes = np.hstack([codes[:, :1], 1 - codes[:, :1], codes[:, 1:]])
    posterior = replace(
        posterior,
        trees=from_splits([{(): (0, 0)}, {(): (1, 0)}]),
        log_weight=np.zeros(2),
        rows=Rows(np.ascontiguousarray(codes), labels, np.full(4, 1e6)),
    )
    parts = uncertainty(Predictor(posterior), np.array([[0, 0, 0], [0, 1, 0]], dtype=np.uint16))
    np.testing.assert_allclose(parts.model, [np.log(2), 0.0], atol=1e-4)
    np.testing.assert_allclose(parts.noise, 0.0, atol=1e-4)


def test_expected_entropy_of_many_equal_counts_is_the_entropy_of_the_mean():
    parameters = np.array([[1.0, 3.0, 6.0]])
    limit = entr(parameters / 10).sum(axis=1)
    assert expected_entropy(parameters) < limit
    np.testing.assert_allclose(expected_entropy(parameters * 1e8), limit, atol=1e-7)


@pytest.mark.parametrize("make", [np.array, list, pandas.DataFrame], ids=lambda make: make.__name__)
def test_a_table_is_not_taken_for_codes(make):
    posterior = infer(
        [[1.0], [2.0], [8.0], [9.0]] * 5, [0, 0, 1, 1] * 5, engine="exact", max_depth=1
    )
    with pytest.raises(TypeError, match=r"codes are no whole numbers; posterior\.encode"):
        average_outputs(posterior, make([[1.0], [9.0]]))


@pytest.mark.parametrize("engine", ["exact", "smc"])
def test_codes_of_another_width_are_refused(engine):
    X = np.random.default_rng(0).normal(size=(30, 3))
    given = {"max_depth": 2, "n_thresholds": 3, "n_trees": 100, "random_state": 0}
    posterior = infer(X, X[:, 2] > 0, engine=engine, **given)
    codes = posterior.encode(X)
    for narrow in (codes[:, :2], codes[:, :0], codes[0]):
        with pytest.raises(ValueError, match="3 columns or more are needed"):
            average_outputs(posterior, narrow)
    with pytest.raises(ValueError, match="4 columns, but the training rows have 3"):
        average_outputs(posterior, np.hstack([codes, codes[:, :1]]))
    with pytest.raises(ValueError, match="must be from 0 to 65535"):
        average_outputs(posterior, codes.astype(np.int64) - 1)
    with pytest.raises(ValueError, match="columns or more are needed"):
        average(Predictor(posterior).weighted_trees, codes[:, :0])
    with pytest.raises(ValueError, match="one row of them for each"):
        sum_leaves(Predictor(posterior).weighted_trees.trees, codes, np.ones((29, 1)))
    with pytest.raises(ValueError, match="give one for each"):
        replace(Predictor(posterior).weighted_trees, weights=np.ones(99))


def test_a_table_is_predicted_by_its_codes():
    frame = pandas.DataFrame({"size": [1.0, 2.0, 8.0, 9.0] * 5, "line": list("abab") * 5})
    y = [0, 0, 1, 1] * 5
    posterior = infer(frame, y, engine="exact", max_depth=1, n_thresholds=3, n_jobs=1)
    np.testing.assert_array_equal(posterior.encode(frame), posterior.rows.codes)
    swapped = posterior.encode(frame[["line", "size"]][:3])
    np.testing.assert_array_equal(swapped, posterior.rows.codes[:3])
    with pytest.raises(ValueError, match="inferred from codes"):
        replace(posterior, binner=None).encode(frame)
    with pytest.raises(TypeError, match=r"posterior\.encode\(X\) makes codes"):
        average_outputs(posterior, frame)
