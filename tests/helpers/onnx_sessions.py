"""ONNX models run on frames, as another program would."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


def run_onnx(model: Any, X: pd.DataFrame) -> list[Any]:
    """What a checked ONNX model says of rows."""
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    if [given.name for given in session.get_inputs()] == ["X"]:
        return session.run(None, {"X": np.asarray(X.astype("float64"))})
    feed = {}
    for name in X.columns:
        text = X[name].dtype == object or X[name].dtype.name == "str"
        cells = X[name].fillna("") if text else X[name].astype("float64")
        feed[name] = np.asarray(cells, dtype=object if text else float)[:, None]
    return session.run(None, feed)
