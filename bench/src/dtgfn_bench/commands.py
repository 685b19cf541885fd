"""The commands ``dtgfn bench list``, ``run``, ``table``, ``study`` and ``canaries``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dtgfn.cli.console import say, tell
from dtgfn.cli.options import names as split_names
from dtgfn_bench.studies import FOLDER as STUDIES_FOLDER
from dtgfn_bench.studies import STUDIES
from dtgfn_bench.study import app as study_app
from dtgfn_bench.training.command import train_policy

if TYPE_CHECKING:
    from dtgfn_bench.experiment import Experiment, Record
    from dtgfn_bench.runner import Plan, Report

app = typer.Typer(
    help="The paper's experiments, with every rival in them, on the same rows.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(study_app, name="study")
app.command("train-policy")(train_policy)


def _complete(incomplete: str) -> list[str]:
    """Offer experiments to a shell."""
    from dtgfn_bench.experiments import EXPERIMENTS

    return [name for name in (*EXPERIMENTS, "all") if name.startswith(incomplete)]


Results = Annotated[Path, typer.Option(help="Folder of records, tables and plots.")]
Quick = Annotated[bool, typer.Option("--quick", help="The version of seconds, kept apart.")]
FOLDER = Path("results")


@app.command("list")
def list_experiments(results: Results = FOLDER) -> None:
    """Show experiments and studies, how many cells there are, and what is measured already.

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
        say(f"{experiment.name:<28} {experiment.title}: {cells} cells, {measured}")
    for name, title in STUDIES.items():
        measured = "measured" if (results / STUDIES_FOLDER / f"{name}.md").exists() else "no result"
        say(f"{f'study {name}':<28} {title}: {measured}")


@app.command()
def run(
    names: Annotated[
        list[str], typer.Argument(help="Experiments, or all.", autocompletion=_complete)
    ],
    quick: Quick = False,
    jobs: Annotated[int, typer.Option(help="Processes, -1 for all cores.")] = -1,
    methods: Annotated[str, typer.Option(help="Only these methods, with commas.")] = "",
    tables: Annotated[str, typer.Option(help="Only these tables, with commas.")] = "",
    seeds: Annotated[str, typer.Option(help="Only these seeds, with commas.")] = "",
    results: Results = FOLDER,
) -> None:
    """Measure an experiment and write its page; what is measured already is kept.

    A run that was stopped goes on with the same command. A Dask or Ray backend that was registered
    with joblib carries the cells to a cluster.

    Examples:
      dtgfn bench run search-space --quick

    """
    from dtgfn_bench.experiment_page import wanted_records, write_experiment_page
    from dtgfn_bench.runner import make_plan, run_cells, select_cells, store_path
    from dtgfn_bench.store import Store

    folder = results / "quick" if quick else results
    workers = (os.cpu_count() or 1) if jobs == -1 else jobs
    if workers < 1:
        raise ValueError(f"--jobs {jobs} is no number of processes; give 1 or more, or -1.")
    chosen = _experiments(names)
    only_methods, only_tables = split_names(methods), split_names(tables)
    only_seeds = _seeds(seeds)
    _check_names(chosen, quick, only_methods, only_tables)
    failed: list[Record] = []
    for experiment in chosen:
        cells = select_cells(experiment, quick, only_methods, only_tables, only_seeds)
        if not cells and len(chosen) > 1:
            continue
        if not cells:
            raise ValueError(
                f"No cell of {experiment.name!r} has such a method, table and seed; leave out "
                "--methods, --tables and --seeds to see all."
            )
        path = store_path(experiment, folder)
        store = Store(path)
        plan = make_plan(experiment, cells, store, workers)
        _announce(experiment, plan, workers)
        with _reporting(experiment) as report:
            records = run_cells(experiment, plan, store, workers, report)
        failed += [record for record in records if record.status == "failed"]
        if not (only_methods or only_tables or only_seeds) and path.exists():
            store.compact(partial(wanted_records, experiment, quick))
        page = write_experiment_page(experiment, Store(path), folder, quick)
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
    from dtgfn_bench.experiment_page import write_experiment_page
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
    page = write_experiment_page(experiment, store, folder, quick)
    say(page.read_text(encoding="utf-8"), end="")


@app.command()
def canaries(
    write: Annotated[
        bool,
        typer.Option("--write/--check", help="Keep what methods compute now, or compare with it."),
    ] = False,
    methods: Annotated[str, typer.Option(help="Only these methods, with commas.")] = "",
) -> None:
    """Check that methods still compute what their revisions stand for, by tiny fits.

    Examples:
      dtgfn bench canaries --methods knn,lof

    """
    from dtgfn_bench.canaries import check_canary, read_canaries, write_canaries
    from dtgfn_bench.method_lookup import METHODS, find_method

    chosen = [find_method(name) for name in split_names(methods)] or list(METHODS.values())
    if write:
        absent = write_canaries(chosen)
        left = f"; not of {', '.join(absent)}, which cannot run here" if absent else ""
        say(f"Canaries of {len(chosen) - len(absent)} methods are written{left}.")
        return
    kept, failed = read_canaries(), 0
    for method in chosen:
        finding = check_canary(method, kept.get(method.name))
        failed += finding.failed
        say(finding.sentence)
    if failed:
        raise typer.Exit(1)


def _experiments(names: Sequence[str]) -> list[Experiment]:
    from dtgfn_bench.experiments import EXPERIMENTS, find_experiment

    if list(names) == ["all"]:
        return list(EXPERIMENTS.values())
    return [find_experiment(name) for name in names]


def _seeds(text: str) -> list[int]:
    """Seeds out of a list with commas.

    >>> _seeds("1, 2"), _seeds("")
    ([1, 2], [])
    """
    given = split_names(text)
    wrong = [seed for seed in given if not seed.isdecimal()]
    if wrong:
        raise ValueError(f"--seeds {wrong[0]!r} is no seed; give whole numbers with commas.")
    return [int(seed) for seed in given]


def _check_names(
    experiments: Sequence[Experiment], quick: bool, methods: Sequence[str], tables: Sequence[str]
) -> None:
    """Refuse a method or table that is in none of the experiments."""
    from dtgfn_bench.method_lookup import METHODS
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
            trouble = "" if record.status == "done" else f" {record.status}: {record.reason}"
            if on_terminal:
                show(experiment.name, done / total, f"{what}, {_duration(left)} left")
            if trouble or not on_terminal:
                line = f"{experiment.name} {done}/{total} {what}{trouble}, {_duration(left)} left"
                tell(line)

        yield report
