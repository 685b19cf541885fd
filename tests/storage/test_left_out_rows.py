"""Files without training rows: what still works is the same, and the rest refuses."""

import numpy as np
import pytest
from command_line import dtgfn

from dtgfn import DTGFNAnomalyDetector, DTGFNClassifier, DTGFNRegressor, StorageError, load, save
from dtgfn._support.archive import read_archive
from dtgfn._support.archive_writing import write_archive
from dtgfn.storage.model_file import KIND, VERSION
from dtgfn.trees.left_out_rows import RowsLeftOutError

rng = np.random.default_rng(3)
X = np.round(rng.normal(size=(60, 2)), 2)
Y = np.where(X[:, 0] + 0.5 * rng.normal(size=60) > 0, "yes", "no")
SMALL = {"max_depth": 2, "n_thresholds": 7, "n_trees": 40, "random_state": 0, "n_jobs": 1}
MORE = SMALL | {"max_depth": 1, "n_trees": 400}
MODELS = {
    "smc": lambda: DTGFNClassifier(inference="smc", **SMALL).fit(X, Y),
    "mcmc": lambda: DTGFNClassifier(inference="mcmc", **MORE, options={"n_steps": 3000}).fit(
        X, X[:, 1] > 0
    ),
    "exact": lambda: DTGFNClassifier(inference="exact", **SMALL).fit(X, Y),
    "bags": lambda: DTGFNRegressor(ensemble="bags", **SMALL, options={"n_bags": 6}).fit(X, X[:, 1]),
}


@pytest.fixture(scope="module", params=MODELS)
def pair(request, tmp_path_factory):
    """A model, and what comes back of it from a file without rows."""
    model = MODELS[request.param]()
    path = tmp_path_factory.mktemp("without") / "m.dtgfn"
    save(model, path, rows=False)
    contents = read_archive(path, KIND, VERSION)
    assert not [name for name in contents.arrays if name.startswith(("rows.", "support."))]
    return model, load(path), path


def test_it_predicts_as_the_trees_that_it_holds(pair):
    model, read, _ = pair
    whole = model.posterior_
    if whole.is_exact:  # whose average over all trees needs the rows
        model.weighting = "uniform"
    np.testing.assert_array_equal(model.predict(X), read.predict(X))
    np.testing.assert_array_equal(model.predict(X, tree="best"), read.predict(X, tree="best"))
    parts = model.predict_uncertainty(X), read.predict_uncertainty(X)
    np.testing.assert_allclose(*(part.model for part in parts), atol=1e-12)
    np.testing.assert_allclose(model.predict_interval(X[:5]), read.predict_interval(X[:5]))
    model.weighting = "importance"
    assert read.describe() == model.describe()
    assert read.posterior_.best_probability == model.posterior_.best_probability
    assert read.export("json") == model.export("json")
    np.testing.assert_array_equal(
        read.posterior_.column_inclusion, model.posterior_.column_inclusion
    )


def test_what_needs_rows_refuses_in_a_sentence(pair):
    _, read, path = pair
    for refused in (
        lambda: read.report(),
        lambda: read.partial_dependence("x0"),
        lambda: read.posterior_.most_probable(2),
    ):
        with pytest.raises(RowsLeftOutError, match="saved without its training rows") as no:
            refused()
        assert str(no.value).count(". ") == 0
    again = path.with_name("again.dtgfn")
    save(read, again)  # what was left out stays out
    assert load(again).describe() == read.describe()
    shown = dtgfn("show", path)
    assert shown.returncode == 0, shown.stderr
    assert "rows left out" in shown.stdout


def test_detectors_hold_no_rows_anyway(tmp_path):
    model = DTGFNAnomalyDetector(n_trees=4, random_state=0).fit(X)
    save(model, tmp_path / "d.dtgfn", rows=False)
    np.testing.assert_array_equal(
        load(tmp_path / "d.dtgfn").score_samples(X), model.score_samples(X)
    )


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("trees.sums", lambda array: array - 1e3, "no usable sums"),
        ("trees.sums", lambda array: array[:, :1], "of the wrong shape"),
        ("best.first", lambda array: array + 1000, "do not hold its splits"),
        ("best.last", lambda array: array[:, :1], "of the wrong shape"),
    ],
)
def test_sums_that_no_rows_have_are_refused(name, change, said, tmp_path):
    path = tmp_path / "m.dtgfn"
    save(MODELS["smc"](), path, rows=False)
    contents = read_archive(path, KIND, VERSION)
    changed = contents.arrays | {name: np.ascontiguousarray(change(contents.arrays[name]))}
    write_archive(path, KIND, VERSION, contents.meta, changed)
    with pytest.raises(StorageError, match=said):
        load(path)
