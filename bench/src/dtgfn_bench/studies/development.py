"""Tables that defaults are chosen on: ours next to rivals, every method as it comes.

Three splits of each table, a quarter of the rows held out (the same share of each class). Methods
get raw columns in the form that each takes best, and one thread. Log loss clips probabilities at
1e-6; RMSE and interval score (Gneiting and Raftery, 90 %) are over the spread of the held-out
targets. Rivals without intervals of their own get them from the residuals of five folds, on tables
of at most 5,000 training rows; EBM, which is slow, gets none. Every measurement is kept beside the
page, in development.jsonl, as soon as it is done, and not done again: the same command goes on
where it was stopped, and a new method is measured alone. It needs
``pip install 'dtgfn-bench[development,more]'``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from dtgfn.cli.options import names as split_names
from dtgfn_bench.contract import missing_modules
from dtgfn_bench.experiment import Cell, Record
from dtgfn_bench.keys import library_version, library_versions, record_key
from dtgfn_bench.names import find
from dtgfn_bench.runner import measured, new_record
from dtgfn_bench.store import Store
from dtgfn_bench.studies.development_measure import measure
from dtgfn_bench.studies.development_methods import METHODS
from dtgfn_bench.studies.development_page import write_tables
from dtgfn_bench.studies.development_tables import all_tasks
from dtgfn_bench.studies.forty import warm_up
from dtgfn_bench.studies.forty_tables import Task
from dtgfn_bench.studies.reporting import Report

REVISION = 1  # raised by hand when what is measured changes on purpose
SEEDS = 3
KINDS = {"": "", "classes": "class", "numbers": "number"}


def all_cells(tasks: Sequence[Task], methods: Sequence[str], seeds: int) -> list[Cell]:
    """What there is to measure."""
    return [
        Cell("development", task.name, name, seed, METHODS[name].settings.get(task.kind, {}))
        for seed in range(seeds)
        for task in tasks
        for name in methods
        if METHODS[name].make(task.kind) is not None
    ]


def key_of(cell: Cell) -> str:
    """Key of a record that would be measured now."""
    method = METHODS[cell.method]
    versions = {module: library_version(module) for module in method.needs}
    return record_key(cell, {"experiment": REVISION, "method": method.revision}, versions)


def measure_cell(cell: Cell) -> Record:
    """Measure one cell in this process; a missing library or a failure becomes a record too."""
    method = METHODS[cell.method]
    revisions = {"experiment": REVISION, "method": method.revision}
    record = new_record(cell, key_of(cell), revisions, library_versions((*method.needs, "dtgfn")))
    reason = missing_modules(method.needs, "dtgfn-bench[more]")
    if reason is not None:
        return replace(record, reason=reason)
    (task,) = [task for task in all_tasks() if task.name == cell.table]
    return measured(record, lambda cell: measure(task, method, cell.seed))


def in_parallel(cells: Sequence[Cell], jobs: int) -> Iterator[Record]:
    """Records as they come."""
    from joblib import Parallel, delayed

    if any(not METHODS[cell.method].needs for cell in cells):
        warm_up()  # ours: compiling is not what is measured
    parallel = Parallel(n_jobs=jobs, batch_size=1, return_as="generator_unordered")
    yield from parallel(delayed(measure_cell)(cell) for cell in cells)


def by_size(tasks: Sequence[Task]) -> list[Task]:
    """Tasks, those with few cells first: a run that is broken off has most of them."""
    size = {task.name: task.load()[0].size for task in tasks}
    return sorted(tasks, key=lambda task: size[task.name])


def run(
    report: Report,
    *,
    methods: str = "",
    tables: str = "",
    kind: str = "",
    seeds: int = SEEDS,
    jobs: int = 1,
) -> None:
    """Measure what is missing, of some methods and tables if they are named (with commas)."""
    tasks = all_tasks(find(KINDS, kind, "kind of table"))
    known = {task.name: task for task in tasks}
    chosen = [find(known, name, "table") for name in split_names(tables)] or tasks
    named = split_names(methods) or tuple(METHODS)
    for name in named:
        find(METHODS, name, "method")
    store = Store(report.folder / f"{report.name}.jsonl")
    pending = []
    for cell in all_cells(by_size(chosen), named, seeds):
        found = store.get(key_of(cell))
        if found is None or found.status != "done":
            pending.append(cell)
    for done, record in enumerate(in_parallel(pending, jobs), start=1):
        store.add(record)
        cell, seconds = record.cell, record.metrics.get("cell_seconds")
        what = f"{done}/{len(pending)} {cell.method} on {cell.table}, seed {cell.seed}"
        print(f"{what}: {record.reason or f'{seconds} s'}", flush=True)
    everything = all_cells(all_tasks(), tuple(METHODS), SEEDS)
    records = wanted_records(store, everything)
    report.say(state(records, len(everything)))
    write_tables(report, records)


def wanted_records(store: Store, cells: Sequence[Cell]) -> list[Record]:
    """Of every cell the record of the present revisions and libraries, or else the newest.

    Settings may have got other names since.
    """
    ordered = sorted(store.newest(), key=lambda record: record.date)
    newest = {place_of(record.cell): record for record in ordered if record.status == "done"}
    found = [store.get(key_of(cell)) or newest.get(place_of(cell)) for cell in cells]
    return [record for record in found if record is not None]


def place_of(cell: Cell) -> tuple[str, str, int]:
    """Table, method and seed of a cell."""
    return cell.table, cell.method, cell.seed


def state(records: Sequence[Record], n_cells: int) -> str:
    """How much is measured, by what code, and how busy the machine was."""
    done = [record for record in records if record.status == "done"]
    stale = sum(record.key != key_of(record.cell) for record in done)
    commits = ", ".join(dict.fromkeys(record.commit for record in done if record.commit))
    loads = [load for record in done if (load := record.metrics.get("load")) is not None]
    parts = [f"{len(done)} of {n_cells} fits are measured, by commits {commits or 'unknown'}"]
    if stale:
        parts.append(f"{stale} of them with an earlier revision or another version of a library")
    if loads:
        parts.append(f"while the machine's load was {min(loads):.0f} to {max(loads):.0f}")
    return "; ".join(parts) + "."
