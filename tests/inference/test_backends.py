"""Independent runs on a backend of joblib: the same results as on threads, and really there."""

import os

import joblib
import numpy as np
import pytest
from sklearn.datasets import load_iris

from dtgfn import DTGFNAnomalyDetector, DTGFNClassifier, DTGFNRegressor, infer, select
from dtgfn._support.backends import open_backend

X, Y = load_iris(return_X_y=True)
pytestmark = pytest.mark.filterwarnings("ignore::dtgfn.diagnostics.UntrustworthyFit")
SMALL = {"max_depth": 2, "n_thresholds": 7, "random_state": 0, "time_budget": None}


def assert_same(here, there):
    np.testing.assert_array_equal(here.trees.feature, there.trees.feature)
    np.testing.assert_array_equal(here.trees.cut, there.trees.cut)
    np.testing.assert_array_equal(here.log_reward, there.log_reward)


def fit_bags():
    options = {"n_bags": 5, "n_particles": 20}
    model = DTGFNClassifier(ensemble="bags", n_trees=20, options=options, **SMALL)
    return model.fit(X, Y).posterior_


def run_chains():
    return infer(X, Y, engine="mcmc", n_chains=3, n_steps=400, n_trees=30, **SMALL)


def run_sweeps():
    return infer(X, Y, engine="smc", n_particles=30, n_sweeps=5, n_trees=30, **SMALL)


def choose_temperature():
    model = DTGFNClassifier(inference="exact", temperature="auto", n_trees=30, **SMALL)
    return model.fit(X, Y).posterior_


def sum_chains():
    options = {"n_summed": 3, "n_chains": 2, "n_sweeps": 8, "n_draws": 8}
    model = DTGFNRegressor(ensemble="sum", options=options, **SMALL).fit(X, X[:, 0])
    return model.predict(X)


def judge_settings():
    chosen = {**SMALL, "max_depth": [1, 2]}
    return select(X, Y, engine="exact", n_trees=30, **chosen).table["log_evidence"]


def detect():
    return DTGFNAnomalyDetector(n_trees=20, max_depth=3, random_state=0).fit(X).score_samples(X)


# The first two of each kind by default; all where time is no matter.
POSTERIORS = [
    fit_bags,
    run_chains,
    pytest.param(run_sweeps, marks=pytest.mark.long),
    pytest.param(choose_temperature, marks=pytest.mark.long),
]
NUMBERS = [
    judge_settings,
    pytest.param(sum_chains, marks=pytest.mark.long),
    pytest.param(detect, marks=pytest.mark.long),
]


@pytest.mark.parametrize("do", POSTERIORS)
def test_posteriors_are_the_same_on_loky(do):
    here = do()
    with joblib.parallel_config("loky", n_jobs=2):
        assert_same(here, do())


@pytest.mark.parametrize("do", NUMBERS)
def test_numbers_are_the_same_on_loky(do):
    here = do()
    with joblib.parallel_config("loky", n_jobs=2):
        np.testing.assert_array_equal(here, do())


def test_without_a_backend_or_with_one_job_everything_stays_here():
    assert open_backend(None) is None
    assert open_backend(4) is None
    with joblib.parallel_config("threading", n_jobs=2):
        assert open_backend(None) is None
    with joblib.parallel_config("loky", n_jobs=2):
        assert open_backend(1) is None
        assert open_backend(None).width == 2
        assert open_backend(3).n_jobs == 3


def test_tasks_go_to_other_processes_which_send_nothing_on():
    def where(task):  # in here, so that it is sent and not looked for
        return os.getpid(), open_backend(None), task

    with joblib.parallel_config("loky", n_jobs=2):
        elsewhere = open_backend(None)
        found = list(elsewhere.run(where, [(k,) for k in range(4)]))
    assert [task for *_, task in found] == [0, 1, 2, 3]
    assert all(process != os.getpid() and nested is None for process, nested, _ in found)


def test_time_is_shared_by_how_many_run_at_once():
    with joblib.parallel_config("loky", n_jobs=2):
        elsewhere = open_backend(None)
    assert elsewhere.share(10.0, 8) == 2.5
    assert elsewhere.share(10.0, 1) == 10.0
    assert elsewhere.share(None, 8) is None


@pytest.mark.long
def test_a_time_budget_holds_elsewhere_too():
    with joblib.parallel_config("loky", n_jobs=2):
        given = {**SMALL, "time_budget": 2.0}
        posterior = infer(X, Y, engine="smc", n_sweeps=None, n_trees=30, **given)
    assert posterior.diagnostics["sweeps"] >= 1
