"""Boxes of a drawn tree, with text and a bar of the class mix, and edges between them."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, Polygon, Rectangle

from dtgfn.plots.colours import FAINT, INK, PAPER, QUIET, class_colour
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
    """What a node shows: head lines, a bar, a small text; ``flat`` puts head and text in a line."""

    head: tuple[str, ...]
    bar: Bar
    foot: str
    edge: str = FAINT
    bold: bool = False
    flat: bool = False

    @property
    def size(self) -> Size:
        """Width and height in points."""
        widest = max(text_width(line, bold=self.bold) for line in self.head)
        small = text_width(self.foot, SMALL)
        if self.flat:
            return widest + 10.0 + small + 2 * PAD, len(self.head) * LINE + BAR + 1.4 * PAD
        width = max(widest, small, 44.0) + 2 * PAD
        return width, len(self.head) * LINE + BAR + LINE + 2 * PAD


def wrapped(text: str) -> tuple[str, ...]:
    """Lines that are short enough for a box."""
    return tuple(textwrap.wrap(text, LONGEST_LINE, break_on_hyphens=False)) or ("",)


def draw_box(ax: Axes, box: Box, x: float, y: float) -> None:
    """Draw a box around its centre."""
    width, height = box.size
    line = 1.6 if box.bold else 0.9
    # Two shapes, not a shape with an outline: outlines do not shrink with the axes.
    for inset, colour in ((0.0, box.edge), (line, PAPER)):
        ax.add_patch(
            FancyBboxPatch(
                (x - width / 2 + 5, y - height / 2 + 5),
                width - 10,
                height - 10,
                boxstyle=f"round,pad={5 - inset},rounding_size={5 - inset}",
                facecolor=colour,
                linewidth=0,
                zorder=3,
            )
        )
    left, top = x - width / 2 + PAD, y + height / 2 - (0.7 if box.flat else 1.0) * PAD
    weight = "bold" if box.bold else "normal"
    for text in box.head:
        spot, ha = (left, "left") if box.flat else (x, "center")
        write(ax, spot, top - LINE / 2, text, fontweight=weight, ha=ha, zorder=5)
        top -= LINE
    draw_bar(ax, box.bar, left, top - BAR, width - 2 * PAD)
    if box.flat:
        spot, ha, down = x + width / 2 - PAD, "right", top + LINE / 2
    else:
        spot, ha, down = x, "center", top - BAR - LINE / 2
    write(ax, spot, down, box.foot, SMALL, color=QUIET, ha=ha, zorder=5)


def draw_bar(ax: Axes, bar: Bar, x: float, y: float, width: float, height: float = BAR) -> None:
    """Draw shares of classes side by side, or a number as a dot on its range."""
    if bar.number is not None:
        low, middle, high = (x + width * min(max(at, 0.0), 1.0) for at in bar.number)
        line = y + height / 2
        ax.add_patch(rectangle(x, line - 0.4, width, 0.8, FAINT))
        ax.add_patch(rectangle(low, line - 1.6, high - low, 3.2, class_colour(0), 0.45))
        ax.add_patch(rectangle(middle - 1.5, line - 3.5, 3.0, 7.0, INK))
        return
    for index, share in enumerate(bar.shares):
        ax.add_patch(rectangle(x, y, width * share, height, class_colour(index)))
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
    for index, name in enumerate(names):
        wide = 12.0 + text_width(name, 8.5) + 14.0
        if x > left and x + wide > right:
            x, y = left, y - LINE - 2
        ax.add_patch(rectangle(x, y - 4, 8.0, 8.0, class_colour(index)))
        write(ax, x + 12, y, name, 8.5, ha="left")
        x += wide
    return y - LINE / 2
