"""What rules that learn next to nothing find in the anomaly tables, on the experiment's splits.

"every row" flags all test rows: no F1 below that says that a detector works. "outside" flags rows
that exceed, in any column, the range of the training rows. The last is one value of one column of
Ecoli, which a person finds by looking at the labels, and which on some splits no training row has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from dtgfn._support.arrays import Bools, Floats
from dtgfn.datasets import Dataset, load_dataset
from dtgfn_bench.experiments.anomaly import N_SPLITS, TABLES
from dtgfn_bench.splits import anomaly_halves
from dtgfn_bench.statistics import summary
from dtgfn_bench.studies.reporting import Report

GIVEAWAY = ("ecoli", "lip", 1.0)

Rule = Callable[[Floats, Floats], Bools]  # of training rows and test rows: which of these to flag


def every_row(_: Floats, rows: Floats) -> Bools:
    """Flag all."""
    return np.ones(len(rows), dtype=bool)


def outside(training: Floats, rows: Floats) -> Bools:
    """Flag rows beyond the training rows' range in some column."""
    low, high = training.min(axis=0), training.max(axis=0)
    return np.asarray(((rows < low) | (rows > high)).any(axis=1))


def f1_by_split(data: Dataset, rule: Rule, splits: int) -> list[float]:
    """F1 of a rule on the first splits."""
    from sklearn.metrics import f1_score

    found = []
    for seed in range(1, splits + 1):
        train, test = anomaly_halves(data.y, seed)
        flagged = rule(data.X[train], data.X[test])
        found.append(float(f1_score(data.y[test] != 0, flagged, zero_division=0)))
    return found


def giveaway_counts(data: Dataset, has: Bools, splits: int) -> tuple[int, int, int]:
    """Splits whose training rows lack a value, and how many rows and anomalies have it in all."""
    lacking = sum(
        not has[anomaly_halves(data.y, seed).train].any() for seed in range(1, splits + 1)
    )
    return lacking, int(has.sum()), int((has & (data.y != 0)).sum())


def run(report: Report, *, splits: int = N_SPLITS) -> None:
    """F1 of each rule, and how often the value that gives anomalies away is unseen."""
    report.head("table", "rule", "F1", "sd")
    rules: Mapping[str, Rule] = {"every row": every_row, "outside": outside}
    for table in TABLES:
        data = load_dataset(table)
        for name, rule in rules.items():
            found = summary(f1_by_split(data, rule, splits))
            report.row(table, name, f"{found.mean:.3f}", f"{found.spread:.3f}")
    table, name, value = GIVEAWAY
    data = load_dataset(table)
    column = data.feature_names.index(name)
    found = summary(f1_by_split(data, lambda _, X: X[:, column] == value, splits))
    report.row(table, f"{name} = {value:g}", f"{found.mean:.3f}", f"{found.spread:.3f}")
    lacking, rows, anomalies = giveaway_counts(data, data.X[:, column] == value, splits)
    report.say(
        f"In {lacking} of {splits} splits of {table} no training row has {name} = {value:g}; of "
        f"all rows {rows} have it, {anomalies} of them anomalies."
    )
