"""plot_forest: all trees of the posterior in one picture, agreement bold and doubt faint."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import PathPatch
from matplotlib.path import Path as Outline

from dtgfn._support.checks import check_integer
from dtgfn.explain.tree_set import TreeSet, take_trees
from dtgfn.plots.boxes import LINE, Bar, draw_bar, draw_key, rectangle
from dtgfn.plots.colours import FAINT, INK, OTHERS, QUIET
from dtgfn.plots.frame import axes_or_new, chance_text, shortened
from dtgfn.plots.overlay import LEAF_KEY, Key, Links, Option, Path, Places, lay_over, option_text
from dtgfn.plots.placing import Placed, Size, fit, inches_for, place
from dtgfn.plots.scaled_text import text_width, write
from dtgfn.posterior.of_model import as_posterior

# Less probable places are left out: as few as leaves the rest readable.
LEASTS = (0.03, 0.05, 0.1, 0.2, 0.3, 0.5)
MOST_ROWS = 60
ROW = LINE + 8.0  # height of an option
THIN = 3.5  # and of its bar
BEHIND = "#f1f2f3"
HEAD = 10.0  # room above a place
THICKEST = 17.0  # width of a link of probability 1
MOST_NAMED = 8


def plot_forest(model: Any, n_trees: int | None = None, *, ax: Axes | None = None) -> Axes:
    """Draw many trees over one another, each place of a tree once.

    A place lists what trees of the posterior have there: rules by column, with the middle 90 % of
    their thresholds, and leaves, each with its posterior probability (also the length of its bar).
    Bands lead from a rule to what follows it, up where it holds and down where it does not; they
    are as wide and as dark as the two are probable together. A leaf's bar has the colours of the
    classes it predicts.

    Parameters
    ----------
    model : fitted model or TreePosterior
        Whose sampled trees to draw.
    n_trees : int or None
        Only so many of the most frequent distinct trees, weighted among themselves; None draws all.
    ax : Axes or None
        Where to draw; None makes a new figure, large enough for the text.

    Returns
    -------
    Axes
        Where it was drawn.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from dtgfn import infer
    >>> posterior = infer([[1.0], [2.0], [8.0], [9.0]] * 5, ["no", "no", "yes", "yes"] * 5,
    ...                   engine="exact", max_depth=1, n_thresholds=3, random_state=0)
    >>> ax = plot_forest(posterior, ax=Figure().subplots())
    >>> [text.get_text() for text in ax.texts][:2]
    ['x0 ≤ 3…7', '1.00']

    """
    chosen = take_trees(model, "all")
    if n_trees is not None:
        check_integer("n_trees", n_trees, 1, 10_000_000)
        chosen = _first(chosen, n_trees)
    rows = as_posterior(model).rows
    for least in LEASTS:
        places, links = lay_over(chosen, rows.codes, rows.weight, least)
        if sum(map(len, places.values())) <= MOST_ROWS:
            break
    paths = _in_order(places)
    texts = {path: [_text(option, chosen) for option in places[path]] for path in paths}
    sizes = [_size(places[path], texts[path]) for path in paths]
    placed = place(sizes, _left(paths), downwards=False)
    names = chosen.titles if chosen.classes is not None else ()
    names = names if 1 < len(names) <= MOST_NAMED else ()
    if ax is None:
        ax = axes_or_new(None, inches_for(placed.size[0] + 20, placed.size[1] + 64))
    ax = axes_or_new(ax)
    spots = _spots(paths, places, sizes, placed)
    for path, size in zip(paths, sizes, strict=True):
        _draw_turn(ax, path, spots[path, places[path][0].key])
        for option, text in zip(places[path], texts[path], strict=True):
            _draw_option(ax, option, text, spots[path, option.key], size[0], chosen)
    _draw_links(ax, links, spots, dict(zip(paths, sizes, strict=True)))
    low = -placed.size[1]
    if names:
        low = draw_key(ax, names, 0.0, placed.size[0], low - 16)
    fit(ax, (-6.0, low - 6), (placed.size[0] + 6, 6.0))
    which = "trees" if n_trees is None else f"{len(chosen.trees):,} most frequent trees"
    which = "most frequent tree" if n_trees is not None and len(chosen.trees) == 1 else which
    ax.set_title(
        f"the {which} of the posterior, places of probability {least} and above",
        fontsize=10,
        color=QUIET,
    )
    return ax


def _first(chosen: TreeSet, n_trees: int) -> TreeSet:
    kept = slice(0, n_trees)
    return replace(
        chosen,
        trees=chosen.trees[kept],
        weight=chosen.weight[kept] / chosen.weight[kept].sum(),
        value=chosen.value[kept],
        rows=chosen.rows[kept],
        counts=None if chosen.counts is None else chosen.counts[kept],
        spread=None if chosen.spread is None else chosen.spread[kept],
    )


def _in_order(places: Places) -> list[Path]:
    """Paths level by level, siblings side by side; both are there if one is."""
    return sorted(places, key=lambda path: (len(path), path))


def _left(paths: list[Path]) -> list[int]:
    at = {path: index for index, path in enumerate(paths)}
    return [at.get((*path, 0), -1) for path in paths]


def _text(option: Option, chosen: TreeSet) -> str:
    text = option_text(option, chosen.binner.features)
    if option.key == LEAF_KEY and option.value is not None:
        value = option.value / option.probability
        if chosen.classes is not None:
            text = chosen.titles[int(np.argmax(value))]
        else:
            text = ", ".join(f"{number:.3g}" for number in value[:3])
    return shortened(text, 40)


def _size(options: list[Option], texts: list[str]) -> Size:
    bold = (option.key == LEAF_KEY for option in options)
    widest = max(text_width(text, bold=each) for text, each in zip(texts, bold, strict=True))
    return widest + text_width("0.00", 8.0) + 22.0, HEAD + len(texts) * ROW


def _spots(
    paths: list[Path], places: Places, sizes: list[Size], placed: Placed
) -> dict[Any, tuple[float, float]]:
    """Left end and middle height of every option."""
    spots = {}
    for path, size, (x, y) in zip(paths, sizes, placed.centre, strict=True):
        top = y + size[1] / 2 - HEAD / 2
        for at, option in enumerate(places[path]):
            spots[path, option.key] = (x - size[0] / 2, top - (at + 0.5) * ROW)
    return spots


def _draw_turn(ax: Axes, path: Path, first: tuple[float, float]) -> None:
    """Say above a place for which rows it is."""
    if path:
        said = "yes" if path[-1] == 0 else "no"
        write(ax, first[0] + 1, first[1] + ROW / 2 + 3, said, 7.0, ha="left", color=QUIET, zorder=5)


def _draw_option(
    ax: Axes, option: Option, text: str, spot: tuple[float, float], width: float, chosen: TreeSet
) -> None:
    """Draw a row: its bar, as long as it is probable, and over it what it is."""
    x, y = spot
    chance = min(option.probability, 1.0)
    height = ROW - 3.0
    low = y - height / 2
    ax.add_patch(rectangle(x, low, width, height, BEHIND, zorder=3))
    if option.key == LEAF_KEY and chosen.classes is not None and option.value is not None:
        shares = (option.value / option.value.sum()).tolist()
        draw_bar(ax, Bar(shares=shares), x, low, width * chance, THIN)
    else:
        colour = OTHERS[0] if option.key[0] == "split" else FAINT
        ax.add_patch(rectangle(x, low, width * chance, THIN, colour))
    bold = "bold" if option.key == LEAF_KEY else "normal"
    colour = INK if chance >= 0.15 else QUIET
    y += THIN / 2 - 0.5
    write(ax, x + 5, y, text, ha="left", color=colour, fontweight=bold, zorder=5)
    write(ax, x + width - 4, y, chance_text(chance, 2), 8.0, ha="right", color=colour, zorder=5)


def _draw_links(
    ax: Axes, links: Links, spots: dict[Any, tuple[float, float]], sizes: dict[Path, Size]
) -> None:
    """Draw bands between options, those of one end side by side and in the order of the others."""

    def height(path: Path, key: Key) -> float:
        return -spots[path, key][1]

    leaving: dict[Any, float] = defaultdict(float)
    arriving: dict[Any, float] = defaultdict(float)
    out: dict[Any, float] = defaultdict(float)
    into: dict[Any, float] = defaultdict(float)
    for (path, before, key), chance in links.items():
        out[path, before] += chance
        into[path, key] += chance
    ends = {link: (height(link[0][:-1], link[1]), height(link[0], link[2])) for link in links}
    for path, before, key in sorted(links, key=ends.__getitem__):
        chance = links[path, before, key]
        x, y = spots[path[:-1], before]
        a, b = spots[path, key]
        y += THICKEST * (out[path, before] / 2 - leaving[path, before] - chance / 2)
        b += THICKEST * (into[path, key] / 2 - arriving[path, key] - chance / 2)
        leaving[path, before] += chance
        arriving[path, key] += chance
        half = max(THICKEST * chance, 0.5) / 2
        colour = OTHERS[0] if path[-1] == 0 else FAINT
        start = x + sizes[path[:-1]][0], y
        ax.add_patch(_band(start, (a, b), half, colour, 0.3 + 0.4 * min(chance, 1.0)))


def _band(start: Size, end: Size, half: float, colour: str, alpha: float) -> PathPatch:
    """A curved band of constant height between two points."""
    (a, b), (c, d) = start, end
    middle = (a + c) / 2
    points = [
        (a, b + half), (middle, b + half), (middle, d + half), (c, d + half),
        (c, d - half), (middle, d - half), (middle, b - half), (a, b - half), (a, b + half),
    ]  # fmt: skip
    codes = [
        Outline.MOVETO, *[Outline.CURVE4] * 3, Outline.LINETO, *[Outline.CURVE4] * 3,
        Outline.CLOSEPOLY,
    ]  # fmt: skip
    outline = Outline(points, codes)
    return PathPatch(outline, facecolor=colour, linewidth=0, alpha=alpha, zorder=1)
