"""Estimators and sources: what is read in chunks gives the model of the same rows in memory."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow.dataset as ds
import pytest
import scipy.sparse

from dtgfn import DTGFNAnomalyDetector, DTGFNClassifier, DTGFNRegressor, infer
from dtgfn.data import row_store, sources
from dtgfn.trees.score import merge_rows

N_ROWS = 600


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    found = pd.DataFrame(
        {
            "size": rng.integers(0, 12, N_ROWS) / 4,
            "colour": rng.choice(["red", "blue", "green", None], N_ROWS),
            "w": rng.integers(1, 4, N_ROWS),
        }
    )
    noise = rng.normal(size=N_ROWS)
    found["y"] = np.where(found["size"] + (found.colour == "red") + noise > 2, "yes", "no")
    found["price"] = (found["size"] * 3 + noise).round(1)
    return found


@pytest.fixture(scope="module")
def path(frame, tmp_path_factory):
    path = tmp_path_factory.mktemp("sources") / "rows.parquet"
    frame.to_parquet(path, row_group_size=100)
    return path


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(sources, "LEAST_AT_ONCE", 64)
    monkeypatch.setattr(sources, "CELLS_AT_ONCE", 64 * 3)


ENGINES = [
    {"inference": "exact", "max_depth": 2, "n_trees": 50},
    {"inference": "smc", "max_depth": 2, "n_trees": 50, "options": {"n_particles": 50}},
    {
        "inference": "mcmc",
        "max_depth": 2,
        "n_trees": 50,
        "options": {"n_chains": 2, "n_steps": 300},
    },
    {"ensemble": "sum", "options": {"n_sweeps": 20, "n_chains": 2}},
    {"ensemble": "bags", "inference": "exact", "max_depth": 1, "n_trees": 20},
]


@pytest.mark.parametrize("engine", ENGINES, ids=lambda e: e.get("ensemble") or e["inference"])
@pytest.mark.parametrize("kind", [DTGFNClassifier, DTGFNRegressor])
@pytest.mark.filterwarnings("ignore::UserWarning")  # such short runs do not converge
def test_a_source_gives_the_model_of_its_rows(engine, kind, frame, path):
    given = {"n_thresholds": 5, "random_state": 0, "n_jobs": 1, **engine}
    target = "y" if kind is DTGFNClassifier else "price"
    X = frame[["size", "colour"]]
    lazy = pl.scan_parquet(path).select("size", "colour", "w", target)
    here = kind(**given).fit(X, frame[target], sample_weight=frame.w)
    there = kind(**given).fit(lazy, target, sample_weight="w")
    assert there.feature_names_in_.tolist() == list(X.columns)
    answer = "predict_proba" if kind is DTGFNClassifier else "predict"
    expected = getattr(here, answer)(X)
    for new in (X, path, ds.dataset(path)):
        np.testing.assert_allclose(getattr(there, answer)(new), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(there.predict(path), there.predict(X))
    np.testing.assert_allclose(there.predict_interval(path), there.predict_interval(X), rtol=1e-9)
    parts, whole = there.predict_uncertainty(path), there.predict_uncertainty(X)
    np.testing.assert_allclose(parts.total, whole.total, rtol=1e-9)


def test_rows_on_disk_give_the_same_posterior(frame, path, monkeypatch):
    monkeypatch.setattr(row_store, "IN_MEMORY", 1000)
    monkeypatch.setattr(row_store, "PAYS", 0.0)
    given = {"max_depth": 2, "n_thresholds": 5, "random_state": 0}
    lazy = pl.scan_parquet(path).select("size", "colour", "y")
    there = infer(lazy, "y", engine="exact", **given)
    assert isinstance(there.rows.codes.base, np.memmap)
    here = infer(frame[["size", "colour"]], frame.y, engine="exact", **given)
    assert there.log_evidence == pytest.approx(here.log_evidence, abs=1e-9)
    one, other = merge_rows(there.rows), merge_rows(here.rows)
    np.testing.assert_array_equal(one.codes, other.codes)
    np.testing.assert_array_equal(one.weight, other.weight)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        summed = infer(lazy, "y", ensemble="sum", n_sweeps=5, n_chains=1, random_state=0)
    assert isinstance(summed.rows.codes.base, np.memmap)


@pytest.mark.parametrize("class_weight", ["balanced", {"yes": 3.0}])
def test_class_weights_count_for_sources_too(class_weight, frame, path):
    given = {"inference": "exact", "max_depth": 1, "n_thresholds": 5, "class_weight": class_weight}
    X = frame[["size", "colour", "w", "price"]]
    here, there = DTGFNClassifier(**given).fit(X, frame.y), DTGFNClassifier(**given).fit(path, "y")
    assert there.log_evidence_ == pytest.approx(here.log_evidence_, abs=1e-9)


def test_equal_rows_are_one_row_for_the_engine_alone(frame):
    posterior = infer(frame[["colour"]], frame.y, engine="smc", n_particles=20, random_state=0)
    assert len(posterior.rows.target) == N_ROWS  # leaving one out leaves out one of equal rows
    once = frame.groupby(["colour", "y"], dropna=False, sort=False).size().reset_index(name="n")
    merged = infer(
        once[["colour"]], once.y, engine="smc", n_particles=20, random_state=0, sample_weight=once.n
    )
    np.testing.assert_allclose(posterior.log_reward, merged.log_reward)


def test_a_lazy_frame_with_an_array_as_target_is_collected(frame, path):
    lazy = pl.scan_parquet(path).select("size")
    model = DTGFNClassifier(inference="exact", max_depth=1, n_thresholds=5).fit(lazy, frame.y)
    assert model.n_features_in_ == 1


def test_what_a_source_lacks_is_said(frame, path):
    given = {"inference": "exact", "max_depth": 1, "n_thresholds": 5}
    model = DTGFNClassifier(**given).fit(frame.assign(more=1.0)[["size", "more"]], frame.y)
    with pytest.raises(ValueError, match=r"lacks columns that training had: 'more'; add them\."):
        model.predict(path)
    with pytest.raises(ValueError, match="name a column of it, as in y="):
        DTGFNClassifier(**given).fit(path, frame.y)
    with pytest.raises(TypeError, match="A detector is fitted to a table in memory"):
        DTGFNAnomalyDetector().fit(path)


def test_a_detector_scores_sources(frame, path):
    X = frame[["size", "price"]]
    model = DTGFNAnomalyDetector(n_trees=5, random_state=0).fit(X)
    np.testing.assert_array_equal(model.score_samples(path), model.score_samples(X))


@pytest.mark.parametrize("form", ["csr_array", "csc_matrix", "coo_array"])
def test_sparse_rows_give_the_model_of_dense_ones(form):
    rng = np.random.default_rng(1)
    dense = np.where(rng.random((120, 6)) < 0.5, 0.0, rng.normal(size=(120, 6)))
    y = np.where(dense[:, 2] > 0, "yes", "no")
    X = getattr(scipy.sparse, form)(dense)
    given = {"inference": "exact", "max_depth": 1, "n_thresholds": 9, "random_state": 0}
    here, there = DTGFNClassifier(**given).fit(dense, y), DTGFNClassifier(**given).fit(X, y)
    assert there.log_evidence_ == here.log_evidence_
    np.testing.assert_array_equal(there.predict_proba(X), here.predict_proba(dense))
    assert infer(X, y, engine="exact", max_depth=1, n_thresholds=9).log_evidence == pytest.approx(
        here.log_evidence_
    )
