"""Importances and Shapley values of sums of trees, against what they are sums and shares of."""

import numpy as np
import pandas as pd
import pytest
from random_posterior import mixed_frame
from sklearn.feature_selection import SelectFromModel

from dtgfn import DTGFNClassifier, DTGFNRegressor, SumPredictor, infer
from dtgfn.explain import importances, shap_values
from dtgfn.explain.sum_importance import draw_gains
from dtgfn.explain.sum_nodes import node_means, node_weights
from dtgfn.trees.batch import route

pytestmark = pytest.mark.filterwarnings("ignore::dtgfn.diagnostics.UntrustworthyFit")
SUM = {"n_summed": 5, "n_chains": 2, "n_sweeps": 15, "n_draws": 8}
SUM = {"ensemble": "sum", "options": SUM, "n_thresholds": 9, "random_state": 0, "n_jobs": 1}
rng = np.random.default_rng(4)
X, NEW = mixed_frame(80, rng), mixed_frame(30, rng)
WEIGHT = rng.integers(1, 4, 80).astype(float)
NUMBERS = 7.0 * X["length"] + 3.0 * (X["colour"] == "red") + rng.normal(size=80)
TARGETS = {
    "numbers": NUMBERS,
    "two": np.where(NUMBERS > 0, "yes", "no"),
    "three": np.where(NUMBERS > 4, "high", np.where(NUMBERS > -4, "middle", "low")),
}


@pytest.fixture(scope="module", params=TARGETS)
def model(request):
    kind = DTGFNRegressor if request.param == "numbers" else DTGFNClassifier
    return kind(**SUM).fit(X, TARGETS[request.param], WEIGHT)


def test_nodes_know_their_rows_and_what_those_are_told(model):
    posterior = model.posterior_
    rows, trees = posterior.rows, posterior.summed.batch
    weight, mean = node_weights(posterior), node_means(posterior, node_weights(posterior))
    leaf = route(trees, rows.codes)
    for b in range(len(trees)):
        counted = np.bincount(leaf[b], weights=rows.weight, minlength=trees.feature.shape[1])
        at_leaves = trees.feature[b] < 0
        np.testing.assert_allclose(weight[b][at_leaves], counted[at_leaves])
        told = posterior.summed.value[b, leaf[b]]
        assert mean[b, 0] == pytest.approx(np.average(told, weights=rows.weight))


def test_gains_add_up_to_the_variances_of_trees_and_lines(model):
    posterior = model.posterior_
    rows, summed = posterior.rows, posterior.summed
    told = np.take_along_axis(summed.value, route(summed.batch, rows.codes).astype(int), axis=1)
    centre = np.average(told, axis=1, weights=rows.weight)[:, None]
    variance = np.average((told - centre) ** 2, axis=1, weights=rows.weight)
    unit = getattr(posterior.leaf, "scale", 1.0)
    wanted = unit**2 * variance.reshape(posterior.n_draws, -1).sum(axis=1)
    score = summed.lines.scores(rows.codes)
    spread = np.cov(score.T, aweights=rows.weight, bias=True).diagonal()
    wanted += unit**2 * (summed.lines.slope**2 * spread).sum(axis=(1, 2))
    np.testing.assert_allclose(draw_gains(posterior).sum(axis=1), wanted)


def test_importances_are_shares_with_intervals(model):
    frame = model.importances(0.8)
    assert sorted(frame.index) == sorted(X.columns)
    assert frame.index[0] == "length"
    for name in ("inclusion", "splits", "gain", "share"):
        low, middle, high = (frame[f"{name}{end}"] for end in ("_low", "", "_high"))
        assert (low <= high).all()
        assert ((low >= 0) & (middle >= 0)).all()
    assert frame[["splits", "share"]].sum().tolist() == pytest.approx([1, 1])
    np.testing.assert_allclose(
        frame["splits"].reindex(X.columns), model.posterior_.column_use.mean(axis=0)
    )
    narrow = model.importances(0.1)
    assert (
        narrow["share_high"] - narrow["share_low"] <= frame["share_high"] - frame["share_low"]
    ).all()


def test_scikit_learn_selects_columns_by_them(model):
    share = model.feature_importances_
    assert share.sum() == pytest.approx(1)
    assert X.columns[share.argmax()] == "length"
    assert SelectFromModel(model, prefit=True, threshold=0.2).get_support()[0]


def test_single_trees_have_feature_importances_too():
    model = DTGFNClassifier(inference="exact", max_depth=2, n_thresholds=5)
    assert not hasattr(model, "feature_importances_")
    share = model.fit(X[["length", "flag"]], TARGETS["two"]).feature_importances_
    assert share.sum() == pytest.approx(1)
    assert share[0] > share[1] >= 0
    alone = DTGFNClassifier(inference="exact", max_depth=0).fit(X[["length"]], TARGETS["two"])
    assert alone.feature_importances_.tolist() == [0]


def test_a_table_without_splits_has_no_importances():
    frame = DTGFNRegressor(**SUM).fit(np.ones((9, 2)), np.arange(9.0)).importances()
    known = frame.drop(columns="inclusion_high")  # which so few draws do not rule out
    assert not known.to_numpy().any()


def test_values_add_up_to_the_mean_of_the_sums(model):
    pytest.importorskip("shap")
    found = model.shap_values(NEW)
    posterior = model.posterior_
    wanted = SumPredictor(posterior).average_sums(posterior.encode(NEW))
    if posterior.summed.n_sums == 1:
        wanted = wanted[:, 0]
    assert found.values.shape == (30, 6, *wanted.shape[1:])
    assert np.abs(found.base_values + found.values.sum(axis=1) - wanted).max() < 1e-6
    assert found.feature_names == list(X.columns)


def test_of_numbers_they_add_up_to_the_prediction():
    pytest.importorskip("shap")
    model = DTGFNRegressor(**SUM).fit(X, NUMBERS)
    found = model.shap_values(NEW)
    np.testing.assert_allclose(
        found.base_values + found.values.sum(axis=1), model.predict(NEW), atol=1e-6
    )


def test_their_scale_is_named():
    pytest.importorskip("shap")
    names = {
        name: DTGFNClassifier(**SUM).fit(X, TARGETS[name]).shap_values(NEW).output_names
        for name in ("two", "three")
    }
    assert names["three"] == ["log score of high", "log score of low", "log score of middle"]
    assert names["two"] in ("log odds of yes", ["log odds of yes"])


def test_what_has_no_values_is_refused(model):
    with pytest.raises(TypeError, match="A sum of trees has no single tree"):
        model.shap_values(NEW, trees="best")
    alone = DTGFNClassifier(**SUM).fit(X, ["same"] * len(X))
    with pytest.raises(ValueError, match="There is one class only"):
        alone.shap_values(NEW)
    with pytest.raises(ValueError, match="There is no column 'height'"):
        model.partial_dependence("height")


def test_posteriors_are_explained_as_models_are(model):
    posterior = model.posterior_
    pd.testing.assert_frame_equal(importances(posterior), model.importances())


def test_infer_is_explained():
    pytest.importorskip("shap")
    posterior = infer(X, TARGETS["two"], ensemble="sum", random_state=0, **SUM["options"])
    assert shap_values(posterior, NEW[:2]).values.shape == (2, 6)
