"""How much each column matters to sums of trees.

The gain of a split is how much it makes its tree vary over the training rows: with weights w and
means v of what the rows at its children get, ``w_left w_right / (w_left + w_right) x
(v_left - v_right)^2``, divided by the weight of all rows. Over all splits of a tree the gains add
up to the variance of what the tree says. The gain of a straight line is its variance, too. What one
tree says and another takes back counts twice. Shares of splits are of the trees alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dtgfn._support.arrays import Floats
from dtgfn.explain.intervals import jeffreys_interval
from dtgfn.explain.posterior_columns import columns_of
from dtgfn.explain.sum_nodes import node_means, node_weights
from dtgfn.posterior.sum_posterior import SumPosterior
from dtgfn.trees.leaf_models import NormalLeaf

if TYPE_CHECKING:
    import pandas


def sum_importances(posterior: SumPosterior, level: float) -> pandas.DataFrame:
    """What ``importances`` tells of sums: means and quantiles over draws."""
    import pandas

    gain = draw_gains(posterior)
    size = gain.sum(axis=1, keepdims=True)
    share = np.divide(gain, size, out=np.zeros_like(gain), where=size > 0)
    use = posterior.column_use
    inclusion = (use > 0).mean(axis=0)
    low, high = jeffreys_interval(inclusion, independent_draws(posterior), level)
    names = columns_of(posterior, posterior.summed.batch).column_names
    frame = pandas.DataFrame(
        {
            **{"inclusion": inclusion, "inclusion_low": low, "inclusion_high": high},
            **_over_draws("splits", use, level),
            **_over_draws("gain", gain, level),
            **_over_draws("share", share, level),
        },
        index=pandas.Index(names, name="column"),
    )
    return frame.sort_values(["share", "splits"], ascending=False, kind="stable")


def independent_draws(posterior: SumPosterior) -> float:
    """How many independent draws the draws are worth, as far as the chains can tell."""
    worth = posterior.diagnostics.get("ess_mean")
    return float(posterior.n_draws if worth is None else min(worth, posterior.n_draws))


def _over_draws(name: str, draws: Floats, level: float) -> dict[str, Floats]:
    """Mean and quantiles of draws [K, columns]."""
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return {name: draws.mean(axis=0), f"{name}_low": low, f"{name}_high": high}


def draw_gains(posterior: SumPosterior) -> Floats:
    """Gain of the splits on each column in each draw [K, columns].

    In log odds squared, or of numbers in their units squared.
    """
    trees, weight = posterior.summed.batch, node_weights(posterior)
    mean = node_means(posterior, weight)
    batch, node = np.nonzero(trees.feature >= 0)
    left = trees.left[batch, node]
    sides = weight[batch, left], weight[batch, left + 1]
    both = np.maximum(sides[0] + sides[1], np.finfo(np.float64).tiny)
    gain = sides[0] * sides[1] / both * (mean[batch, left] - mean[batch, left + 1]) ** 2
    unit = posterior.leaf.scale if isinstance(posterior.leaf, NormalLeaf) else 1.0
    out = np.zeros((posterior.n_draws, posterior.n_columns))
    draw = batch // (posterior.summed.n_sums * posterior.summed.n_summed)
    np.add.at(out, (draw, posterior.column[trees.feature[batch, node]]), gain)
    return out * (unit**2 / posterior.rows.weight.sum()) + posterior.line_spread**2
