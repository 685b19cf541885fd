"""More rows: append them, weigh the trees there are in closed form, train a little more."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dtgfn._support import clock
from dtgfn._support.arrays import Floats
from dtgfn._support.budgets import remaining_budget
from dtgfn._support.checks import check_run, check_seed, check_weights
from dtgfn._support.json_values import none_if_nan
from dtgfn._support.progress import progress_bar
from dtgfn.data.binning import Binner, encode
from dtgfn.data.tables import Table, as_table, take
from dtgfn.data.targets import MAX_WEIGHT
from dtgfn.diagnostics.judgement import warn_if_untrustworthy
from dtgfn.engines.contract import Run
from dtgfn.engines.registry import ENGINES
from dtgfn.inference.method import enough_memory, read_method
from dtgfn.inference.training_data import check_length, encode_target, read_target
from dtgfn.posterior.importance_weights import effective_sample_size
from dtgfn.posterior.of_model import as_posterior
from dtgfn.posterior.sum_posterior import SumPosterior
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.posterior.weighted_trees import sampled_posterior
from dtgfn.trees.batch import TreeBatch, node_sums
from dtgfn.trees.score import Rows, Score, leaf_log_marginal, log_prior, merge_rows

TRAINED_SHARE = 0.1  # of a fit's time and steps
# Of the time for weighing the old trees, rows times trees in a second, and how few trees may do.
WEIGHED_SHARE, ROUTED_PER_SECOND, FEWEST_WEIGHED = 0.25, 2e7, 20


def extend_posterior(
    posterior: TreePosterior,
    X: Any,
    y: Any,
    *,
    sample_weight: npt.ArrayLike | None = None,
    n_trees: int | None = None,
    time_budget: float | None = 60.0,
    n_jobs: int | None = None,
    random_state: int | np.random.Generator | None = None,
    verbose: bool = False,
    **options: Any,
) -> TreePosterior:
    """Infer the posterior of the rows there were and of new ones together.

    Parameters
    ----------
    posterior : TreePosterior
        What ``infer`` or an earlier call returned; its thresholds, categories and classes stay.
    X, y : array or frame [n, columns], array [n]
        The new rows, with the columns of the first ones, and their labels.
    sample_weight : array [n] or None
        A weight of 3 counts as three rows, 0 as none.
    n_trees : int or None
        Posterior samples to draw; None is as many as there are.
    time_budget : float or None
        Seconds that a fit would take. A GFlowNet that goes on takes a tenth of it, and a tenth of
        ``n_steps``; the other engines, and a GFlowNet that was loaded from a file without its
        policy, infer from all rows anew and take all of it.
    n_jobs, random_state, verbose, **options
        As in ``infer``; a GFlowNet must go on with the settings that it was trained with.

    Returns
    -------
    TreePosterior
        ``diagnostics["instant"]`` tells what the old trees, weighed for all rows before any
        training, said: log_evidence, log_evidence_error, ess and seconds. Of very many rows these
        are some of the trees only, as many as there is time for.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from dtgfn import infer
    >>> X, y = load_iris(return_X_y=True)
    >>> some = infer(X[::2], y[::2], engine="exact", max_depth=2, n_thresholds=9)
    >>> every = extend_posterior(some, X[1::2], y[1::2])
    >>> round(some.log_evidence, 2), round(every.log_evidence, 2)
    (-26.56, -38.58)

    """
    started = clock.monotonic()
    if isinstance(posterior, SumPosterior):
        raise TypeError("A sum of trees cannot take more rows; fit all of them again.")
    method = read_method(posterior.engine, options)
    return extend_prepared(
        posterior,
        as_table(X),
        read_target(y, posterior.score.leaf),
        method.options,
        sample_weight=sample_weight,
        n_trees=n_trees,
        time_budget=time_budget,
        n_jobs=n_jobs,
        random_state=random_state,
        verbose=verbose,
        started=started,
    )


def extend_prepared(
    posterior: TreePosterior,
    table: Table,
    target: npt.NDArray[Any],
    options: Any,
    *,
    sample_weight: npt.ArrayLike | None,
    n_trees: int | None,
    time_budget: float | None,
    n_jobs: int | None,
    random_state: int | np.random.Generator | None,
    verbose: bool,
    started: float,
) -> TreePosterior:
    """Extend by what is already read: ``as_table``, ``read_target``, ``read_method(...).options``.

    All else is as in ``extend_posterior``; reading began when the clock was at ``started``.
    """
    wanted = len(posterior.trees) if n_trees is None else n_trees
    n_trees, time_budget, n_jobs = check_run(wanted, time_budget, n_jobs)
    check_seed(random_state)
    binner = check_extensible(posterior)
    batch = code_batch(posterior, table, target, sample_weight)
    if len(batch.weight) == 0:
        return posterior
    rows = append_rows(posterior.rows, batch)
    known, instant = weigh_old_trees(fewer_trees(posterior, len(rows.weight), time_budget), batch)
    time_budget = remaining_budget(time_budget, clock.monotonic() - started, at_least=0.5)
    if posterior.engine == "gfn":
        policy = options.policy if posterior.solution is None else posterior.solution
        options = replace(options, policy=policy, warm_start=known)
        if posterior.solution is not None:
            time_budget, options = shortened(time_budget, options)
    with progress_bar(verbose) as progress:
        run = Run(
            column=binner.feature_column.astype(np.int32),
            n_columns=len(binner.columns),
            n_trees=n_trees,
            random_state=random_state,
            time_budget=time_budget,
            n_jobs=n_jobs,
            progress=progress,
        )
        with enough_memory(len(rows.target), run.n_columns):
            extended = ENGINES[posterior.engine].infer(rows, posterior.score, run, options)
    warn_if_untrustworthy(extended)
    diagnostics = {**extended.diagnostics, "instant": instant}
    return replace(extended, binner=binner, classes=posterior.classes, diagnostics=diagnostics)


def check_extensible(posterior: TreePosterior) -> Binner:
    """Return how columns become codes; refuse a posterior that more rows cannot join."""
    posterior.check_single_rows("To let more rows join")
    if posterior.is_bagged:
        raise ValueError("A bagged posterior cannot take more rows; fit all of them again.")
    if posterior.demands:
        raise ValueError(
            "A posterior under demands cannot take more rows; give them to the one without, and "
            "make the demands again."
        )
    if posterior.binner is None:
        raise ValueError(
            "This posterior was inferred from codes; give extend_posterior one that "
            "dtgfn.infer made from a table."
        )
    return posterior.binner


def fewer_trees(posterior: TreePosterior, n_rows: int, seconds: float | None) -> TreePosterior:
    """Return some of the trees, evenly from first to last, where there is no time to weigh all."""
    if seconds is None:
        return posterior
    most = max(int(WEIGHED_SHARE * seconds * ROUTED_PER_SECOND / n_rows), FEWEST_WEIGHED)
    if most >= len(posterior.trees):
        return posterior
    chosen = np.linspace(0, len(posterior.trees) - 1, most).astype(np.int64)
    drawn = ("trees", "log_reward", "log_prob", "log_weight")
    return replace(posterior, **{name: getattr(posterior, name)[chosen] for name in drawn})


def weigh_old_trees(
    posterior: TreePosterior, batch: Rows
) -> tuple[TreePosterior, dict[str, float | None]]:
    """Return the old trees, weighed for all rows, and what they say before any training."""
    begun = clock.monotonic()
    known, _ = reweigh(posterior, batch)
    return known, {
        "log_evidence": none_if_nan(known.log_evidence),
        "log_evidence_error": none_if_nan(known.log_evidence_error),
        "ess": known.diagnostics["ess"],
        "seconds": clock.monotonic() - begun,
    }


def code_batch(
    posterior: TreePosterior,
    table: Table,
    target: npt.NDArray[Any],
    sample_weight: npt.ArrayLike | None = None,
) -> Rows:
    """Code new rows as the first ones were; rows of weight zero count as absent."""
    check_length(table, target)
    binner = posterior.binner
    assert binner is not None, "the caller checks"
    weight = check_weights(sample_weight, table.n_rows, none_weighs=True)
    if weight is None:
        weight = np.ones(table.n_rows)
    else:
        present = weight > 0
        table, target, weight = take(table, present), target[present], weight[present]
    encoded = encode_target(target, posterior.score.leaf, posterior.classes)
    # A missing cell where training had none goes right at every cut, like the largest number.
    codes = np.minimum(encode(binner, table), binner.n_cuts).astype(np.uint16)
    return Rows(codes, encoded, weight)


def append_rows(rows: Rows, batch: Rows) -> Rows:
    """Put rows together; equal ones are merged, so that memory is bounded by distinct rows.

    >>> code, label = np.zeros((2, 1), np.uint16), np.array([0, 1], np.int32)
    >>> append_rows(Rows(code, label, np.ones(2)), Rows(code, label, np.ones(2))).weight.tolist()
    [2.0, 2.0]
    """
    both = Rows(
        np.concatenate([rows.codes, batch.codes]),
        np.concatenate([rows.target, batch.target]),
        np.concatenate([rows.weight, batch.weight]),
    )
    if both.weight.sum() > MAX_WEIGHT:
        raise ValueError(
            f"The rows so far and the new ones weigh {both.weight.sum():g}, more than "
            f"{MAX_WEIGHT:g} rows' worth; divide sample_weight by a constant from the start."
        )
    return merge_rows(both)


def reweigh(
    posterior: TreePosterior, batch: Rows, sums: Floats | None = None
) -> tuple[TreePosterior, Floats]:
    """Weigh the trees of a posterior for its rows and new ones, in closed form.

    With R of all rows and R' of the rows before, a tree's weight is multiplied by
    (R / R')^(1/temperature), and the mean of that factor estimates Z / Z'. ``sums`` [B, N, K] are
    the leaf model's over the rows before: given them, only the new rows are routed. The sums of
    all rows are returned, for the next batch.

    What the engine solved for the rows before is not kept. No tree that only the new rows make
    possible is among these, so the more rows are new, the less the weights (``ess``) say.

    Parameters
    ----------
    posterior : TreePosterior
        Whose trees, weights and training rows.
    batch : Rows
        The new rows.
    sums : float64 [B, N, K] or None
        The leaf model's sums over the rows before.

    Returns
    -------
    TreePosterior, float64 [B, N, K]
        The reweighted posterior, and the sums over all rows.

    """
    posterior = as_posterior(posterior)
    trees, score = posterior.trees, posterior.score
    rows = append_rows(posterior.rows, batch)
    if sums is None:
        sums = sum_rows(trees, posterior.rows, score)
    after = sums + sum_rows(trees, batch, score)
    leaves = trees.feature < 0  # slots not in use count nothing, and are worth nothing
    gain = leaf_log_marginal(after, score) - leaf_log_marginal(sums, score)
    change = np.where(leaves, gain, 0.0).sum(axis=1)
    if score.uniform_rules:  # which cuts a node has depends on its rows
        change += log_prior(trees, rows, score) - log_prior(trees, posterior.rows, score)
    change /= score.temperature
    weight = posterior.weights
    ratio = np.exp(change - change.max())
    mean = float(weight @ ratio)
    # The standard error of a weighted mean, on top of that of the evidence before.
    spread = float(np.sqrt((weight**2) @ (ratio - mean) ** 2)) / mean
    log_weight = posterior.log_weight + change
    known = sampled_posterior(
        trees,
        log_reward=posterior.log_reward + change * score.temperature,
        log_prob=posterior.log_prob,
        log_weight=log_weight,
        log_evidence=posterior.log_evidence + float(change.max()) + math.log(mean),
        log_evidence_error=math.hypot(posterior.log_evidence_error, spread),
        rows=rows,
        score=score,
        column=_columns(posterior),
        n_columns=len(posterior.column_inclusion),
        engine=posterior.engine,
        also_known=posterior.best_tree,
        diagnostics={"ess": effective_sample_size(log_weight), "reweighed": True},
    )
    return replace(known, binner=posterior.binner, classes=posterior.classes), after


def sum_rows(trees: TreeBatch, rows: Rows, score: Score) -> Floats:
    """The leaf model's sums [B, N, K] over rows at every node."""
    return node_sums(trees, rows.codes, rows.target, rows.weight, score.leaf)[0]


def shortened(time_budget: float | None, options: Any) -> tuple[float | None, Any]:
    """Return a tenth of the time, and a GFlowNet's options with a tenth of its steps."""
    settings = options.settings
    if settings.n_steps is not None:
        n_steps = max(math.ceil(TRAINED_SHARE * settings.n_steps), 1)
        options = replace(options, settings=replace(settings, n_steps=n_steps))
    return None if time_budget is None else TRAINED_SHARE * time_budget, options


def _columns(posterior: TreePosterior) -> npt.NDArray[np.int32]:
    """Source column of every feature [d]."""
    if posterior.binner is None:
        return np.arange(posterior.rows.codes.shape[1], dtype=np.int32)
    return posterior.binner.feature_column.astype(np.int32)
