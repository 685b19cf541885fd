"""plot_sizes: the posterior of the number of splits."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from dtgfn.plots.colours import INK, OTHERS
from dtgfn.plots.frame import axes_or_new, legend_above, style
from dtgfn.posterior.of_model import as_posterior

NEGLIGIBLE = 1e-3  # larger trees than these are left out of sight


def plot_sizes(model: Any, *, ax: Axes | None = None) -> Axes:
    """Draw the posterior probability of each number of splits, and their mean.

    Exact with the exact engine, else from the sampled trees; ``model`` is a fitted model or a
    TreePosterior. ``ax=None`` makes a new figure.

    Parameters
    ----------
    model : fitted model or TreePosterior
        What to draw.
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
    >>> posterior = infer([[1.0], [2.0], [8.0], [9.0]] * 5, ["no", "no", "yes", "yes"] * 5,
    ...                   engine="exact", max_depth=1, n_thresholds=3)
    >>> ax = plot_sizes(posterior, ax=Figure().subplots())
    >>> [round(float(bar.get_height()), 3) for bar in ax.patches]
    [0.0, 1.0]

    """
    posterior = as_posterior(model)
    chance = posterior.size_probability
    ax = axes_or_new(ax, (5.0, 3.4))
    exact = posterior.is_exact
    ax.bar(np.arange(len(chance)), chance, width=0.8, color=OTHERS[0], zorder=2)
    mean = posterior.mean_splits
    ax.axvline(mean, color=INK, linestyle=(0, (5, 2)), linewidth=1.2, label=f"mean {mean:.2f}")
    large = np.flatnonzero(chance >= NEGLIGIBLE)
    first, last = (int(large[0]), int(large[-1])) if large.size else (0, 0)
    ax.set_xlim(max(first - 1, 0) - 0.6, max(last, first + 2) + 0.6)
    ax.xaxis.set_major_locator(MaxNLocator(nbins=12, integer=True, min_n_ticks=1))
    known = "" if exact else f" ({len(posterior.trees):,} sampled trees)"
    style(ax, "splits of the tree", f"posterior probability{known}", grid="y")
    legend_above(ax)
    return ax
