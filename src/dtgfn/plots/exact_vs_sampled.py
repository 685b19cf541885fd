"""plot_exact_vs_sampled: the probability of every sampled tree, exact against estimated."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from scipy.stats import binom

from dtgfn._support.arrays import Floats
from dtgfn.diagnostics.exact_distance import check_comparable
from dtgfn.explain.column_importance import effective_trees
from dtgfn.plots.colours import FAINT, INK, OTHERS, OURS
from dtgfn.plots.frame import axes_or_new, legend_above, style
from dtgfn.posterior.of_model import as_posterior
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.trees.equivalent_cuts import equivalence_keys, group_equivalent
from dtgfn.trees.score import log_reward, merge_rows

N_TOP = 100
FARTHEST = 1e-3  # of one draw's frequency: less probable trees are drawn at the edge


class Pairs(NamedTuple):
    """Distinct sampled trees [D] and the most probable trees that were not sampled [M]."""

    exact: Floats  # [D] exact probability
    sampled: Floats  # [D] weighted frequency
    own: Floats  # [D] probability under the sampler, nan where it does not know it
    missed: Floats  # [M] exact probability
    n_top: int  # most probable trees that were looked for
    n_draws: float  # independent draws that the sampled trees are worth


def plot_exact_vs_sampled(sampled: Any, exact: Any, *, ax: Axes | None = None) -> Axes:
    """Draw each tree's sampled frequency against its exact posterior probability, both logarithmic.

    Trees that part the training rows alike count as one. On the diagonal the sampler is right. The
    band is where 95 % of the frequencies of so many
    independent exact draws would lie; below one draw's worth of frequency there is nothing to see.
    Crosses at the lower edge are trees among the 100 most probable ones that were never sampled.
    Where the sampler knows its own probabilities (a GFlowNet in fixed order), they are drawn too.

    Parameters
    ----------
    sampled : fitted model or TreePosterior
        Of any engine.
    exact : fitted model or TreePosterior
        Of the exact engine, on the same rows and settings.
    ax : Axes or None
        Where to draw; None makes a new figure.

    Returns
    -------
    Axes
        Where it was drawn.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from dtgfn import infer
    >>> X, y = [[1.0], [2.0], [8.0], [9.0]] * 5, ["no", "no", "yes", "yes"] * 5
    >>> exact = infer(X, y, engine="exact", max_depth=1, n_thresholds=3)
    >>> smc = infer(X, y, engine="smc", max_depth=1, n_thresholds=3, random_state=0)
    >>> plot_exact_vs_sampled(smc, exact, ax=Figure().subplots()).get_xlabel()
    'exact posterior probability of a tree'

    """
    pairs = tree_pairs(as_posterior(sampled), as_posterior(exact))
    ax = axes_or_new(ax, (5.2, 4.8))
    ax.set_xscale("log")
    ax.set_yscale("log")
    least = 1 / pairs.n_draws
    every = np.concatenate([pairs.exact, pairs.missed])
    low, high = max(float(every.min(initial=least)), FARTHEST * least) / 2, 1.6
    # A weight may be next to nothing; the picture does not go below what it shows to the left.
    floor = max(min(float(pairs.sampled[pairs.sampled > 0].min(initial=least)), least), low) / 3
    _draw_noise(ax, low, high, floor, pairs.n_draws)
    if np.isfinite(pairs.own).any():
        ax.plot(
            pairs.exact,
            pairs.own,
            "^",
            markersize=5,
            markerfacecolor="none",
            markeredgecolor=OTHERS[0],
            markeredgewidth=0.8,
            label="sampler's own probability",
            zorder=3,
        )
    beyond = pairs.exact < low
    if beyond.any():
        label = f"{int(beyond.sum()):,} less probable than shown"
        edge = np.full(int(beyond.sum()), low * 1.3)
        height = np.maximum(pairs.sampled[beyond], floor * 1.25)
        ax.plot(edge, height, "<", color=OURS, markersize=5, label=label, zorder=4)
    ax.plot(
        pairs.exact,
        pairs.sampled,
        "o",
        color=OURS,
        markersize=4.5,
        alpha=0.75,
        markeredgewidth=0,
        label=f"{len(pairs.exact):,} sampled trees",
        zorder=4,
    )
    if pairs.missed.size:
        label = f"{pairs.missed.size} of the top {pairs.n_top} never sampled"
        edge = np.full(pairs.missed.size, floor * 1.25)
        ax.plot(pairs.missed, edge, "x", color=INK, markersize=5, label=label, zorder=4)
    style(ax, "exact posterior probability of a tree", "sampled frequency of the tree")
    ax.set_xlim(low, high)
    ax.set_ylim(floor, high)
    legend_above(ax)
    return ax


def tree_pairs(sampled: TreePosterior, exact: TreePosterior) -> Pairs:
    """Find both probabilities of the distinct sampled trees, and the probable trees they lack."""
    check_comparable(sampled, exact)
    rows = merge_rows(exact.rows)
    drawn = group_equivalent(sampled.trees, rows.codes)
    trees = sampled.trees[drawn.leader]
    reward = log_reward(trees, rows, exact.score) / exact.score.temperature
    top = exact.most_probable(N_TOP)
    seen = set(equivalence_keys(trees, drawn.cuts))
    missed = [key not in seen for key in equivalence_keys(top.trees, top.cuts)]
    return Pairs(
        exact=np.exp(reward + drawn.log_number - exact.log_evidence),
        sampled=np.bincount(drawn.member, weights=sampled.weights).astype(np.float64),
        # Samplers that know their probabilities take equivalent thresholds alike.
        own=np.exp(sampled.log_prob[drawn.leader] + drawn.log_number),
        missed=top.probability[missed],
        n_top=len(top),
        n_draws=effective_trees(sampled),
    )


def _draw_noise(ax: Axes, low: float, high: float, floor: float, n_draws: float) -> None:
    """Draw the diagonal, where frequencies of exact draws would lie, and one draw's worth."""
    n_rounded = max(round(n_draws), 1)
    chance = np.geomspace(low, 1.0, 400)
    ends = [
        np.maximum(binom.ppf(tail, n_rounded, chance) / n_rounded, floor) for tail in (0.025, 0.975)
    ]
    label = f"95 % of {n_rounded:,} exact draws"
    ax.fill_between(chance, *ends, color=FAINT, alpha=0.3, linewidth=0, label=label, zorder=1)
    ax.plot([low, 1], [low, 1], color=INK, linewidth=1.0, linestyle=(0, (5, 2)), zorder=2)
    ax.axhline(1 / n_draws, color=FAINT, linewidth=1.0, linestyle=(0, (2, 1.5)), zorder=1)
    ax.annotate(
        "one draw",
        (1.0, 1 / n_draws),
        xycoords=("axes fraction", "data"),
        xytext=(-2, 2),
        textcoords="offset points",
        ha="right",
        fontsize=8,
        color=INK,
    )
