"""Binner: raw columns to bin codes, and cuts of codes back to readable rules."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, cast, get_args

import numpy as np
import numpy.typing as npt

from dtgfn._support.arrays import Codes, Floats, Int64s
from dtgfn._support.checks import check_integer, check_weights
from dtgfn.data.categories import count_texts, frequent
from dtgfn.data.meanings import Meaning, coded_sides, shown_category, shown_name
from dtgfn.data.scales import EPOCH, Scale
from dtgfn.data.tables import (
    Column,
    Kind,
    Table,
    label,
    listing,
    parse_number,
    take,
    unordered,
)
from dtgfn.data.thresholds import (
    HALF,
    NONE,
    TIE_RULE,
    Binning,
    place_evenly,
    place_thresholds,
    threshold_text,
)

Texts = npt.NDArray[np.object_]
FeatureKind = Literal["number", "boolean", "category", "missing"]

MAX_THRESHOLDS = 65_000  # a code, with one more for missing, must fit in uint16
LARGEST_CODE = np.iinfo(np.uint16).max
MOST_KEYS = 1 << 62


@dataclass(frozen=True, eq=False)
class ColumnSpec:
    """What training taught about one column."""

    name: str
    kind: Kind
    thresholds: Floats  # [q] as in Feature; empty for categories
    categories: tuple[str, ...]  # sorted; of more than 64 the frequent ones, others are unseen
    has_missing: bool
    meaning: Meaning | None = None  # for readers, see meanings.py
    scale: Scale | None = None  # how cells that are no numbers become some


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
    meaning: Meaning | None = None  # of the column

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
    target: Meaning | None = None  # what is predicted, for readers

    @cached_property
    def features(self) -> tuple[Feature, ...]:
        """The code columns, in the order of `encode`."""
        return tuple(
            feature
            for index, spec in enumerate(self.columns)
            for feature in _features_of(index, spec)
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
    specs = fit_columns(table.columns, binning, int(n_thresholds), weights)
    return Binner(specs, table.named, binning, int(n_thresholds))


def check_settings(binning: object, n_thresholds: object) -> None:
    """Refuse a binning that is not known and a number of thresholds out of range."""
    if binning not in get_args(Binning):
        raise ValueError(
            f"binning is {binning!r}, but must be one of {listing(get_args(Binning))}."
        )
    check_integer("n_thresholds", n_thresholds, 1, MAX_THRESHOLDS)


def fit_columns(
    columns: Sequence[Column], binning: Binning, n_thresholds: int, weights: Floats | None
) -> tuple[ColumnSpec, ...]:
    """Learn every column, each looked at once; even thresholds are laid on all of them together."""
    specs, even = list[ColumnSpec](), dict[int, tuple[float, float]]()
    for index, column in enumerate(columns):
        if column.kind == "category":
            specs.append(_fit_categories(column, weights))
            continue
        values = cast(Floats, column.values)
        absent = np.isnan(values)
        numbers = values[~absent] + 0.0  # makes 0.0 of -0.0
        thresholds = NONE
        if column.kind == "boolean":
            thresholds = HALF if len(numbers) and numbers.min() < numbers.max() else NONE
        elif column.scale is not None and column.scale.levels:
            ranks = np.arange(numbers.min(initial=0.0), numbers.max(initial=0.0)) + 0.5
            steps = np.linspace(0, len(ranks) - 1, min(len(ranks), n_thresholds)).astype(np.intp)
            thresholds = ranks[np.unique(steps)]
        elif len(numbers) and binning == "uniform":
            even[index] = float(numbers.min()), float(numbers.max())
        elif len(numbers):
            present = None if weights is None else weights[~absent]
            thresholds = place_thresholds(numbers, binning, n_thresholds, present)
        missing = bool(absent.any())
        scaled = _meaning_of(column.scale), column.scale
        specs.append(ColumnSpec(column.name, column.kind, thresholds, (), missing, *scaled))
    if even:
        laid = place_evenly(np.array(list(even.values())), n_thresholds)
        for index, thresholds in zip(even, laid, strict=True):
            specs[index] = replace(specs[index], thresholds=thresholds)
    return tuple(specs)


def _meaning_of(scale: Scale | None) -> Meaning | None:
    """What the numbers of a scale are called."""
    if scale is None:
        return None
    if not scale.levels:
        return Meaning(unit=EPOCH)
    return Meaning(categories=tuple((str(rank), text) for rank, text in enumerate(scale.levels)))


def _fit_categories(column: Column, weights: Floats | None) -> ColumnSpec:
    texts, mass, has_missing = count_texts(cast(Texts, column.values), weights)
    kept = frequent(texts, mass, float(mass.sum()))
    return ColumnSpec(column.name, column.kind, NONE, kept, has_missing)


def _features_of(column: int, spec: ColumnSpec) -> list[Feature]:
    if spec.kind != "category":
        thresholds, missing, meaning = spec.thresholds, spec.has_missing, spec.meaning
        return [Feature(column, spec.name, spec.kind, thresholds, None, missing, meaning)]
    shown = spec.categories
    if len(shown) + spec.has_missing == 2:
        shown = shown[1:]  # the first indicator would only repeat the second
    thresholds = HALF if len(spec.categories) + spec.has_missing > 1 else NONE
    features = [
        Feature(column, spec.name, "category", thresholds, text, False, spec.meaning)
        for text in shown
    ]
    if spec.has_missing:
        features.append(Feature(column, spec.name, "missing", HALF, None, False, spec.meaning))
    return features


def encode(binner: Binner, table: Table, *, allow_extra: bool = False) -> npt.NDArray[np.uint16]:
    """Codes uint16 [n, n_features] of a table with the training columns.

    A number's code is how many thresholds lie strictly below it (``thresholds.TIE_RULE``), so
    ``x <= thresholds[j]`` is ``code <= j``; missing is one more than any number's code, so it goes
    right at every cut. A category, or a missing cell, that training has not seen has code 0 in
    every indicator. Columns are matched by name if both tables are named, else by position; columns
    that training has not seen are an error unless ``allow_extra``.

    >>> from dtgfn.data.tables import as_table
    >>> binner = fit_binner(as_table([[0.0], [4.0]]), n_thresholds=3)
    >>> encode(binner, as_table([[-7], [1], [1.1], [9], [None]])).ravel().tolist()
    [0, 0, 1, 3, 4]
    """
    columns = matching_columns(binner, table, allow_extra)
    codes = np.zeros((table.n_rows, len(binner.features)), dtype=np.uint16)
    located: dict[int, npt.NDArray[np.int16]] = {}
    for f, feature in enumerate(binner.features):
        spec, column = binner.columns[feature.column], columns[feature.column]
        if spec.kind != "category":
            numbers = numbers_like(spec, column)
            # searchsorted puts NaN behind the last threshold: one more makes it q + 1
            codes[:, f] = np.searchsorted(spec.thresholds, numbers, TIE_RULE) + np.isnan(numbers)
        elif len(feature.thresholds):
            if feature.column not in located:
                located = {feature.column: category_indices(spec, column)}
            wanted = [*spec.categories, None].index(feature.category)
            codes[:, f] = located[feature.column] == wanted
    return codes


def matching_columns(binner: Binner, table: Table, allow_extra: bool = False) -> Sequence[Column]:
    """Columns of a table in the order of the training columns, by name if both are named."""
    if not (binner.named and table.named):
        if table.n_columns != len(binner.columns):
            raise ValueError(
                f"X has {table.n_columns} features, but Binner is expecting "
                f"{len(binner.columns)} features as input"
            )
        return table.columns
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


def _parse_truth(text: str) -> float | None:
    """Return 0, 1 or NaN as a text spells it, None if it does not.

    >>> _parse_truth("True"), _parse_truth("0.0"), _parse_truth("2")
    (1.0, 0.0, None)
    """
    return _truth(_parse_any(text))


def _parse_any(text: str) -> float | None:
    """Return the number that a text spells, 1 and 0 for true and false as for True and False."""
    word = {"true": 1.0, "false": 0.0}.get(text.strip().lower())
    return parse_number(text) if word is None else word


def _truth(number: float | None) -> float | None:
    """Return 0, 1 or NaN; None for other numbers."""
    return number if number is not None and (number in (0, 1) or math.isnan(number)) else None


def numbers_like(spec: ColumnSpec, column: Column) -> Floats:
    """Numbers of a column that was a number or boolean in training, whatever it is now."""
    if spec.scale != column.scale:
        column = _in_scale(spec, column)
    bad: list[object] = []
    if column.kind == "category":
        cells = (column.values if column.cells is None else column.cells).tolist()
        read: dict[object, float] = {}
        for cell in dict.fromkeys(cells):
            number = _number_of(spec, cell)
            bad += [cell] if number is None else []
            read[cell] = 0.0 if number is None else number
        numbers = np.array([read[cell] for cell in cells])
    else:
        numbers = cast(Floats, column.values)
        if spec.kind == "boolean" and column.kind == "number":
            bad = numbers[~np.isin(numbers, (0, 1)) & ~np.isnan(numbers)].tolist()
    if not len(spec.thresholds):  # what was constant in training ignores all but infinity
        bad = [cell for cell in bad if isinstance(cell, str) and _spells_infinity(cell)]
    if bad:
        wanted = "true or false" if spec.kind == "boolean" else "a number"
        raise ValueError(
            f"Column {spec.name!r} was a {spec.kind} in training but now holds {bad[0]!r}; "
            f"give {wanted}, or leave it empty."
        )
    return numbers


def _in_scale(spec: ColumnSpec, column: Column) -> Column:
    """Put a column on the scale that training had: levels by their names, dates as days."""
    column = unordered(column)
    if spec.scale is None and column.scale is not None:
        raise ValueError(
            f"Column {spec.name!r} holds dates, but was a number in training; give numbers."
        )
    if spec.scale is None or column.scale == spec.scale:
        return column
    texts = [None if text is None else label(text) for text in _texts_of(column)]
    read = {text: spec.scale.number(text) for text in dict.fromkeys(texts) if text is not None}
    odd = next((text for text, number in read.items() if number is None), None)
    if odd is not None:
        wanted = f"one of {listing(spec.scale.levels)}" if spec.scale.levels else "a date"
        raise ValueError(
            f"Column {spec.name!r} now holds {odd!r}; give {wanted}, or leave it empty."
        )
    numbers = [np.nan if text is None else read[text] for text in texts]
    return Column(spec.name, "number", np.array(numbers, dtype=np.float64), scale=spec.scale)


def _texts_of(column: Column) -> list[Any]:
    """Cells of a column, None where missing."""
    cells = column.values if column.cells is None else column.cells
    return [None if cell is None or cell != cell else cell for cell in cells.tolist()]


def _spells_infinity(text: str) -> bool:
    try:
        return math.isinf(float(text))
    except ValueError:
        return False


def _number_of(spec: ColumnSpec, cell: str | float | None) -> float | None:
    """Number of one cell; None if it is none, or not 0 or 1 where that is needed."""
    if cell is None:
        return math.nan
    number = _parse_any(cell) if isinstance(cell, str) else float(cell)
    return _truth(number) if spec.kind == "boolean" else number


def category_indices(spec: ColumnSpec, column: Column) -> npt.NDArray[np.int16]:
    """Index of every row's category in spec.categories, their number if missing, else -1.

    A text is its category.  A number, or a truth value, is the one of its text or else one that
    spells it: read alone, the cells 007 and true may come as 7 and True.
    """
    column = unordered(column)
    if column.scale is not None:
        raise ValueError(f"Column {spec.name!r} holds dates, but was text in training; give text.")
    known: dict[object, int] = {text: index for index, text in enumerate(spec.categories)}
    known[None] = len(spec.categories)
    if column.cells is None and column.kind == "category":
        return _indices_of_texts(known, cast(Texts, column.values))
    spelled = {
        kind: {parse(text): text for text in spec.categories}
        for kind, parse in ((False, parse_number), (True, _parse_truth))
    }
    index, cells = _distinct_cells(column)
    found = np.array([_index_of(cell, known, spelled) for cell in cells], dtype=np.int16)
    return found[index]


def _indices_of_texts(known: dict[object, int], texts: Texts) -> npt.NDArray[np.int16]:
    """Look every distinct text up once; None is behind the last of them."""
    import pandas

    index, found = pandas.factorize(texts)
    looked_up = [known.get(text, -1) for text in found.tolist()]
    return np.array([*looked_up, known[None]], dtype=np.int16)[index]


def _distinct_cells(column: Column) -> tuple[npt.NDArray[np.int64], list[Any]]:
    """Index [n] of every row's cell among the distinct ones, and these."""
    if column.cells is not None:
        known: dict[tuple[bool, Any], int] = {}  # 1 and True, though equal, are told apart
        keys = ((isinstance(cell, bool), cell) for cell in column.cells.tolist())
        index = [known.setdefault(key, len(known)) for key in keys]
        return np.array(index, dtype=np.int64), [cell for _, cell in known]
    distinct, inverse = np.unique(cast(Floats, column.values), return_inverse=True)
    truth = column.kind == "boolean"
    cells = [None if math.isnan(v) else bool(v) if truth else v for v in distinct.tolist()]
    return inverse.reshape(-1), cells


def _index_of(
    cell: Any, known: dict[object, int], spelled: dict[bool, dict[float | None, str]]
) -> int:
    if cell is None or isinstance(cell, str):
        return known.get(cell, -1)
    text = label(cell)
    if text not in known:
        text = spelled[isinstance(cell, bool)].get(float(cell), text)
    return known.get(text, -1)


def as_codes(codes: npt.ArrayLike, n_features: int) -> Codes:
    """Rows of codes as the loops were compiled for, refused where a loop would read beyond them.

    ``n_features`` is how many columns the loop asks for, at least. A read-only view would compile
    the loops once more.

    >>> as_codes([[3, 1]], 2).dtype
    dtype('uint16')
    """
    array = np.asarray(codes)
    if array.dtype.kind not in "ui" and array.size:
        raise TypeError("codes are no whole numbers; posterior.encode(X) makes codes of a table X.")
    if array.ndim != 2 or array.shape[1] < n_features:
        raise ValueError(
            f"codes have the shape {array.shape}, but one row each and {n_features} columns or "
            "more are needed; posterior.encode(X) makes codes of a table X."
        )
    if array.dtype != np.uint16 and array.size:
        lowest, highest = int(array.min()), int(array.max())
        if lowest < 0 or highest > LARGEST_CODE:
            raise ValueError(
                f"codes go from {lowest} to {highest}, but must be from 0 to {LARGEST_CODE}; "
                "posterior.encode(X) makes codes of a table X."
            )
    return np.require(array, dtype=np.uint16, requirements=["C", "W"])


def distinct_codes(codes: Codes) -> tuple[Int64s, Int64s]:
    """Where each distinct row is first [P], in ascending order of codes, and who is who [n].

    As ``numpy.unique(codes, axis=0)``, which compares rows cell by cell and takes minutes on a
    large table with many categories. Here ranks are refined by as many columns at a time as fit
    into a whole number, until no two rows are equal or no columns are left.

    >>> [found.tolist() for found in distinct_codes(np.array([[2, 1], [1, 9], [2, 1]], np.uint16))]
    [[1, 0], [1, 0, 1]]
    """
    n_rows, width = codes.shape
    member, n_distinct = np.zeros(n_rows, np.int64), min(n_rows, 1)
    sizes = (codes.max(axis=0).astype(np.int64) + 1).tolist() if n_rows else []
    column = 0
    while column < width and n_distinct < n_rows:
        key, room = member, MOST_KEYS // n_distinct
        while column < width and sizes[column] <= room:
            key = key * sizes[column] + codes[:, column]
            room //= sizes[column]
            column += 1
        found, member = np.unique(key, return_inverse=True)
        n_distinct = len(found)
    return np.unique(member, return_index=True)[1], member


def rule(feature: Feature, cut: int) -> tuple[str, str]:
    """Words for the left and the right side of a cut.

    >>> rule(Feature(0, "petal length (cm)", "number", np.array([2.45]), None, True), 0)
    ('petal length (cm) <= 2.45', 'petal length (cm) > 2.45 or missing')
    """
    if not 0 <= cut < feature.n_cuts:
        raise ValueError(
            f"Feature {feature.name!r} has {feature.n_cuts} cuts; there is no cut {cut}."
        )
    name = shown_name(feature.name, feature.meaning)
    if feature.kind == "category":
        category = shown_category(str(feature.category), feature.meaning)
        return f"{name} is not {category}", f"{name} is {category}"
    if feature.kind == "missing" or cut == len(feature.thresholds):
        return f"{name} is present", f"{name} is missing"
    too = " or missing" if feature.has_missing else ""
    if feature.kind == "boolean":
        no, yes = (shown_category(text, feature.meaning) for text in ("false", "true"))
        return f"{name} is {no}", f"{name} is {yes}{too}"
    if (sides := coded_sides(float(feature.thresholds[cut]), feature.meaning)) is not None:
        return f"{name} is {sides[0]}", f"{name} is {sides[1]}{too}"
    shown = threshold_text(feature.thresholds, cut)
    return f"{name} <= {shown}", f"{name} > {shown}{too}"
