"""The background of one-class data: cells of equal mass that trees tell from normal rows.

With one class there is nothing to separate, so normal rows are set against a background that is
known in closed form: columns are independent, a number is Student-t (3 degrees of freedom, twice
the column's spread), anything else is uniform over its values, "missing" and "never seen". Each
column is cut into cells of equal background mass, so the background of a leaf is a product of
shares of cells: nothing is drawn.
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

from dtgfn.binning import (
    HALF,
    NONE,
    Binner,
    ColumnSpec,
    encode,
    fit_binner,
    matching_columns,
    numbers_like,
)
from dtgfn.kernels import Codes, Floats
from dtgfn.score import Rows
from dtgfn.tables import Column, Table
from dtgfn.trees import TreeBatch

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
        How a table becomes codes [n, d]; a code beyond the last threshold means missing.
    centre, scale : float64 [columns]
        Place and spread of each number's background; scale is 0 for all other columns.
    cells : tuple of uint16 [n_cells, features of the column]
        Codes of every cell of each column, all of the same background mass.

    """

    binner: Binner
    centre: Floats
    scale: Floats
    cells: tuple[Codes, ...]


def fit_background(table: Table, n_thresholds: int, weight: Floats) -> Background:
    """Fit cells to training rows of weight [n] > 0.

    Examples
    --------
    >>> from dtgfn.tables import as_table
    >>> background = fit_background(as_table([[0.0, "a"], [4.0, "a"]]), 3, np.ones(2))
    >>> background.binner.features[0].thresholds.round(2).tolist()
    [-1.06, 2.0, 5.06]
    >>> [len(cells) for cells in background.cells]
    [5, 3]

    """
    plain = fit_binner(table, n_thresholds=n_thresholds, sample_weight=weight)
    specs, centres, scales = [], [], []
    for column, spec in zip(table.columns, plain.columns, strict=True):
        centre, scale = _spread(column, weight)
        thresholds, categories = NONE, spec.categories
        if column.kind == "category":
            categories += NO_CATEGORIES[: max(2 - len(categories), 0)]
        elif column.kind == "boolean":
            thresholds = HALF
        elif scale > 0:
            share = np.arange(1, n_thresholds + 1) / (n_thresholds + 1)
            with np.errstate(over="ignore"):
                wanted = centre + scale * stdtrit(DEGREES, share)
            thresholds = np.unique(np.clip(wanted, -LARGEST, LARGEST))
        else:  # one value: below it, it, above it
            thresholds = np.array([np.nextafter(centre, -np.inf), centre])
        specs.append(ColumnSpec(spec.name, spec.kind, thresholds, categories, True))
        centres.append(centre)
        scales.append(scale)
    binner = Binner(tuple(specs), plain.named, plain.binning, plain.n_thresholds)
    return Background(
        binner, np.array(centres), np.array(scales), tuple(_cells_of(spec) for spec in specs)
    )


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
    order = np.lexsort((share, values))  # so that sums do not depend on the order of the rows
    part, share = values[order] / unit, share[order]
    centre = float(share @ part)
    scale = WIDTH * unit * float(np.sqrt(share @ (part - centre) ** 2))
    if not np.isfinite(scale) or not centre * unit + scale > centre * unit:
        return float(values[0]), 0.0  # rounding hides the spread
    return centre * unit, scale


def _cells_of(spec: ColumnSpec) -> Codes:
    if spec.kind != "category":
        return np.arange(len(spec.thresholds) + 2, dtype=np.uint16)[:, None]
    n_indicators = len(spec.categories) + 1  # one for missing
    seen = np.eye(n_indicators, dtype=np.uint16)
    real = [category not in NO_CATEGORIES for category in spec.categories]
    seen = seen[np.array([*real, True])]
    return np.vstack([seen, np.zeros((1, n_indicators), dtype=np.uint16)])


def place(background: Background, table: Table) -> tuple[Codes, Floats]:
    """Codes [n, d] of a table, and each cell's log background density [n, columns].

    A number's is per unit of scale; what has no width has the mass of its cell.
    """
    binner = background.binner
    log_density = np.empty((table.n_rows, len(binner.columns)))
    for index, column in enumerate(matching_columns(binner, table)):
        n_cells, scale = len(background.cells[index]), background.scale[index]
        log_density[:, index] = -np.log(n_cells)
        if scale > 0:
            numbers = numbers_like(binner.columns[index], column)
            present = ~np.isnan(numbers)
            standard = numbers[present] / scale - background.centre[index] / scale
            log_density[present, index] = np.log1p(-1 / n_cells) + student.logpdf(
                np.clip(standard, -1e30, 1e30), DEGREES
            )
    return encode(binner, table), log_density


def choose_views(
    n_columns: int, per_view: int, n_views: int, rng: np.random.Generator
) -> list[tuple[int, ...]]:
    """Sets of columns, all there are if ``n_views`` are enough, else so that each column is in as
    many as any other, give or take one.

    >>> choose_views(3, 2, 5, np.random.default_rng(0))
    [(0, 1), (0, 2), (1, 2)]
    """  # noqa: D205
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


def view_features(background: Background, view: Sequence[int]) -> npt.NDArray[np.intp]:
    """Positions of the features of some columns, in the order of the columns."""
    return np.flatnonzero(np.isin(np.asarray(background.binner.feature_column), view))


def view_rows(
    background: Background,
    view: Sequence[int],
    codes: Codes,
    weight: Floats,
    rng: np.random.Generator,
) -> Rows:
    """Two-class rows of a view: normal ones, and as much background as they weigh.

    ``codes`` [n, d] are of all columns. Every cell is a background row; where there are more than
    ``MAX_CELLS``, as many quasi-random ones are.
    """
    cells = [background.cells[column] for column in view]
    sizes = np.array([len(part) for part in cells])
    if np.prod(sizes.astype(np.float64)) <= MAX_CELLS:
        index = np.indices(sizes).reshape(len(sizes), -1)
    else:
        points = qmc.Sobol(len(sizes), rng=rng).random(MAX_CELLS)
        index = np.minimum((points * sizes).astype(np.intp), sizes - 1).T
    grid = np.hstack([part[place] for part, place in zip(cells, index, strict=True)])
    n_cells = grid.shape[0]
    labels = np.repeat(np.array([BACKGROUND, NORMAL], dtype=np.int32), [n_cells, len(codes)])
    return Rows(
        np.ascontiguousarray(np.vstack([grid, codes[:, view_features(background, view)]])),
        labels,
        np.concatenate([np.full(n_cells, weight.sum() / n_cells), weight]),
    )


def background_shares(background: Background, view: Sequence[int], trees: TreeBatch) -> Floats:
    """Share of the background's mass at every node [B, N], exactly: a product over columns."""
    cells = [background.cells[column] for column in view]
    owner = [(c, f) for c, part in enumerate(cells) for f in range(part.shape[1])]
    share = np.zeros(trees.feature.shape)
    for b in range(len(trees)):
        inside = {0: [np.ones(len(part), dtype=bool) for part in cells]}
        for node in range(int(trees.n_nodes[b])):
            masks = inside.pop(node)
            share[b, node] = np.prod([mask.mean() for mask in masks])
            if trees.feature[b, node] < 0:
                continue
            column, feature = owner[trees.feature[b, node]]
            right = cells[column][:, feature] > trees.cut[b, node]
            for side, goes in enumerate((~right, right)):
                child = list(masks)
                child[column] = masks[column] & goes
                inside[int(trees.left[b, node]) + side] = child
    return share
