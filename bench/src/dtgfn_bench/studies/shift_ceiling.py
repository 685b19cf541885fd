"""What models reach on the shifted rows of Pima when they are trained on shifted rows themselves.

Ten folds of the rows out of distribution, stratified: a model learns from nine of them and is asked
about the tenth. A model that has only seen the other distribution has less to go by, so its printed
accuracy on these rows is held against this one, and against the share of the larger class.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from dtgfn._support.arrays import Floats, Int64s
from dtgfn.datasets import load_dataset
from dtgfn_bench.contract import TrainingRows
from dtgfn_bench.experiments.shift import LABELS
from dtgfn_bench.measure import fit_and_time
from dtgfn_bench.method_lookup import find_method
from dtgfn_bench.paper import SHIFT
from dtgfn_bench.splits import shift
from dtgfn_bench.statistics import summary
from dtgfn_bench.studies.reporting import Report

METHODS = ("logistic", "forest", "ebm")
FOLDS = 10


def fold_accuracies(
    name: str, X: Floats, y: Int64s, table: str, seed: int, quick: bool
) -> list[float]:
    """Accuracy of a method on each fold, trained on the others."""
    from sklearn.model_selection import StratifiedKFold

    method = find_method(name)
    settings = {**method.settings, **(method.quick if quick else {})}
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    found = []
    for train, test in folds.split(X, y):
        rows = TrainingRows(X[train], y[train], int(y.max()) + 1, table)
        fitted, _ = fit_and_time(name, settings, rows, seed)
        found.append(float((fitted.predict_proba(X[test]).argmax(axis=1) == y[test]).mean()))
    return found


def run(
    report: Report, *, seeds: int = 2, methods: str = ",".join(METHODS), quick: bool = False
) -> None:
    """Folds drawn several times, and the paper's figure of a model that has not seen such rows."""
    data = load_dataset("pima")
    shares = []
    report.head("shift", "rows", "model", "mean", "mean of ten folds, by draw of the folds")
    for table, label in LABELS.items():
        train, inside, outside = shift(data, cast(Any, table))
        seen = data.y[np.concatenate([train, inside])].mean()
        shares.append(f"{seen:.0%} to {data.y[outside].mean():.0%} ({label})")
        X, y = data.X[outside], data.y[outside]
        report.row(label, len(y), "the larger class", f"{np.bincount(y).max() / len(y):.3f}", "")
        for name in filter(None, methods.split(",")):
            means = [
                float(np.mean(fold_accuracies(name, X, y, table, seed, quick)))
                for seed in range(seeds)
            ]
            by_draw = ", ".join(f"{mean:.3f}" for mean in means)
            shown = f"{summary(means).mean:.3f}"
            report.row(label, len(y), find_method(name).label, shown, by_draw)
        printed = SHIFT["dt-gfn", f"{table}-out"].score.value
        report.row(label, len(y), "DT-GFN, as printed, trained on the others", f"{printed:.3f}", "")
    report.say(f"The share of positives goes from {' and from '.join(shares)}.")
