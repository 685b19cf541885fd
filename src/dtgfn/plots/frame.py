"""The axes of every plot: made if none are given, and styled alike."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes

from dtgfn.plots.colours import FAINT, INK
from dtgfn.plots.scaled_text import text_width


def axes_or_new(ax: Any, inches: tuple[float, float] = (6.0, 4.0)) -> Axes:
    """Return the axes that were given, or those of a new pyplot figure."""
    if ax is None:
        import matplotlib.pyplot

        figure = matplotlib.pyplot.figure(figsize=inches, layout="constrained")
        return figure.add_subplot()
    if not isinstance(ax, Axes):
        raise TypeError(
            f"ax is a {type(ax).__name__}, not matplotlib axes; give one, as from "
            "matplotlib.pyplot.subplots(), or None."
        )
    return ax


def style(ax: Axes, x_label: str, y_label: str, grid: str = "both") -> None:
    """Name the axes, keep only the left and the lower spine, and a faint grid."""
    ax.set_xlabel(x_label, color=INK, parse_math=False)
    ax.set_ylabel(y_label, color=INK, parse_math=False)
    ax.tick_params(colors=INK, labelsize=9)
    ax.grid(axis=grid, color=FAINT, alpha=0.3, linewidth=0.7)  # type: ignore[arg-type]
    ax.set_axisbelow(True)
    for side, spine in ax.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(FAINT)


def chance_text(chance: float, digits: int) -> str:
    """A probability, which is said to be one only if it is.

    >>> chance_text(0.1234, 2), chance_text(0.9987, 2), chance_text(1.0, 2)
    ('0.12', '>0.99', '1.00')
    """
    text = f"{chance:.{digits}f}"
    if float(text) == 1.0 and chance < 1.0 - 1e-9:  # more than rounding
        return f">{1.0 - 10.0**-digits:.{digits}f}"
    return text


def legend_above(ax: Axes) -> None:
    """Draw a legend above the axes, where it hides nothing, in as many columns as fit.

    Names are taken as they are, dollars and all, but shortened if very long.
    """
    handles, labels = ax.get_legend_handles_labels()
    names = [shortened(str(name), 40) for name in labels]
    widest = max(text_width(name) for name in names) + 40.0
    figure = ax.get_figure(root=True)
    assert figure is not None
    room = ax.get_position().width * float(figure.get_size_inches()[0]) * 72
    made = ax.legend(
        handles,
        names,
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        borderaxespad=0.2,
        ncols=max(min(int(room // widest), len(names)), 1),
        frameon=False,
        fontsize=9,
        labelcolor=INK,
        columnspacing=1.4,
    )
    for text in made.get_texts():
        text.set_parse_math(False)


def shortened(text: str, most: int = 32) -> str:
    """A name that fits beside an axis, the middle left out if it is too long.

    >>> shortened("a very long name of a column", 15)
    'a very…column'
    """
    if len(text) <= most:
        return text
    head = (most - 1) // 2
    return f"{text[:head].rstrip()}…{text[len(text) - (most - 1 - head) :].lstrip()}"
