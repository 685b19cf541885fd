"""Sums of trees leave the package by ONNX, which predicts what they do; drawings are refused."""

import numpy as np
import pandas as pd
import pytest
from onnx_sessions import run_onnx
from random_posterior import mixed_frame, numeric_frame

from dtgfn import DTGFNClassifier, DTGFNRegressor, SumPredictor, infer
from dtgfn.export import export, onnx_sums
from dtgfn.export.formats import FORMATS

pytestmark = pytest.mark.filterwarnings("ignore::dtgfn.diagnostics.UntrustworthyFit")
SUM = {"n_summed": 8, "n_chains": 2, "n_sweeps": 15, "n_draws": 12}
SUM = {"ensemble": "sum", "options": SUM, "n_thresholds": 9, "random_state": 0, "n_jobs": 1}
FRAMES = {"mixed": mixed_frame, "numeric": numeric_frame}
LENGTHS = np.random.default_rng(4).normal(size=80)


def rows(kind):
    """Training rows, and new ones with missing cells and categories that are not known."""
    rng = np.random.default_rng(5)
    frame, new = FRAMES[kind](80, rng).assign(length=LENGTHS), FRAMES[kind](200, rng)
    if kind == "mixed":
        new.loc[:20, "colour"] = "violet"
        new.loc[10:30, "shape"] = None
    new.loc[40:50, "length"] = np.nan
    new.loc[60:63, "length"] = [1e308, -1e308, 0.0, 5e-324]
    return frame, new


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("classes", [["same"], ["no", "yes"], ["a", "b", "ü"], [3, 7]])
def test_onnx_says_what_a_classifier_does(kind, classes):
    frame, new = rows(kind)
    y = np.array(classes)[np.argsort(np.argsort(LENGTHS)) * len(classes) // 80]
    model = DTGFNClassifier(**SUM).fit(frame, y)
    label, probability = run_onnx(model.export("onnx"), new)
    expected = model.predict_proba(new)
    assert np.abs(probability - expected).max() < 1e-5
    top = np.sort(expected, axis=1)[:, -2:]
    clear = top[:, -1] > top[:, 0] + 1e-5 if len(classes) > 1 else slice(None)
    assert (label == model.predict(new))[clear].all()


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("unit", [1.0, 1e-9, 1e9])
def test_onnx_says_what_a_regressor_does(kind, unit):
    frame, new = rows(kind)
    model = DTGFNRegressor(**SUM).fit(frame, unit * (3.0 + LENGTHS))
    (value,) = run_onnx(export(model, "onnx", trees="all"), new)
    assert np.abs(value[:, 0] - model.predict(new)).max() < 1e-5 * unit


def test_onnx_of_a_posterior_without_splits():
    posterior = infer(np.ones((9, 1)), [0, 1, 1] * 3, ensemble="sum", random_state=0, n_sweeps=5)
    _, probability = run_onnx(export(posterior, "onnx"), pd.DataFrame([[1.0], [7.0]]))
    wanted = SumPredictor(posterior).average(posterior.encode([[1.0], [7.0]]))
    np.testing.assert_allclose(probability, wanted, atol=1e-5)


@pytest.mark.parametrize("format", [name for name, each in FORMATS.items() if not each.write_sums])
@pytest.mark.parametrize("trees", [None, "best", "all"])
def test_other_formats_are_refused(format, trees):
    model = DTGFNRegressor(**SUM).fit(LENGTHS[:, None], LENGTHS)
    with pytest.raises(ValueError, match=f"^{format} holds single trees, not sums of trees; give "):
        model.export(format, trees=trees)


def test_single_trees_of_a_sum_and_too_large_ones_are_refused(monkeypatch):
    model = DTGFNRegressor(**SUM).fit(LENGTHS[:, None], LENGTHS)
    with pytest.raises(TypeError, match="A sum of trees has no single tree"):
        model.export("onnx", trees="best")
    monkeypatch.setattr(onnx_sums, "MOST_NODES", 10)
    with pytest.raises(ValueError, match=r"nodes, more than the 10 .* fit with fewer n_draws"):
        model.export("onnx")
