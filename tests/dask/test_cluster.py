"""A real cluster of processes: the same trees, lazy predictions, and workers that are lost."""

import os
import pickle
import signal

import dask.array as da
import dask.dataframe as dd
import joblib
import numpy as np
import pandas as pd
import pytest
from clusters import real_cluster
from sklearn.base import clone
from sklearn.datasets import load_wine

from dtgfn import DTGFNClassifier, select
from dtgfn.dask import DaskDTGFNClassifier, DaskDTGFNRegressor, cluster
from dtgfn.dask.histograms import ClusterHistograms

pytestmark = pytest.mark.filterwarnings("ignore::dtgfn.diagnostics.UntrustworthyFit")

X, Y = load_wine(return_X_y=True, as_frame=True)
SMALL = {"n_trees": 60, "max_depth": 3, "n_thresholds": 15, "random_state": 1}
OPTIONS = {"n_particles": 60, "n_sweeps": 3}


@pytest.fixture(scope="module")
def client():
    with real_cluster() as client:
        yield client


@pytest.fixture(scope="module")
def alone():
    given = {"inference": "smc", "options": {**OPTIONS, "by_level": True}, "time_budget": None}
    return DTGFNClassifier(**given, **SMALL).fit(X, Y)


def fitted(client, n_partitions=3):
    frame = dd.from_pandas(X, npartitions=n_partitions), dd.from_pandas(Y, npartitions=n_partitions)
    return DaskDTGFNClassifier(options=OPTIONS, client=client, **SMALL).fit(*frame)


def assert_same(model, alone):
    for name in ("feature", "cut", "left"):
        ours, theirs = (getattr(m.posterior_.trees, name) for m in (model, alone))
        np.testing.assert_array_equal(ours, theirs)
    assert model.log_evidence_ == alone.log_evidence_


def test_a_cluster_has_the_trees_of_one_machine_and_predicts_lazily(client, alone):
    model = fitted(client)
    assert_same(model, alone)
    assert model.posterior_.diagnostics["round_trips"] == 5
    new = dd.from_pandas(X, npartitions=4)
    said, shares = model.predict(new), model.predict_proba(new)
    assert isinstance(said, dd.Series)
    assert list(shares.columns) == [0, 1, 2]
    said, shares = client.compute([said, shares], sync=True)
    pd.testing.assert_index_equal(said.index, X.index)
    np.testing.assert_array_equal(said, alone.predict(X))
    np.testing.assert_allclose(shares, alone.predict_proba(X), rtol=1e-12)


def test_arrays_give_arrays(client):
    rows, y = da.from_array(X.to_numpy(), chunks=(50, 4)), da.from_array(Y.to_numpy(), chunks=50)
    model = DaskDTGFNRegressor(options=OPTIONS, client=client, **SMALL).fit(rows, y)
    found = model.predict(rows)
    assert isinstance(found, da.Array)
    assert found.shape == (len(X),)
    np.testing.assert_array_equal(
        client.compute(found, sync=True), model.to_local().predict(X.to_numpy())
    )


def test_a_model_leaves_its_client_behind(client, alone):
    model = fitted(client)
    assert clone(model).client is client
    again = pickle.loads(pickle.dumps(model))
    assert again.client is None
    np.testing.assert_array_equal(again.to_local().predict(X), alone.predict(X))


def test_a_closed_client_and_what_is_none_are_refused(client):
    with pytest.raises(TypeError, match=r"client='here' is no distributed.Client"):
        fitted("here")


def test_a_refusal_of_a_worker_comes_back_as_it_is(client):
    bad = X.assign(ash=np.inf)
    frame = dd.from_pandas(bad, npartitions=2), dd.from_pandas(Y, npartitions=2)
    with pytest.raises(ValueError, match=r"In partition [01]: Column 'ash' contains infinity"):
        DaskDTGFNClassifier(options=OPTIONS, client=client, **SMALL).fit(*frame)


@pytest.mark.long
def test_a_worker_that_is_killed_in_the_middle_of_a_fit_changes_nothing(client, alone, monkeypatch):
    ask, asked = ClusterHistograms.histograms, []

    def ask_and_kill(self, paths):
        if len(asked) == 1:  # between the first and the second level
            os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
        asked.append(len(paths.length))
        return ask(self, paths)

    monkeypatch.setattr(ClusterHistograms, "histograms", ask_and_kill)
    assert_same(fitted(client, 6), alone)
    assert len(asked) == 3


def test_a_cluster_without_workers_says_so(monkeypatch):
    monkeypatch.setattr(cluster, "PULSE", 0.1)
    monkeypatch.setattr(cluster.Cluster, "patience", 0.5)
    monkeypatch.setattr(cluster.Cluster.__init__, "__defaults__", (0.5, 0))
    with (
        real_cluster(n_workers=0) as empty,
        pytest.raises(ConnectionError, match=r"has had no workers for 0.5 s; start workers"),
    ):
        fitted(empty)


@pytest.mark.long
def test_bags_and_settings_run_on_dask_as_on_threads(client):
    given = {"ensemble": "bags", "options": {"n_bags": 4}, "time_budget": None}
    model = DTGFNClassifier(**given, **SMALL)
    settings = {"max_depth": [1, 2], "n_thresholds": 7, "engine": "exact", "time_budget": None}
    here = model.fit(X, Y).posterior_, select(X, Y, random_state=0, **settings)
    with joblib.parallel_config("dask", client=client):
        there = model.fit(X, Y).posterior_, select(X, Y, random_state=0, **settings)
    np.testing.assert_array_equal(here[0].trees.feature, there[0].trees.feature)
    np.testing.assert_array_equal(here[0].log_reward, there[0].log_reward)
    assert here[1].best == there[1].best
    np.testing.assert_array_equal(here[1].table["log_evidence"], there[1].table["log_evidence"])
