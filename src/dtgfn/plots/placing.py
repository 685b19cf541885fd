"""Where the boxes of a tree go: none over another, parents in the middle of their children."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes

Size = tuple[float, float]  # width and height in points

ALONG = {True: 26.0, False: 34.0}  # gap between levels, downwards or not
ACROSS = {True: 12.0, False: 8.0}  # gap between neighbours
LARGEST_SCALE = 1.25  # a tree of one leaf shall not fill a poster
LARGEST = (16.0, 12.0)  # inches of a new figure


class Placed(NamedTuple):
    """Centres of the boxes in points, y upwards from 0 at the top, and the size of it all."""

    centre: list[tuple[float, float]]
    size: Size
    downwards: bool


def place(sizes: Sequence[Size], left: Sequence[int], downwards: bool) -> Placed:
    """Place the nodes of a tree; ``left`` [N] is the left child (the right is next) or -1.

    >>> place([(40, 20)] * 3, [1, -1, -1], downwards=True).centre
    [(46.0, -10.0), (20.0, -56.0), (72.0, -56.0)]
    """
    across, along = (0, 1) if downwards else (1, 0)
    gap = ACROSS[downwards]
    level = [0] * len(sizes)
    span = [size[across] for size in sizes]
    for node, child in enumerate(left):
        if child >= 0:
            level[child] = level[child + 1] = level[node] + 1
    for node in reversed(range(len(sizes))):
        child = left[node]
        if child >= 0:
            span[node] = max(span[node], span[child] + gap + span[child + 1])
    middle = [span[0] / 2] * len(sizes)
    for node, child in enumerate(left):
        if child >= 0:
            both = span[child] + gap + span[child + 1]
            first = middle[node] - both / 2
            middle[child] = first + span[child] / 2
            middle[child + 1] = first + both - span[child + 1] / 2
    for node in reversed(range(len(sizes))):
        child = left[node]
        if child >= 0:
            between = (middle[child] + middle[child + 1]) / 2
            room = (span[node] - sizes[node][across]) / 2
            middle[node] += min(max(between - middle[node], -room), room)
    starts, thick = _levels(sizes, level, along, ALONG[downwards])
    centre = []
    for node, size in enumerate(sizes):
        if downwards:
            centre.append((middle[node], -starts[level[node]] - thick[level[node]] / 2))
        else:
            centre.append((starts[level[node]] + size[0] / 2, -middle[node]))
    long = starts[-1] + thick[-1]
    return Placed(centre, (span[0], long) if downwards else (long, span[0]), downwards)


def _levels(
    sizes: Sequence[Size], level: Sequence[int], along: int, gap: float
) -> tuple[list[float], list[float]]:
    """Where each level begins, and how thick it is."""
    thick = [0.0] * (max(level) + 1)
    for at, size in zip(level, sizes, strict=True):
        thick[at] = max(thick[at], size[along])
    starts = [0.0]
    for each in thick[:-1]:
        starts.append(starts[-1] + each + gap)
    return starts, thick


def place_best(
    downwards: Sequence[Size], rightwards: Sequence[Size], left: Sequence[int], ax: Axes | None
) -> Placed:
    """Place downwards or to the right, whichever leaves the text larger in these axes."""
    room = _room(ax)
    both = place(downwards, left, True), place(rightwards, left, False)
    return max(both, key=lambda placed: min(_scale(placed.size, room), 1.0))


def _room(ax: Axes | None) -> Size:
    if ax is None:
        return LARGEST[0] * 72, LARGEST[1] * 72
    figure = ax.get_figure(root=True)
    box = ax.get_position()
    inches = (6.4, 4.8) if figure is None else figure.get_size_inches()
    return box.width * inches[0] * 72, box.height * inches[1] * 72


def _scale(size: Size, room: Size) -> float:
    return min(room[0] / size[0], room[1] / size[1])


def fit(ax: Axes, low: Size, high: Size) -> None:
    """Show the points from one corner to the other, at one scale in both directions."""
    width, height = high[0] - low[0], high[1] - low[1]
    room = _room(ax)
    more = max(_scale((width, height), room) / LARGEST_SCALE, 1.0)
    x, y = (low[0] + high[0]) / 2, (low[1] + high[1]) / 2
    ax.set_xlim(x - more * width / 2, x + more * width / 2)
    ax.set_ylim(y - more * height / 2, y + more * height / 2)
    ax.set_aspect("equal", adjustable="box")
    ax.axis("off")


def inches_for(width: float, height: float) -> tuple[float, float]:
    """Size of a new figure for so many points, smaller than they ask for if that is too large."""
    scale = min(1.0, LARGEST[0] * 72 / width, LARGEST[1] * 72 / height)
    return max(scale * width / 72, 4.6), max(scale * height / 72, 1.2)
