"""The commands ``dtgfn bench list``, ``run`` and ``table``."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dtgfn.cli.console import say, tell
from dtgfn.cli.options import names as split_names

if TYPE_CHECKING:
    from dtgfn_bench.experiment import Block, Experiment, Record
    from dtgfn_bench.runner import Plan, Report
    from dtgfn_bench.store import Store

app = typer.Typer(
    help="The paper's experiments, with every rival in them, on the same rows.",
    no_args_is_help=True,
)


def _complete(incomplete: str) -> list[str]:
    """Offer experiments to a shell."""
    from dtgfn_bench.experiments import EXPERIMENTS

    return [name for name in (*EXPERIMENTS, "all") if name.startswith(incomplete)]


Results = Annotated[Path, typer.Option(help="Folder of records, tables and plots.")]
Quick = Annotated[bool, typer.Option("--quick", help="The version of seconds, kept apart.")]
FOLDER = Path("results")


@app.command("list")
def list_experiments(results: Results = FOLDER) -> None:
    """Show the experiments, how many cells each has, and what is measured already.

    Examples:
      dtgfn bench list

    """
    from dtgfn_bench.experiments import EXPERIMENTS
    from dtgfn_bench.runner import store_path
    from dtgfn_bench.store import Store

    for experiment in EXPERIMENTS.values():
        records = Store(store_path(experiment, results)).newest()
        done = [record for record in records if record.status == "done"]
        hours = sum(record.metrics.get("cell_seconds") or 0 for record in done) / 3600
        measured = f"{len(done)} measured, {hours:.1f} core hours" if done else "not measured"
        cells = len(experiment.cells(False))
        say(f"{experiment.name:<15} {experiment.title}: {cells} cells, {measured}")


@app.command()
def run(
    names: Annotated[
        list[str], typer.Argument(help="Experiments, or all.", autocompletion=_complete)
    ],
    quick: Quick = False,
    jobs: Annotated[int, typer.Option(help="Processes, -1 for all cores.")] = -1,
    methods: Annotated[str, typer.Option(help="Only these methods, with commas.")] = "",
    tables: Annotated[str, typer.Option(help="Only these tables, with commas.")] = "",
    results: Results = FOLDER,
) -> None:
    """Measure an experiment and write its page; what is measured already is kept.

    A run that was stopped goes on with the same command. A Dask or Ray backend that was registered
    with joblib carries the cells to a cluster.

    Examples:
      dtgfn bench run search-space --quick

    """
    from dtgfn_bench.runner import make_plan, run_cells, select_cells, store_path
    from dtgfn_bench.store import Store

    folder = results / "quick" if quick else results
    workers = (os.cpu_count() or 1) if jobs == -1 else jobs
    if workers < 1:
        raise ValueError(f"--jobs {jobs} is no number of processes; give 1 or more, or -1.")
    chosen = _experiments(names)
    only_methods, only_tables = split_names(methods), split_names(tables)
    _check_names(chosen, quick, only_methods, only_tables)
    failed: list[Record] = []
    for experiment in chosen:
        cells = select_cells(experiment, quick, only_methods, only_tables)
        if not cells and len(chosen) > 1:
            continue
        if not cells:
            raise ValueError(
                f"No cell of {experiment.name!r} has such a method and table; leave out --methods "
                "and --tables to see all."
            )
        path = store_path(experiment, folder)
        store = Store(path)
        plan = make_plan(experiment, cells, store, workers)
        _announce(experiment, plan, workers)
        with _reporting(experiment) as report:
            records = run_cells(experiment, plan, store, workers, report)
        failed += [record for record in records if record.status == "failed"]
        if not only_methods and not only_tables and path.exists():
            store.compact(partial(_wanted, experiment, quick))
        page = _write_page(experiment, Store(path), folder, quick)
        tell(f"{experiment.name}: {page}")
    if failed:
        count = "1 cell" if len(failed) == 1 else f"{len(failed)} cells"
        tell(f"{count} failed; the tables say why.")
        raise typer.Exit(1)


@app.command()
def table(
    name: Annotated[str, typer.Argument(help="Experiment.", autocompletion=_complete)],
    quick: Quick = False,
    results: Results = FOLDER,
) -> None:
    """Print an experiment's tables from the records at hand, and write its page anew.

    Examples:
      dtgfn bench table search-space --quick

    """
    from dtgfn_bench.runner import store_path
    from dtgfn_bench.store import Store

    folder = results / "quick" if quick else results
    (experiment,) = _experiments([name])
    store = Store(store_path(experiment, folder))
    if not len(store):
        raise ValueError(
            f"There are no records of {name!r} in {str(folder)!r}; dtgfn bench run {name}"
            f"{' --quick' if quick else ''} measures them."
        )
    page = _write_page(experiment, store, folder, quick)
    say(page.read_text(encoding="utf-8"), end="")


def _experiments(names: Sequence[str]) -> list[Experiment]:
    from dtgfn_bench.experiments import EXPERIMENTS, find_experiment

    if list(names) == ["all"]:
        return list(EXPERIMENTS.values())
    return [find_experiment(name) for name in names]


def _check_names(
    experiments: Sequence[Experiment], quick: bool, methods: Sequence[str], tables: Sequence[str]
) -> None:
    """Refuse a method or table that is in none of the experiments."""
    from dtgfn_bench.methods import METHODS
    from dtgfn_bench.names import find

    known = {cell.table: None for experiment in experiments for cell in experiment.cells(quick)}
    for name in methods:
        find(METHODS, name, "method")
    for name in tables:
        find(known, name, "table")


def _announce(experiment: Experiment, plan: Plan, workers: int) -> None:
    known = f", about {_duration(plan.seconds)}" if plan.seconds and plan.pending else ""
    tell(
        f"{experiment.name}: {len(plan.pending)} of {plan.n_cells} cells to measure in "
        f"{workers} processes{known}"
    )


def _duration(seconds: float) -> str:
    """Seconds in words.

    >>> _duration(7), _duration(200), _duration(9000)
    ('7 s', '3 min', '2.5 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


@contextmanager
def _reporting(experiment: Experiment) -> Iterator[Report]:
    """A bar on a terminal, and a line for each cell in a log."""
    from dtgfn._support.progress import progress_bar

    on_terminal = sys.stderr.isatty()
    with progress_bar(on_terminal) as show:

        def report(done: int, total: int, record: Record, left: float) -> None:
            cell = record.cell
            what = f"{cell.method} on {cell.table}, seed {cell.seed}"
            told = "" if record.status == "done" else f" {record.status}: {record.reason}"
            if on_terminal:
                show(experiment.name, done / total, f"{what}, {_duration(left)} left")
            if told or not on_terminal:
                line = f"{experiment.name} {done}/{total} {what}{told}, {_duration(left)} left"
                tell(line)

        yield report


def _write_page(experiment: Experiment, store: Store, folder: Path, quick: bool) -> Path:
    """Write an experiment's page from the records of its cells."""
    from dtgfn_bench.pages import Header, write_page

    records = _wanted(experiment, quick, store)
    header = Header(
        title=experiment.title,
        command=f"dtgfn bench run {experiment.name}{' --quick' if quick else ''}",
        machine="; ".join(sorted({r.machine for r in records if r.machine})),
        date=_dates(records),
        versions=_libraries(records),
        state=_state(experiment, records, quick),
    )
    notes = folder / "notes" / f"{experiment.name}.md"
    text = notes.read_text(encoding="utf-8") if notes.exists() else ""
    blocks = [*experiment.render(records)]
    if experiment.runs_methods:
        blocks += _method_notes(records)
    write_page(folder, experiment.name, header, blocks, text)
    return folder / f"{experiment.name}.md"


def _wanted(experiment: Experiment, quick: bool, store: Store) -> list[Record]:
    """Of every cell the record by the present code, or else the newest."""
    from dtgfn_bench.runner import cell_key, cell_version
    from dtgfn_bench.store import cell_identity

    newest = {cell_identity(record.cell): record for record in store.newest()}
    found = []
    for cell in experiment.cells(quick):
        current = store.get(cell_key(cell, cell_version(experiment, cell)))
        record = current or newest.get(cell_identity(cell))
        if record is not None:
            found.append(record)
    return found


def _state(experiment: Experiment, records: Sequence[Record], quick: bool) -> str:
    """How many cells there are, and what became of them."""
    from dtgfn_bench.runner import cell_key, cell_version

    n_cells = len(experiment.cells(quick))
    count = Counter(record.status for record in records)
    told = [f"{count['done']} of {n_cells} cells"]
    if count["missing"]:
        told.append(f"{count['missing']} lack a library")
    if count["failed"]:
        told.append(f"{count['failed']} failed")
    older = [r for r in records if r.key != cell_key(r.cell, cell_version(experiment, r.cell))]
    if older:
        names = ", ".join(sorted({r.cell.method for r in older}))
        told.append(f"{len(older)} are by an earlier version of the code ({names})")
    loads = [load for r in records if (load := r.metrics.get("load")) is not None]
    if loads:
        told.append(f"while the machine's load was {min(loads):.0f} to {max(loads):.0f}")
    return "; ".join(told)


def _libraries(records: Sequence[Record]) -> dict[str, str]:
    """Versions that the records name, all of them where they differ."""
    found: dict[str, set[str]] = {}
    for record in records:
        for library in filter(None, record.libraries.split(", ")):
            name, _, version = library.partition(" ")
            found.setdefault(name, set()).add(version)
    return {name: " and ".join(sorted(versions)) for name, versions in found.items()}


def _dates(records: Sequence[Record]) -> str:
    days = sorted({record.date for record in records if record.date})
    return " to ".join(dict.fromkeys((days[0], days[-1]))) if days else ""


def _method_notes(records: Sequence[Record]) -> list[Block]:
    """What was run under each name, and where it departs from its authors."""
    from dtgfn_bench.experiment import Block
    from dtgfn_bench.methods import METHODS

    rows = [["method", "what was run"]]
    first = {record.cell.method: record.cell for record in reversed(records)}
    for name in dict.fromkeys(record.cell.method for record in records):
        method = METHODS.get(name)
        if method is None:
            continue
        usual, run = dict(method.settings), json.loads(json.dumps(dict(first[name].settings)))
        usual = json.loads(json.dumps(usual))
        changed = {key: value for key, value in run.items() if usual.get(key) != value}
        note = f"{method.note} Here with {json.dumps(changed)}." if changed else method.note
        rows.append([f"★ {method.label}" if method.ours else method.label, note])
    return [Block("Methods", rows)] if len(rows) > 1 else []
