"""Sums of trees in model files: what is known of a fit comes back, lies are refused."""

import numpy as np
import pandas as pd
import pytest
from model_parts import read_parts, write_parts

from dtgfn import DTGFNClassifier, DTGFNRegressor, StorageError, load, save
from dtgfn.diagnostics import verdict
from dtgfn.storage import limits
from dtgfn.trees.left_out_rows import RowsLeftOutError

pytestmark = pytest.mark.filterwarnings("ignore::dtgfn.diagnostics.UntrustworthyFit")
FEW = {"n_summed": 3, "n_chains": 2, "n_sweeps": 9, "n_draws": 6}
SUM = {"ensemble": "sum", "random_state": 0, "time_budget": None, "options": FEW}
X = pd.DataFrame({"a": np.arange(12.0), "b": ["u", "v", None] * 4})
NUMBERS = np.arange(12.0) % 5


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "m.dtgfn"
    save(DTGFNRegressor(**SUM, max_depth=2).fit(X, NUMBERS), path)
    return path


def test_what_is_known_of_a_fit_comes_back(saved):
    fitted, again = DTGFNRegressor(**SUM, max_depth=2).fit(X, NUMBERS), load(saved)
    assert again.get_params() == fitted.get_params()
    ours, theirs = again.posterior_, fitted.posterior_
    assert repr(ours) == repr(theirs)
    assert ours.history == theirs.history
    assert ours.diagnostics.keys() == theirs.diagnostics.keys()
    for name in ("chain", "noise", "leaf_scale", "offset", "column_use"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))


def first(array, value):
    changed = array.copy()
    changed.flat[0] = value
    return changed


LIES = {
    "no leaf is finite": ("summed.value", lambda a: a * np.nan, "no usable numbers"),
    "endless leaves": ("summed.value", lambda a: np.full_like(a, 1e308), "more than a number"),
    "values of fewer nodes": ("summed.value", lambda a: a[:, :-1], "no usable numbers"),
    "values of fewer trees": ("summed.value", lambda a: a[:-1], "wrong length"),
    "single precision": ("summed.value", lambda a: a.astype("f4"), "wrong type"),
    "no noise": ("noise", lambda a: a * 0, "noise holds no usable numbers"),
    "nan noise": ("noise", lambda a: first(a, np.nan), "noise holds no usable numbers"),
    "noise of other draws": ("noise", lambda a: a[:-1], "wrong length"),
    "a scale of nothing": ("leaf_scale", lambda a: -a, "leaf_scale holds no usable numbers"),
    "no offset": ("offset", lambda a: a[:0], "wrong length"),
    "an endless offset": ("offset", lambda a: a + np.inf, "offset holds no usable numbers"),
    "another chain": ("chain", lambda a: a + 100, "chain that does not exist"),
    "a feature beyond": ("summed.feature", lambda a: np.where(a >= 0, 99, a), "does not exist"),
    "a cut beyond": ("summed.cut", lambda a: a + 1000, "cut is out of range"),
    "a child of itself": ("summed.left", lambda a: np.where(a >= 0, 0, a), "out of range"),
    "slopes of other features": ("lines.slope", lambda a: a[:, 1:], "do not go with"),
    "slopes of other draws": ("lines.slope", lambda a: a[1:], "wrong length"),
    "endless slopes": ("lines.slope", lambda a: a * np.inf, "lines hold no usable numbers"),
    "huge slopes": ("lines.slope", lambda a: a * 0 + 1e300, "more than a number"),
    "no scores": ("lines.score", lambda a: a[:, :0], "do not go with"),
    "nan scores": ("lines.score", lambda a: a * np.nan, "lines hold no usable numbers"),
    "a line beyond": ("lines.feature", lambda a: a + 90, "a line is of a feature that does not"),
    "nodes without room": ("summed.n_nodes", lambda a: a + 1000, "more nodes than"),
}


@pytest.mark.parametrize("name", LIES)
def test_arrays_that_lie_are_refused(saved, tmp_path, name):
    array, change, reason = LIES[name]
    head, meta, arrays = read_parts(saved)
    write_parts(tmp_path / "m", head, meta, arrays | {array: change(arrays[array])})
    with pytest.raises(StorageError, match=reason):
        load(tmp_path / "m")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"n_draws": 7}, "7 draws of 1 sums of 3 trees"),
        ({"n_summed": 0}, "n_summed=0 is out of range"),
        ({"n_draws": 2.5}, "n_draws=2.5"),
        ({"engine": "exact"}, "lacks 'score'"),
        ({"leaf": {"kind": "dirichlet", "n_classes": 2, "concentration": 0.1}}, "wrong length"),
        ({"estimator": "DTGFNClassifier"}, "unknown parameter|do not fit its kind"),
        ({"diagnostics": {}}, "lacks 'acceptance'"),
    ],
)
def test_meta_data_that_lie_are_refused(saved, tmp_path, change, reason):
    head, meta, arrays = read_parts(saved)
    write_parts(tmp_path / "m", head, meta | change, arrays)
    with pytest.raises(StorageError, match=reason):
        load(tmp_path / "m")


def test_draws_that_no_memory_could_add_up_are_refused(saved, monkeypatch):
    monkeypatch.setattr(limits, "MOST_BYTES", 1000)
    with pytest.raises(StorageError, match=r"needs .* for 6 draws, more than"):
        load(saved)


def test_sums_without_their_rows_predict_and_refuse_the_rest(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 2))
    y = (X[:, 0] > 0).astype(int)
    model = DTGFNClassifier(random_state=0, options={"n_sweeps": 20}).fit(X, y)
    whole, part = tmp_path / "whole.dtgfn", tmp_path / "part.dtgfn"
    save(model, whole)
    save(model, part, rows=False)
    assert b"rows.codes" in whole.read_bytes()
    assert b"rows." not in part.read_bytes()
    read = load(part)
    np.testing.assert_array_equal(read.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(read.predict_interval(X), model.predict_interval(X))
    items = {item["name"]: item for item in verdict(read.posterior_)["items"]}
    assert items["Distance of the chains"]["text"] == "not known"
    for refused in (
        lambda: read.importances(),
        lambda: read.predict_proba(X, class_prior="uniform"),
        lambda: read.report(),
    ):
        with pytest.raises(RowsLeftOutError, match=r"saved without its training rows") as no:
            refused()
        assert str(no.value).count(". ") == 0
    save(read, part)  # what was left out stays out
    assert b"rows." not in part.read_bytes()
