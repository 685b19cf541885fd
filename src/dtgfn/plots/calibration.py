"""plot_calibration: whether what is said with probability p comes true so often."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from scipy.special import betaincinv

from dtgfn.evaluation import evaluate
from dtgfn.plots.colours import DASHES, FAINT, INK, OTHERS, OURS
from dtgfn.plots.frame import axes_or_new, legend_above, style

STRIP = -0.2  # where the strip with the numbers of rows begins
LEVELS = np.linspace(0.1, 0.9, 9)


def plot_calibration(
    model: Any, X: Any, y: Any, *, n_bins: int = 10, ax: Axes | None = None
) -> Axes:
    """Draw how often predictions of held-out rows come true, against how sure they were.

    Of classes: the share of rows whose most probable class is the true one, in bins of its
    probability, with 90 % intervals and the number of rows. Of numbers: the share of targets inside
    the predicted intervals, against what was promised. On the diagonal promises are kept.

    Parameters
    ----------
    model : fitted DTGFNClassifier or DTGFNRegressor
        Whose predictions.
    X : table
        Held-out rows.
    y : array [n]
        Their targets.
    n_bins : int
        Bins of probability, for classes.
    ax : Axes or None
        Where to draw; None makes a new figure.

    Returns
    -------
    Axes
        Where it was drawn.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from dtgfn import DTGFNClassifier
    >>> X, y = [[1.0], [2.0], [8.0], [9.0]] * 5, ["no", "no", "yes", "yes"] * 5
    >>> model = DTGFNClassifier(inference="exact", max_depth=1, n_thresholds=3).fit(X, y)
    >>> plot_calibration(model, X, y, ax=Figure().subplots()).get_ylabel()
    'share of rows that are right'

    """
    scores = evaluate(model, X, y, n_bins=n_bins)
    if "reliability" not in scores and "coverage" not in scores:
        raise TypeError(
            f"A {type(model).__name__} predicts no probabilities to calibrate; give a fitted "
            "DTGFNClassifier or DTGFNRegressor."
        )
    ax = axes_or_new(ax, (4.8, 4.4))
    ax.plot([0, 1], [0, 1], color=INK, linewidth=1.0, linestyle=DASHES[1], zorder=2)
    if "reliability" in scores:
        _draw_reliability(ax, scores)
    else:
        _draw_coverage(ax, model, X, np.asarray(y, dtype=np.float64))
    return ax


def _draw_reliability(ax: Axes, scores: dict[str, Any]) -> None:
    bins = [each for each in scores["reliability"] if each["rows"] > 0]
    x, right, rows = (
        np.array([each[key] for each in bins])
        for key in ("mean_probability", "share_right", "rows")
    )
    low, high = _interval(right * rows, rows)
    ax.vlines(x, low, high, color=OTHERS[0], linewidth=1.6, zorder=3)
    ax.plot(x, right, "o-", color=OTHERS[0], markersize=6, markeredgecolor=INK, zorder=4)
    for each in bins:
        _draw_count(ax, each, float(rows.max()))
    style(ax, "probability of the predicted class", "share of rows that are right")
    ax.set_xlim(min(0.5, bins[0]["low"]) - 0.02, 1.02)
    ax.set_ylim(STRIP, 1.04)
    ax.set_yticks(np.linspace(0, 1, 6))
    ax.set_title(
        f"{scores['rows']:,} held-out rows, calibration error {scores['calibration_error']:.3f}",
        fontsize=10,
        color=INK,
    )


def _draw_count(ax: Axes, each: dict[str, Any], most: float) -> None:
    """Draw the number of rows of a bin in a strip below the axes' zero."""
    height, width = -0.5 * STRIP * each["rows"] / most, each["high"] - each["low"]
    ax.bar(
        each["low"] + width / 2, height, 0.9 * width, bottom=STRIP, color=FAINT, alpha=0.6, zorder=1
    )
    ax.annotate(
        f"{each['rows']:,}",
        (each["low"] + width / 2, STRIP + height),
        xytext=(0, 1),
        textcoords="offset points",
        ha="center",
        va="bottom",
        fontsize=7.5,
        color=INK,
    )


def _interval(right: Any, rows: Any) -> tuple[Any, Any]:
    """Jeffreys' 90 % interval of a share."""
    low = betaincinv(right + 0.5, rows - right + 0.5, 0.05)
    high = betaincinv(right + 0.5, rows - right + 0.5, 0.95)
    return np.where(right > 0, low, 0.0), np.where(right < rows, high, 1.0)


def _draw_coverage(ax: Axes, model: Any, X: Any, y: Any) -> None:
    inside = []
    for level in LEVELS.tolist():
        low, high = model.predict_interval(X, level).T
        inside.append(float(((low <= y) & (y <= high)).sum()))
    count = np.array(inside)
    low, high = _interval(count, np.full_like(count, len(y)))
    ax.fill_between(LEVELS, low, high, color=OURS, alpha=0.15, linewidth=0, label="90 % interval")
    ax.plot(LEVELS, count / len(y), "o-", color=OURS, markersize=5, label=f"{len(y):,} rows")
    style(ax, "probability promised by the interval", "share of targets inside")
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1)
    legend_above(ax)
