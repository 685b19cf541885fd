"""One measurement of the development suite: a method on a split of a table, and how well it did.

A quarter of the rows is held out, drawn with the seed and, of classes, the same share of each; of
the others a method sees at most ``MOST_ROWS``, drawn with the seed. Log loss clips probabilities at
``FLOOR``. Seconds are of the processor, those of child processes included.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas
from sklearn.model_selection import KFold, train_test_split

from dtgfn._support.arrays import Floats
from dtgfn.evaluation import class_scores
from dtgfn_bench.studies.development_methods import Contender
from dtgfn_bench.studies.development_rivals import Make
from dtgfn_bench.studies.forty_tables import Task

MOST_ROWS = 20_000
MOST_CONFORMAL = 5_000  # training rows: five more fits take long beyond
FLOOR = 1e-6
LEVEL = 0.9
FOLDS = 5

Result = TypeVar("Result")
Metrics = dict[str, float | None]


class Split(NamedTuple):
    """Training rows and held-out rows; classes are codes 0..C-1."""

    X: pandas.DataFrame
    y: Any
    X_test: pandas.DataFrame
    y_test: Any


def split_task(task: Task, seed: int) -> Split:
    """Load a table and hold a quarter of it out."""
    X, target = task.load()
    is_class = task.kind == "class"
    y = np.unique(target, return_inverse=True)[1] if is_class else target.to_numpy(np.float64)
    X, X_test, y, y_test = train_test_split(
        X, y, test_size=0.25, random_state=seed, stratify=y if is_class else None
    )
    some = np.random.default_rng(seed).permutation(len(X))[:MOST_ROWS]
    if len(X) > MOST_ROWS:
        X, y = X.iloc[some], y[some]
    X, X_test = X.reset_index(drop=True), X_test.reset_index(drop=True)
    return Split(X, y, X_test, y_test)


def measure(task: Task, contender: Contender, seed: int) -> Metrics:
    """Fit a method to a split of a table and judge it on the held-out rows."""
    split, make = split_task(task, seed), contender.make(task.kind)
    assert make is not None, "a method that is not for this kind of task"
    model = make(seed)
    _, fit_seconds = cpu_timed(lambda: model.fit(split.X, split.y))
    if task.kind == "class":
        predicted, seconds = cpu_timed(lambda: model.predict_proba(split.X_test))
        found = judge_classes(predicted, split.y_test)
    else:
        predicted, seconds = cpu_timed(lambda: model.predict(split.X_test))
        found = judge_numbers(predicted, split.y_test)
        bounds = intervals(model, make if contender.conformal else None, split, predicted, seed)
        found |= judge_intervals(bounds, split.y_test)
    return {**found, "fit_cpu_seconds": fit_seconds, "predict_cpu_seconds": seconds}


def cpu_timed(call: Callable[[], Result]) -> tuple[Result, float]:
    """What a call gives, and the seconds that the processor took, in children too."""
    before = sum(os.times()[:4])
    given = call()
    return given, sum(os.times()[:4]) - before


def judge_classes(probability: Floats, truth: Any) -> Metrics:
    """Accuracy, log loss and Brier score."""
    whole = probability / probability.sum(axis=1, keepdims=True)
    scores = class_scores(np.clip(whole, FLOOR, 1.0), truth)
    return {name: scores[name] for name in ("accuracy", "log_loss", "brier")}


def judge_numbers(predicted: Floats, truth: Floats) -> Metrics:
    """Root mean squared error over the spread of the held-out targets."""
    error = math.sqrt(np.mean((predicted - truth) ** 2))
    return {"rmse": error / float(truth.std())}


def intervals(
    model: Any, again: Make | None, split: Split, predicted: Floats, seed: int
) -> Floats | None:
    """Intervals [n, 2]: the model's own, or as wide as residuals of other folds ask; or None."""
    if hasattr(model, "predict_interval"):
        return np.asarray(model.predict_interval(split.X_test, LEVEL))
    if again is None or len(split.y) > MOST_CONFORMAL:
        return None
    residual = np.empty(len(split.y))
    for seen, rest in KFold(FOLDS, shuffle=True, random_state=seed).split(split.X):
        fold = again(seed).fit(split.X.iloc[seen], split.y[seen])
        residual[rest] = np.abs(split.y[rest] - fold.predict(split.X.iloc[rest]))
    rank = min(math.ceil(LEVEL * (len(residual) + 1)), len(residual))
    width = np.sort(residual)[rank - 1]
    return np.column_stack([predicted - width, predicted + width])


def judge_intervals(bounds: Floats | None, truth: Floats) -> Metrics:
    """Coverage, and the interval score of Gneiting and Raftery over the targets' spread."""
    if bounds is None:
        return {"coverage": None, "interval_score": None}
    low, high = bounds.T
    outside = np.maximum(low - truth, 0) + np.maximum(truth - high, 0)
    score = np.mean(high - low + 2 / (1 - LEVEL) * outside) / float(truth.std())
    inside = float(np.mean((low <= truth) & (truth <= high)))
    return {"coverage": inside, "interval_score": float(score)}
