"""Sums of trees behind the estimators: what they lack is told in one sentence."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import dtgfn
from dtgfn import DTGFNClassifier, DTGFNRegressor, diagnostics, explain
from dtgfn.engines.contract import Run
from dtgfn.engines.sums.engine import infer_sums
from dtgfn.engines.sums.settings import SumOptions
from dtgfn.trees.leaf_models import DirichletLeaf, NormalLeaf
from dtgfn.trees.score import Rows, merge_rows

pytestmark = pytest.mark.filterwarnings("ignore::dtgfn.diagnostics.UntrustworthyFit")
FEW = {"n_summed": 4, "n_chains": 2, "n_sweeps": 10, "n_draws": 8}
SUM = {"ensemble": "sum", "random_state": 0, "time_budget": None, "options": FEW}
X = np.random.default_rng(0).normal(size=(60, 3))
LABELS = np.where(X[:, 0] + X[:, 1] > 0, "yes", "no")


QUICK = {**SUM, "max_depth": 3, "options": {**FEW, "n_summed": 10, "n_sweeps": 16, "n_draws": 20}}


@parametrize_with_checks([DTGFNClassifier(**QUICK), DTGFNRegressor(**QUICK)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def model():
    return DTGFNClassifier(**SUM).fit(X, LABELS)


WAY_OUT = "; use importances, partial_dependence or shap_values, or fit with ensemble=None."


@pytest.mark.parametrize("name", ["best_tree_", "consensus_tree_", "log_evidence_", "temperature_"])
def test_attributes_of_single_trees_are_absent(model, name):
    assert not hasattr(model, name)
    with pytest.raises(AttributeError) as refusal:
        getattr(model, name)
    assert str(refusal.value) == f"A sum of trees has no {name}{WAY_OUT}"


@pytest.mark.parametrize(
    "ask",
    [
        lambda model: model.describe(),
        lambda model: model.decision_path(X[:1]),
        lambda model: model.rules(),
        lambda model: model.rules("all"),
        lambda model: model.co_occurrence(),
        lambda model: dtgfn.tree_text(model.posterior_),
        lambda model: dtgfn.leave_one_out(model.posterior_),
        lambda model: explain.consensus_tree(model.posterior_),
        lambda model: explain.take_trees(model, "all"),
        lambda model: diagnostics.compare(model.posterior_, model.posterior_),
    ],
)
def test_questions_to_single_trees_are_refused(model, ask):
    with pytest.raises(TypeError) as refusal:
        ask(model)
    assert str(refusal.value) == f"A sum of trees has no single tree{WAY_OUT}"


def test_more_rows_are_refused(model):
    with pytest.raises(TypeError, match="cannot take more rows; fit all of them again"):
        dtgfn.extend_posterior(model.posterior_, X, LABELS)
    assert not hasattr(model, "partial_fit")
    later = DTGFNClassifier(**SUM).fit(X, LABELS).set_params(ensemble=None, options=None)
    with pytest.raises(ValueError, match="cannot go on where 'sums' ended"):
        later.partial_fit(X, LABELS)


def test_predictors_of_single_trees_are_refused(model):
    with pytest.raises(TypeError, match="make a SumPredictor"):
        dtgfn.average_outputs(model.posterior_, model.posterior_.encode(X))
    predictor = dtgfn.SumPredictor(model.posterior_)
    codes = model.posterior_.encode(X)
    np.testing.assert_array_equal(predictor.average(codes), model.predict_proba(X))


@pytest.mark.parametrize("method", ["predict_proba", "predict", "predict_interval"])
def test_one_tree_of_a_sum_is_refused(model, method):
    with pytest.raises(ValueError, match="tree='best' is of a posterior over single trees"):
        getattr(model, method)(X, tree="best")


def test_infer_gives_what_the_estimator_keeps(model):
    posterior = dtgfn.infer(X, LABELS, ensemble="sum", random_state=model._seed(), **FEW)
    assert isinstance(posterior, dtgfn.SumPosterior)
    said = dtgfn.SumPredictor(posterior).average(posterior.encode(X))
    np.testing.assert_array_equal(said, model.predict_proba(X))


@pytest.mark.parametrize("name", ["n_summed", "n_draws", "tree_prior", "leaf_scale"])
def test_options_of_sums_are_no_options_of_bags(name):
    odd = DTGFNClassifier(ensemble="bags", inference="smc", options={name: 2})
    with pytest.raises(ValueError, match=f"{name}=2 is for ensemble='sum'"):
        odd.fit(X, LABELS)


def test_bags_keep_the_options_of_their_engine():
    few = {"n_bags": 2, "n_particles": 10, "n_sweeps": 2}
    said = [
        DTGFNClassifier(ensemble="bags", inference="smc", options=options, random_state=0)
        .fit(X, LABELS)
        .posterior_.diagnostics
        for options in (few, few | {"n_particles": 40})
    ]
    assert [each["bags"] for each in said] == [2, 2]
    assert said[0]["out_of_bag_log_score"] != said[1]["out_of_bag_log_score"]  # of other draws


TABLES = {
    "one column": (X[:, :1], LABELS),
    "constant columns": (np.ones((60, 2)), LABELS),
    "two rows": (X[:2], ["no", "yes"]),
    "one row": (X[:1], ["no"]),
    "one class": (X, ["no"] * 60),
    "three classes": (X, np.where(X[:, 2] > 0, "maybe", LABELS)),
    "missing values": (np.where(X > 1, np.nan, X), LABELS),
    "nothing but missing": (np.full((60, 1), np.nan), LABELS),
    "categories": (pd.DataFrame({"a": [*"abcdef"] * 10, "b": X[:, 0], "c": X[:, 1] > 0}), LABELS),
    "more columns than rows": (np.random.default_rng(1).normal(size=(60, 100)), LABELS),
}


@pytest.mark.parametrize("name", TABLES)
def test_odd_tables_are_learned(name):
    table, labels = TABLES[name]
    model = DTGFNClassifier(**SUM).fit(table, labels)
    probability = model.predict_proba(table)
    np.testing.assert_allclose(probability.sum(axis=1), 1)
    assert probability.shape[1] == len(set(labels))
    low, high = np.moveaxis(model.predict_interval(table), -1, 0)
    assert (low <= high).all()
    numbers = np.unique(labels, return_inverse=True)[1] + 0.5
    mean, spread = DTGFNRegressor(**SUM).fit(table, numbers).predict(table, return_std=True)
    assert np.isfinite(mean).all()
    assert (spread > 0).all()


def test_rows_of_another_kind_are_predicted():
    table = TABLES["categories"][0]
    model = DTGFNClassifier(**SUM).fit(table, LABELS)
    odd = pd.DataFrame({"a": ["new", None], "b": [np.nan, 1e308], "c": [True, False]})
    assert np.isfinite(model.predict_proba(odd)).all()


def test_a_weight_of_two_is_a_row_twice_and_of_zero_none():
    weight = np.arange(60) % 3
    twice = np.repeat(np.arange(60), weight)
    for kind, y in ((DTGFNClassifier, LABELS), (DTGFNRegressor, X[:, 0])):
        weighted, repeated = kind(**SUM).fit(X, y, weight), kind(**SUM).fit(X[twice], y[twice])
        said = [model.predict_interval(X) for model in (weighted, repeated)]
        np.testing.assert_allclose(*said, rtol=1e-9)


@pytest.mark.parametrize("of_classes", [True, False])
def test_merged_rows_have_the_same_posterior(of_classes):
    """The engine itself: rows that are there four times, or once with a weight of four."""
    codes = np.arange(40, dtype=np.uint16)[:, None] // 4
    target = (codes[:, 0] // 5).astype(np.int32) if of_classes else np.sin(codes[:, 0] / 2.0)
    leaf = DirichletLeaf(2) if of_classes else NormalLeaf()
    every = Rows(codes, target, np.ones(40))
    run = Run(column=np.zeros(1, dtype=np.int32), n_columns=1, n_jobs=1, random_state=0)
    long = SumOptions(n_summed=5, n_chains=4, n_sweeps=800, n_draws=2000)
    said = [
        dtgfn.SumPredictor(infer_sums(rows, leaf, 3, run, long)).average(codes)
        for rows in (every, merge_rows(every))
    ]
    assert np.abs(said[0] - said[1]).max() < 0.06


def test_it_is_cloned_pickled_and_part_of_a_pipeline(model):
    again = clone(model)
    assert again.get_params() == model.get_params()
    assert not hasattr(again, "posterior_")
    thawed = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(thawed.predict_proba(X), model.predict_proba(X))
    pipeline = make_pipeline(StandardScaler(), again).fit(X, LABELS)
    assert pipeline.score(X, LABELS) > 0.8
    assert cross_val_score(again, X, LABELS, cv=2).mean() > 0.7


def test_what_means_nothing_for_sums_is_refused():
    for given in ({"n_trees": 5}, {"temperature": 2.0}, {"inference": "exact"}):
        with pytest.raises(ValueError, match="is for single trees and bags"):
            DTGFNClassifier(**SUM, **given).fit(X, LABELS)
    with pytest.raises(ValueError, match="'n_tree' is not an option of ensemble='sum'"):
        DTGFNClassifier(**{**SUM, "options": {"n_tree": 5}}).fit(X, LABELS)


@pytest.mark.parametrize("odd", [{"temperature": 2.0}, {"engine": "exact"}, {"n_trees": 5}])
def test_infer_refuses_what_a_sum_has_no_use_for(odd):
    name = next(iter(odd))
    with pytest.raises(ValueError, match=f"{name}=.* is for single trees and bags, not for"):
        dtgfn.infer(X, LABELS, ensemble="sum", **odd)
