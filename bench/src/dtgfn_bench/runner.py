"""Measure an experiment's cells in parallel, keeping each as soon as it is done."""

from __future__ import annotations

import datetime
import math
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dtgfn_bench.cpu_clock import cpu_budgets
from dtgfn_bench.experiment import Cell, Experiment, Record
from dtgfn_bench.keys import current_key, current_revisions, library_versions
from dtgfn_bench.method_lookup import METHODS
from dtgfn_bench.origin import commit, machine_class
from dtgfn_bench.store import Store

# done, of how many, the last record, seconds left by the measured pace
Report = Callable[[int, int, Record, float], None]


@dataclass(frozen=True)
class Plan:
    """What a run has to do: cells to measure with their keys, and an estimate of the seconds."""

    pending: list[tuple[Cell, str]]
    n_cells: int
    seconds: float | None


def store_path(experiment: Experiment, folder: Path) -> Path:
    """File of an experiment's records."""
    return folder / f"{experiment.name}.jsonl"


def select_cells(
    experiment: Experiment,
    quick: bool,
    methods: Sequence[str] = (),
    tables: Sequence[str] = (),
    seeds: Sequence[int] = (),
) -> list[Cell]:
    """Cells of an experiment, or those of some methods, tables and seeds."""
    cells = experiment.cells(quick)
    return [
        cell
        for cell in cells
        if (not methods or cell.method in methods)
        and (not tables or cell.table in tables)
        and (not seeds or cell.seed in seeds)
    ]


def make_plan(experiment: Experiment, cells: Sequence[Cell], store: Store, n_jobs: int) -> Plan:
    """Find what is not measured yet, the longest first, so that no core ends up waiting."""
    expected = _expected_seconds(store)
    pending = []
    for cell in cells:
        key = current_key(experiment, cell)
        known = store.get(key)
        if known is None or known.status != "done":
            pending.append((cell, key))
    known_seconds = [expected.get((cell.method, cell.table)) for cell, _ in pending]
    total = sum(seconds for seconds in known_seconds if seconds is not None)
    pending.sort(key=lambda item: -expected.get((item[0].method, item[0].table), float("inf")))
    complete = None not in known_seconds
    seconds = total / max(n_jobs, 1) if complete else None
    return Plan(pending, len(cells), seconds)


def _expected_seconds(store: Store) -> dict[tuple[str, str], float]:
    """Mean seconds of a method's cells on a table, from the records at hand."""
    found: dict[tuple[str, str], list[float]] = {}
    for record in store.newest():
        seconds = record.metrics.get("cell_seconds")
        if seconds is not None:
            found.setdefault((record.cell.method, record.cell.table), []).append(seconds)
    return {name: sum(values) / len(values) for name, values in found.items()}


def run_cells(
    experiment: Experiment, plan: Plan, store: Store, n_jobs: int, report: Report
) -> list[Record]:
    """Measure what is pending; every record is in the store before the next is reported."""
    begun = time.perf_counter()
    records = []
    tasks = [(experiment.name, cell, key) for cell, key in plan.pending]
    for record in _in_parallel(tasks, n_jobs):
        store.add(record)
        records.append(record)
        pace = (time.perf_counter() - begun) / len(records)
        report(len(records), len(tasks), record, pace * (len(tasks) - len(records)))
    return records


def _in_parallel(tasks: list[tuple[Any, ...]], n_jobs: int) -> Iterator[Record]:
    """Yield records as they come, by whatever backend joblib has been given."""
    from joblib import Parallel, delayed
    from joblib.parallel import get_active_backend

    if n_jobs == 1:
        yield from (_measure(*task) for task in tasks)
        return
    backend, _ = get_active_backend()
    if getattr(backend, "supports_return_generator", False):
        parallel = Parallel(n_jobs=n_jobs, batch_size=1, return_as="generator_unordered")
        try:
            yield from parallel(delayed(_measure)(*task) for task in tasks)
        except BrokenExecutor:
            raise ValueError(
                "A process that measured a cell was killed, perhaps for want of memory; what was "
                "measured is kept. Give the same command with --jobs 1, or leave the method out."
            ) from None
        return
    width = 4 * (os.cpu_count() or 1)  # such a backend hands records back only at a batch's end
    for start in range(0, len(tasks), width):
        batch = tasks[start : start + width]
        yield from Parallel(n_jobs=n_jobs, batch_size=1)(delayed(_measure)(*task) for task in batch)


def _measure(name: str, cell: Cell, key: str) -> Record:
    """Measure one cell of an experiment."""
    from dtgfn_bench.experiments import find_experiment

    experiment, method = find_experiment(name), METHODS.get(cell.method)
    libraries = library_versions(method.needs if method is not None else ())
    record = new_record(cell, key, current_revisions(experiment, cell), libraries)
    reason = method.missing() if method is not None else None
    if reason is not None:
        return replace(record, reason=reason)
    return measured(record, experiment.measure)


def new_record(cell: Cell, key: str, revisions: Mapping[str, int], libraries: str) -> Record:
    """The record of a cell before it is measured: where, when and by what code."""
    return Record(
        cell=cell,
        key=key,
        revisions=revisions,
        status="missing",
        metrics={},
        machine=machine_class(),
        date=datetime.date.today().isoformat(),
        libraries=libraries,
        commit=commit(),
    )


def measured(record: Record, measure: Callable[[Cell], Mapping[str, float | None]]) -> Record:
    """Measure a record's cell in this process, on one thread; a failure is recorded too.

    Our engines' time budgets are of the processor: cells run beside others.
    """
    import torch
    from threadpoolctl import threadpool_limits

    torch.set_num_threads(1)
    busy = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    begun = time.perf_counter()
    try:
        with threadpool_limits(1), cpu_budgets(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            metrics = measure(record.cell)
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        return replace(record, status="failed", reason=reason)
    return replace(
        record,
        status="done",
        metrics={
            **_finite(metrics),
            "cell_seconds": round(time.perf_counter() - begun, 3),
            "load": busy,
        },
    )


def _finite(metrics: Mapping[str, float | None]) -> dict[str, float | None]:
    """Metrics that JSON can hold; a number that is not known is None."""
    return {
        name: None if value is None or not math.isfinite(value) else value
        for name, value in metrics.items()
    }
