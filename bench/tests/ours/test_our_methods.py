"""Our methods and the field's samplers: the contract, and what each says it runs."""

import math

import numpy as np
import pytest
from dtgfn_bench.contract import TrainingRows
from dtgfn_bench.ours import classifiers, detectors, developed
from dtgfn_bench.rivals import samplers
from scipy.special import betaln

from dtgfn import BudgetExceeded
from dtgfn.trees.score import BranchingPrior, log_reward

FAMILIES = (*classifiers.METHODS, *developed.METHODS, *samplers.METHODS)
CLASSIFIERS = {method.name: method for method in FAMILIES}
# Only a little of each: their engines have tests of their own.
LITTLE = {
    "n_steps": 200,
    "n_chains": 2,
    "n_particles": 30,
    "n_trees": 30,
    "max_depth": 2,
    "n_thresholds": 9,
    "n_bags": 4,
}


def made_rows(n=60, seed=0):
    """Three columns; class 1 of three is never seen."""
    X = np.random.default_rng(seed).normal(size=(n, 3))
    return TrainingRows(X, np.where(X[:, 0] > 0, 2, 0), 3, "made")


def fit(name, rows, seed=5, **changes):
    method = CLASSIFIERS[name]
    given = {**method.settings, **method.quick}
    little = {key: value for key, value in LITTLE.items() if key in given}
    if "paper" in name or name in ("dtgfn", "dtgfn-tree", "dtgfn-tree-quantile"):
        little["n_steps"] = 1
    return method.fit(rows, seed, **{**given, **little, **changes})


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifier_keeps_the_contract(name):
    rows, new = made_rows(), made_rows(40, seed=1)
    one, two = fit(name, rows), fit(name, rows)
    probability = one.predict_proba(new.X)
    assert probability.shape == (40, 3)
    np.testing.assert_allclose(probability.sum(axis=1), 1)
    assert (probability[:, 1] == 0).all()
    np.testing.assert_array_equal(probability, two.predict_proba(new.X))
    assert one.size() >= 1
    if "paper" not in name:  # one step of that policy has learned nothing
        assert (probability.argmax(axis=1) == new.y).mean() > 0.8


@pytest.mark.parametrize("name", ["dtgfn", "dtgfn-bagged", "dtgfn-auto", "mcmc-ensemble"])
def test_number_of_trees_is_a_setting(name):
    fitted = fit(name, made_rows(), n_trees=17)
    assert len(fitted.model.posterior_.trees) == 17


def test_paper_tree_is_the_best_of_those_drawn():
    found = fit("dtgfn-tree-paper", made_rows()).model.posterior_
    highest = log_reward(found.paper_tree, found.rows, found.score)[0]
    assert highest == pytest.approx(found.log_reward.max())


def test_bagged_takes_the_penalty_with_the_better_score_out_of_bag():
    rows = made_rows()
    scores = {
        penalty: classifiers._outside_score(fit("dtgfn-bagged", rows, penalties=[penalty]))
        for penalty in ("mdl", "paper")
    }
    chosen = fit("dtgfn-bagged", rows, penalties=["mdl", "paper"]).model
    assert chosen.split_penalty == max(scores, key=scores.__getitem__)


def test_exact_refuses_what_is_out_of_reach():
    X = np.random.default_rng(0).normal(size=(400, 30))
    rows = TrainingRows(X, (X.sum(axis=1) > 0).astype(np.int64), 2, "made")
    with pytest.raises(BudgetExceeded, match="time_budget"):
        fit("dtgfn-exact", rows, max_depth=5, n_thresholds=99, time_budget=0.5)


@pytest.mark.parametrize("name", ["smc", "mcmc", "bcart"])
def test_samplers_have_their_authors_priors(name):
    rows = made_rows()
    found = fit(name, rows).model.posterior_
    assert found.score.prior == BranchingPrior(0.95, 0.5)
    concentration = 1.0 if name == "bcart" else 5 / 3
    assert found.score.leaf.concentration == pytest.approx(concentration)


def test_bcart_scores_a_stump_by_the_formula():
    """Two rows of two classes, one feature of two codes: log R of the stump by hand."""
    rows = TrainingRows(np.array([[0.0], [1.0]]), np.array([0, 1]), 2, "made")
    found = fit("bcart", rows, n_thresholds=1, max_depth=1).model.posterior_
    stump = found.trees.n_splits == 1
    one_row = betaln(2, 1) - betaln(1, 1)
    assert found.log_reward[stump] == pytest.approx(math.log(0.95) + 2 * one_row)
    assert found.log_reward[~stump] == pytest.approx(math.log(0.05) + betaln(2, 2))


@pytest.mark.parametrize("method", detectors.METHODS, ids=lambda method: method.name)
def test_detector_keeps_the_contract_and_its_own_threshold(method):
    rows = made_rows()
    fitted = method.fit(rows, 3, **{**method.settings, **method.quick})
    scores = fitted.training_scores()
    assert scores.shape == (60,)
    assert scores.mean() + 2 * scores.std() == pytest.approx(-fitted.model.offset_)
    far, near = fitted.score(np.array([[9.0, 9.0, 9.0], [0.0, 0.0, 0.0]]))
    assert far > near
    again = method.fit(rows, 3, **{**method.settings, **method.quick})
    np.testing.assert_array_equal(again.training_scores(), scores)
    assert fitted.size() >= 1
