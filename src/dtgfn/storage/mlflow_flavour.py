"""Fitted estimators as MLflow models, through MLflow's pyfunc interface.

An MLflow model holds our own model file, no pickle, and asks for the version of dtgfn that wrote
it. What it predicts is a frame: of a classifier ``label`` and ``P(class)`` for each class, of a
regressor ``value``, of an anomaly detector ``score``, high where a row is odd. MLflow models name
this module, so it keeps its name.
"""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

import pandas as pd

from dtgfn._version import __version__
from dtgfn.estimators.anomaly import DTGFNAnomalyDetector
from dtgfn.estimators.regressor import DTGFNRegressor
from dtgfn.storage.model_file import load, save

FILE = "model.dtgfn"


def save_model(model: Any, path: str | Path, **options: Any) -> None:
    """Write a fitted estimator as an MLflow model.

    Parameters
    ----------
    model : DTGFNClassifier, DTGFNRegressor or DTGFNAnomalyDetector
        Fitted.
    path : str or path
        Folder to make.
    **options
        Of ``mlflow.pyfunc.save_model``, such as ``signature`` or ``input_example``.

    """
    with tempfile.TemporaryDirectory() as folder:
        _pyfunc().save_model(path=str(path), **_parts(model, folder), **options)


def log_model(model: Any, name: str = "model", **options: Any) -> Any:
    """Log a fitted estimator to the active run of MLflow, or a new one.

    Parameters
    ----------
    model : DTGFNClassifier, DTGFNRegressor or DTGFNAnomalyDetector
        Fitted.
    name : str
        The model's name in the run.
    **options
        Of ``mlflow.pyfunc.log_model``, such as ``signature`` or ``registered_model_name``.

    Returns
    -------
    mlflow.models.model.ModelInfo
        Among others its ``model_uri``.

    """
    with tempfile.TemporaryDirectory() as folder:
        return _pyfunc().log_model(name=name, **_parts(model, folder), **options)


def load_model(uri: str | Path) -> Any:
    """Read the estimator itself back; ``mlflow.pyfunc.load_model`` reads what only predicts.

    Parameters
    ----------
    uri : str or path
        Where MLflow has the model: a folder, or an address such as ``runs:/.../model``.

    Returns
    -------
    DTGFNClassifier, DTGFNRegressor or DTGFNAnomalyDetector
        Fitted; see ``dtgfn.load``.

    """
    return _pyfunc().load_model(str(uri)).get_raw_model()


def _parts(model: Any, folder: str) -> dict[str, Any]:
    """What every MLflow model is made of."""
    file = Path(folder) / FILE
    save(model, file)
    needed = [f"dtgfn=={__version__}"]
    return {"loader_module": __name__, "data_path": str(file), "pip_requirements": needed}


def _pyfunc() -> Any:
    try:
        with warnings.catch_warnings():  # it warns of its own type hints as it is imported
            warnings.simplefilter("ignore")
            import mlflow.pyfunc as pyfunc
    except ImportError as error:
        raise ImportError("This needs MLflow: pip install 'dtgfn[mlflow]'.") from error
    return pyfunc


def _load_pyfunc(path: str) -> Flavour:
    """Read a model as MLflow asks for it."""
    return Flavour(load(path))


class Flavour:
    """A fitted estimator as MLflow sees it.

    Parameters
    ----------
    model : DTGFNClassifier, DTGFNRegressor or DTGFNAnomalyDetector
        Fitted.

    """

    def __init__(self, model: Any) -> None:
        self.model = model

    def get_raw_model(self) -> Any:
        """Return the estimator itself, as MLflow asks for it."""
        return self.model

    def predict(self, X: Any, params: dict[str, Any] | None = None) -> pd.DataFrame:
        """Predict rows of a table.

        Parameters
        ----------
        X : frame or array
            Rows.
        params : dict or None
            MLflow's; nothing is made of it.

        Returns
        -------
        DataFrame
            With the index of X, if it has one.

        """
        index = getattr(X, "index", None)
        if isinstance(self.model, DTGFNRegressor):
            return pd.DataFrame({"value": self.model.predict(X)}, index=index)
        if isinstance(self.model, DTGFNAnomalyDetector):
            return pd.DataFrame({"score": -self.model.score_samples(X)}, index=index)
        probability = self.model.predict_proba(X)
        label = self.model.classes_[probability.argmax(axis=1)]
        named = {f"P({c})": probability[:, k] for k, c in enumerate(self.model.classes_)}
        return pd.DataFrame({"label": label, **named}, index=index)
