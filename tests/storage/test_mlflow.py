"""Models go through MLflow, with a store of files, and predict as before."""

import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from random_posterior import mixed_frame

import dtgfn
from dtgfn import DTGFNAnomalyDetector, DTGFNClassifier, DTGFNRegressor
from dtgfn import mlflow as flavour

with warnings.catch_warnings():  # of its own type hints
    warnings.simplefilter("ignore")
    pytest.importorskip("mlflow.pyfunc", reason="mlflow is not installed", exc_type=ImportError)
    import mlflow
pytestmark = [
    pytest.mark.filterwarnings("ignore::dtgfn.diagnostics.UntrustworthyFit"),
    pytest.mark.filterwarnings("ignore:.*:FutureWarning:mlflow"),
]
FRAME = mixed_frame(60, np.random.default_rng(0))
SUM = {"ensemble": "sum", "n_jobs": 1, "random_state": 0}
SUM["options"] = {"n_summed": 4, "n_chains": 2, "n_sweeps": 8, "n_draws": 6}


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A store of files, and nowhere else to go."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri((tmp_path / "store").as_uri())
    yield tmp_path
    mlflow.set_tracking_uri(before)


def fitted(kind):
    if kind == "classifier":
        return DTGFNClassifier(**SUM).fit(FRAME, np.where(FRAME["length"] > 0, "yes", "no"))
    if kind == "regressor":
        return DTGFNRegressor(**SUM).fit(FRAME, FRAME["length"])
    numbers = FRAME[["length", "flag"]]
    return DTGFNAnomalyDetector(n_trees=2, max_depth=2, random_state=0).fit(numbers)


@pytest.mark.parametrize("kind", ["classifier", "regressor", "detector"])
def test_a_model_that_was_logged_predicts_as_before(kind, store):
    model = fitted(kind)
    X = FRAME if kind != "detector" else FRAME[["length", "flag"]]
    with mlflow.start_run():
        info = flavour.log_model(model, "trees")
    said = mlflow.pyfunc.load_model(info.model_uri).predict(X)
    assert isinstance(said, pd.DataFrame)
    if kind == "classifier":
        assert said.columns.tolist() == ["label", "P(no)", "P(yes)"]
        np.testing.assert_array_equal(said.iloc[:, 1:], model.predict_proba(X))
        np.testing.assert_array_equal(said["label"], model.predict(X))
    elif kind == "regressor":
        np.testing.assert_array_equal(said["value"], model.predict(X))
    else:
        np.testing.assert_array_equal(said["score"], -model.score_samples(X))
    again = flavour.load_model(info.model_uri)
    assert type(again) is type(model)


def test_a_folder_holds_our_file_and_the_version_and_no_pickle(store):
    flavour.save_model(fitted("regressor"), store / "saved")
    assert f"dtgfn=={dtgfn.__version__}" in (store / "saved" / "requirements.txt").read_text()
    names = {path.name for path in (store / "saved").rglob("*") if path.is_file()}
    assert "model.dtgfn" in names
    assert not [name for name in names if name.endswith((".pkl", ".pickle"))]
    assert mlflow.pyfunc.load_model(str(store / "saved")).predict(FRAME).shape == (60, 1)


def test_without_mlflow_its_extra_is_named(monkeypatch, tmp_path):
    for name in ("mlflow", "mlflow.pyfunc"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"pip install 'dtgfn\[mlflow\]'"):
        flavour.save_model(fitted("regressor"), tmp_path / "x")
