"""Which columns the posterior's trees use, how much they gain by it, and which go together.

The gain of a split is ``log m(left) + log m(right) - log m(parent)``, in nats: by how much the
split makes the training targets more probable, before the prior's penalty. Over all splits of a
tree the gains add up to its log likelihood minus that of a single leaf. A split may lose (a
negative gain) where only a later one pays for it, as in an exclusive or.

A column's *share* in a tree is the gain of its splits divided by the sum of the columns' absolute
gains: it lies between -1 and 1, absolute shares add up to one, and a tree without splits gives
zero to all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from dtgfn._support.arrays import Floats
from dtgfn._support.checks import check_choice, check_level
from dtgfn.explain.intervals import jeffreys_interval, weighted_quantiles
from dtgfn.explain.sum_importance import sum_importances
from dtgfn.explain.tree_set import node_log_marginals, take_trees
from dtgfn.posterior.of_model import posterior_of
from dtgfn.posterior.sum_posterior import SumPosterior
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.trees.batch import TreeBatch

if TYPE_CHECKING:
    import pandas


def importances(source: Any, level: float = 0.9) -> pandas.DataFrame:
    """How much each column matters, the most important first.

    Parameters
    ----------
    source : TreePosterior, SumPosterior or fitted model
        Whose trees to ask.
    level : float
        Posterior probability inside the intervals.

    Returns
    -------
    DataFrame
        One row per column, named by it, sorted by ``share``, then by ``inclusion``:

        - ``inclusion`` is P(the tree uses the column); ``inclusion_low`` and ``inclusion_high`` say
          how well the sampled trees tell it (Jeffreys' interval with the effective number of
          trees). With the exact engine it is exact and the interval has no width; bags of it are a
          sample.
        - ``gain``, ``gain_low``, ``gain_high``: posterior mean and quantiles over trees, in nats.
        - ``share``, ``share_low``, ``share_high``: the same of the share of all gain.

        Of sums of trees ``inclusion`` is P(any tree of a draw uses the column), ``splits`` (and
        ``splits_low``, ``splits_high``) is the column's share of a draw's splits, and ``gain`` is
        how much its splits make the trees vary over the training rows: variances, in log odds
        squared or the target's units squared. All are means and quantiles over draws.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from dtgfn import infer
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> posterior = infer(X, y, engine="exact", max_depth=2, n_thresholds=9, random_state=0)
    >>> importances(posterior).index[0]
    'petal width (cm)'

    """
    check_level(level)
    import pandas

    posterior = posterior_of(source)
    if isinstance(posterior, SumPosterior):
        return sum_importances(posterior, level)
    chosen = take_trees(posterior, "all")
    names, column = chosen.binner.column_names, chosen.binner.feature_column
    gain = column_gains(posterior, chosen.trees, column, len(names))
    size = np.abs(gain).sum(axis=1, keepdims=True)
    share = np.divide(gain, size, out=np.zeros_like(gain), where=size > 0)
    low, high = _inclusion_interval(posterior, level)
    frame = pandas.DataFrame(
        {
            "inclusion": np.clip(posterior.column_inclusion, 0.0, 1.0),
            "inclusion_low": low,
            "inclusion_high": high,
            **_spread("gain", gain, chosen.weight, level),
            **_spread("share", share, chosen.weight, level),
        },
        index=pandas.Index(names, name="column"),
    )
    return frame.sort_values(["share", "inclusion"], ascending=False, kind="stable")


def column_gains(
    posterior: TreePosterior, trees: TreeBatch, column: npt.NDArray[np.int64], n_columns: int
) -> Floats:
    """Gain of the splits on each column, in nats, of each tree [B, n_columns]."""
    value = node_log_marginals(posterior, trees)
    batch, node = np.nonzero(trees.feature >= 0)
    left = trees.left[batch, node]
    gain = value[batch, left] + value[batch, left + 1] - value[batch, node]
    out = np.zeros((len(trees), n_columns))
    np.add.at(out, (batch, column[trees.feature[batch, node]]), gain)
    return out


def feature_importances(source: Any, names: Sequence[str]) -> Floats:
    """Share of the gain of each named column [n]: none below zero, adding up to one."""
    share = importances(source)["share"].reindex(list(names)).to_numpy().clip(min=0.0)
    return np.asarray(share / max(share.sum(), np.finfo(np.float64).tiny))


def _spread(name: str, value: Floats, weight: Floats, level: float) -> dict[str, Floats]:
    """Weighted mean and quantiles of value [B, n] over trees."""
    low, high = weighted_quantiles(value, weight, level)
    return {name: weight @ value, f"{name}_low": low, f"{name}_high": high}


def _inclusion_interval(posterior: TreePosterior, level: float) -> tuple[Floats, Floats]:
    share = np.clip(posterior.column_inclusion, 0.0, 1.0)
    if posterior.is_exact:  # it sums over all trees
        return share, share
    return jeffreys_interval(share, effective_trees(posterior), level)


def effective_trees(posterior: TreePosterior) -> float:
    """How many independent draws the weighted trees are worth; of chains, as they have mixed.

    Trees of one bag are alike, so a bagged posterior is worth no more than it has bags.
    """
    worth = 1 / float((posterior.weights**2).sum())
    if posterior.is_bagged:
        worth = min(worth, float(posterior.n_bags))
    mixed = posterior.diagnostics.get("ess_log_reward")
    return worth if mixed is None else min(worth, float(mixed))


def co_occurrence(
    source: Any,
    measure: Literal["probability", "lift"] = "probability",
    columns: Sequence[str] | None = None,
) -> pandas.DataFrame:
    """Which columns a tree uses together, as a square frame over the columns, or some of them.

    "probability" is P(the tree uses both), P(uses the column) on the diagonal. "lift" divides it by
    the product of the two probabilities: above 1 the columns go together, below 1 they stand in
    for one another; nan where a column is never used. Both come from the sampled trees.

    Parameters
    ----------
    source : TreePosterior or fitted model
        Where the trees come from.
    measure : {"probability", "lift"}
        What to tell of two columns.
    columns : sequence of str or None
        Which columns; None for all.

    Returns
    -------
    DataFrame
        Square, over the columns.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from dtgfn import infer
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> posterior = infer(X, y, engine="exact", max_depth=2, n_thresholds=9, random_state=0)
    >>> co_occurrence(posterior).shape
    (4, 4)

    """
    check_choice("measure", measure, ("probability", "lift"))
    import pandas

    chosen = take_trees(source, "all")
    every = chosen.binner.column_names
    names = list(every if columns is None else columns)
    used = np.zeros((len(chosen.trees), len(every)))
    batch, node = np.nonzero(chosen.trees.feature >= 0)
    used[batch, chosen.binner.feature_column[chosen.trees.feature[batch, node]]] = 1.0
    used = used[:, [every.index(name) for name in names]]
    both = (used * chosen.weight[:, None]).T @ used
    if measure == "lift":
        alone = np.diag(both)
        product = np.outer(alone, alone)
        both = np.divide(both, product, out=np.full_like(both, np.nan), where=product > 0)
    return pandas.DataFrame(both, index=names, columns=names)
