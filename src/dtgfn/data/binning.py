"""Binner: raw columns <-> bin codes and back to readable rules."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from numbers import Integral
from typing import Literal, cast, get_args

import numpy as np
import numpy.typing as npt

from dtgfn._support.arrays import Floats
from dtgfn._support.printable import visible
from dtgfn.data.columns import ColumnSpec, category_places, numbers_like
from dtgfn.data.tables import Column, Table, listing, take

Binning = Literal["uniform", "quantile", "midpoint"]
FeatureKind = Literal["number", "boolean", "category", "missing"]

MAX_THRESHOLDS = 65_000  # a code, with one more for missing, must fit in uint16
MAX_CATEGORIES = 254
RARE = 1 / 2000  # share of the rows below which a category of such a column does not count

NONE: Floats = np.empty(0)
HALF: Floats = np.array([0.5])
NONE.flags.writeable = HALF.flags.writeable = False


@dataclass(frozen=True, eq=False)
class Feature:
    """One code column; a split (feature, cut j) sends a row left when its code is <= j.

    The kinds "category" (is it this category?) and "missing" (is it missing?) are the 0/1
    indicators of a category column.
    """

    column: int  # index of the source column
    name: str  # and its name
    kind: FeatureKind
    thresholds: Floats  # [q] ascending; [0.5] for what is 0 or 1; empty if constant in training
    category: str | None  # the one an indicator stands for
    has_missing: bool  # numbers, booleans: training had missing values, told apart by cut q

    @property
    def n_cuts(self) -> int:
        """Number of cuts a tree may choose from; no training code is larger."""
        return len(self.thresholds) + self.has_missing


@dataclass(frozen=True, eq=False)
class Binner:
    """Fitted and immutable: the training columns and the features they became."""

    columns: tuple[ColumnSpec, ...]
    named: bool
    binning: Binning
    n_thresholds: int

    @cached_property
    def features(self) -> tuple[Feature, ...]:
        """The code columns, in the order of `encode`."""
        return tuple(
            feature
            for place, spec in enumerate(self.columns)
            for feature in _features_of(place, spec)
        )

    @cached_property
    def n_cuts(self) -> npt.NDArray[np.int64]:
        """Number of cuts of every feature [n_features]."""
        return np.array([feature.n_cuts for feature in self.features], dtype=np.int64)

    @cached_property
    def feature_column(self) -> npt.NDArray[np.int64]:
        """Source column of every feature [n_features]."""
        return np.array([feature.column for feature in self.features], dtype=np.int64)

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the training columns."""
        return tuple(spec.name for spec in self.columns)


def fit_binner(
    table: Table,
    *,
    binning: Binning = "uniform",
    n_thresholds: int = 99,
    sample_weight: npt.ArrayLike | None = None,
) -> Binner:
    """Learn thresholds and categories from training rows.

    ``binning`` says where the thresholds of a number go, at most ``n_thresholds`` (1 to 65000)
    of them: "uniform", evenly over its range; "quantile", at its weighted quantiles; "midpoint",
    halfway between neighbouring values, thinned evenly.  In ``sample_weight`` [n] a weight of 3
    counts as three rows and one of 0 as none.

    >>> from dtgfn.data.tables import as_table
    >>> binner = fit_binner(as_table([[0.0, "red"], [4.0, "blue"]]), n_thresholds=3)
    >>> binner.features[0].thresholds.tolist()
    [1.0, 2.0, 3.0]
    >>> encode(binner, as_table([[1.0, "red"], [None, "green"]])).tolist()
    [[0, 1], [4, 0]]
    """
    check_settings(binning, n_thresholds)
    weights = check_weights(sample_weight, table.n_rows)
    if weights is not None and not weights.all():
        table, weights = take(table, weights > 0), weights[weights > 0]
    if weights is not None:  # by a power of two: exact, and no sum of weights overflows
        weights = np.ldexp(weights, -int(np.frexp(weights.max())[1]))
    specs = (_fit_column(column, binning, int(n_thresholds), weights) for column in table.columns)
    return Binner(tuple(specs), table.named, binning, int(n_thresholds))


def check_settings(binning: object, n_thresholds: object) -> None:
    """Refuse a binning that is not known and a number of thresholds out of range."""
    if binning not in get_args(Binning):
        raise ValueError(
            f"binning is {binning!r}, but must be one of {listing(get_args(Binning))}."
        )
    whole = isinstance(n_thresholds, Integral) and not isinstance(n_thresholds, bool)
    if not whole or not 1 <= cast(int, n_thresholds) <= MAX_THRESHOLDS:
        raise ValueError(
            f"n_thresholds is {n_thresholds!r}, but must be an integer from 1 to {MAX_THRESHOLDS}."
        )


def check_weights(sample_weight: npt.ArrayLike | None, n_rows: int) -> Floats | None:
    """Weights of rows as numbers [n], refused if they are none."""
    if sample_weight is None:
        return None
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("sample_weight holds no numbers; give one number per row.") from None
    if weights.shape != (n_rows,):
        raise ValueError(
            f"sample_weight has shape {weights.shape}, but must have one weight for each of the "
            f"{n_rows} rows, shape ({n_rows},)."
        )
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(bad):
        raise ValueError(
            f"sample_weight is {weights[bad[0]]} in row {bad[0]}, but must be finite and >= 0."
        )
    if not weights.any():
        raise ValueError("sample_weight is zero in every row; give at least one row some weight.")
    return weights


def _fit_column(
    column: Column, binning: Binning, n_thresholds: int, weights: Floats | None
) -> ColumnSpec:
    if column.kind == "category":
        categories, has_missing = _frequent_categories(column, weights)
        return ColumnSpec(column.name, column.kind, NONE, categories, has_missing)
    values = cast(Floats, column.values)
    present = ~np.isnan(values)
    numbers = values[present] + 0.0  # makes 0.0 of -0.0
    thresholds = NONE
    if column.kind == "boolean":
        thresholds = HALF if len(numbers) and numbers.min() < numbers.max() else NONE
    elif len(numbers):
        thresholds = _thresholds(
            numbers, binning, n_thresholds, None if weights is None else weights[present]
        )
    return ColumnSpec(column.name, column.kind, thresholds, (), not present.all())


def _frequent_categories(column: Column, weights: Floats | None) -> tuple[tuple[str, ...], bool]:
    cells = column.values.tolist()
    categories = sorted(set(cells) - {None})
    has_missing = None in cells
    if len(categories) > MAX_CATEGORIES:
        place = {category: index for index, category in enumerate(categories)}
        index = np.fromiter(map(place.get, cells, repeat(len(categories))), np.int64, len(cells))
        counted = np.ones(len(cells)) if weights is None else weights
        order = np.argsort(counted)  # so that the sums do not depend on the order of the rows
        mass = np.bincount(index[order], counted[order])[: len(categories)]
        order = np.argsort(-mass, kind="stable")[:MAX_CATEGORIES]
        # One of a few rows in thousands cannot pay for a split, but every row set would count it.
        common = order[mass[order] >= RARE * mass.sum()]
        kept = np.sort(common if len(common) else order[:1])
        categories = [categories[index] for index in kept]
    return tuple(categories), has_missing


def _thresholds(
    numbers: Floats, binning: Binning, n_thresholds: int, weights: Floats | None
) -> Floats:
    """Ascending thresholds, all below the largest number: others cannot split training rows."""
    values, mass = _distinct(numbers, weights)
    if len(values) == 1:
        return NONE
    if binning == "uniform":
        thresholds = np.unique(_uniform(values, n_thresholds))
        return thresholds[thresholds < values[-1]]
    if binning == "midpoint":
        n_gaps = len(values) - 1
        below = np.arange(n_gaps)
        if n_gaps > n_thresholds:
            below = (2 * np.arange(n_thresholds) + 1) * n_gaps // (2 * n_thresholds)
    else:
        # weights that are not whole numbers leave a rounding error in the sums: forgive it
        upto = np.cumsum(mass)
        reached = upto * (n_thresholds + 1) * (1 + 1e-12)
        wanted = np.arange(1, n_thresholds + 1) * upto[-1]
        below = np.unique(np.searchsorted(reached, wanted, side="left"))
        below = below[below < len(values) - 1]
    return _between(values[below], values[below + 1])


def _uniform(values: Floats, n_thresholds: int) -> Floats:
    """Thresholds at even shares of the range, in raw units.

    A threshold is the largest number whose min-max scaled copy is at most the share. So ties, which
    tables with few decimals are full of, fall as they do on scaled columns, in every row.
    """
    share = np.linspace(0.0, 1.0, n_thresholds + 2)[1:-1]
    unit = 1.0 if math.isfinite(float(values[-1]) - float(values[0])) else 0.5  # no overflow
    low, span = values[0] * unit, values[-1] * unit - values[0] * unit
    below, above = (np.full(n_thresholds, _place(values[k])) for k in (0, -1))
    for _ in range(64):  # bisection over all doubles between the least and the largest value
        middle = (below >> 1) + (above >> 1) + (below & above & 1)  # no overflow
        fits = (_number(middle) * unit - low) / span <= share
        below, above = np.where(fits, middle, below), np.where(fits, above, middle)
    return _number(below)


def _place(number: np.float64) -> np.int64:
    """Place of a double among all doubles, in ascending order."""
    bits = np.float64(number).view(np.int64)
    return bits if bits >= 0 else np.int64(np.iinfo(np.int64).min) - bits


def _number(place: npt.NDArray[np.int64]) -> Floats:
    """Doubles at these places."""
    return np.where(place >= 0, place, np.iinfo(np.int64).min - place).view(np.float64)


def _distinct(numbers: Floats, weights: Floats | None) -> tuple[Floats, Floats]:
    """Distinct values, ascending, and the weight on each."""
    if weights is None:
        values, counts = np.unique(numbers, return_counts=True)
        return values, counts.astype(np.float64)
    order = np.lexsort((weights, numbers))  # sums must not depend on the order of the rows
    values, first = np.unique(numbers[order], return_index=True)
    return values, np.add.reduceat(weights[order], first)


def _between(lower: Floats, upper: Floats) -> Floats:
    """Midpoints with lower <= midpoint < upper, whatever floating point makes of them."""
    with np.errstate(over="ignore"):
        middle = (lower + upper) / 2
    middle = np.where(np.isfinite(middle), middle, lower / 2 + upper / 2)
    return np.where((lower <= middle) & (middle < upper), middle, lower)


def _features_of(place: int, spec: ColumnSpec) -> list[Feature]:
    if spec.kind != "category":
        return [Feature(place, spec.name, spec.kind, spec.thresholds, None, spec.has_missing)]
    shown = spec.categories
    if len(shown) + spec.has_missing == 2:
        shown = shown[1:]  # the first indicator would only repeat the second
    thresholds = HALF if len(spec.categories) + spec.has_missing > 1 else NONE
    features = [Feature(place, spec.name, "category", thresholds, text, False) for text in shown]
    if spec.has_missing:
        features.append(Feature(place, spec.name, "missing", HALF, None, False))
    return features


def encode(binner: Binner, table: Table, *, allow_extra: bool = False) -> npt.NDArray[np.uint16]:
    """Codes uint16 [n, n_features] of a table with the training columns.

    A number's code is how many thresholds lie strictly below it, so ``x <= thresholds[j]`` is
    ``code <= j``; missing is one more than any number's code, so it goes right at every cut.
    A category, or a missing cell, that training has not seen has code 0 in every indicator.
    Columns are matched by name if both tables are named, else by position; columns that training
    has not seen are an error unless ``allow_extra``.

    >>> from dtgfn.data.tables import as_table
    >>> binner = fit_binner(as_table([[0.0], [4.0]]), n_thresholds=3)
    >>> encode(binner, as_table([[-7], [1], [1.1], [9], [None]])).ravel().tolist()
    [0, 0, 1, 3, 4]
    """
    columns = matching_columns(binner, table, allow_extra)
    codes = np.zeros((table.n_rows, len(binner.features)), dtype=np.uint16)
    located: dict[int, npt.NDArray[np.int16]] = {}
    for place, feature in enumerate(binner.features):
        spec, column = binner.columns[feature.column], columns[feature.column]
        if spec.kind != "category":
            numbers = numbers_like(spec, column)
            # searchsorted puts NaN behind the last threshold: one more makes it q + 1
            codes[:, place] = np.searchsorted(spec.thresholds, numbers) + np.isnan(numbers)
        elif len(feature.thresholds):
            if feature.column not in located:
                located = {feature.column: category_places(spec, column)}
            wanted = [*spec.categories, None].index(feature.category)
            codes[:, place] = located[feature.column] == wanted
    return codes


def matching_columns(binner: Binner, table: Table, allow_extra: bool = False) -> list[Column]:
    """Columns of a table in the order of the training columns, by name if both are named."""
    if not (binner.named and table.named):
        if table.n_columns != len(binner.columns):
            raise ValueError(
                f"X has {table.n_columns} features, but Binner is expecting "
                f"{len(binner.columns)} features as input"
            )
        return list(table.columns)
    given = {column.name: column for column in table.columns}
    known = dict.fromkeys(binner.column_names)
    absent = [name for name in known if name not in given]
    if absent:
        raise ValueError(f"X lacks columns that training had: {listing(absent)}; add them.")
    extra = [name for name in given if name not in known]
    if extra and not allow_extra:
        raise ValueError(
            f"X has columns that training did not have: {listing(extra)}; drop them, "
            "or pass allow_extra=True to ignore them."
        )
    return [given[name] for name in known]


def rule(feature: Feature, cut: int) -> tuple[str, str]:
    """Words for the left and the right side of a cut.

    >>> rule(Feature(0, "petal length (cm)", "number", np.array([2.45]), None, True), 0)
    ('petal length (cm) <= 2.45', 'petal length (cm) > 2.45 or missing')
    """
    if not 0 <= cut < feature.n_cuts:
        raise ValueError(
            f"Feature {feature.name!r} has {feature.n_cuts} cuts; there is no cut {cut}."
        )
    name = visible(feature.name)
    if feature.kind == "category":
        category = visible(str(feature.category))
        return f"{name} is not {category}", f"{name} is {category}"
    if feature.kind == "missing" or cut == len(feature.thresholds):
        return f"{name} is present", f"{name} is missing"
    too = " or missing" if feature.has_missing else ""
    if feature.kind == "boolean":
        return f"{name} is false", f"{name} is true{too}"
    shown = threshold_text(feature.thresholds, cut)
    return f"{name} <= {shown}", f"{name} > {shown}{too}"


def threshold_text(thresholds: Floats, cut: int) -> str:
    """Six digits, or as many as it takes to tell a threshold from its neighbours."""
    exact = float(thresholds[cut])
    neighbours = np.delete(thresholds[max(cut - 1, 0) : cut + 2], min(cut, 1))
    room = min((abs(exact - float(other)) for other in neighbours), default=math.inf) / 10
    if abs(exact) < min(room, 1e-12 * float(np.abs(thresholds).max())):
        return "0"  # off by what rounding left of the others
    digits = (float(f"{exact:.{digits}g}") for digits in range(6, 18))
    shown = next(value for value in digits if abs(value - exact) <= room)
    return repr(shown + 0.0).removesuffix(".0")
