"""Shapley values add up to what the trees predict, and share it as Shapley's formula does."""

from __future__ import annotations

from itertools import combinations
from math import factorial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_posterior import make_posterior, mixed_frame, numeric_frame
from thoroughness import examples

from dtgfn import DTGFNClassifier
from dtgfn.data.binning import encode
from dtgfn.data.tables import as_table
from dtgfn.explain import shap_values
from dtgfn.explain.tree_set import take_trees
from dtgfn.posterior.prediction import average_trees

pytest.importorskip("shap")


def averaged(posterior, X) -> np.ndarray:
    codes = encode(posterior.binner, as_table(X))
    rows, score = posterior.rows, posterior.score
    return average_trees(posterior.trees, posterior.weights, rows, score, codes)


@examples(15)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3))
def test_base_value_and_columns_add_up_to_the_prediction(seed, n_classes):
    rng = np.random.default_rng(seed)
    frame = mixed_frame(50, rng)
    posterior = make_posterior(frame, rng.integers(0, n_classes, 50), seed=seed)
    new = mixed_frame(30, rng)
    found = shap_values(posterior, new)
    assert found.values.shape == (30, 6, n_classes)
    total = found.base_values + found.values.sum(axis=1)
    assert np.abs(total - averaged(posterior, new)).max() < 1e-6


def known_only(chosen, codes: np.ndarray, known: set[int], node: int = 0) -> np.ndarray:
    """Expected value of a tree where only some features are known, averaged by training rows."""
    feature = int(chosen.trees.feature[0, node])
    if feature < 0:
        return chosen.value[0, node]
    left = int(chosen.trees.left[0, node])
    if feature in known:
        goes_right = int(codes[feature] > chosen.trees.cut[0, node])
        return known_only(chosen, codes, known, left + goes_right)
    weight = chosen.rows[0, left : left + 2] / chosen.rows[0, node]
    sides = [known_only(chosen, codes, known, left + turn) for turn in (0, 1)]
    return weight[0] * sides[0] + weight[1] * sides[1]


def test_values_are_those_of_shapleys_formula():
    rng = np.random.default_rng(7)
    frame = numeric_frame(60, rng)
    posterior = make_posterior(frame, rng.integers(0, 3, 60), n_trees=4)
    chosen = take_trees(posterior)
    codes = encode(posterior.binner, as_table(frame))
    found = shap_values(posterior, frame[:5], trees="best")
    d = codes.shape[1]
    for i in range(5):
        for j in range(d):
            others = [k for k in range(d) if k != j]
            expected = np.zeros(3)
            for size in range(d):
                share = factorial(size) * factorial(d - size - 1) / factorial(d)
                for group in combinations(others, size):
                    with_j = known_only(chosen, codes[i], {*group, j})
                    expected += share * (with_j - known_only(chosen, codes[i], set(group)))
            assert np.allclose(found.values[i, j], expected)


def test_values_of_a_regression_add_up():
    rng = np.random.default_rng(1)
    frame = mixed_frame(50, rng)
    posterior = make_posterior(frame, rng.normal(size=50))
    found = shap_values(posterior, frame)
    assert found.values.shape == (50, 6)
    total = found.base_values + found.values.sum(axis=1)
    assert np.allclose(total, take_trees(posterior, "all").average(frame)[:, 0], atol=1e-10)


def test_values_of_bags_add_up_to_the_average_before_sharpening_and_say_so():
    rng = np.random.default_rng(2)
    frame = numeric_frame(80, rng)
    labels = np.where(rng.random(80) < 0.2, rng.random(80) < 0.5, frame["length"] > 0)
    model = DTGFNClassifier(
        inference="smc",
        ensemble="bags",
        options={"n_bags": 5},
        n_trees=40,
        max_depth=3,
        n_thresholds=7,
        random_state=0,
    ).fit(frame, labels)
    found = shap_values(model, frame)
    total = found.base_values + found.values.sum(axis=1)
    assert np.abs(total - averaged(model.posterior_, frame)).max() < 1e-6
    assert np.abs(total - model.predict_proba(frame)).max() > 1e-3
    assert found.output_names == ["False before sharpening", "True before sharpening"]
    one = shap_values(model, frame, trees="best")
    total = one.base_values + one.values.sum(axis=1)
    assert np.abs(total - model.predict_proba(frame, tree="best")).max() < 1e-6
    assert one.output_names == ["False", "True"]


def test_values_of_a_model_add_up_to_its_weighting():
    rng = np.random.default_rng(3)
    frame = numeric_frame(60, rng)
    model = DTGFNClassifier(
        inference="mcmc", options={"n_steps": 20_000}, n_trees=40, max_depth=3, n_thresholds=7
    )
    model.set_params(temperature=3.0, weighting="posterior", random_state=0)
    found = shap_values(model.fit(frame, rng.integers(0, 2, 60)), frame)
    total = found.base_values + found.values.sum(axis=1)
    assert np.abs(total - model.predict_proba(frame)).max() < 1e-6


def test_an_explanation_carries_the_users_cells_and_names():
    rng = np.random.default_rng(0)
    frame = mixed_frame(40, rng)
    posterior = make_posterior(frame, rng.choice(["no", "yes"], 40))
    found = shap_values(posterior, frame[reversed(frame.columns)])
    assert found.feature_names == list(frame.columns)
    assert found.output_names == ["no", "yes"]
    assert found.data[:, 4].tolist() == frame["colour"].tolist()


def test_trees_of_a_model_without_splits_have_values_of_zero():
    X = pd.DataFrame({"a": [1.0, 2.0] * 6})
    model = DTGFNClassifier(inference="exact", max_depth=0, n_trees=5).fit(X, [0, 0, 1] * 4)
    found = shap_values(model, X)
    assert (found.values == 0).all()
    assert np.allclose(found.base_values, model.predict_proba(X))
