"""plot_importances: how much each column matters, with intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from dtgfn._support.checks import check_choice, check_integer
from dtgfn.explain.column_importance import importances
from dtgfn.explain.column_labels import titles
from dtgfn.plots.colours import FAINT, INK, OTHERS
from dtgfn.plots.frame import axes_or_new, shortened, style
from dtgfn.posterior.of_model import posterior_of
from dtgfn.posterior.sum_posterior import SumPosterior

OF_SUMS = {
    "inclusion": "probability that a sum uses the column",
    "gain": "variance that its splits make",
}
SAID = {
    "share": "share of all gain",
    "inclusion": "probability that a tree uses the column",
    "gain": "gain in log likelihood (nats)",
}


def plot_importances(
    model: Any,
    *,
    measure: str = "share",
    n_columns: int = 15,
    level: float = 0.9,
    ax: Axes | None = None,
) -> Axes:
    """Draw what ``dtgfn.explain.importances`` tells, the most important column on top.

    Parameters
    ----------
    model : fitted model, TreePosterior or SumPosterior
        Whose trees to ask.
    measure : {"share", "inclusion", "gain"}
        Share of the gain of all splits, probability that a tree (or a sum of trees) uses the
        column, or gain: in nats, of sums as a variance.
    n_columns : int
        Columns to show at most.
    level : float
        Posterior probability inside the intervals; those of ``inclusion`` say how well the sampled
        trees tell it.
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
    >>> posterior = infer([[1.0, 7.0], [8.0, 7.0]] * 9, ["no", "yes"] * 9,
    ...                   engine="exact", max_depth=1, n_thresholds=3)
    >>> ax = plot_importances(posterior, ax=Figure().subplots())
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['x0', 'x1']

    """
    check_choice("measure", measure, tuple(SAID))
    check_integer("n_columns", n_columns, 1, 1000)
    ranked = importances(model, level)
    ranked = ranked.sort_values([measure, "inclusion"], ascending=False, kind="stable")
    shown, left_out = ranked.iloc[:n_columns], max(len(ranked) - n_columns, 0)
    ax = axes_or_new(ax, (6.0, 0.9 + 0.3 * len(shown)))
    y, middle = np.arange(len(shown)), shown[measure].to_numpy()
    low, high = (shown[f"{measure}_{end}"].to_numpy() for end in ("low", "high"))
    ax.barh(y, middle, height=0.62, color=OTHERS[0], alpha=0.35, zorder=2)
    ax.hlines(y, low, high, color=INK, linewidth=1.6, zorder=3)
    ax.plot(middle, y, "o", color=OTHERS[0], markersize=6, markeredgecolor=INK, zorder=4)
    ax.axvline(0.0, color=FAINT, linewidth=1.0, zorder=1)
    said = SAID[measure]
    if isinstance(posterior_of(model), SumPosterior):
        said = OF_SUMS.get(measure, said)
    style(ax, f"{said}, {level:.0%} interval", "", grid="x")
    binner = getattr(posterior_of(model), "binner", None)
    called = {} if binner is None else titles(binner)
    names = [shortened(str(called.get(name, name))) for name in shown.index]
    ax.set_yticks(y, names, parse_math=False)
    ax.set_ylim(len(shown) - 0.4, -0.6)
    if measure == "inclusion":
        ax.set_xlim(0.0, 1.02)
    if left_out:
        ax.set_ylabel(f"{left_out} more not shown", color=INK, fontsize=9)
    return ax
