"""Partial dependence: what the posterior predicts if a column had another value in every row.

Trees see codes, so a prediction as a function of a number is a staircase: one value per bin between
neighbouring thresholds is all there is to know, and no grid has to be chosen. With P_T(x) what tree
T says of a row x, and x' the row with its column set to the bin b::

    dependence_T(b) = mean over rows x of P_T(x')        mean, low, high over the posterior of T
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dtgfn._support.arrays import Codes, Floats, Int64s
from dtgfn._support.checks import check_level
from dtgfn._support.printable import visible
from dtgfn.data.binning import Binner, ColumnSpec, distinct_codes, encode
from dtgfn.data.dated_tables import as_new_table
from dtgfn.data.tables import listing
from dtgfn.data.thresholds import threshold_text
from dtgfn.explain.intervals import weighted_quantiles
from dtgfn.explain.posterior_columns import columns_of, labels_of
from dtgfn.explain.sum_dependence import MOST_ROWS, draw_dependence
from dtgfn.explain.tree_set import TreeSet, take_trees
from dtgfn.posterior.node_values import predicted
from dtgfn.posterior.of_model import Posterior, posterior_of
from dtgfn.posterior.prediction import Predictor
from dtgfn.posterior.sum_posterior import SumPosterior
from dtgfn.posterior.sum_prediction import SumPredictor
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.trees.batch import route
from dtgfn.trees.score import merge_rows

if TYPE_CHECKING:
    import pandas

BLOCK = 1 << 18  # rows that are predicted at once


class Bins(NamedTuple):
    """The values of one column that trees can tell apart.

    ``features`` [F] are the column's features, ``codes`` [G, F] what they are in each bin; a number
    lies above ``above`` [G] and is at most ``up_to`` [G]; ``name`` [G] is for people.
    """

    features: list[int]
    codes: Codes
    above: Floats
    up_to: Floats
    name: list[str]


def partial_dependence(
    source: Any, column: str | int, X: Any = None, *, level: float = 0.9
) -> pandas.DataFrame:
    """How predictions depend on one column, averaged over rows and over the posterior.

    Parameters
    ----------
    source : TreePosterior, SumPosterior or fitted model
        Whose predictions. A model's ``weighting`` is used; leaves say their means.
    column : str or int
        Name of the column, or its index.
    X : table or None
        Rows over which to average, all alike; None takes the training rows with their weights. Of
        sums of trees at most 1000 are asked, at even steps.
    level : float
        Posterior probability between ``low`` and ``high``.

    Returns
    -------
    DataFrame
        One row per bin of the column and class (of numbers: one per bin):

        - ``value`` names the bin: a number's interval, a category, true or false, or missing.
        - ``above``, ``up_to``: a number in the bin is above the one and at most the other; nan if
          the bin is no interval.
        - ``rows``: weight of the rows that are in the bin themselves.
        - ``output``: the class, or "value".
        - ``mean``: averaged prediction, exact where the engine's average is, sharpened for bags.
        - ``low``, ``high``: quantiles over the sampled trees (of bags: unsharpened), or over the
          draws of sums of trees.

    Examples
    --------
    >>> from dtgfn import infer
    >>> posterior = infer([[1.0], [2.0], [8.0], [9.0]] * 5, ["no", "no", "yes", "yes"] * 5,
    ...                   engine="exact", max_depth=1, n_thresholds=3)
    >>> frame = partial_dependence(posterior, "x0")
    >>> print(frame[frame.output == "yes"][["value", "rows", "mean"]].round(2).to_string())
             value  rows  mean
    1      x0 <= 3  10.0  0.01
    3  3 < x0 <= 5   0.0  0.34
    5  5 < x0 <= 7   0.0  0.66
    7       x0 > 7  10.0  0.99

    """
    check_level(level)
    posterior = posterior_of(source)
    if isinstance(posterior, SumPosterior):
        return sum_dependence(posterior, column, X, level)
    chosen = take_trees(source, "all")
    index = column_index(chosen.binner, column)
    codes, weight = _rows(posterior, chosen.binner, X)
    bins = column_bins(chosen.binner, index)
    each = tree_dependence(chosen, bins, codes, weight)
    low, high = weighted_quantiles(each, chosen.weight, level)
    mean = _mean(posterior, getattr(source, "weighting", "importance"), chosen, bins, codes, weight)
    if mean is None:
        mean = np.tensordot(chosen.weight, each, axes=1)
    return _frame(chosen.outputs, bins, _rows_inside(bins, codes, weight), mean, low, high)


def sum_dependence(
    posterior: SumPosterior,
    column: str | int,
    X: Any,
    level: float,
    most_rows: int | None = None,
) -> pandas.DataFrame:
    """What ``partial_dependence`` tells of sums of trees, from so many rows at even steps."""
    binner = columns_of(posterior, posterior.summed.batch)
    bins = column_bins(binner, column_index(binner, column))
    codes, weight = _rows(posterior, binner, X)
    asked = np.unique(
        np.linspace(0, len(codes) - 1, most_rows or MOST_ROWS).round().astype(np.int64)
    )
    each = draw_dependence(
        SumPredictor(posterior), bins.features, bins.codes, codes[asked], weight[asked]
    )
    low, high = weighted_quantiles(each, np.full(len(each), 1 / len(each)), level)
    labels = labels_of(posterior)
    outputs = ("value",) if labels is None else tuple(map(str, labels))
    return _frame(outputs, bins, _rows_inside(bins, codes, weight), each.mean(axis=0), low, high)


def column_index(binner: Binner, column: str | int) -> int:
    """Index of a column given by name or index; refuse what names none."""
    names = binner.column_names
    if isinstance(column, str) and column in names:
        return names.index(column)
    integer = isinstance(column, int | np.integer) and not isinstance(column, bool)
    if integer and 0 <= column < len(names):  # type: ignore[operator]
        return int(column)
    raise ValueError(f"There is no column {column!r}; the columns are {listing(names)}.")


def column_bins(binner: Binner, index: int) -> Bins:
    """The bins of a column, missing last if training had missing values."""
    spec = binner.columns[index]
    features = np.flatnonzero(binner.feature_column == index).tolist()
    if spec.kind == "category":
        cells: list[str | None] = [*spec.categories, *([None] if spec.has_missing else [])]
        asked = [binner.features[f] for f in features]
        codes = np.array(
            [[cell == each.category and each.n_cuts > 0 for each in asked] for cell in cells],
            dtype=np.uint16,
        )
        empty = np.full(len(cells), np.nan)
        names = ["missing" if cell is None else cell for cell in cells]
        return Bins(features, codes.reshape(len(cells), -1), empty, empty, names)
    cuts = spec.thresholds
    missing = [len(cuts) + 1] if spec.has_missing else []
    codes = np.array([*range(len(cuts) + 1), *missing], dtype=np.uint16)[:, None]
    nothing = [np.nan] if missing else []
    if spec.kind == "boolean":
        names = ["false", "true"] if len(cuts) else ["any"]
        empty = np.full(len(codes), np.nan)
        return Bins(features, codes, empty, empty, names + ["missing"] * len(missing))
    above = np.array([-np.inf, *cuts, *nothing])
    up_to = np.array([*cuts, np.inf, *nothing])
    return Bins(features, codes, above, up_to, _interval_names(spec) + ["missing"] * len(missing))


def _interval_names(spec: ColumnSpec) -> list[str]:
    if not len(spec.thresholds):
        return ["any"]
    texts = [threshold_text(spec.thresholds, cut) for cut in range(len(spec.thresholds))]
    name = visible(spec.name)
    middle = [f"{a} < {name} <= {b}" for a, b in pairwise(texts)]
    return [f"{name} <= {texts[0]}", *middle, f"{name} > {texts[-1]}"]


def tree_dependence(chosen: TreeSet, bins: Bins, codes: Codes, weight: Floats) -> Floats:
    """Averaged prediction of each tree at each bin [B, G, K] over rows [n, d] with weights [n].

    A tree tells only those bins apart that its own cuts on the column separate, mostly a few.
    """
    share = weight / weight.sum()
    out = np.empty((len(chosen.trees), len(bins.codes), chosen.value.shape[2]))
    changed = codes.copy()
    for b in range(len(chosen.trees)):
        tree = chosen.trees[b : b + 1]
        cuts = [
            bins.codes[:, at] > tree.cut[0, node]
            for at, feature in enumerate(bins.features)
            for node in np.flatnonzero(tree.feature[0] == feature)
        ]
        first, member = _told_apart(cuts, len(bins.codes))
        values = []
        for bin_ in first:
            changed[:, bins.features] = bins.codes[bin_]
            values.append(share @ chosen.value[b, route(tree, changed)[0]])
        out[b] = np.array(values)[member]
    return out


def _told_apart(cuts: list[Any], n_bins: int) -> tuple[Int64s, Int64s]:
    """First bin of each kind that cuts [n_bins] each tell apart, and the kind of each bin."""
    if not cuts:
        return np.zeros(1, dtype=np.int64), np.zeros(n_bins, dtype=np.int64)
    return distinct_codes(np.array(cuts, dtype=np.uint16).T)


def _mean(
    posterior: TreePosterior,
    weighting: str,
    chosen: TreeSet,
    bins: Bins,
    codes: Codes,
    weight: Floats,
) -> Floats | None:
    """Averaged prediction at each bin [G, K] where it is more than the average of the trees'."""
    predictor = Predictor(posterior, weighting)
    if not predictor.knows_average and predictor.sharpness == 1:
        return None
    # Rows that differ in nothing but the column are one row now.
    others = codes.copy()
    others[:, bins.features] = 0
    kept, member = distinct_codes(others)
    share = np.bincount(member, weights=weight / weight.sum())
    rows = others[kept]
    out = np.empty((len(bins.codes), chosen.value.shape[2]))
    per_block = max(1, BLOCK // len(rows))
    for first in range(0, len(bins.codes), per_block):
        block = bins.codes[first : first + per_block]
        changed = np.tile(rows, (len(block), 1))
        changed[:, bins.features] = np.repeat(block, len(rows), axis=0)
        outputs = predictor.average(changed)
        values = predicted(posterior.score.leaf, outputs).reshape(len(block), len(rows), -1)
        out[first : first + per_block] = np.einsum("n,gnk->gk", share, values)
    return out


def _rows(posterior: Posterior, binner: Binner, X: Any) -> tuple[Codes, Floats]:
    """Rows to average over [n, d] and their weights [n]."""
    if X is None:
        rows = merge_rows(posterior.rows)
        return rows.codes, rows.weight
    if posterior.binner is None:
        raise ValueError("X is given, but the engine was given codes; leave X out.")
    codes = encode(binner, as_new_table(X))
    return codes, np.ones(len(codes))


def _rows_inside(bins: Bins, codes: Codes, weight: Floats) -> Floats:
    """Weight of the rows in each bin [G]; a category that training has not seen is in none."""
    own = codes[:, bins.features]
    return np.array([(own == bin_).all(axis=1) @ weight for bin_ in bins.codes])


def _frame(
    outputs: tuple[str, ...], bins: Bins, rows: Floats, mean: Floats, low: Floats, high: Floats
) -> pandas.DataFrame:
    import pandas

    n_outputs = mean.shape[1]
    return pandas.DataFrame(
        {
            "value": np.repeat(np.array(bins.name, dtype=object), n_outputs),
            "above": np.repeat(bins.above, n_outputs),
            "up_to": np.repeat(bins.up_to, n_outputs),
            "rows": np.repeat(rows, n_outputs),
            "output": np.tile(np.array(outputs, dtype=object), len(mean)),
            "mean": mean.reshape(-1),
            "low": low.reshape(-1),
            "high": high.reshape(-1),
        }
    )
