"""The page of the development suite: mean ranks and means, then every table's numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas

from dtgfn._support.arrays import Bools, Floats, Int64s
from dtgfn_bench.experiment import Record
from dtgfn_bench.markup import plain
from dtgfn_bench.statistics import compare, rank_methods
from dtgfn_bench.studies.development_methods import METHODS
from dtgfn_bench.studies.development_tables import all_tasks
from dtgfn_bench.studies.reporting import Report


class Metric(NamedTuple):
    """What is shown of one kind of task."""

    name: str
    label: str
    kind: str
    higher_is_better: bool = False
    digits: int = 3


METRICS = (
    Metric("log_loss", "log loss", "class"),
    Metric("accuracy", "accuracy", "class", higher_is_better=True),
    Metric("brier", "Brier score", "class"),
    Metric("rmse", "RMSE / spread", "number"),
    Metric("interval_score", "interval score / spread", "number"),
)
ENOUGH = 0.5  # of the tables: with fewer, a method is not ranked
REFERENCE = "catboost"


class Scores(NamedTuple):
    """Numbers [tables, methods, seeds], NaN where there are none."""

    tables: list[str]
    methods: list[str]
    values: Floats


def gather(records: Sequence[Record], metric: str, kind: str) -> Scores:
    """A metric of all records of one kind of task."""
    tables = [task.name for task in all_tasks(kind)]
    done = [r for r in records if r.status == "done" and r.cell.table in tables]
    methods = [name for name in METHODS if any(r.cell.method == name for r in done)]
    n_seeds = 1 + max((r.cell.seed for r in done), default=0)
    values = np.full((len(tables), len(methods), n_seeds), np.nan)
    for record in done:
        at = tables.index(record.cell.table), methods.index(record.cell.method), record.cell.seed
        found = record.metrics.get(metric)
        values[at] = np.nan if found is None else found
    return Scores(tables, methods, values)


def comparable(scores: Scores) -> Scores:
    """Means [tables, methods] over the seeds that all methods have; tables without are left out.

    Methods that have no number on ``ENOUGH`` of the tables are left out.
    """
    there = (np.isfinite(scores.values).sum(axis=2) > 0).sum(axis=0)
    return shared(scores, np.flatnonzero(there >= ENOUGH * len(scores.tables)))


def shared(scores: Scores, kept: Int64s) -> Scores:
    """Means [tables, methods] of some methods over the tables and seeds that all of them have."""
    values = scores.values[:, kept]
    whole: Bools = np.asarray(np.isfinite(values).all(axis=1))  # [tables, seeds]
    rows = np.flatnonzero(whole.any(axis=1))
    means = [values[row][:, whole[row]].mean(axis=1) for row in rows]
    names = [scores.methods[at] for at in kept]
    table_names = [scores.tables[row] for row in rows]
    return Scores(table_names, names, np.array(means).reshape(len(rows), len(names)))


def write_tables(report: Report, records: Sequence[Record]) -> None:
    """Everything that the records say."""
    failed = [r for r in records if r.status != "done"]
    notes = report.folder.parent / "notes" / f"{report.name}.md"
    if notes.exists():
        report.say(notes.read_text(encoding="utf-8").strip())
    report.say("## Mean ranks")
    write_ranks(report, records)
    report.say(f"## Difference to {REFERENCE}")
    write_differences(report, records)
    report.say("## Seconds of the processor, mean (median)")
    write_seconds(report, records)
    for metric in METRICS:
        write_metric(report, records, metric)
    write_metric(report, records, Metric("coverage", "coverage of 90 % intervals", "number"))
    report.say("## Tables")
    write_shapes(report)
    if failed:
        report.say("## Not measured")
        report.head("table", "method", "seed", "why")
        for record in failed:
            cell = record.cell
            report.row(cell.table, cell.method, cell.seed, plain(record.reason))


def write_ranks(report: Report, records: Sequence[Record]) -> None:
    """Mean rank and mean of each metric, methods with the best rank of the first one first."""
    report.say(
        "1 is best. A cell is the mean rank, and the mean in brackets, over the tables and seeds "
        "that all ranked methods have; a method that has fewer than half of the tables is not "
        "ranked."
    )
    columns: dict[str, dict[str, str]] = {}
    for metric in METRICS:
        scores = comparable(gather(records, metric.name, metric.kind))
        if len(scores.methods) < 2 or not scores.tables:
            continue
        ranks = rank_methods(
            scores.methods, scores.values, higher_is_better=metric.higher_is_better
        )
        mean = dict(zip(scores.methods, scores.values.mean(axis=0), strict=True))
        columns[f"{metric.label} ({len(scores.tables)} tables)"] = {
            name: f"{rank:.2f} ({mean[name]:.{metric.digits}f})"
            for name, rank in zip(ranks.names, ranks.mean_rank, strict=True)
        }
    report.head("method", *columns)
    for name in dict.fromkeys(name for cells in columns.values() for name in cells):
        report.row(name, *(cells.get(name, "-") for cells in columns.values()))


def write_differences(report: Report, records: Sequence[Record]) -> None:
    """Mean difference of each method to one, with its interval, and on how many tables it wins."""
    report.say(
        "Mean over the tables that both have, with a bootstrap interval of 95 %, and on how many "
        "of them the method is better. Below zero is better than the reference."
    )
    shown = [metric for metric in METRICS if metric.name in ("log_loss", "rmse", "interval_score")]
    rows: dict[str, list[str]] = {name: [] for name in METHODS if name != REFERENCE}
    for metric in shown:
        scores = gather(records, metric.name, metric.kind)
        for name, row in rows.items():
            row.append(_difference(scores, name))
    report.head("method", *(metric.label for metric in shown))
    for name, row in rows.items():
        if set(row) != {"-"}:
            report.row(name, *row)


def _difference(scores: Scores, name: str) -> str:
    if not {name, REFERENCE} <= set(scores.methods):
        return "-"
    at = np.array([scores.methods.index(each) for each in (name, REFERENCE)])
    mine, other = shared(scores, at).values.T
    if not len(mine):
        return "-"
    found = compare(mine.tolist(), other.tolist())
    better = int((mine < other).sum())
    interval = f"{found.low:+.3f} to {found.high:+.3f}"
    return f"{found.difference:+.3f} ({interval}), better on {better} of {found.n}"


def write_seconds(report: Report, records: Sequence[Record]) -> None:
    """Seconds of fitting and predicting, of classes and of numbers."""
    parts = ("fit_cpu_seconds", "predict_cpu_seconds")
    cells: dict[str, list[str]] = {name: [] for name in METHODS}
    for kind in ("class", "number"):
        for part in parts:
            scores = gather(records, part, kind)
            for name, row in cells.items():
                at = scores.methods.index(name) if name in scores.methods else None
                row.append("-" if at is None else _mean_and_median(scores.values[:, at]))
    report.head("method", "classes, fit", "predict", "numbers, fit", "predict")
    for name, row in cells.items():
        if set(row) != {"-"}:
            report.row(name, *row)


def _mean_and_median(values: Floats) -> str:
    there = values[~np.isnan(values)]
    return f"{there.mean():.2f} ({np.median(there):.2f})"


def write_metric(report: Report, records: Sequence[Record], metric: Metric) -> None:
    """A table's means over the seeds at hand; a star where seeds are missing."""
    scores = gather(records, metric.name, metric.kind)
    if np.isnan(scores.values).all():
        return
    report.say(f"## {metric.label[0].upper()}{metric.label[1:]}")
    report.head("table", *scores.methods)
    for table, values in zip(scores.tables, scores.values, strict=True):
        means = [float(np.nanmean(row)) if not np.isnan(row).all() else math.nan for row in values]
        shown = [_cell(mean, row, metric) for mean, row in zip(means, values, strict=True)]
        report.row(table, *shown)


def write_shapes(report: Report) -> None:
    """Size of every table, columns of words and with holes, and classes."""
    report.head("table", "rows", "columns", "of words", "with holes", "classes")
    for task in all_tasks():
        X, y = task.load()
        n_words = sum(not pandas.api.types.is_numeric_dtype(column) for _, column in X.items())
        n_classes = y.nunique() if task.kind == "class" else "numbers"
        report.row(task.name, *X.shape, n_words, int(X.isna().any().sum()), n_classes)


def _cell(mean: float, seeds: Floats, metric: Metric) -> str:
    if math.isnan(mean):
        return "-"
    return f"{mean:.{metric.digits}f}{'*' if np.isnan(seeds).any() else ''}"
