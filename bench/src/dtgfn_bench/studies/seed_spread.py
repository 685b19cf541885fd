"""How far a mean over five seeds can move: samplers of single trees with four seeds of their own.

The splits are those of the table of single trees, seeds 1-5 of the paper's four tables. On each a
method is fitted four times, with the split's seed (as in that table) and with it plus 1000, 2000
and 3000. "all" are mean and standard deviation over the 20 fits, most of which is the splits'.
"mean of five" are the lowest, the highest and the standard deviation of the four means over
splits: these are the same in all four, so it is what the sampler's own luck does, and a processor
that rounds otherwise is another seed to a sampler. Fits that are done are kept beside the page and
not done again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dtgfn._support.arrays import Floats
from dtgfn.datasets import load_dataset
from dtgfn_bench.cells import PAPER_SEEDS, PAPER_TABLES
from dtgfn_bench.contract import TrainingRows
from dtgfn_bench.measure import fit_and_time
from dtgfn_bench.method_lookup import find_method
from dtgfn_bench.paper import TABLES
from dtgfn_bench.splits import holdout
from dtgfn_bench.studies.reporting import Report

METHODS = ("mcmc", "bcart", "dtgfn-tree-paper", "dtgfn-tree")
OWN_SEEDS = 4
STEP = 1000  # between a split's own seeds


class Fit(NamedTuple):
    """A method on a split with the ``turn``-th of its own seeds; ``revision`` is the method's."""

    table: str
    method: str
    revision: int
    split: int
    turn: int
    quick: bool


def all_fits(tables: Sequence[str], methods: Sequence[str], quick: bool) -> list[Fit]:
    """Every fit of some methods on some tables."""
    return [
        Fit(table, method, find_method(method).revision, split, turn, quick)
        for table in tables
        for method in methods
        for split in PAPER_SEEDS
        for turn in range(OWN_SEEDS)
    ]


def measure(fit: Fit) -> tuple[float, float]:
    """Accuracy on the split's test rows, and CPU seconds."""
    from threadpoolctl import threadpool_limits

    data, method = load_dataset(fit.table), find_method(fit.method)
    train, test = holdout(len(data.y), fit.split)
    rows = TrainingRows(data.X[train], data.y[train], len(data.class_names), fit.table)
    settings = {**method.settings, **(method.quick if fit.quick else {})}
    with threadpool_limits(1):
        fitted, seconds = fit_and_time(fit.method, settings, rows, fit.split + STEP * fit.turn)
    vote = fitted.predict_proba(data.X[test]).argmax(axis=1)
    return float((vote == data.y[test]).mean()), seconds


def run_missing(fits: Sequence[Fit], path: Path, jobs: int) -> dict[Fit, tuple[float, float]]:
    """Measure what the file does not hold yet, and add each to it as soon as it is done."""
    from joblib import Parallel, delayed

    known = dict(_read(path))
    missing = [fit for fit in fits if fit not in known]
    path.parent.mkdir(parents=True, exist_ok=True)
    parallel = Parallel(n_jobs=jobs, batch_size=1, return_as="generator_unordered")
    with path.open("a", encoding="utf-8") as file:
        for fit, found in parallel(delayed(_with_fit)(fit) for fit in missing):
            file.write("\n" + json.dumps([*fit, *found]))  # first, to end a line cut short
            file.flush()
            known[fit] = found
    return {fit: known[fit] for fit in fits}


def _with_fit(fit: Fit) -> tuple[Fit, tuple[float, float]]:
    return fit, measure(fit)


def _read(path: Path) -> Iterator[tuple[Fit, tuple[float, float]]]:
    """What a file holds, but for lines that are empty or were cut short."""
    if not path.exists():
        return
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            *fit, accuracy, seconds = json.loads(line)
        except ValueError:
            continue
        yield Fit(*fit), (accuracy, seconds)


def spread_row(accuracy: Floats) -> tuple[str, str, str, str]:
    """Mean and deviation of accuracies [splits, turns]; range and deviation of their means."""
    means = accuracy.mean(axis=0)
    return (
        f"{accuracy.mean():.3f}",
        f"{accuracy.std():.3f}",
        f"{means.min():.3f} to {means.max():.3f}",
        f"{means.std(ddof=1):.3f}",
    )


def run(
    report: Report, *, jobs: int = -1, tables: str = "", methods: str = "", quick: bool = False
) -> None:
    """Fit, some tables and methods only if they are named, with commas between them."""
    chosen = [name for name in tables.split(",") if name] or PAPER_TABLES
    named = [name for name in methods.split(",") if name] or METHODS
    found = run_missing(
        all_fits(chosen, named, quick), report.folder / f"{report.name}.jsonl", jobs
    )
    report.head(
        "table", "method", "all, mean", "sd", "mean of five, range", "sd", "CPU seconds a fit"
    )
    widest = 0.0
    for table in chosen:
        for name in named:
            mine = {fit: got for fit, got in found.items() if fit[:2] == (table, name)}
            accuracy = np.empty((len(PAPER_SEEDS), OWN_SEEDS))
            for fit, (score, _) in mine.items():
                accuracy[PAPER_SEEDS.index(fit.split), fit.turn] = score
            seconds = float(np.mean([seconds for _, seconds in mine.values()]))
            label = find_method(name).label
            report.row(TABLES[table], label, *spread_row(accuracy), f"{seconds:.1f}")
            widest = max(widest, float(np.ptp(accuracy.mean(axis=0))))
    report.say(f"The widest range of a mean over five splits is {widest:.3f}.")
