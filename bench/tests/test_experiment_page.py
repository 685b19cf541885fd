"""An experiment's page: which records it shows, and what it says of those that are stale."""

from dataclasses import replace

import pytest
from dtgfn_bench import keys, method_lookup
from dtgfn_bench.contract import Method
from dtgfn_bench.experiment import Block, Cell, Experiment, Record
from dtgfn_bench.experiment_page import wanted_records, write_experiment_page
from dtgfn_bench.store import Store

METHOD = Method("m", "Pretender", lambda rows, seed: None, "Does little.", needs=("numpy",))
CELLS = [Cell("pretend", "iris", "m", seed) for seed in (1, 2)]


def render(records):
    return [Block("Seeds", [["seed", "accuracy"], *_rows(records)])]


def _rows(records):
    return [[str(r.cell.seed), f"{r.metrics['accuracy']:.2f}"] for r in records]


EXPERIMENT = Experiment("pretend", "Pretend", lambda quick: CELLS, lambda cell: {}, render)


@pytest.fixture
def method(monkeypatch):
    def of(**changes):
        monkeypatch.setitem(method_lookup.METHODS, "m", replace(METHOD, **changes))

    of()
    return of


def record(seed, accuracy):
    cell = CELLS[seed - 1]
    key, revisions = keys.current_key(EXPERIMENT, cell), keys.current_revisions(EXPERIMENT, cell)
    return Record(cell, key, revisions, "done", {"accuracy": accuracy}, commit="abc1234")


@pytest.fixture
def store(tmp_path, method):
    store = Store(tmp_path / "pretend.jsonl")
    for seed in (1, 2):
        store.add(record(seed, 0.5))
    return store


def page(store, tmp_path):
    return write_experiment_page(EXPERIMENT, store, tmp_path, quick=False).read_text()


def test_a_page_of_present_records_calls_none_stale(store, tmp_path):
    text = page(store, tmp_path)
    assert "- Measured: 2 of 2 cells\n" in text
    assert "- Commit: abc1234\n" in text
    assert "| Pretender | Does little. |" in text


def test_records_of_an_earlier_revision_stay_and_are_called_so(store, tmp_path, method):
    method(revision=2)
    said = "2 were measured with an earlier revision (m)"
    assert said in page(store, tmp_path)
    store.add(record(1, 0.75))
    text = page(store, tmp_path)
    assert "1 were measured with an earlier revision (m)" in text
    assert "| 1 | 0.75 |\n| 2 | 0.50 |" in text


def test_records_of_other_libraries_are_called_so(store, tmp_path, monkeypatch):
    monkeypatch.setattr(keys, "library_version", lambda module: "0.0.0")
    assert "2 were measured with another version of a library (m)" in page(store, tmp_path)


def test_the_present_record_counts_even_if_it_is_not_the_newest(store, method):
    method(revision=2)
    store.add(record(1, 0.75))
    method(revision=1)
    assert [r.metrics["accuracy"] for r in wanted_records(EXPERIMENT, False, store)] == [0.5, 0.5]


def test_records_that_name_no_commit_are_called_so(tmp_path, method):
    store = Store(tmp_path / "pretend.jsonl")
    store.add(replace(record(1, 0.5), commit=""))
    store.add(record(2, 0.5))
    assert "1 name no commit, so which code measured them is not known" in page(store, tmp_path)
