"""Boxes of a drawn tree, with text and a bar of the class mix, and edges between them."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, Polygon, Rectangle

from dtgfn.colours import FAINT, INK, PAPER, QUIET, class_colour
from dtgfn.plots.placing import Size
from dtgfn.plots.scaled_text import text_width, write

PAD = 6.0
LINE = 12.0  # height of a line of text
BAR = 7.0
LONGEST_LINE = 26  # characters
SMALL = 7.5


@dataclass(frozen=True)
class Bar:
    """A bar in a box: shares of classes, or a number and its spread on a range."""

    shares: Sequence[float] = ()
    number: tuple[float, float, float] | None = None  # low, middle and high, from 0 to 1


@dataclass(frozen=True)
class Box:
    """What a node shows: head lines, a bar, a small line below; its edge's colour."""

    head: tuple[str, ...]
    bar: Bar
    foot: str
    edge: str = FAINT
    bold: bool = False

    @property
    def size(self) -> Size:
        """Width and height in points."""
        widest = max(text_width(line, bold=self.bold) for line in self.head)
        width = max(widest, text_width(self.foot, SMALL), 44.0) + 2 * PAD
        return width, len(self.head) * LINE + BAR + LINE + 2 * PAD


def wrapped(text: str) -> tuple[str, ...]:
    """Lines that are short enough for a box."""
    return tuple(textwrap.wrap(text, LONGEST_LINE, break_on_hyphens=False)) or ("",)


def draw_box(ax: Axes, box: Box, x: float, y: float) -> None:
    """Draw a box around its centre."""
    width, height = box.size
    ax.add_patch(
        FancyBboxPatch(
            (x - width / 2 + 3, y - height / 2 + 3),
            width - 6,
            height - 6,
            boxstyle="round,pad=3,rounding_size=4",
            facecolor=PAPER,
            edgecolor=box.edge,
            linewidth=1.6 if box.bold else 1.0,
            zorder=3,
        )
    )
    top = y + height / 2 - PAD
    for line in box.head:
        weight = "bold" if box.bold else "normal"
        write(ax, x, top - LINE / 2, line, fontweight=weight, zorder=5)
        top -= LINE
    draw_bar(ax, box.bar, x - width / 2 + PAD, top - BAR, width - 2 * PAD)
    write(ax, x, top - BAR - LINE / 2, box.foot, SMALL, color=QUIET, zorder=5)


def draw_bar(ax: Axes, bar: Bar, x: float, y: float, width: float, height: float = BAR) -> None:
    """Draw shares of classes side by side, or a number as a dot on its range."""
    if bar.number is not None:
        low, middle, high = (x + width * min(max(at, 0.0), 1.0) for at in bar.number)
        line = y + height / 2
        ax.add_patch(rectangle(x, line - 0.4, width, 0.8, FAINT))
        ax.add_patch(rectangle(low, line - 1.6, high - low, 3.2, class_colour(0), 0.45))
        ax.add_patch(rectangle(middle - 1.5, line - 3.5, 3.0, 7.0, INK))
        return
    for place, share in enumerate(bar.shares):
        ax.add_patch(rectangle(x, y, width * share, height, class_colour(place)))
        x += width * share


def rectangle(
    x: float,
    y: float,
    width: float,
    height: float,
    colour: str,
    alpha: float = 1.0,
    zorder: float = 4,
) -> Rectangle:
    """A filled rectangle without an outline, from its lower left corner."""
    corner = x, y
    return Rectangle(
        corner, width, height, facecolor=colour, linewidth=0, alpha=alpha, zorder=zorder
    )


def draw_edge(
    ax: Axes,
    start: Size,
    end: Size,
    width: float,
    downwards: bool,
    colour: str = FAINT,
    alpha: float = 1.0,
) -> None:
    """Draw an edge of so many points between two places, as a shape that scales with the text."""
    (a, b), (c, d), half = start, end, width / 2
    if downwards:
        corners = [(a - half, b), (a + half, b), (c + half, d), (c - half, d)]
    else:
        corners = [(a, b - half), (a, b + half), (c, d + half), (c, d - half)]
    ax.add_patch(
        Polygon(corners, closed=True, facecolor=colour, linewidth=0, alpha=alpha, zorder=1)
    )


def draw_key(ax: Axes, names: Sequence[str], left: float, right: float, top: float) -> float:
    """Write which colour is which class, in as many lines as it takes; return the lower end."""
    x, y = left, top
    for place, name in enumerate(names):
        wide = 12.0 + text_width(name, 8.5) + 14.0
        if x > left and x + wide > right:
            x, y = left, y - LINE - 2
        ax.add_patch(rectangle(x, y - 4, 8.0, 8.0, class_colour(place)))
        write(ax, x + 12, y, name, 8.5, ha="left")
        x += wide
    return y - LINE / 2
