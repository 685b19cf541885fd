"""``infer``: the functional door, one call from a table to the posterior over its trees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dtgfn.binning import Binning
from dtgfn.engines.exact import infer_exact
from dtgfn.posterior import TreePosterior
from dtgfn.progress import progress_bar
from dtgfn.score import SplitPenalty, make_score
from dtgfn.tables import as_table
from dtgfn.training import make_training_data

ENGINES: dict[str, Callable[..., TreePosterior]] = {"exact": infer_exact}


def infer(
    X: Any,
    y: Any,
    *,
    engine: str = "exact",
    max_depth: int = 5,
    n_thresholds: int = 99,
    binning: Binning = "uniform",
    leaf_concentration: float = 0.1,
    split_penalty: SplitPenalty = "mdl",
    temperature: float = 1.0,
    n_trees: int = 1000,
    sample_weight: npt.ArrayLike | None = None,
    time_budget: float | None = 300.0,
    n_jobs: int | None = None,
    random_state: int | np.random.Generator | None = None,
    verbose: bool = False,
) -> TreePosterior:
    """Infer the posterior over decision trees of a table.

    Parameters
    ----------
    X : array, pandas or polars frame, or Table [n, columns]
        Numbers, booleans and text; missing values may stay.
    y : array [n]
        Class labels.
    engine : {"exact"}
        How to infer.
    max_depth : int
        Edges on the longest path, as in scikit-learn.
    n_thresholds, binning
        Grid of candidate thresholds per numeric column: "uniform", "quantile" or "midpoint".
    leaf_concentration : float
        Dirichlet parameter per class in each leaf.
    split_penalty : "mdl", "paper", float, "bcart" or ("bcart", base, decay)
        Prior over structures; "mdl" is log 4 + log columns + log n_thresholds nats per split.
    temperature : float
        The target is R^(1/temperature).
    n_trees : int
        Posterior samples to draw.
    sample_weight : array [n] or None
        A weight of 3 counts as three rows, 0 as none.
    time_budget : float or None
        Seconds after which inference is given up; None for no limit.
    n_jobs : int or None
        Threads, all cores if None or -1.
    random_state : int, Generator or None
        Seed of the sampled trees.
    verbose : bool
        Whether to show progress on standard error.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> posterior = infer(*load_iris(return_X_y=True), max_depth=2, n_thresholds=9)
    >>> round(posterior.log_evidence, 3)
    -38.584

    """
    check_choice("engine", engine, tuple(ENGINES))
    check_whole("n_trees", n_trees, 1, 10_000_000)
    if n_jobs == -1:  # scikit-learn's way to say all cores
        n_jobs = None
    if n_jobs is not None:
        check_whole("n_jobs", n_jobs, 1, 1024)
    if time_budget is not None and not (
        isinstance(time_budget, int | float | np.number)
        and not isinstance(time_budget, bool)
        and time_budget > 0
    ):
        raise ValueError(
            f"time_budget={time_budget!r} is not usable; give seconds above 0, or None."
        )
    table = as_table(X)
    data = make_training_data(
        table,
        np.asarray(y),
        binning=binning,
        n_thresholds=n_thresholds,
        sample_weight=sample_weight,
    )
    score = make_score(
        n_classes=len(data.classes),
        n_features=table.n_columns,
        n_thresholds=n_thresholds,
        max_depth=max_depth,
        leaf_concentration=leaf_concentration,
        split_penalty=split_penalty,
        temperature=temperature,
    )
    with progress_bar(verbose) as progress:
        posterior = ENGINES[engine](
            data.rows,
            score,
            column=np.asarray(data.binner.feature_column, dtype=np.int32),
            n_columns=table.n_columns,
            n_trees=int(n_trees),
            random_state=random_state,
            time_budget=time_budget,
            n_jobs=n_jobs,
            progress=progress,
        )
    return replace(posterior, binner=data.binner, classes=data.classes)


def check_choice(name: str, value: object, allowed: tuple[str, ...]) -> None:
    """Refuse a value that is not among the allowed ones."""
    if value not in allowed:
        raise ValueError(f"{name}={value!r} is not known; give one of {', '.join(allowed)}.")


def check_whole(name: str, value: object, low: int, high: int) -> None:
    """Refuse what is not a whole number from low to high."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or not low <= value <= high:  # type: ignore[operator]
        raise ValueError(
            f"{name}={value!r} is out of range; give a whole number from {low} to {high}."
        )
