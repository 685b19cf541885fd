"""What training taught about one column, and what it makes of a new cell."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import repeat
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from dtgfn._support.arrays import Floats
from dtgfn.data.tables import Column, Kind, label, parse_number


@dataclass(frozen=True, eq=False)
class ColumnSpec:
    """What training taught about one column."""

    name: str
    kind: Kind
    thresholds: Floats  # [q] as in Feature; empty for categories
    categories: tuple[str, ...]  # sorted; of more than 254 the frequent ones, others are unseen
    has_missing: bool


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


def category_places(spec: ColumnSpec, column: Column) -> npt.NDArray[np.int16]:
    """Place of every row's category in spec.categories, their number if missing, else -1.

    A text is its category.  A number, or a truth value, is the one of its text or else one that
    spells it: read alone, the cells 007 and true may come as 7 and True.
    """
    place: dict[object, int] = {text: index for index, text in enumerate(spec.categories)}
    place[None] = len(spec.categories)
    if column.cells is None and column.kind == "category":
        return np.fromiter(map(place.get, column.values, repeat(-1)), np.int16, len(column.values))
    spelled = {
        kind: {parse(text): text for text in spec.categories}
        for kind, parse in ((False, parse_number), (True, _parse_truth))
    }
    index, cells = _distinct_cells(column)
    found = np.array([_place_of(cell, place, spelled) for cell in cells], dtype=np.int16)
    return found[index]


def _distinct_cells(column: Column) -> tuple[npt.NDArray[np.int64], list[Any]]:
    """Index [n] of every row's cell among the distinct ones, and these."""
    if column.cells is not None:
        place: dict[tuple[bool, Any], int] = {}  # 1 and True, though equal, are told apart
        keys = ((isinstance(cell, bool), cell) for cell in column.cells.tolist())
        index = [place.setdefault(key, len(place)) for key in keys]
        return np.array(index, dtype=np.int64), [cell for _, cell in place]
    distinct, inverse = np.unique(cast(Floats, column.values), return_inverse=True)
    truth = column.kind == "boolean"
    cells = [None if math.isnan(v) else bool(v) if truth else v for v in distinct.tolist()]
    return inverse.reshape(-1), cells


def _place_of(
    cell: Any, place: dict[object, int], spelled: dict[bool, dict[float | None, str]]
) -> int:
    if cell is None or isinstance(cell, str):
        return place.get(cell, -1)
    text = label(cell)
    if text not in place:
        text = spelled[isinstance(cell, bool)].get(float(cell), text)
    return place.get(text, -1)
