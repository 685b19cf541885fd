"""A fit on a cluster: learn, code, grow trees level by level, bring back what they can tell."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from distributed import Future

from dtgfn._support.callers import levels_to_caller
from dtgfn._support.parallel import Deadline
from dtgfn._support.progress import Progress
from dtgfn.dask.cluster import Cluster
from dtgfn.dask.coding import code_counts, code_part
from dtgfn.dask.grouping import MOST_GROUPS, as_rows, group_part, merge_groups, used_cuts
from dtgfn.dask.histograms import ClusterHistograms
from dtgfn.dask.learning import Learned, learn
from dtgfn.dask.partitions import Partitions
from dtgfn.data.thresholds import Binning
from dtgfn.diagnostics.judgement import UntrustworthyFit, warn_if_untrustworthy
from dtgfn.engines.contract import Run
from dtgfn.engines.smc.engine import SmcOptions
from dtgfn.engines.smc.levels import infer_levels
from dtgfn.engines.smc.streams import Draws
from dtgfn.posterior.tree_posterior import GROUPED_ROWS, TreePosterior
from dtgfn.trees.batch import TreeBatch, stack_trees
from dtgfn.trees.leaf_models import LeafModel
from dtgfn.trees.score import Rows, SplitPenalty, make_score


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a user asks of a fit; all of it as in ``dtgfn.infer``."""

    leaf: LeafModel
    max_depth: int
    n_thresholds: int
    binning: Binning
    split_penalty: SplitPenalty
    temperature: float
    n_trees: int
    time_budget: float | None
    random_state: int
    options: SmcOptions


def fit_partitions(
    cluster: Cluster, parts: Partitions, settings: Settings, progress: Progress
) -> TreePosterior:
    """Infer the posterior over trees of rows that stay where they are."""
    deadline = Deadline(settings.time_budget)
    progress("learning thresholds", 0.0)
    learned = learn(cluster, parts, settings.leaf, settings.binning, settings.n_thresholds)
    score = make_score(
        learned.leaf,
        n_features=len(learned.binner.columns),
        n_thresholds=settings.n_thresholds,
        max_depth=settings.max_depth,
        split_penalty=settings.split_penalty,
        temperature=settings.temperature,
    )
    run = Run(
        column=learned.binner.feature_column.astype(np.int32),
        n_columns=len(learned.binner.columns),
        n_trees=settings.n_trees,
        random_state=settings.random_state,
        progress=progress,
    )
    coded = cluster.start(parts.tasks(code_part, learned))
    counts = code_counts(learned.binner)
    source = ClusterHistograms(cluster, coded, counts, learned.unit, learned.weight)
    draws, depth = infer_levels(source, score, run, settings.options, deadline)
    warn_if_shallow(depth, settings)
    rows, draws = gather_rows(cluster, coded, learned, draws)
    told = {
        GROUPED_ROWS: len(rows.target),
        "training_rows": learned.n_rows,
        "round_trips": cluster.round_trips,
        "level_bytes": source.level_bytes,
        "seconds": deadline.used,
    }
    posterior = draws.as_posterior(rows, replace(score, max_depth=depth), run, told)
    warn_if_untrustworthy(posterior)
    return replace(posterior, binner=learned.binner, classes=learned.classes)


def gather_rows(
    cluster: Cluster,
    coded: Sequence[Future],
    learned: Learned,
    draws: Draws,
    most: int = MOST_GROUPS,
) -> tuple[Rows, Draws]:
    """Bring the rows here as far as the trees tell them apart, and the trees that they are for.

    Where that is more than ``most`` groups, every other tree is left out until it is not.
    """
    n_wanted = len(draws.trees)
    while True:
        used = used_cuts(all_trees(draws), most)
        merge = functools.partial(merge_groups, most=most)
        groups = cluster.merge(group_part, coded, merge, used)
        if groups is not None:
            break
        if len(draws.trees) == 1:
            raise ValueError(
                f"A single tree and the best one tell more than {most} groups of rows apart; give "
                "a smaller max_depth."
            )
        few = np.arange(0, len(draws.trees), 2)
        draws = replace(draws, trees=draws.trees[few], log_reward=draws.log_reward[few])
    if len(draws.trees) < n_wanted:
        warnings.warn(
            f"n_trees={n_wanted} tell more than {most} groups of rows apart, so {len(draws.trees)} "
            "of them were kept; give a smaller n_trees, n_thresholds or max_depth.",
            UntrustworthyFit,
            stacklevel=levels_to_caller(),
        )
    return as_rows(groups, used, code_counts(learned.binner), learned.unit), draws


def all_trees(draws: Draws) -> TreeBatch:
    """The drawn trees and the best one."""
    return stack_trees([draws.trees, draws.best[0]])


def warn_if_shallow(depth: int, settings: Settings) -> None:
    """Say that time ended the trees before max_depth did."""
    if depth < settings.max_depth:
        warnings.warn(
            f"time_budget={settings.time_budget:g} s was over after {depth} of "
            f"max_depth={settings.max_depth} levels, so this is the posterior of trees of depth "
            f"{depth}; allow more time, or more workers.",
            UntrustworthyFit,
            stacklevel=levels_to_caller(),
        )
