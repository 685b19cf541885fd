"""Chains over sums that were killed go on as if nothing had happened; bad files are refused."""

from __future__ import annotations

import numpy as np
import pytest

from dtgfn import DTGFNClassifier, DTGFNRegressor
from dtgfn._support.archive import StorageError
from dtgfn.engines.sums import checkpoint

rng = np.random.default_rng(0)
X = rng.random((60, 3))
NUMBERS = 3 * X[:, 0] + rng.normal(size=60)
LABELS = np.array(["a", "b", "c"])[(3 * X[:, 1]).astype(int)]


def model(kind, path, n_sweeps):
    options = {"n_summed": 5, "n_chains": 2, "n_draws": 12, "n_sweeps": n_sweeps}
    return kind(random_state=1, n_jobs=1, options={**options, "checkpoint": path})


@pytest.fixture(autouse=True)
def short_rounds(monkeypatch):
    monkeypatch.setattr("dtgfn.engines.sums.engine.ROUND", 5)


@pytest.mark.parametrize(("kind", "y"), [(DTGFNClassifier, LABELS), (DTGFNRegressor, NUMBERS)])
def test_a_killed_run_ends_as_if_it_had_not_been(tmp_path, monkeypatch, kind, y):
    whole = model(kind, tmp_path / "whole", 20).fit(X, y)
    written = []

    def killed(saver):
        checkpoint.Saver.write(saver)
        written.append(saver)
        if len(written) == 3:  # the beginning, and after five and ten sweeps
            raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint.Saver, "save", killed)
        with pytest.raises(SystemExit):
            model(kind, tmp_path / "killed", 20).fit(X, y)
    resumed = model(kind, tmp_path / "killed", 20).fit(X, y)
    np.testing.assert_array_equal(resumed.posterior_.summed.value, whole.posterior_.summed.value)
    np.testing.assert_array_equal(
        resumed.posterior_.summed.batch.feature, whole.posterior_.summed.batch.feature
    )


def test_rounds_change_nothing(tmp_path):
    plain = model(DTGFNRegressor, None, 12).fit(X, NUMBERS)
    saved = model(DTGFNRegressor, tmp_path / "c", 12).fit(X, NUMBERS)
    np.testing.assert_array_equal(plain.predict(X), saved.predict(X))


def test_more_sweeps_go_on_from_the_file(tmp_path):
    model(DTGFNRegressor, tmp_path / "c", 10).fit(X, NUMBERS)
    longer = model(DTGFNRegressor, tmp_path / "c", 15).fit(X, NUMBERS)
    assert longer.posterior_.diagnostics["sweeps_per_chain"] == [15, 15]


def test_chains_of_another_table_are_refused(tmp_path):
    model(DTGFNRegressor, tmp_path / "c", 5).fit(X, NUMBERS)
    with pytest.raises(StorageError, match="holds chains of another table or with other options"):
        model(DTGFNRegressor, tmp_path / "c", 5).fit(X, NUMBERS + 1)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("chain0.left", lambda array: array + 1),
        ("chain0.feature", lambda array: array + 9),
        ("chain1.numbers", lambda array: -array),
        ("chain1.fit", lambda array: array * np.nan),
        ("chain0.position", lambda array: array - 1),
        ("chain0.draws.value", lambda array: array[:, :, :-1]),
        ("chain0.draws.cut", lambda array: array + 1000),
    ],
)
def test_damaged_files_are_refused(tmp_path, name, change):
    path = tmp_path / "c"
    model(DTGFNRegressor, path, 10).fit(X, NUMBERS)
    contents = checkpoint.read_archive(path, checkpoint.KIND, checkpoint.VERSION)
    arrays = {**contents.arrays, name: np.ascontiguousarray(change(contents.arrays[name]))}
    checkpoint.write_archive(path, checkpoint.KIND, checkpoint.VERSION, contents.meta, arrays)
    with pytest.raises(StorageError, match="is damaged"):
        model(DTGFNRegressor, path, 10).fit(X, NUMBERS)


def test_a_checkpoint_that_is_no_file_name_is_refused():
    with pytest.raises(ValueError, match="checkpoint=3 is not a file name"):
        model(DTGFNRegressor, 3, 5).fit(X, NUMBERS)
