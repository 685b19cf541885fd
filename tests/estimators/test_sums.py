"""Sums of trees behind the estimators: what they lack is told in one sentence."""

import numpy as np
import pytest

import dtgfn
from dtgfn import DTGFNClassifier, diagnostics, explain

pytestmark = pytest.mark.filterwarnings("ignore::dtgfn.diagnostics.UntrustworthyFit")
FEW = {"n_summed": 4, "n_chains": 2, "n_sweeps": 10, "n_draws": 8}
SUM = {"ensemble": "sum", "random_state": 0, "time_budget": None, "options": FEW}
X = np.random.default_rng(0).normal(size=(60, 3))
LABELS = np.where(X[:, 0] + X[:, 1] > 0, "yes", "no")


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
    DTGFNClassifier(ensemble="bags", inference="smc", options=few).fit(X, LABELS)
