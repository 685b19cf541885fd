"""Predictions where classes have other frequencies than in training."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from thoroughness import examples

from dtgfn import DTGFNClassifier, infer
from dtgfn.posterior.label_shift import average_shifted, shift_labels
from dtgfn.posterior.prediction import Predictor, average_outputs
from dtgfn.trees.batch import node_sums, route
from dtgfn.trees.score import Rows

SMALL = {"max_depth": 2, "n_thresholds": 5, "n_trees": 50, "n_jobs": 1, "random_state": 0}


def two_classes(n_no, n_yes, seed=0):
    """Two columns, of which the first is higher in rows of "yes"."""
    rng = np.random.default_rng(seed)
    y = np.repeat(["no", "yes"], [n_no, n_yes])
    return rng.normal(size=(len(y), 2)) + 1.5 * np.outer(y == "yes", [1, 0]), y


def fitted(n_no=60, n_yes=12, **changes):
    X, y = two_classes(n_no, n_yes)
    return DTGFNClassifier(**{**SMALL, "inference": "exact", **changes}).fit(X, y)


@pytest.mark.filterwarnings("ignore::dtgfn.diagnostics.UntrustworthyFit")
@examples(6)
@given(shares=st.lists(st.floats(0.01, 5.0), min_size=3, max_size=3), seed=st.integers(0, 99))
def test_equals_counting_by_hand(shares, seed):
    rng = np.random.default_rng(seed)
    X, y = rng.random((40, 3)), rng.integers(0, 3, 40)
    weight = rng.integers(1, 4, 40).astype(float)
    found = infer(X, y, engine="smc", sample_weight=weight, split_penalty=0.5, **SMALL)
    prior = dict(zip(found.classes.tolist(), shares, strict=True))
    got = average_shifted(Predictor(found), found.rows.codes, prior)
    seen = np.bincount(y, weights=weight, minlength=3) / weight.sum()
    times = np.array(shares) / sum(shares) / seen
    rows, leaf = found.rows, found.score.leaf
    sums, _ = node_sums(found.trees, rows.codes, rows.target, rows.weight, leaf)
    at_leaf = sums[np.arange(len(found.trees))[:, None], route(found.trees, rows.codes)]
    said = at_leaf * times + leaf.concentration
    said /= said.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(got, np.einsum("b,bnc->nc", found.weights, said), atol=1e-12)


def test_equals_leaves_that_count_weighted_rows():
    found = fitted().posterior_
    rows = found.rows
    weight = np.where(rows.target == 1, 3.0, 0.6)  # 72 rows, 60 and 12 of a class: even shares
    weighted = replace(found, rows=Rows(rows.codes, rows.target, weight), solution=None)
    got = average_shifted(Predictor(found, "uniform"), rows.codes, "uniform")
    expected = average_outputs(weighted, rows.codes, weighting="uniform")
    np.testing.assert_allclose(got, expected, atol=1e-12)


@pytest.mark.parametrize("tree", [None, "best"])
def test_frequencies_of_training_change_nothing(tree):
    model = fitted(weighting="uniform")
    X, _ = two_classes(20, 20, seed=1)
    same = model.predict_proba(X, tree, class_prior={"no": 60, "yes": 12})
    np.testing.assert_allclose(same, model.predict_proba(X, tree), atol=1e-12)


def test_trees_stay_and_a_rarer_class_is_less_probable():
    model = fitted()
    before = model.posterior_
    X, _ = two_classes(20, 20, seed=1)
    shares = (0.0, 0.05, 0.5, 1.0)
    told = [model.predict_proba(X, class_prior={"no": 1 - s, "yes": s})[:, 1] for s in shares]
    assert (np.diff(told, axis=0) >= 0).all()
    assert model.posterior_ is before


@pytest.mark.filterwarnings("ignore::dtgfn.diagnostics.UntrustworthyFit")
@pytest.mark.parametrize("ensemble", [None, "bags"])
def test_finds_the_rare_class_where_it_is_not_rare(ensemble):
    bags = {} if ensemble is None else {"n_bags": 10}
    options = {"n_particles": 50, "n_sweeps": 1, **bags}
    model = fitted(400, 40, inference="smc", ensemble=ensemble, options=options)
    X, y = two_classes(300, 300, seed=1)
    plain = (model.predict(X) == y).mean()
    assert (model.predict(X, class_prior="uniform") == y).mean() > plain + 0.05
    told = model.predict_proba(X, class_prior="uniform")
    np.testing.assert_allclose(told.sum(axis=1), 1)


def test_a_class_without_rows_is_counted_as_nothing():
    X, y = two_classes(10, 10)
    found = infer(X, y, engine="exact", classes=["maybe", "no", "yes"], **SMALL)
    again = shift_labels(found, Predictor(found).counted, "uniform")
    assert (again.sums[:, 0] == 0).all()


@pytest.mark.parametrize(
    ("prior", "words"),
    [
        ("balanced", "give 'uniform', a dict"),
        (0.5, "give 'uniform', a dict"),
        ({"no": 1.0}, "give each of them a share"),
        ({"no": 0.5, "yes": 0.4, "maybe": 0.1}, "give each of them a share"),
        ({"no": -1.0, "yes": 2.0}, r"class_prior\['no'\]=-1.0 is out of range"),
        ({"no": 0, "yes": 0}, "0 for every class"),
    ],
)
def test_refuses(prior, words):
    with pytest.raises(ValueError, match=words):
        fitted(10, 10).predict([[0.0, 0.0]], class_prior=prior)


def test_refuses_draws_of_leaves():
    with pytest.raises(ValueError, match="without the option leaf_draws"):
        fitted(10, 10, options={"leaf_draws": True}).predict([[0.0, 0.0]], class_prior="uniform")
