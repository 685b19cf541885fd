"""Runs: resumed after a stop, in parallel, with failures and missing libraries on record."""

import numpy as np
import pytest
from dtgfn_bench import experiments, method_lookup
from dtgfn_bench.contract import Method
from dtgfn_bench.experiment import Cell, Experiment
from dtgfn_bench.runner import make_plan, run_cells, select_cells
from dtgfn_bench.store import Store
from joblib import parallel_config


class Stop:
    """Whom a measurement asks whether it may go on."""

    after = None
    count = 0


def measure(cell):
    Stop.count += 1
    if Stop.after is not None and Stop.count > Stop.after:
        raise KeyboardInterrupt
    if cell.method == "broken":
        raise ValueError("no\n  good")
    return {"accuracy": cell.seed / 10, "size": None, "unknown": float("nan")}


def cells(quick):
    return [
        Cell("pretend", table, method, seed)
        for table in ("a", "b")
        for method in ("works", "broken", "absent")
        for seed in ((1,) if quick else (1, 2, 3))
    ]


@pytest.fixture
def experiment(monkeypatch):
    pretend = Experiment("pretend", "Pretend", cells, measure, lambda records: [])
    monkeypatch.setitem(experiments.EXPERIMENTS, "pretend", pretend)
    for name, needs in (("works", ()), ("broken", ()), ("absent", ("no_such_module",))):
        method = Method(name, name, run, "note", needs=needs)
        monkeypatch.setitem(method_lookup.METHODS, name, method)
    monkeypatch.setattr(Stop, "after", None)
    monkeypatch.setattr(Stop, "count", 0)
    return pretend


def run(experiment, store, n_jobs=1, **chosen):
    plan = make_plan(experiment, select_cells(experiment, False, **chosen), store, n_jobs)
    reports = []
    run_cells(experiment, plan, store, n_jobs, lambda *report: reports.append(report))
    return plan, reports


def test_every_cell_ends_done_failed_or_missing_with_its_reason(experiment, tmp_path):
    store = Store(tmp_path / "p.jsonl")
    plan, reports = run(experiment, store)
    assert len(reports) == len(plan.pending) == 18
    assert [report[:2] for report in reports] == [(i + 1, 18) for i in range(18)]
    by_method = {r.cell.method: r for r in store.newest()}
    assert by_method["works"].status == "done"
    assert by_method["works"].metrics["unknown"] is None
    assert (by_method["broken"].status, by_method["broken"].reason) == (
        "failed",
        "ValueError: no good",
    )
    assert by_method["absent"].status == "missing"
    assert "pip install 'dtgfn-bench'" in by_method["absent"].reason


def test_a_stopped_run_goes_on_where_it_was(experiment, tmp_path):
    store = Store(tmp_path / "p.jsonl")
    Stop.after = 4
    with pytest.raises(KeyboardInterrupt):
        run(experiment, store, methods=("works",))
    Stop.after = None
    again = Store(tmp_path / "p.jsonl")
    assert len(again) == 4
    plan, _ = run(experiment, again, methods=("works",))
    assert len(plan.pending) == 2
    assert Stop.count == 5 + 2
    assert run(experiment, Store(tmp_path / "p.jsonl"), methods=("works",))[0].pending == []


def test_failed_cells_are_tried_again_and_done_ones_are_not(experiment, tmp_path):
    store = Store(tmp_path / "p.jsonl")
    run(experiment, store)
    plan, _ = run(experiment, store)
    assert {cell.method for cell, _ in plan.pending} == {"broken", "absent"}


def test_other_settings_are_other_cells(experiment, tmp_path):
    store = Store(tmp_path / "p.jsonl")
    run(experiment, store)
    changed = [Cell("pretend", "a", "works", 1, {"n_trees": 7})]
    assert len(make_plan(experiment, changed, store, 1).pending) == 1


def test_time_is_estimated_from_earlier_records(experiment, tmp_path):
    store = Store(tmp_path / "p.jsonl")
    assert make_plan(experiment, cells(False), store, 2).seconds is None
    run(experiment, store, methods=("works",))
    other_seed = [Cell("pretend", "a", "works", seed) for seed in (8, 9)]
    assert make_plan(experiment, other_seed, store, 2).seconds is not None


@pytest.mark.parametrize("backend", ["threading", "multiprocessing"])
def test_other_backends_of_joblib_give_the_same_records(experiment, tmp_path, backend):
    alone = Store(tmp_path / "alone.jsonl")
    run(experiment, alone)
    store = Store(tmp_path / "p.jsonl")
    with parallel_config(backend=backend):
        run(experiment, store, n_jobs=2)

    def kept(store):
        return {r.key: (r.status, r.reason, r.metrics.get("accuracy")) for r in store.newest()}

    assert kept(store) == kept(alone)


def test_worker_processes_measure_real_cells(tmp_path):
    experiment = experiments.find_experiment("search-space")
    results = []
    for n_jobs in (1, 2):
        store = Store(tmp_path / f"{n_jobs}.jsonl")
        plan = make_plan(experiment, experiment.cells(True), store, n_jobs)
        run_cells(experiment, plan, store, n_jobs, lambda *report: None)
        results.append({r.key: dict(r.metrics) for r in store.newest()})
    for found in results:
        for metrics in found.values():
            metrics.pop("cell_seconds")
            metrics.pop("load")
    assert results[0] == results[1]
    assert np.all([len(found) for found in results])
