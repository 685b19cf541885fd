"""plot_dependence: predictions as a function of one column, with a band over the posterior."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes

from dtgfn._support.arrays import Floats
from dtgfn.data.tables import listing
from dtgfn.explain.column_dependence import partial_dependence
from dtgfn.explain.column_labels import titles
from dtgfn.explain.event import shown_event
from dtgfn.explain.posterior_columns import labels_of
from dtgfn.plots.colours import DASHES, FAINT, INK, MARKERS, class_colour
from dtgfn.plots.frame import axes_or_new, legend_above, shortened, style
from dtgfn.posterior.of_model import posterior_of

if TYPE_CHECKING:
    import pandas

MOST_LINES = 5


def plot_dependence(
    model: Any,
    column: str | int,
    X: Any = None,
    *,
    of: Any = None,
    level: float = 0.9,
    ax: Axes | None = None,
) -> Axes:
    """Draw the partial dependence of P(class), or of the number, on one column.

    The line is the prediction averaged over the rows with the column set to a value, and over the
    posterior (see ``dtgfn.explain.partial_dependence``); the band holds that of a tree, or of a sum
    of trees, of the posterior with probability ``level``. The strip at the lower edge shows how
    many rows are where.

    Parameters
    ----------
    model : fitted model, TreePosterior or SumPosterior
        Whose predictions.
    column : str or int
        Name or index of the column.
    X : table or None
        Rows to average over; None takes the training rows.
    of : class label or None
        Which class; None takes the second of two, all of up to five, else the five that vary most.
    level : float
        Posterior probability of the band.
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
    >>> ax = plot_dependence(posterior, "x0", ax=Figure().subplots())
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('x0', 'P(yes)')

    """
    frame = partial_dependence(model, column, X, level=level)
    labels, outputs = labels_of(posterior_of(model)), tuple(dict.fromkeys(frame["output"]))
    shown = _outputs_to_show(model, frame, labels, outputs, of)
    ax = axes_or_new(ax, (5.6, 3.8))
    classes = labels is not None
    y_label = f"P({shown[0]})" if len(shown) == 1 else "P(class)"
    y_label = y_label if classes else ("prediction" if len(outputs) == 1 else shown[0])
    style(ax, shortened(_name_of(model, column), 60), shortened(y_label, 40), grid="y")
    is_number = frame["above"].notna().any()
    for output in shown:
        index = outputs.index(output)
        part = frame[frame.output == output]
        draw = _draw_steps if is_number else _draw_dots
        draw(ax, part, output, index, _offset(shown.index(output), len(shown)))
    part = frame[frame.output == shown[0]]
    if classes:
        ax.set_ylim(-0.14, 1.03)
        ax.set_yticks([0.0, 0.25, 0.5, 0.75, 1.0])
    else:
        low, high = ax.get_ylim()
        ax.set_ylim(low - 0.14 * (high - low), high)
    _draw_rows(ax, part)
    if len(shown) > 1:
        legend_above(ax)
    return ax


def _name_of(model: Any, column: str | int) -> str:
    binner = getattr(posterior_of(model), "binner", None)
    if isinstance(column, str):
        return column if binner is None else titles(binner).get(column, column)
    binner = posterior_of(model).binner
    return f"code {column}" if binner is None else binner.column_names[column]


def _outputs_to_show(
    model: Any, frame: pandas.DataFrame, classes: Any, outputs: tuple[str, ...], of: Any
) -> list[str]:
    if of is not None:
        if classes is None:
            raise ValueError(f"of={of!r} names a class, but the model predicts numbers; leave it.")
        if str(of) not in outputs:
            raise ValueError(f"of={of!r} is no class; the classes are {listing(outputs)}.")
        return [str(of)]
    if classes is not None and len(outputs) == 2:
        event = shown_event(model, classes)
        return [outputs[1 if event is None else event]]
    if len(outputs) <= MOST_LINES:
        return list(outputs)
    spread = frame.groupby("output")["mean"].agg(np.ptp)
    most = spread.sort_values(ascending=False, kind="stable").index[:MOST_LINES]
    return [output for output in outputs if output in most]


def _edges(part: pandas.DataFrame) -> Floats:
    """Finite ends of a number's bins [G + 1]: as far outside as thresholds are apart."""
    cuts = part["up_to"].to_numpy()[:-1]
    if not len(cuts):
        return np.array([-0.5, 0.5])
    gap = float(np.median(np.diff(cuts))) if len(cuts) > 1 else max(abs(float(cuts[0])), 1.0) / 2
    return np.array([cuts[0] - gap, *cuts, cuts[-1] + gap])


def _draw_steps(ax: Axes, part: pandas.DataFrame, name: str, index: int, at: float) -> None:
    """Draw a staircase over a number's bins; what is missing is a dot at the right."""
    inside = part[part["above"].notna()]
    edges, colour = _edges(inside), class_colour(index)
    mean, low, high = (inside[key].to_numpy() for key in ("mean", "low", "high"))
    x, low, high = np.repeat(edges, 2)[1:-1], np.repeat(low, 2), np.repeat(high, 2)
    ax.fill_between(x, low, high, color=colour, alpha=0.12, linewidth=0, zorder=2)
    for end in (low, high):  # bands of several classes lie over one another
        ax.plot(x, end, color=colour, linewidth=0.6, alpha=0.7, zorder=2)
    dash = DASHES[index % len(DASHES)]
    ax.plot(
        x, np.repeat(mean, 2), color=colour, linestyle=dash, linewidth=2, label=name, zorder=3
    )  # fmt: skip
    outside = part[part["above"].isna()]
    if len(outside):
        _draw_interval(ax, outside, _beyond(edges) + 0.06 * at * (edges[-1] - edges[0]), index)


def _beyond(edges: Floats) -> float:
    """Where what is missing is drawn: to the right of all numbers."""
    return float(edges[-1] + 0.07 * (edges[-1] - edges[0]))


def _draw_dots(ax: Axes, part: pandas.DataFrame, name: str, index: int, at: float) -> None:
    """Draw a dot with its interval for each category."""
    for x in range(len(part)):
        _draw_interval(ax, part.iloc[x : x + 1], x + at, index, name if x == 0 else None)
    texts = [shortened(str(value), 16) for value in part["value"]]
    ax.set_xticks(range(len(part)), texts, parse_math=False)
    if len(" ".join(texts)) > 48:
        ax.tick_params(axis="x", labelrotation=90 if len(part) > 20 else 40)
    ax.set_xlim(-0.6, len(part) - 0.4)


def _draw_interval(
    ax: Axes, one: pandas.DataFrame, x: float, index: int, name: str | None = None
) -> None:
    colour = class_colour(index)
    low, mean, high = (float(one[key].iloc[0]) for key in ("low", "mean", "high"))
    ax.vlines(x, low, high, color=colour, linewidth=4, alpha=0.35, zorder=2)
    marker = MARKERS[index % len(MARKERS)]
    ax.plot(
        [x], [mean], marker, color=colour, markersize=6, markeredgecolor=INK, label=name, zorder=3
    )  # fmt: skip


def _offset(at: int, n_shown: int) -> float:
    """Shift of a class beside a category, so that their intervals do not hide one another."""
    return 0.0 if n_shown == 1 else 0.4 * (at / (n_shown - 1) - 0.5)


def _draw_rows(ax: Axes, part: pandas.DataFrame) -> None:
    """Draw how many rows are in each bin along the lower edge, in a strip of its own."""
    rows = part["rows"].to_numpy()
    height = 0.09 * rows / max(rows.max(), 1e-300)
    inside = part["above"].notna().to_numpy()
    if inside.any():
        edges = _edges(part[inside])
        left, width = edges[:-1], np.diff(edges)
        ax.bar(
            left,
            height[inside],
            width,
            align="edge",
            color=FAINT,
            linewidth=0,
            transform=ax.get_xaxis_transform(),
            zorder=1,
        )
        ax.vlines(
            edges[1:-1], 0, 0.012, color=INK, linewidth=0.6, transform=ax.get_xaxis_transform()
        )
        room = 0.0
        if not inside.all():
            room = 0.14 * (edges[-1] - edges[0])
            _name_missing(ax, _beyond(edges))
        ax.set_xlim(edges[0], edges[-1] + room)
        return
    ax.bar(
        np.arange(len(rows)), height, 0.7, color=FAINT, transform=ax.get_xaxis_transform(), zorder=1
    )


def _name_missing(ax: Axes, x: float) -> None:
    ax.annotate(
        "missing",
        (x, 1.0),
        xycoords=("data", "axes fraction"),
        xytext=(0, -2),
        textcoords="offset points",
        ha="center",
        va="top",
        fontsize=8,
        color=INK,
    )
