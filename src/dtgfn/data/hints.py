"""Hints: columns of a table that are hardly meant as they were read, and what to do."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from dtgfn._support.callers import levels_to_caller
from dtgfn.data.made_columns import MadeColumns
from dtgfn.data.tables import Column, Table, label, parse_number

FEW_TEXTS = 5  # as many may well be codes, of which some look like numbers
MANY_TEXTS = 30  # rows from which cells that never repeat look like an identifier
N_LOOKED_AT = 1000  # texts
RARE = 0.05  # share of a class below which accuracy says little
LIKE_A_DATE = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}")

# with a decimal comma, thousands apart, a unit of money or a percent sign
LIKE_A_NUMBER = re.compile(r"[-+]?[$€£]? ?\d[\d.,' ]*[$€£%]?")
DECIMAL_COMMA = re.compile(r"[-+]?\d+(,\d+)?")

# whole numbers that never repeat are an identifier if the column says so
CALLED_IDENTIFIER = re.compile(r"(.*[\W_])?(id|index|row|no|nr|key|uuid)\W*|unnamed: \d+")


class DataHint(UserWarning):
    """A column that is hardly meant as it was read: dates as text, identifiers, odd cells."""


def warn_of_oddities(table: Table) -> None:
    """Warn of every odd column of a training table, in the words of Python."""
    for name, oddity in oddities(table):
        warnings.warn(
            f"Column {name!r} {oddity}, or drop it.", DataHint, stacklevel=levels_to_caller()
        )


def imbalance(y: npt.NDArray[Any], positive: object, scored_by: str) -> str | None:
    """What to look at where one of two classes [n] is rare, ``scored_by`` some means.

    >>> imbalance(np.array([0] * 99 + [1]), 1, "dtgfn.evaluate").split(";")[0]
    "'1' is 1 of 100 rows, so always saying '0' is right in 99.0%"
    """
    labels, counts = np.unique(np.asarray(y).astype(str), return_counts=True)
    if len(labels) != 2 or counts.min() >= RARE * counts.sum():
        return None
    rare, common = (str(labels[k]) for k in (counts.argmin(), counts.argmax()))
    named = rare in ("1", "True") if positive is None else label(positive) == rare
    return (
        f"{rare!r} is {counts.min()} of {counts.sum()} rows, so always saying {common!r} is right "
        f"in {counts.max() / counts.sum():.1%}; look at the average precision and the log loss of "
        f"held-out rows ({scored_by}) beside their baseline"
        + ("." if named else f", with positive={rare!r}.")
    )


def warn_of_imbalance(y: npt.NDArray[Any], positive: object) -> None:
    """Warn where one of two classes is so rare that accuracy says little."""
    found = imbalance(y, positive, "dtgfn.evaluate")
    if found is not None:
        warnings.warn(found, DataHint, stacklevel=levels_to_caller())


def oddities(
    table: Table,
    keep: str = "declare it categorical, or in text_columns of read_table",
    first_row: int = 0,
) -> Iterator[tuple[str, str]]:
    """Yield the name of each column that is odd, and what is odd with the way out.

    ``keep`` says how a user declares that text is meant; rows count from ``first_row``.

    >>> from dtgfn.data.tables import as_table
    >>> dict(oddities(as_table([[f"{k},5"] for k in range(8)])))["x0"].split(";")[0]
    "looks like numbers such as '0,5' but counts as 8 categories"
    """
    if isinstance(table.columns, MadeColumns):
        return  # numbers without names, each of which would be made once more
    for column in table.columns:
        if column.meant:
            continue
        found = _oddity_of_text(column, keep, first_row) or _mixture(column, keep)
        if table.named and table.n_columns > 1:
            found = found or _oddity_of_numbers(column)
        if found:
            yield column.name, found


def _oddity_of_text(column: Column, keep: str, first_row: int) -> str | None:
    if column.kind != "category":
        return None
    texts = [text for text in column.values.tolist() if text is not None]
    distinct = dict.fromkeys(texts)
    words = [text for text in distinct if parse_number(text) is None]
    if texts and all(LIKE_A_DATE.match(text) for text in texts[:N_LOOKED_AT]):
        return (
            f"looks like dates but counts as {len(distinct)} categories; make them days with "
            "dates='number'"
        )
    if len(distinct) <= FEW_TEXTS:
        return None
    if not words:  # in Parquet and frames, where text is meant as text
        return f"holds numbers as text, {len(distinct)} categories; store them as numbers"
    if len(words) < len(distinct) / 2:
        row = column.values.tolist().index(words[0]) + first_row
        others = "" if len(words) == 1 else f" and {len(words) - 1} more such texts"
        return (
            f"is mostly numbers but holds {words[0]!r} in row {row}{others}, so all of it counts "
            f"as {len(distinct)} categories; mend that or empty it"
        )
    if all(LIKE_A_NUMBER.fullmatch(text) for text in distinct):
        comma = all(DECIMAL_COMMA.fullmatch(text) for text in distinct)
        way_out = "read the file with decimal=','" if comma else "write them as plain numbers"
        return (
            f"looks like numbers such as {words[0]!r} but counts as {len(distinct)} categories; "
            f"{way_out}"
        )
    if len(distinct) == len(texts) >= MANY_TEXTS:
        return f"has another text in every row, as an identifier has; if it is meant, {keep}"
    return None


def _mixture(column: Column, keep: str) -> str | None:
    """Cells of several types, where the column's kind hides it."""
    if column.cells is None:
        return None
    seen: dict[str, object] = {}
    for cell in column.cells.tolist():
        if cell is not None:
            what = "text" if isinstance(cell, str) else "numbers"
            seen.setdefault("truth values" if isinstance(cell, bool) else what, cell)
    if len(seen) < 2:
        return None
    if "text" not in seen:
        return "mixes truth values with numbers, so true counts as 1; make it one or the other"
    other = next(what for what in seen if what != "text")
    return (
        f"mixes {other} such as {seen[other]!r} with text such as {seen['text']!r}, so every cell "
        f"counts as text; make it one or the other (if it is meant, {keep})"
    )


def _oddity_of_numbers(column: Column) -> str | None:
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", column.name).strip().lower()
    if column.kind != "number" or not CALLED_IDENTIFIER.fullmatch(name):
        return None
    values = np.asarray(column.values, dtype=np.float64)
    if len(np.unique(values)) < max(len(values), MANY_TEXTS) or (values != np.rint(values)).any():
        return None
    return "has another whole number in every row, as an identifier has; keep it if it says more"
