"""plot_tree: one tree, with the rows and the class mix at every node."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from dtgfn.explain.column_labels import split_rule
from dtgfn.explain.tree_set import TreeSet, Which, rows_text, take_tree
from dtgfn.plots.boxes import Bar, Box, draw_box, draw_edge, draw_key, wrapped
from dtgfn.plots.colours import FAINT, QUIET, class_colour
from dtgfn.plots.frame import axes_or_new, chance_text
from dtgfn.plots.placing import Placed, fit, inches_for, place_best
from dtgfn.plots.scaled_text import text_width, write
from dtgfn.posterior.of_model import as_posterior

MOST_NAMED = 8  # classes with a colour of their own


def plot_tree(model: Any, tree: Which = "best", *, ax: Axes | None = None) -> Axes:
    """Draw one tree: its rules, and at each node the rows and the class mix (or the number).

    The tree grows downwards or to the right, whichever leaves its text larger; the first branch
    (left, or upper) is the one where the rule holds. Edges are as wide as their share of the rows.

    Parameters
    ----------
    model : fitted model or TreePosterior
        Where the tree comes from.
    tree : "best", "consensus", int or TreeBatch
        Which one: the most probable, the one that predicts most like all, the index of a sampled
        tree, or a batch of one.
    ax : Axes or None
        Where to draw; None makes a new figure, large enough for the text.

    Returns
    -------
    Axes
        Where it was drawn.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from dtgfn import DTGFNClassifier
    >>> model = DTGFNClassifier(inference="exact", max_depth=1, n_thresholds=3)
    >>> model = model.fit([[1.0], [2.0], [8.0], [9.0]] * 5, ["no", "no", "yes", "yes"] * 5)
    >>> ax = plot_tree(model, ax=Figure().subplots())
    >>> [text.get_text() for text in ax.texts][:2]
    ['x0 ≤ 5', '20 rows']

    """
    chosen = take_tree(model, tree)
    tall, flat = node_boxes(chosen, flat=False), node_boxes(chosen, flat=True)
    left = chosen.trees.left[0, : len(tall)].tolist()
    placed = place_best([box.size for box in tall], [box.size for box in flat], left, ax)
    boxes = tall if placed.downwards else flat
    sizes = [box.size for box in boxes]
    names = chosen.titles if chosen.classes is not None else ()
    names = names if 1 < len(names) <= MOST_NAMED else ()
    width = max(placed.size[0], 2 * max((text_width(name, 8.5) for name in names), default=0.0))
    if ax is None:
        ax = axes_or_new(None, inches_for(width + 20, placed.size[1] + 60))
    ax = axes_or_new(ax)
    for box, (x, y) in zip(boxes, placed.centre, strict=True):
        draw_box(ax, box, x, y)
    _draw_edges(ax, chosen, placed, sizes)
    middle = placed.size[0] / 2
    low = -placed.size[1]
    if names:
        low = draw_key(ax, names, middle - width / 2, middle + width / 2, low - 20)
    fit(ax, (middle - width / 2 - 6, low - 6), (middle + width / 2 + 6, 6.0))
    ax.set_title(_title(model, tree), fontsize=10, color=QUIET)
    return ax


def _title(model: Any, tree: Which) -> str:
    if isinstance(tree, str) and tree == "consensus":
        return "the tree that predicts most like the whole posterior"
    if tree is not None and not isinstance(tree, str):
        return f"sampled tree {tree}" if isinstance(tree, int | np.integer) else ""
    if tree == "paper":
        return "the single drawn tree with the highest posterior probability"
    posterior = as_posterior(model)
    chance = posterior.best_probability
    said = f"{chance:.2g}" if chance < 0.99 else chance_text(chance, 3)
    if posterior.by_share:
        return f"the most probable tree, {said} of those drawn"
    return f"the most probable tree, posterior probability {said}"


def node_boxes(chosen: TreeSet, flat: bool) -> list[Box]:
    """What each node of the first tree shows; leaves may be flat."""
    boxes = []
    for node in range(int(chosen.trees.n_nodes[0])):
        bar, foot = _bar(chosen, node), rows_text(chosen.rows[0, node])
        if chosen.trees.feature[0, node] >= 0:
            feature, cut = int(chosen.trees.feature[0, node]), int(chosen.trees.cut[0, node])
            boxes.append(Box(wrapped(split_rule(chosen.binner, feature, cut)[0]), bar, foot))
            continue
        value = chosen.value[0, node]
        edge = FAINT
        if chosen.classes is not None:
            best = int(np.argmax(value))
            edge = class_colour(best)
            told = best if chosen.event is None else chosen.event
            said = chance_text(float(value[told]), 3)
            name = chosen.titles[best] if chosen.event is None else f"P({chosen.titles[told]})"
            head = wrapped(f"{name} {said}") if flat else (*wrapped(name), said)
        elif chosen.spread is not None:
            head = (number_with_spread(float(value[0]), float(chosen.spread[0, node])),)
        else:
            head = tuple(f"{number:.4g}" for number in value[:3])
        boxes.append(Box(head, bar, foot, edge, bold=True, flat=flat))
    return boxes


def number_with_spread(value: float, spread: float) -> str:
    """A number with as many digits as its spread has a use for.

    >>> number_with_spread(99.8765, 3.52), number_with_spread(1234567.0, 0.0)
    ('99.9 ± 3.5', '1.23457e+06 ± 0')
    """
    if not 1e-4 < spread < 1e6:
        return f"{value:.6g} ± {spread:.2g}"
    digits = max(1 - math.floor(math.log10(spread)), 0)
    return f"{value:.{digits}f} ± {spread:.{digits}f}"


def _bar(chosen: TreeSet, node: int) -> Bar:
    if chosen.counts is not None:
        counts = chosen.counts[0, node]
        return Bar(shares=(counts / max(counts.sum(), 1e-300)).tolist())
    used = slice(0, int(chosen.trees.n_nodes[0]))
    value = chosen.value[0, used, 0]
    spread = chosen.spread[0, used] if chosen.spread is not None else np.zeros_like(value)
    low, high = float((value - spread).min()), float((value + spread).max())
    width = high - low or 1.0
    ends = value[node] - spread[node], value[node], value[node] + spread[node]
    one, two, three = ((float(end) - low) / width for end in ends)
    return Bar(number=(one, two, three))


def _draw_edges(
    ax: Axes, chosen: TreeSet, placed: Placed, sizes: list[tuple[float, float]]
) -> None:
    """Draw edges as wide as their share of all rows, named yes and no."""
    rows = chosen.rows[0] / max(chosen.rows[0, 0], 1e-300)
    for node, (x, y) in enumerate(placed.centre):
        child = int(chosen.trees.left[0, node])
        if child < 0:
            continue
        for at, said in ((child, "yes"), (child + 1, "no")):
            a, b = placed.centre[at]
            width = 1.2 + 7.0 * float(rows[at])
            if placed.downwards:
                start, end = (x, y - sizes[node][1] / 2), (a, b + sizes[at][1] / 2)
            else:
                start, end = (x + sizes[node][0] / 2, y), (a - sizes[at][0] / 2, b)
            draw_edge(ax, start, end, width, placed.downwards, FAINT, 0.7)
            middle = start[0] * 0.45 + end[0] * 0.55, start[1] * 0.45 + end[1] * 0.55
            write(ax, *middle, said, 7.0, color=QUIET, zorder=2)
