"""Seconds to predict 100 000 rows with 1000 trees of depth 5, next to scikit-learn's random forest.

Both are fitted to the same rows and predict the same table of numbers with the same number of
threads, in turn, the best of three; ours includes turning numbers into codes. "distinct" are full
trees of depth 5 drawn at random, no two equal: the worst case. "posterior" are trees of an MCMC
engine, many of which are equal. Counting training rows in leaves is done once, and not in "ours".
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

from dtgfn._support.arrays import Floats
from dtgfn.data.binning import encode
from dtgfn.data.tables import as_table
from dtgfn.inference.infer import infer
from dtgfn.posterior.prediction import Predictor
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.posterior.uncertainty import credible_interval, uncertainty
from dtgfn.trees.batch import TreeBatch, canonical_keys, from_splits
from dtgfn.trees.flat_trees import average
from dtgfn_bench.studies.reporting import Report

N_TRAINING = 5000


def best_of(*works: Callable[[], object], repeats: int = 3) -> list[float]:
    """Wall seconds of the fastest of some runs of each, in turn, so that all have the same luck."""
    seconds: list[list[float]] = [[] for _ in works]
    for _ in range(repeats):
        for work, taken in zip(works, seconds, strict=True):
            begun = time.perf_counter()
            work()
            taken.append(time.perf_counter() - begun)
    return [min(taken) for taken in seconds]


def full_trees(n_trees: int, codes: Any, rng: np.random.Generator) -> TreeBatch:
    """Distinct trees with all 31 splits, on any feature at any code of a training row."""
    paths = [tuple(map(int, f"{k:0{depth}b}")) if depth else () for depth in range(5)
             for k in range(2**depth)]  # fmt: skip
    trees = []
    for _ in range(n_trees):
        features = rng.integers(codes.shape[1], size=len(paths))
        cuts = codes[rng.integers(len(codes), size=len(paths)), features]
        trees.append(dict(zip(paths, zip(features, cuts, strict=True), strict=True)))
    batch = from_splits(trees)
    assert len(set(canonical_keys(batch))) == n_trees
    return batch


def with_trees(posterior: Any, trees: TreeBatch) -> TreePosterior:
    """Other trees, of equal weight, instead of the sampled ones."""
    return replace(posterior, trees=trees, log_weight=np.zeros(len(trees)))


def predict(posterior: Any, forest: Any, X: Floats, n_jobs: int) -> Floats:
    """Average outputs of rows, from numbers."""
    return average(forest, encode(posterior.binner, as_table(X)), n_jobs=n_jobs)


def compare(
    report: Report,
    name: str,
    posterior: Any,
    rival: Any,
    X: Floats,
) -> None:
    """Time ours and the rival's prediction with one thread and with two."""
    forest = Predictor(posterior).weighted_trees
    for n_jobs in (1, 2):
        rival.n_jobs = n_jobs
        ours, theirs = best_of(
            partial(predict, posterior, forest, X, n_jobs), lambda: rival.predict_proba(X)
        )
        report.row(
            name,
            len(forest.weights),
            n_jobs,
            f"{ours:.2f}",
            f"{theirs:.2f}",
            f"{ours / theirs:.2f}",
        )


def details(posterior: Any, rival: Any, X: Floats) -> str:
    """What else takes time, with distinct trees, on one thread."""
    codes = encode(posterior.binner, as_table(X))
    predictor = Predictor(posterior, n_jobs=1)
    forest = predictor.weighted_trees
    rows = replace(
        posterior.rows,
        codes=np.resize(posterior.rows.codes, (300_000, codes.shape[1])),
        target=np.resize(posterior.rows.target, 300_000),
        weight=np.ones(300_000),
    )
    rival.n_jobs = 1
    some = codes[: len(codes) // 10]
    one, encoded = best_of(
        lambda: average(forest, codes[:1]),
        lambda: average(forest, encode(posterior.binner, as_table(X[:1]))),
        repeats=100,
    )
    theirs, binning = best_of(
        lambda: rival.predict_proba(X[:1]), lambda: encode(posterior.binner, as_table(X))
    )
    counting, parts, bounds = best_of(
        lambda: Predictor(replace(posterior, rows=rows), n_jobs=1).counted,
        lambda: uncertainty(predictor, codes),
        lambda: credible_interval(predictor, some),
        repeats=1,
    )
    return (
        f"Distinct trees, one thread. A single row: {1e6 * one:.0f} us from codes, "
        f"{1e6 * encoded:.0f} us from numbers, random forest {1000 * theirs:.0f} ms. "
        f"Of all rows: turning numbers into codes {binning:.2f} s, uncertainty in its parts "
        f"{parts:.2f} s. Credible intervals of {len(some)} rows: {bounds:.1f} s. Counting 300 000 "
        f"training rows in the leaves, once per posterior: {counting:.2f} s."
    )


def run(report: Report, *, rows: int = 100_000, trees: int = 1000) -> None:
    """Time distinct trees and a posterior's."""
    X, y = make_classification(N_TRAINING + rows, 20, n_informative=10, n_classes=3, random_state=0)
    X_train, y_train, X = X[:N_TRAINING], y[:N_TRAINING], X[N_TRAINING:]
    rival = RandomForestClassifier(trees, max_depth=5, random_state=0, n_jobs=2)
    rival.fit(X_train, y_train)
    sampled = infer(X_train, y_train, engine="mcmc", n_trees=trees, time_budget=20, random_state=0)
    random = full_trees(trees, sampled.rows.codes, np.random.default_rng(0))
    distinct = with_trees(sampled, random)
    report.head("trees", "distinct", "threads", "ours s", "random forest s", "ratio")
    compare(report, "distinct", distinct, rival, X)
    compare(report, "posterior", sampled, rival, X)
    report.say(details(distinct, rival, X))
    report.say(f"Load average of the machine in the last five minutes: {os.getloadavg()[1]:.1f}.")
