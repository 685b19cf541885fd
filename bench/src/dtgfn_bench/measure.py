"""Fit one method on training rows, ask it about test rows, and say how well it did."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from dtgfn._support.arrays import Bools, Floats, Int64s
from dtgfn.evaluation import class_scores
from dtgfn_bench.contract import TrainingRows
from dtgfn_bench.method_lookup import find_method

Metrics = dict[str, float | None]
ROUNDING = 1e-12  # relative, of a standard deviation


def fit_and_time(
    method: str, settings: Mapping[str, Any], rows: TrainingRows, seed: int
) -> tuple[Any, float]:
    """Fit a method of the registry; the second value is the CPU seconds it took.

    Cells run beside others, so the clock on the wall would say more of those.  What a fit borrowed
    from an earlier one (``shared_cpu_seconds``) is counted as if it had done it itself.
    """
    fit = find_method(method).fit
    begun = time.process_time()
    fitted = fit(rows, seed, **settings)
    own = time.process_time() - begun
    return fitted, own + getattr(fitted, "shared_cpu_seconds", 0.0)


def measure_classifier(
    method: str,
    settings: Mapping[str, Any],
    rows: TrainingRows,
    seed: int,
    tests: Mapping[str, tuple[Floats, Int64s]],
) -> Metrics:
    """Metrics of one fit on several sets of test rows; their names prefix the metrics."""
    fitted, seconds = fit_and_time(method, settings, rows, seed)
    metrics: Metrics = {"fit_cpu_seconds": seconds, "size": fitted.size()}
    metrics["training_accuracy"] = _accuracy(fitted.predict_proba(rows.X), rows.y)
    begun = time.perf_counter()
    for prefix, (X, y) in tests.items():
        found = class_scores(fitted.predict_proba(X), y)
        metrics |= {f"{prefix}{name}": value for name, value in found.items()}
    metrics["predict_seconds"] = time.perf_counter() - begun
    return metrics


def _accuracy(probability: Floats, truth: Int64s) -> float:
    return float((probability.argmax(axis=1) == truth).mean())


def detection_metrics(scores: Floats, training_scores: Floats, anomalous: Int64s) -> Metrics:
    """F1 by two rules of two standard deviations and with the count known, AUROC, precision.

    ``f1_two_std_test`` is the paper's rule: a row is flagged that is at least two standard
    deviations beyond the mean of all *test* scores.  ``f1_two_std`` is ours, beyond those of the
    training scores; no row's verdict depends on other test rows.  With the count known, of equal
    scores normal rows are flagged first: a method that cannot tell rows apart gains nothing from
    their order.
    """
    from sklearn.metrics import average_precision_score, f1_score, roc_auc_score

    worst_first = np.lexsort((anomalous, -scores))
    known = np.zeros_like(anomalous)
    known[worst_first[: anomalous.sum()]] = 1
    flagged = {
        "f1_two_std_test": _beyond_two_std(scores),
        "f1_two_std": scores > training_scores.mean() + 2 * training_scores.std(),
        "f1_known": known,
    }
    f1 = {name: float(f1_score(anomalous, rows, zero_division=0)) for name, rows in flagged.items()}
    return {
        **f1,
        "auroc": float(roc_auc_score(anomalous, scores)),
        "average_precision": float(average_precision_score(anomalous, scores)),
    }


def _beyond_two_std(scores: Floats) -> Bools:
    """Which scores [n] are at least two standard deviations above their mean."""
    spread = scores.std()
    if spread <= ROUNDING * np.abs(scores).max(initial=0.0):  # equal scores tell nothing
        return np.zeros(len(scores), dtype=np.bool_)
    return scores - scores.mean() >= 2 * spread
