"""A record's key changes with what is computed, and with nothing else."""

from dataclasses import replace

import pytest
from dtgfn_bench import keys, method_lookup
from dtgfn_bench.contract import Method
from dtgfn_bench.experiment import Cell, Experiment

CELL = Cell("pretend", "iris", "m", 1, {"n_trees": 5}, {"noise": 2})


def fit(rows, seed):
    return None


METHOD = Method("m", "M", fit, "note", {"n_trees": 5}, needs=("numpy",))
EXPERIMENT = Experiment("pretend", "Pretend", lambda quick: [], fit, lambda records: [])


@pytest.fixture
def key(monkeypatch):
    def of(cell=CELL, experiment=EXPERIMENT, **changes):
        monkeypatch.setitem(method_lookup.METHODS, "m", replace(METHOD, **changes))
        return keys.current_key(experiment, cell)

    return of


@pytest.mark.parametrize(
    "changes",
    [
        {"note": "other words"},
        {"label": "Other"},
        {"fit": lambda rows, seed: None},
        {"quick": {"n_trees": 1}},
        {"install": None},
    ],
)
def test_words_and_where_the_code_stands_do_not_count(key, changes):
    assert key(**changes) == key()


@pytest.mark.parametrize(
    "changes",
    [
        {"experiment": "other"},
        {"table": "wine"},
        {"seed": 2},
        {"settings": {"n_trees": 6}},
        {"variant": {}},
    ],
)
def test_another_cell_has_another_key(key, changes):
    assert key(cell=replace(CELL, **changes)) != key()


def test_revisions_count(key):
    assert key(revision=2) != key()
    assert key(experiment=replace(EXPERIMENT, revision=2)) != key()
    assert key(experiment=replace(EXPERIMENT, revision=2)) != key(revision=2)


def test_versions_of_needed_libraries_count(key, monkeypatch):
    before, without = key(), key(needs=())
    monkeypatch.setattr(keys, "library_version", lambda module: "0.0.0")
    assert key() != before
    assert key(needs=()) == without


def test_an_experiments_own_runs_need_no_method():
    cell = replace(CELL, method="no method")
    assert keys.current_revisions(EXPERIMENT, cell) == {"experiment": 1}
    assert keys.current_key(EXPERIMENT, cell) == keys.record_key(cell, {"experiment": 1}, {})


def test_versions_are_those_of_distributions():
    assert keys.library_version("sklearn").split(".")[0].isdigit()
    assert keys.library_version("no_such_module") == "missing"
    assert "scikit-learn" in keys.library_versions(METHOD.needs)
