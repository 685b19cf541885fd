"""Figures of the result pages, drawn on a matplotlib figure that the caller made.

Our own method has a colour that no other has, and heavier lines.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import cycle, pairwise
from typing import Any

from dtgfn.plots.colours import DASHES, FAINT, INK, MARKERS, OTHERS, OURS, PAPER
from dtgfn_bench.statistics import Ranks

NEEDS_MATPLOTLIB = "Drawing figures needs matplotlib: pip install dtgfn-bench."


@dataclass(frozen=True)
class Series:
    """A line: ``y`` over ``x``, and the band from ``low`` to ``high`` where it is known."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    ours: bool = False


@dataclass(frozen=True)
class Point:
    """A method's mean size and mean score."""

    name: str
    size: float
    score: float
    ours: bool = False


def new_figure(inches: tuple[float, float]) -> Any:
    """Return an empty figure; raise ImportError with one sentence where matplotlib is missing."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError(NEEDS_MATPLOTLIB) from None
    return Figure(figsize=inches, facecolor=PAPER, layout="constrained")


def lines(
    figure: Any,
    series: Sequence[Series],
    x_label: str,
    y_label: str,
    log_x: bool = False,
    band: bool = True,
) -> None:
    """Draw a line for each series, ours in front, with a legend in the order given."""
    axes = _axes(figure, x_label, y_label)
    if log_x:
        axes.set_xscale("log")
    _mark_measured(axes, sorted({x for one in series for x in one.x}), log_x)
    our_styles = zip(cycle([OURS]), cycle(MARKERS), cycle(DASHES), strict=False)
    other_styles = zip(cycle(OTHERS), cycle(MARKERS), cycle(DASHES), strict=False)
    faint = 0.12 if len(series) <= 4 else 0.05  # many bands would hide one another
    for one in series:
        color, marker, dash = next(our_styles if one.ours else other_styles)
        front = 4 if one.ours else 3
        alpha = 0.15 if one.ours else faint
        if band and len(one.low) and len(one.high):
            axes.fill_between(
                one.x, one.low, one.high, color=color, alpha=alpha, linewidth=0, zorder=front - 2
            )
        axes.plot(
            one.x,
            one.y,
            color=color,
            marker=marker,
            linestyle=dash,
            label=one.name,
            linewidth=2.8 if one.ours else 1.5,
            markersize=7 if one.ours else 5,
            markeredgecolor=PAPER,
            markeredgewidth=0.6,
            zorder=front,
        )
    if not series:
        axes.text(0.5, 0.5, "nothing measured yet", transform=axes.transAxes, ha="center")
        return
    legend = figure.legend(loc="outside right center", frameon=False, fontsize=9, labelcolor=INK)
    for text, one in zip(legend.get_texts(), series, strict=True):
        text.set_parse_math(False)
        if one.ours:
            text.set_fontweight("bold")


def scatter_sizes(
    figure: Any,
    points: Sequence[Point],
    x_label: str = "mean nodes per tree",
    y_label: str = "mean accuracy",
) -> None:
    """Draw score against size on a logarithmic axis, each point beside its name."""
    axes = _axes(figure, x_label, y_label)
    axes.set_xscale("log")
    for point in points:
        axes.scatter(
            point.size,
            point.score,
            s=110 if point.ours else 50,
            marker="*" if point.ours else "o",
            color=OURS if point.ours else OTHERS[0],
            edgecolors=PAPER,
            linewidths=0.6,
            zorder=4 if point.ours else 3,
        )
    sizes = [point.size for point in points]
    if sizes:
        axes.set_xlim(min(sizes) / 1.25, max(sizes) * 1.25)
        axes.margins(y=0.1)
        _plain_numbers(axes, _round_ticks(*axes.get_xlim()))
        _name_points(figure, axes, points)


def critical_difference(figure: Any, ranks: Ranks, ours: Collection[str] = ()) -> None:
    """Draw mean ranks on an axis, best at the left, names at both sides, bars under equals."""
    n_methods = len(ranks.names)
    figure.set_layout_engine("none")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.axis("off")
    n_left = (n_methods + 1) // 2
    levels = _bar_levels(ranks)
    top = 1.0 + 0.55 * (max(levels, default=-1) + 1)
    bottom = top + max(n_left, n_methods - n_left)
    axes.set_ylim(bottom + 0.3, -3.0)
    # The names need a fixed share at each side, the axis of ranks has the rest.
    width = max(n_methods - 1, 1)
    axes.set_xlim(1 - 0.72 * width, n_methods + 0.72 * width)
    _rank_axis(axes, n_methods)
    _ruler(axes, ranks, n_methods)
    for at, (name, rank) in enumerate(zip(ranks.names, ranks.mean_rank, strict=True)):
        left = at < n_left
        y = top + 0.5 + (at if left else n_methods - 1 - at)
        _named_rank(axes, name, rank, y, 1 if left else n_methods, width, name in ours)
    rank_of = dict(zip(ranks.names, ranks.mean_rank, strict=True))
    for group, level in zip(ranks.groups, levels, strict=True):
        y = 0.7 + 0.55 * level
        reach = 0.012 * width
        axes.plot(
            [rank_of[group[0]] - reach, rank_of[group[-1]] + reach],
            [y, y],
            color=INK,
            linewidth=4.5,
            solid_capstyle="butt",
            zorder=3,
        )


def _rank_axis(axes: Any, n_methods: int) -> None:
    axes.plot([1, n_methods], [0, 0], color=INK, linewidth=1.2)
    step = max(1, round(n_methods / 12))
    for rank in range(1, n_methods + 1):
        labelled = (rank - 1) % step == 0
        axes.plot([rank, rank], [-0.25 if labelled else -0.14, 0], color=INK, linewidth=1.2)
        if labelled:
            axes.text(rank, -0.35, str(rank), ha="center", va="bottom", fontsize=9, color=INK)
    axes.text(
        (1 + n_methods) / 2,
        -1.15,
        "mean rank (1 is best)",
        ha="center",
        va="bottom",
        fontsize=9,
        color=INK,
    )


def _ruler(axes: Any, ranks: Ranks, n_methods: int) -> None:
    """Draw the critical difference to scale, or say why it is not applied."""
    if ranks.p_value >= ranks.alpha:
        text = f"no difference shown (Friedman p = {ranks.p_value:.2g})"
        axes.text(1, -2.3, text, ha="left", va="center", fontsize=9, color=INK)
        return
    shown = min(ranks.critical_difference, 1.6 * (n_methods - 1))  # the figure ends there
    axes.plot([1, 1 + shown], [-2.2, -2.2], color=INK, linewidth=1.2)
    for end in (1, 1 + shown):
        axes.plot([end, end], [-2.38, -2.02], color=INK, linewidth=1.2)
    text = f"critical difference {ranks.critical_difference:.2f}"
    axes.text(1, -2.45, text, ha="left", va="bottom", fontsize=9, color=INK)


def _named_rank(
    axes: Any, name: str, rank: float, y: float, end: float, width: float, ours: bool
) -> None:
    """Lead a line from a rank on the axis down and out to its name."""
    color, weight = (OURS, "bold") if ours else (INK, "normal")
    left = end == 1
    outside = end - 0.05 * width if left else end + 0.05 * width
    axes.plot(
        [rank, rank, outside],
        [0, y, y],
        color=OURS if ours else FAINT,
        linewidth=2.0 if ours else 1.0,
        zorder=2.5 if ours else 2,
        solid_joinstyle="miter",
    )
    axes.plot([rank], [0], marker="o", markersize=5, color=color, zorder=4)
    gap = -0.015 * width if left else 0.015 * width
    label = f"{name}  {rank:.2f}" if left else f"{rank:.2f}  {name}"
    axes.text(
        outside + gap,
        y,
        label,
        ha="right" if left else "left",
        va="center",
        fontsize=9,
        fontweight=weight,
        color=color,
        parse_math=False,
    )


def _bar_levels(ranks: Ranks) -> list[int]:
    """Give each bar the first level where it touches no bar before it."""
    rank_of = dict(zip(ranks.names, ranks.mean_rank, strict=True))
    gap = 0.04 * len(ranks.names)
    ends: list[float] = []
    levels = []
    for group in ranks.groups:
        start = rank_of[group[0]]
        level = next((at for at, end in enumerate(ends) if end + gap < start), len(ends))
        ends[level : level + 1] = [rank_of[group[-1]]]
        levels.append(level)
    return levels


def _axes(figure: Any, x_label: str, y_label: str) -> Any:
    axes = figure.add_subplot()
    axes.set_facecolor("none")
    axes.set_xlabel(x_label, color=INK)
    axes.set_ylabel(y_label, color=INK)
    axes.tick_params(colors=INK, labelsize=9)
    axes.grid(color=FAINT, alpha=0.3, linewidth=0.7)
    axes.set_axisbelow(True)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(FAINT)
    return axes


def _mark_measured(axes: Any, values: Sequence[float], log_x: bool) -> None:
    """Put ticks where something was measured, if these are few and apart."""
    if not 0 < len(values) <= 10 or (log_x and values[0] <= 0):
        return
    if not log_x:
        width = values[-1] - values[0]
        gaps = [after - before for before, after in pairwise(values)]
        if any(gap < width / 14 for gap in gaps):
            return
    _plain_numbers(axes, values)


def _plain_numbers(axes: Any, ticks: Sequence[float]) -> None:
    """Write ticks as 1000, not as a power of ten, with none between them."""
    axes.set_xticks(list(ticks), [f"{tick:g}" for tick in ticks])
    axes.set_xticks([], minor=True)


def _round_ticks(low: float, high: float) -> list[float]:
    """Return 1, 2 and 5 times powers of ten within the range."""
    ticks = (digit * 10.0**power for power in range(-3, 8) for digit in (1, 2, 5))
    return [tick for tick in ticks if low <= tick <= high]


def _name_points(figure: Any, axes: Any, points: Sequence[Point]) -> None:
    """Write each name where it covers no point and no other name, ours first."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()  # so that positions in pixels are known
    renderer = canvas.get_renderer()
    dots = [axes.transData.transform((point.size, point.score)) for point in points]
    taken: list[Any] = []
    for point in sorted(points, key=lambda point: not point.ours):
        best = None
        for x, y, ha, va in _PLACES:
            text = axes.annotate(
                point.name,
                (point.size, point.score),
                xytext=(x, y),
                textcoords="offset points",
                ha=ha,
                va=va,
                fontsize=9,
                fontweight="bold" if point.ours else "normal",
                color=OURS if point.ours else INK,
                parse_math=False,
                zorder=5,
            )
            box = text.get_window_extent(renderer)
            hit = sum(box.overlaps(other) for other in taken)
            hit += sum(box.contains(*dot) for dot in dots)
            hit += not (axes.bbox.x0 <= box.x0 and box.x1 <= axes.bbox.x1)
            if best is None or hit < best[0]:
                if best is not None:
                    best[1].remove()
                best = (hit, text, box)
            else:
                text.remove()
            if best[0] == 0:
                break
        if best is not None:
            taken.append(best[2])


# Offsets in points, and the corner of the name that is put there.
_PLACES = (
    (7, 0, "left", "center"),
    (-7, 0, "right", "center"),
    (0, 7, "center", "bottom"),
    (0, -7, "center", "top"),
    (6, 6, "left", "bottom"),
    (6, -6, "left", "top"),
    (-6, 6, "right", "bottom"),
    (-6, -6, "right", "top"),
    (0, 17, "center", "bottom"),
    (0, -17, "center", "top"),
)
