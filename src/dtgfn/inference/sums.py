"""From a table to the posterior over sums of trees: ``ensemble="sum"``."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dtgfn._support import clock
from dtgfn._support.budgets import remaining_budget
from dtgfn._support.callers import levels_to_caller
from dtgfn._support.checks import check_integer, check_run, check_seed
from dtgfn._support.progress import progress_bar
from dtgfn.data.tables import Table
from dtgfn.data.thresholds import Binning
from dtgfn.diagnostics.judgement import UntrustworthyFit
from dtgfn.diagnostics.sum_checks import FEW_SWEEPS, GOOD_R_HAT, clearly_disagree
from dtgfn.engines.contract import Run
from dtgfn.engines.sums.engine import infer_sums
from dtgfn.engines.sums.settings import OPTION_NAMES, SumOptions
from dtgfn.inference.source_data import TrainingSource
from dtgfn.inference.training_data import is_mapped, make_training_data
from dtgfn.posterior.sum_posterior import SumPosterior
from dtgfn.trees.batch import MAX_DEPTH
from dtgfn.trees.leaf_models import DirichletLeaf, LeafModel, NormalLeaf
from dtgfn.trees.score import merge_rows

# Parameters of the posterior over single trees, which a sum of trees has no use for.
NOT_OF_SUMS = (
    "engine", "inference", "leaf_concentration", "mean_strength", "noise_shape", "noise_share",
    "split_penalty", "temperature", "weighting", "n_trees", "warm_start",
)  # fmt: skip


def read_sum_options(options: Mapping[str, Any]) -> SumOptions:
    """Read options of sums; refuse those that are none."""
    for name in options:
        if name not in OPTION_NAMES:
            raise ValueError(
                f"{name!r} is not an option of ensemble='sum'; it has {', '.join(OPTION_NAMES)}."
            )
    return SumOptions(**options)


def check_sum_parameters(given: Mapping[str, Any], usual: Mapping[str, Any]) -> None:
    """Refuse parameters that differ from what is usual, but mean nothing for a sum of trees."""
    for name in set_of_single_trees(given, usual):
        raise ValueError(
            f"{name}={given[name]!r} is for single trees and bags, not for ensemble='sum'; leave "
            "it out, or choose another ensemble."
        )


def set_of_single_trees(given: Mapping[str, Any], usual: Mapping[str, Any]) -> list[str]:
    """Names of the parameters that were set, and that a sum of trees has no use for."""
    return [n for n in NOT_OF_SUMS if n in given and n in usual and given[n] != usual[n]]


def summable(leaf: LeafModel) -> DirichletLeaf | NormalLeaf:
    """Return a leaf model; refuse leaves that hold neither classes nor numbers."""
    if not isinstance(leaf, DirichletLeaf | NormalLeaf):
        raise ValueError(
            f"ensemble='sum' is for classes and numbers, not for leaves that are "
            f"{type(leaf).__name__}; leave the ensemble out."
        )
    return leaf


def infer_sum_prepared(
    table: Table | TrainingSource,
    target: npt.NDArray[Any] | None,
    options: SumOptions,
    *,
    leaf: DirichletLeaf | NormalLeaf,
    classes: npt.ArrayLike | None = None,
    max_depth: int | str,
    n_thresholds: int,
    binning: Binning,
    sample_weight: npt.ArrayLike | None,
    time_budget: float | None,
    n_jobs: int | None,
    random_state: int | np.random.Generator | None,
    verbose: bool,
    started: float,
) -> SumPosterior:
    """Infer from what is already read; of ``leaf`` only matters whether it holds classes.

    All else is as in ``infer``; ``started`` is when reading began (``clock.monotonic``).
    """
    _, time_budget, n_jobs = check_run(1, time_budget, n_jobs)
    check_seed(random_state)
    max_depth = check_integer("max_depth", max_depth, 0, MAX_DEPTH)
    with progress_bar(verbose) as progress:
        data = make_training_data(
            table,
            target,
            leaf,
            binning=binning,
            n_thresholds=n_thresholds,
            sample_weight=sample_weight,
            classes=classes,
            progress=progress,
        )
    assert isinstance(data.leaf, DirichletLeaf | NormalLeaf), "leaves stay of their kind"
    with progress_bar(verbose) as progress:
        run = Run(
            column=data.binner.feature_column.astype(np.int32),
            n_columns=data.n_columns,
            random_state=random_state,
            time_budget=remaining_budget(time_budget, clock.monotonic() - started),
            n_jobs=n_jobs,
            progress=progress,
        )
        # So that a weight of 2 and a row that is there twice give the same chains; what did not
        # fit into memory merged is not merged again.
        rows = data.rows if is_mapped(data.rows) else merge_rows(data.rows, ordered=False)
        has_missing = np.array([feature.has_missing for feature in data.binner.features], bool)
        posterior = infer_sums(rows, data.leaf, max_depth, run, options, has_missing)
    warn_of_chains(posterior, time_budget)
    return replace(posterior, binner=data.binner, classes=data.classes)


def warn_of_chains(posterior: SumPosterior, time_budget: float | None) -> None:
    """Warn of chains that time ended before they had got anywhere, or that clearly disagree."""
    diagnostics = posterior.diagnostics
    fewest = min(diagnostics["sweeps_per_chain"])
    warning = None
    rows_used, n_rows = diagnostics["rows_of_draws"], len(posterior.rows.codes)
    if rows_used < n_rows:
        warning = (
            f"time_budget={time_budget:g} s was enough for {rows_used:,} of {n_rows:,} rows only, "
            "drawn at random; allow more for the others to count."
        )
    elif fewest < FEW_SWEEPS and diagnostics["stopped_because"] == "time_budget":
        warning = (
            f"time_budget={time_budget:g} s was enough for {fewest} sweeps of a chain only, where "
            f"{FEW_SWEEPS} are few; allow more, or use fewer n_chains or n_summed."
        )
    elif clearly_disagree(posterior):
        warning = (
            "The chains of sums disagree on what they predict, with an R-hat of "
            f"{diagnostics['r_hat_mean']:.2f} on average (should be below {GOOD_R_HAT}); allow "
            "more n_sweeps and a larger time_budget, or use fewer n_summed."
        )
    if warning is not None:
        warnings.warn(warning, UntrustworthyFit, stacklevel=levels_to_caller())
