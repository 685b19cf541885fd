"""The density of normal rows, by posterior trees that tell them from background.

A leaf that holds n normal rows and the background mass b stands for the density ratio
(n + a) / (b + a); times the background's own density q(x) it is the density p(x) of normal rows,
in units of the columns' spread. In k columns, 1 / p(x)^(1/k) is then the side of the cube around
x that one row has to itself: the spacing of rows at x, a length. It is averaged over the trees of a
view, then over views by the power mean of exponent 1/2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dtgfn._support import clock
from dtgfn._support.arrays import Codes, Floats
from dtgfn._support.backends import open_backend
from dtgfn._support.budgets import EXTRA, EXTRA_SHARE
from dtgfn._support.progress import Progress, silent
from dtgfn.anomaly.background import Background, background_shares, view_rows
from dtgfn.engines.contract import Run
from dtgfn.engines.warm_up import compile_engine
from dtgfn.inference.method import Method
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.trees.batch import TreeBatch, route
from dtgfn.trees.leaf_models import DirichletLeaf
from dtgfn.trees.score import Rows, Score, SplitPenalty, make_score

CHUNK = 1_000_000  # trees times rows looked at together
MIN_SECONDS = 0.1  # what an engine gets when the budget is nearly over


@dataclass(frozen=True, eq=False)
class View:
    """Posterior trees over a few columns.

    Attributes
    ----------
    columns : tuple of int
    trees : TreeBatch
        B trees; their feature j is the j-th of these columns.
    weights : float64 [B]
        Their posterior weights, summing to one.
    normal, background : float64 [B, N]
        Weight of training rows at each leaf, and background mass at each node.
    log_evidence : float
        log Z of the view, nan where the engine cannot tell.
    concentration : float
        Rows and background each leaf is given in advance.

    """

    columns: tuple[int, ...]
    trees: TreeBatch
    weights: Floats
    normal: Floats
    background: Floats
    log_evidence: float
    concentration: float


def infer_views(
    background: Background,
    columns: Sequence[tuple[int, ...]],
    cells: Codes,
    weight: Floats,
    method: Method,
    *,
    n_thresholds: int,
    n_trees: int,
    time_budget: float | None,
    n_jobs: int | None,
    rng: np.random.Generator,
    max_depth: int,
    leaf_concentration: float,
    split_penalty: SplitPenalty,
    temperature: float,
    progress: Progress = silent,
) -> Iterator[View]:
    """Infer ``n_trees`` trees in each of several sets of columns; for one tree, the best one.

    ``cells`` [n, columns] and ``weight`` [n] are of the normal rows. When ``time_budget`` seconds
    are over, counted without compiling and with what the caller does between two views, the
    remaining sets are left out.
    """
    scores = [
        make_score(
            DirichletLeaf(2, leaf_concentration),
            n_features=len(chosen),
            n_thresholds=n_thresholds,
            max_depth=max_depth,
            split_penalty=split_penalty,
            temperature=temperature,
        )
        for chosen in columns
    ]
    some = view_rows(background, columns[0], cells[:1], weight[:1], np.random.default_rng(0))
    run = view_run(columns[0], n_jobs=n_jobs)
    compile_engine(method.engine, some, scores[0], run, method.options)
    # The clock starts here: compiling, on a first run, is not the problem's fault.
    started = clock.monotonic()

    def prepare(index: int, seconds: float | None, threads: int | None) -> tuple[Rows, Score, Run]:
        rows = view_rows(background, columns[index], cells, weight, rng)
        seed = int(rng.integers(2**31))
        given = {"n_trees": n_trees, "random_state": seed, "n_jobs": threads}
        return rows, scores[index], view_run(columns[index], time_budget=seconds, **given)

    def finish(index: int, posterior: TreePosterior) -> View:
        chosen = columns[index]
        return make_view(background, chosen, cells, weight, posterior, alone=n_trees == 1)

    elsewhere = open_backend(n_jobs)
    if elsewhere is not None and len(columns) > 1:
        share = elsewhere.share(time_budget, len(columns))
        tasks = [prepare(index, share, 1) for index in range(len(columns))]
        for index, posterior in enumerate(elsewhere.run(method.infer, tasks)):
            yield finish(index, posterior)
        return
    beyond = EXTRA + EXTRA_SHARE * (time_budget or 0.0)
    for n_views in range(len(columns)):
        used = clock.monotonic() - started
        left = None if time_budget is None else time_budget - used
        # Of very many rows a view takes seconds, whatever its engine is told.
        if n_views and left is not None and left <= max(used / n_views - beyond, 0.0):
            break
        progress("views", n_views / len(columns))
        seconds = None if left is None else max(left / (len(columns) - n_views), MIN_SECONDS)
        yield finish(n_views, method.infer(*prepare(n_views, seconds, n_jobs)))


def view_run(columns: Sequence[int], **given: Any) -> Run:
    """What an engine is told of a view, each of whose columns is a feature."""
    column = np.arange(len(columns), dtype=np.int32)
    return Run(column=column, n_columns=len(columns), judged=False, **given)


def make_view(
    background: Background,
    columns: tuple[int, ...],
    cells: Codes,
    weight: Floats,
    posterior: TreePosterior,
    alone: bool,
) -> View:
    """Keep of a posterior what tells how empty space is: of all trees, or of the best one."""
    if posterior.interrupted:  # the other views would be trained as if nothing had happened
        raise KeyboardInterrupt
    trees = posterior.best_tree if alone else posterior.trees
    return View(
        columns=columns,
        trees=trees,
        weights=np.ones(1) if alone else posterior.weights,
        normal=leaf_weights(trees, pick(cells, columns), weight),
        background=background_shares(background, columns, trees) * weight.sum(),
        log_evidence=posterior.log_evidence,
        concentration=posterior.score.leaf.concentration,  # type: ignore[attr-defined]
    )


def pick(cells: Codes, columns: Sequence[int]) -> Codes:
    """Cells of some columns, as the compiled loops want them."""
    return np.ascontiguousarray(cells[:, list(columns)])


def leaf_weights(trees: TreeBatch, cells: Codes, weight: Floats) -> Floats:
    """Weight of the rows [n] at each leaf [B, N]."""
    total = np.zeros(trees.feature.shape)
    for b, leaf in enumerate(route(trees, cells)):
        total[b] = np.bincount(leaf, weights=weight, minlength=trees.feature.shape[1])
    return total


def spacing(
    views: Sequence[View],
    cells: Codes,
    log_density: Floats,
    own_weight: Floats | None = None,
) -> Floats:
    """Spacing of normal rows at each row [n], averaged over trees and views.

    ``log_density`` [n, columns] is the background's. With ``own_weight`` [n] each row is a
    training row, and is judged by its leaves without that much of itself.
    """
    total = np.zeros(len(cells))
    for view in views:
        total += root_spacing(view, cells, log_density, own_weight)
    return mean_spacing(total, len(views))


def root_spacing(
    view: View, cells: Codes, log_density: Floats, own_weight: Floats | None = None
) -> Floats:
    """Root of the spacing at each row [n] in one view, as in ``spacing``."""
    total = np.empty(len(cells))
    power = 1.0 / len(view.columns)
    density = log_density[:, list(view.columns)].sum(axis=1)
    step = max(CHUNK // len(view.trees), 1)
    for first in range(0, len(cells), step):
        part = slice(first, first + step)
        own = None if own_weight is None else own_weight[part]
        side = _mean_odds(view, pick(cells[part], view.columns), own, power)
        # Between the mean of logs, where views add up, and the mean, where one is enough.
        total[part] = np.sqrt(side * np.exp(-power * density[part]))
    return total


def mean_spacing(total: Floats, n_views: int) -> Floats:
    """Spacing [n] from the sum of its roots over views."""
    return np.asarray((total / n_views) ** 2)


def _mean_odds(view: View, cells: Codes, own: Floats | None, power: float) -> Floats:
    """Mean over trees of (background / normal)^power in the leaf of each row [n]."""
    leaf = route(view.trees, cells)
    normal = np.take_along_axis(view.normal, leaf, axis=1)
    mass = np.take_along_axis(view.background, leaf, axis=1)
    if own is not None:
        normal = np.maximum(normal - own, 0.0)
    odds = (mass + view.concentration) / (normal + view.concentration)
    return np.asarray(view.weights @ odds**power)
