"""The background of one-class data: cells of equal mass that trees tell from normal rows.

With one class there is nothing to separate, so normal rows are set against a background that is
known in closed form: columns are independent, a number is Student-t (3 degrees of freedom, twice
the column's spread), anything else is uniform over its values, "missing" and "never seen". Each
column is cut into cells of equal background mass, in order: a number's by size, categories by how
often training rows have them. So a leaf is a range of cells in each column, and its background a
product of shares: nothing is drawn.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit
from scipy.stats import qmc
from scipy.stats import t as student

from dtgfn._support.arrays import Codes, Floats
from dtgfn.data.binning import (
    Binner,
    ColumnSpec,
    encode,
    fit_binner,
    matching_columns,
    numbers_like,
)
from dtgfn.data.tables import Column, Table
from dtgfn.data.thresholds import HALF, NONE
from dtgfn.trees.batch import TreeBatch
from dtgfn.trees.score import Rows

BACKGROUND, NORMAL = 0, 1  # the two classes
DEGREES = 3.0  # heavy tails: a row far out still has a density, and a lower one than a row nearer
WIDTH = 2.0  # spread of the background in standard deviations of the column
LARGEST = np.finfo(np.float64).max
MAX_CELLS = 4096  # beyond, quasi-random cells stand for all cells of a view
NO_CATEGORIES = ("\0", "\0\0")  # keep the only category of a column apart from those never seen


@dataclass(frozen=True, eq=False)
class Background:
    """What rows are compared with, column by column.

    Attributes
    ----------
    binner : Binner
        How a table's numbers find their cells, and its categories their indicators.
    centre, scale : float64 [columns]
        Place and spread of each number's background; scale is 0 for all other columns.
    n_cells : int64 [columns]
        Cells of each column, all of the same background mass; a number's last one is "missing".
    rank : tuple of uint16 [K + 2] or None
        Of a category column the cell of each category, of missing and of what was never seen.

    """

    binner: Binner
    centre: Floats
    scale: Floats
    n_cells: npt.NDArray[np.int64]
    rank: tuple[Codes | None, ...]


def fit_background(table: Table, n_thresholds: int, weight: Floats) -> Background:
    """Fit cells to training rows of weight [n] > 0.

    Examples
    --------
    >>> from dtgfn.data.tables import as_table
    >>> background = fit_background(as_table([[0.0, "a"], [4.0, "a"]]), 3, np.ones(2))
    >>> background.binner.features[0].thresholds.round(2).tolist()
    [-1.06, 2.0, 5.06]
    >>> background.n_cells.tolist()
    [5, 3]

    """
    plain = fit_binner(table, n_thresholds=n_thresholds, sample_weight=weight)
    spread = [_spread(column, weight) for column in table.columns]
    specs = tuple(
        _cut_column(spec, centre, scale, n_thresholds)
        for spec, (centre, scale) in zip(plain.columns, spread, strict=True)
    )
    binner = Binner(specs, plain.named, plain.binning, plain.n_thresholds)
    codes = encode(binner, table)
    n_cells: list[int] = []
    rank: list[Codes | None] = []
    for index, spec in enumerate(specs):
        if spec.kind != "category":
            rank.append(None)
            n_cells.append(len(spec.thresholds) + 2)
            continue
        cell = _category_cells(codes[:, binner.feature_column == index])
        real = [category not in NO_CATEGORIES for category in spec.categories]
        mass = np.asarray(np.bincount(cell, weight, len(real) + 2), dtype=np.float64)
        order = _order_cells(mass, np.array([*real, True]))
        rank.append(order)
        n_cells.append(int(order.max()) + 1)
    centre, scale = np.array(spread).T
    return Background(binner, centre, scale, np.array(n_cells), tuple(rank))


def _cut_column(spec: ColumnSpec, centre: float, scale: float, n_thresholds: int) -> ColumnSpec:
    """Thresholds with equal background mass between them, and room for what was never seen."""
    categories, thresholds = spec.categories, NONE
    if spec.kind == "category":
        categories = tuple(sorted(categories + NO_CATEGORIES[: max(2 - len(categories), 0)]))
    elif spec.kind == "boolean":
        thresholds = HALF
    elif scale > 0:
        share = np.arange(1, n_thresholds + 1) / (n_thresholds + 1)
        with np.errstate(over="ignore"):
            wanted = centre + scale * stdtrit(DEGREES, share)
        thresholds = np.unique(np.clip(wanted, -LARGEST, LARGEST))
    else:  # one value: below it, it, above it
        thresholds = np.array([np.nextafter(centre, -np.inf), centre])
    return ColumnSpec(spec.name, spec.kind, thresholds, categories, True)


def _category_cells(indicators: Codes) -> npt.NDArray[np.intp]:
    """Which indicator [n, K + 1] is on, K + 1 if none is."""
    return np.where(indicators.any(axis=1), indicators.argmax(axis=1), indicators.shape[1])


def _order_cells(mass: Floats, real: npt.NDArray[np.bool_]) -> Codes:
    """Cell of each category and of missing, rare before frequent, after 0 for never seen."""
    rank = np.zeros(len(mass), dtype=np.uint16)
    cells = np.flatnonzero(real)
    rank[cells[np.argsort(mass[cells], kind="stable")]] = np.arange(1, len(cells) + 1)
    return rank


def _spread(column: Column, weight: Floats) -> tuple[float, float]:
    """Weighted mean and width of a number column; scale 0 where there is nothing to measure."""
    if column.kind != "number":
        return 0.0, 0.0
    present = ~np.isnan(column.values.astype(np.float64))
    values = column.values[present].astype(np.float64)
    if not len(values):
        return 0.0, 0.0
    if values.min() == values.max():
        return float(values[0]), 0.0
    share = weight[present] / weight[present].sum()
    unit = float(np.abs(values).max())  # squares of large numbers overflow
    # in order, so that sums do not depend on that of the rows
    if share.min() == share.max():
        part = np.sort(values) / unit
    else:
        order = np.lexsort((share, values))
        part, share = values[order] / unit, share[order]
    centre = float(share @ part)
    scale = WIDTH * unit * float(np.sqrt(share @ (part - centre) ** 2))
    if not np.isfinite(scale) or not centre * unit + scale > centre * unit:
        return float(values[0]), 0.0  # rounding hides the spread
    return centre * unit, scale


def locate_cells(background: Background, table: Table) -> tuple[Codes, Floats]:
    """Cell [n, columns] of every value of a table, and its log background density [n, columns].

    A number's density is per unit of scale; what has no width has the mass of its cell.
    """
    binner = background.binner
    features = encode(binner, table)
    cells = np.empty((table.n_rows, len(binner.columns)), dtype=np.uint16)
    log_density = np.empty(cells.shape)
    for index, column in enumerate(matching_columns(binner, table)):
        codes, rank = features[:, binner.feature_column == index], background.rank[index]
        cells[:, index] = codes[:, 0] if rank is None else rank[_category_cells(codes)]
        n_cells, scale = background.n_cells[index], background.scale[index]
        log_density[:, index] = -np.log(n_cells)
        if scale > 0:
            numbers = numbers_like(binner.columns[index], column)
            present = ~np.isnan(numbers)
            standard = numbers[present] / scale - background.centre[index] / scale
            log_density[present, index] = np.log1p(-1 / n_cells) + student.logpdf(
                np.clip(standard, -1e30, 1e30), DEGREES
            )
    return cells, log_density


def choose_views(
    n_columns: int, per_view: int, n_views: int, rng: np.random.Generator
) -> list[tuple[int, ...]]:
    """Sets of columns, all there are if ``n_views`` are enough, else so that each column is in as
    many as any other, give or take one.

    >>> choose_views(3, 2, 5, np.random.default_rng(0))
    [(0, 1), (0, 2), (1, 2)]
    """
    every = list(itertools.islice(itertools.combinations(range(n_columns), per_view), n_views + 1))
    if len(every) <= n_views:
        return every
    views: dict[tuple[int, ...], None] = {}
    queue: list[int] = []
    while len(views) < n_views:
        chosen: list[int] = []
        while len(chosen) < per_view:
            if not queue:
                queue = rng.permutation(n_columns).tolist()
            fresh = next((c for c in queue if c not in chosen), None)
            if fresh is None:
                queue += rng.permutation(n_columns).tolist()
                continue
            queue.remove(fresh)
            chosen.append(fresh)
        views[tuple(sorted(chosen))] = None
    return list(views)


def view_rows(
    background: Background,
    view: Sequence[int],
    cells: Codes,
    weight: Floats,
    rng: np.random.Generator,
) -> Rows:
    """Two-class rows of a view: normal ones, and as much background as they weigh.

    ``cells`` [n, columns] are of all columns. Every cell is a background row; where there are more
    than ``MAX_CELLS``, as many quasi-random ones are.
    """
    sizes = background.n_cells[list(view)]
    if np.prod(sizes.astype(np.float64)) <= MAX_CELLS:
        grid = np.indices(tuple(sizes.tolist())).reshape(len(sizes), -1).T
    else:
        points = qmc.Sobol(len(sizes), rng=rng).random(MAX_CELLS)
        grid = np.minimum((points * sizes).astype(np.int64), sizes - 1)
    counts = [len(grid), len(cells)]
    labels = np.repeat(np.array([BACKGROUND, NORMAL], dtype=np.int32), counts)
    codes = np.vstack([grid.astype(np.uint16), cells[:, list(view)]])
    share = np.full(len(grid), weight.sum() / len(grid))
    return Rows(np.ascontiguousarray(codes), labels, np.concatenate([share, weight]))


def background_shares(background: Background, view: Sequence[int], trees: TreeBatch) -> Floats:
    """Share of the background's mass at every node [B, N], exactly: a product over columns."""
    sizes = background.n_cells[list(view)]
    first = np.zeros((*trees.feature.shape, len(sizes)), dtype=np.int64)
    last = np.zeros_like(first) - 1
    last[:, 0] = sizes - 1
    for node in range(trees.feature.shape[1]):  # parents come before children
        batch = np.flatnonzero(trees.feature[:, node] >= 0)
        column, cut = trees.feature[batch, node], trees.cut[batch, node]
        left = trees.left[batch, node]
        for child in (left, left + 1):
            first[batch, child], last[batch, child] = first[batch, node], last[batch, node]
        last[batch, left, column] = np.minimum(last[batch, node, column], cut)
        first[batch, left + 1, column] = np.maximum(first[batch, node, column], cut + 1)
    width = np.maximum(last - first + 1, 0)
    return np.asarray((width / sizes).prod(axis=-1))
