"""The score of a tree is the formula, whatever the tree."""

from __future__ import annotations

import math

import numpy as np
import pytest
from enumeration import LEAF, Case, Enumeration, to_batch
from hypothesis import given
from hypothesis import strategies as st
from thoroughness import examples

from dtgfn.trees.batch import from_splits, node_sums
from dtgfn.trees.leaf_models import DirichletLeaf
from dtgfn.trees.score import (
    BranchingPrior,
    PenaltyPrior,
    leaf_log_marginal,
    log_likelihood,
    log_prior,
    log_reward,
    make_prior,
    make_score,
)
from dtgfn.trees.shared_sums import shared_leaf_sums

slow_start = examples(80)
priors = st.sampled_from([0, 0.0, 2.5, "mdl", "paper", "bcart", ("bcart", 0.3, 1.5)])


@st.composite
def cases(draw) -> Case:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_rows, n_features = draw(st.integers(1, 12)), draw(st.integers(1, 3))
    n_classes = draw(st.integers(1, 4))
    codes = rng.choice([0, 1, 2, 5], size=(n_rows, n_features))
    codes[:, 0] = codes[:, 0] if draw(st.booleans()) else 3
    whole = draw(st.booleans())
    weight = rng.integers(1, 5, n_rows).astype(float) if whole else rng.uniform(0.01, 5, n_rows)
    return Case(
        codes,
        rng.integers(0, n_classes, n_rows),
        n_classes,
        weight,
        max_depth=draw(st.integers(0, 4)),
        leaf_concentration=draw(st.sampled_from([0.01, 0.1, 1.0, 7.5])),
        split_penalty=draw(priors),
        n_thresholds=draw(st.integers(1, 99)),
    )


def any_trees(n_features: int) -> st.SearchStrategy:
    """Draw trees that may well have empty sides or be too deep."""
    return st.recursive(
        st.just(LEAF),
        lambda below: st.tuples(st.integers(0, n_features - 1), st.integers(0, 5), below, below),
        max_leaves=6,
    )


def random_valid_tree(truth: Enumeration, rng: np.random.Generator) -> tuple:
    def grow(rows: tuple[int, ...], depth: int) -> tuple:
        splits = truth.valid_splits(rows)
        if depth == truth.case.max_depth or not splits or rng.random() < 0.2:
            return LEAF
        feature, cut = splits[rng.integers(len(splits))]
        left, right = truth.sides(rows, feature, cut)
        return (feature, cut, grow(left, depth + 1), grow(right, depth + 1))

    return grow(truth.everything, 0)


@slow_start
@given(cases(), st.integers(0, 2**32 - 1))
def test_log_reward_of_valid_trees_is_the_formula(case, seed):
    truth, rng = Enumeration(case), np.random.default_rng(seed)
    trees = [random_valid_tree(truth, rng) for _ in range(8)]
    reward = log_reward(to_batch(trees), case.rows, case.score)
    expected = [truth.log_reward(tree) for tree in trees]
    assert np.isfinite(expected).all()
    np.testing.assert_allclose(reward, expected, rtol=1e-11, atol=1e-11)


@slow_start
@given(cases(), st.data())
def test_log_reward_of_any_tree_is_the_formula_and_minus_infinity_if_it_is_not_valid(case, data):
    truth = Enumeration(case)
    trees = data.draw(st.lists(any_trees(case.codes.shape[1]), min_size=1, max_size=8))
    reward = log_reward(to_batch(trees), case.rows, case.score)
    np.testing.assert_allclose(
        reward, [truth.log_reward(tree) for tree in trees], rtol=1e-11, atol=1e-11
    )


STUMP = (0, 1, LEAF, LEAF)


@pytest.mark.parametrize("prior", [1.0, "bcart"])
@pytest.mark.parametrize(
    "tree",
    [
        (0, 5, LEAF, LEAF),  # all rows go left
        (1, 0, LEAF, LEAF),  # a feature that does not vary
        (0, 0, LEAF, (0, 0, LEAF, LEAF)),  # empty further down
        (0, 5, LEAF, STUMP),  # empty, and split again
        (0, 1, (0, 0, LEAF, LEAF), (0, 2, LEAF, (0, 3, LEAF, LEAF))),  # too deep
    ],
)
def test_trees_with_an_empty_side_or_too_many_levels_have_no_reward(prior, tree):
    case = Case(np.array([[c, 2] for c in range(5)]), np.array([0, 1, 0, 1, 1]), 2)
    case = case.but(split_penalty=prior, max_depth=2)
    reward = log_reward(to_batch([tree, STUMP]), case.rows, case.score)
    assert reward[0] == -math.inf
    assert math.isfinite(reward[1])


def test_reward_is_likelihood_plus_prior():
    rng = np.random.default_rng(0)
    case = Case(rng.integers(0, 4, (20, 2)), rng.integers(0, 3, 20), 3, split_penalty="bcart")
    trees = to_batch([LEAF, STUMP, (1, 2, STUMP, LEAF)])
    parts = (f(trees, case.rows, case.score) for f in (log_likelihood, log_prior))
    np.testing.assert_array_equal(sum(parts), log_reward(trees, case.rows, case.score))


def test_reward_does_not_depend_on_the_temperature():
    rng = np.random.default_rng(0)
    case = Case(rng.integers(0, 4, (20, 2)), rng.integers(0, 3, 20), 3)
    trees = to_batch([LEAF, STUMP])
    hot = case.but(temperature=5.0)
    np.testing.assert_array_equal(
        log_reward(trees, hot.rows, hot.score), log_reward(trees, case.rows, case.score)
    )


@slow_start
@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=5),
    st.floats(1e-3, 1e3),
)
def test_leaf_marginal_is_a_product_of_predictive_probabilities(counts, concentration):
    """Chain rule: each row is predicted from those before it, in any order."""
    expected, seen = 0.0, [0] * len(counts)
    for label, count in enumerate(counts):
        for _ in range(count):
            total = sum(seen) + len(counts) * concentration
            expected += math.log((seen[label] + concentration) / total)
            seen[label] += 1
    leaf = DirichletLeaf(len(counts), concentration)
    score = make_score(leaf, n_features=1, n_thresholds=1)
    value = leaf_log_marginal(np.array([counts, counts], dtype=float), score)
    np.testing.assert_allclose(value, [expected, expected], rtol=1e-9, atol=1e-9)


def test_the_names_of_penalties_mean_what_the_paper_says():
    sizes = {"n_features": 7, "n_thresholds": 99}
    assert make_prior("paper", **sizes) == PenaltyPrior(math.log(4) + math.log(7))
    assert make_prior("mdl", **sizes).penalty == pytest.approx(math.log(4 * 7 * 99))
    assert make_prior(2, **sizes) == make_prior(np.float32(2), **sizes) == PenaltyPrior(2.0)
    assert make_prior("bcart", **sizes) == BranchingPrior(0.95, 0.5)
    assert make_prior(("bcart", 0.5, 2), **sizes) == BranchingPrior(0.5, 2.0)
    assert make_prior(["bcart", 0.5, 2], **sizes) == BranchingPrior(0.5, 2.0)


def test_branching_terms_are_log_probabilities_by_depth():
    stop, split = BranchingPrior(0.8, 1.5).node_terms(4)
    for k in range(4):
        assert math.exp(split[k]) == pytest.approx(0.8 * (1 + k) ** -1.5)
        assert math.exp(stop[k]) == pytest.approx(1 - 0.8 * (1 + k) ** -1.5)
    assert stop[4] == 0


@pytest.mark.parametrize("prior", [("bcart", 0.5, 1e4), ("bcart", 1e-300, 300.0)])
def test_a_branching_prior_may_all_but_forbid_splits(prior):
    case = Case(np.arange(4)[:, None], np.array([0, 1, 0, 1]), 2, split_penalty=prior, max_depth=3)
    _, base, decay = prior
    deep = from_splits([{(): (0, 0), (1,): (0, 1)}])
    expected = 2 * math.log(base) - decay * math.log(2) - math.log(3) - math.log(2)
    assert log_prior(deep, case.rows, case.score)[0] == pytest.approx(expected, rel=1e-6)


SIZES = {"leaf": DirichletLeaf(2), "n_features": 3, "n_thresholds": 9}


@pytest.mark.parametrize("value", [-1, 31, 2.0, "5", None, True, np.nan])
def test_max_depth_must_be_a_whole_number_from_0_to_30(value):
    with pytest.raises(ValueError, match="from 0 to 30") as error:
        make_score(**SIZES, max_depth=value)
    assert f"max_depth={value!r}" in str(error.value)


@pytest.mark.parametrize("value", [0, 30, np.int64(3)])
def test_max_depth_may_be_any_whole_number_from_0_to_30(value):
    assert make_score(**SIZES, max_depth=value).max_depth == value


@pytest.mark.parametrize("value", [0, -0.1, math.inf, math.nan, "1", None, True, 1j])
def test_temperature_must_be_in_range(value):
    with pytest.raises(ValueError, match="give a number from") as error:
        make_score(**SIZES, temperature=value)
    assert f"temperature={value!r}" in str(error.value)


@pytest.mark.parametrize(
    "value",
    [
        "MDL",
        "",
        -0.1,
        math.inf,
        math.nan,
        None,
        True,
        ("bcart",),
        ("bcart", 0.5),
        ("cart", 0.5, 1.0),
        ("bcart", 0.0, 1.0),
        ("bcart", 1.0, 1.0),
        ("bcart", math.nan, 1.0),
        ("bcart", 0.5, -1.0),
        ("bcart", 0.5, math.inf),
        ("bcart", "0.5", 1.0),
        {"bcart": 0.5},
    ],
)
def test_a_prior_that_does_not_exist_is_refused_with_the_list_of_those_that_do(value):
    with pytest.raises(
        ValueError, match='give "mdl", "paper", a number from 0 to 1e6, "bcart"'
    ) as error:
        make_score(**SIZES, split_penalty=value)
    assert f"split_penalty={value!r}" in str(error.value)


@slow_start
@given(cases(), st.data())
def test_leaves_hold_the_same_sums_when_paths_are_shared(case, data):
    trees = data.draw(st.lists(any_trees(case.codes.shape[1]), min_size=1, max_size=6))
    batch, rows = to_batch(trees), case.rows
    given_ = (batch, rows.codes, rows.target, rows.weight, case.score.leaf)
    (slow, n_slow), (fast, n_fast) = node_sums(*given_), shared_leaf_sums(*given_)
    leaves = (batch.feature < 0) & (np.arange(batch.feature.shape[1]) < batch.n_nodes[:, None])
    np.testing.assert_array_equal(fast[leaves], slow[leaves])  # to the last digit
    np.testing.assert_array_equal(n_fast[leaves], n_slow[leaves])
