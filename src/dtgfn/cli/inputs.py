"""Tables that a command reads: the columns a model wants, and what was guessed of the others."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dtgfn.cli.console import note
from dtgfn.cli.messages import in_flags, noted_warnings
from dtgfn.cli.options import MisuseError

if TYPE_CHECKING:
    from dtgfn._support.progress import Progress
    from dtgfn.data.csv_dialect import CsvDialect
    from dtgfn.data.sources import Source
    from dtgfn.data.tables import Column, Kind, Table

LARGE = 100_000_000  # bytes of a file from which on it is read in chunks


def read(source: str, written: CsvDialect, text_columns: Sequence[str], progress: bool) -> Table:
    """Read a table to fit to, and tell what was guessed."""
    from dtgfn._support.progress import progress_bar

    with noted_warnings(), progress_bar(progress) as show:
        return _read(source, written, text_columns, show)


def read_known(
    source: str, written: CsvDialect, text_columns: Sequence[str], progress: Progress
) -> Table:
    """Read a table whose columns of text are known, so that nothing has to be told."""
    with as_they_are():
        return _read(source, written, text_columns, progress)


def read_large(
    model: Any,
    source: str,
    written: CsvDialect,
    columns: tuple[Sequence[str], Sequence[str], Sequence[str]],
    progress: Progress,
) -> Iterator[Table]:
    """Read rows to predict in chunks, and of a model that knows names no columns but its own.

    ``columns`` are those that stay text, that are copied and that are left out.
    """
    from dtgfn.data.open_source import open_file
    from dtgfn.data.sources import read_settled

    text, copied, dropped = columns
    with as_they_are():
        found = open_file(source, **asdict(written), text_columns=text)
    for name in (*copied, *dropped):
        found.check_column(name)
    if hasattr(model, "feature_names_in_"):
        check_names_of(model.binner_.column_names, found.without(dropped))
        found = found.only([*model.binner_.column_names, *copied, *dropped])
    return read_settled(found, progress, "predicting")


@contextmanager
def as_they_are() -> Iterator[None]:
    """Do not warn of numbers that look like codes: what a column is was told in training."""
    from dtgfn.data.hints import DataHint

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataHint)
        yield


def _read(source: str, written: CsvDialect, as_text: Sequence[str], progress: Progress) -> Table:
    from dtgfn.data.table_files import read_table

    return read_table(source, **asdict(written), text_columns=as_text, progress=progress)


def dialect(separator: str | None, encoding: str, decimal: str) -> CsvDialect:
    """How a text file is written; "tab" and a backslash with t are hard to type otherwise."""
    from dtgfn.data.csv_dialect import check_dialect

    given = {"tab": "\t", "\\t": "\t", "space": " "}.get(separator or "", separator)
    if given is not None and (len(given) != 1 or given in '"\n\r'):
        raise MisuseError(
            f"--separator {separator!r} is not one character; give such as ';' or tab."
        )
    return check_dialect(given, encoding, decimal)


def drop(table: Table, names: Sequence[str]) -> Table:
    """Return the table without some of its columns."""
    from dtgfn.data.tables import split_column

    for name in names:
        _, table = split_column(table, name)
    return table


def is_large(source: str) -> bool:
    """Whether a table is read in chunks: a folder, or a file of ``LARGE`` bytes or more."""
    path = Path(source)
    return source != "-" and (path.is_dir() or (path.is_file() and path.stat().st_size >= LARGE))


def open_large(source: str, written: CsvDialect, text_columns: Sequence[str]) -> Source:
    """Open a table that is read in chunks, and tell what was guessed."""
    from dtgfn.data.open_source import open_file

    with noted_warnings():
        return open_file(source, **asdict(written), text_columns=text_columns)


def kinds_of(table: Table) -> dict[str, Kind]:
    """Name and kind of every column."""
    return {column.name: column.kind for column in table.columns}


def kinds_text(kinds: Mapping[str, Kind]) -> str:
    """What the columns were taken for, in one line.

    >>> kinds_text({"a": "number", "b": "category", "c": "boolean"})
    "1 number; 1 category: 'b'; 1 boolean: 'c'"
    """
    from dtgfn.data.tables import listing

    said = []
    for kind, many in (("number", "numbers"), ("category", "categories"), ("boolean", "booleans")):
        names = [name for name, found in kinds.items() if found == kind]
        if names:
            count = f"{len(names)} {kind if len(names) == 1 else many}"
            said.append(count if kind == "number" else f"{count}: {listing(names, 8)}")
    return "; ".join(said)


def note_odd_columns(table: Table) -> None:
    """Point out what is hardly meant as it was read, in the words of the command line."""
    from dtgfn.data.hints import oddities

    for name, oddity in oddities(table, keep="name it in --text-columns", first_row=1):
        note(in_flags(f"column {name!r} {oddity}, or --drop {name!r}."))


def text_columns_of(model: Any) -> list[str]:
    """Columns that a model knows as categories, to be read as the text they were."""
    return [spec.name for spec in model.binner_.columns if spec.kind == "category"]


def columns_for(model: Any, table: Table, tell: bool = True) -> Table:
    """Return the columns that a model was fitted with; others, as the target, do not matter."""
    from dtgfn.data.tables import Table, keep_columns, listing

    wanted = model.binner_.column_names
    if hasattr(model, "feature_names_in_") or set(wanted) <= set(table.names):
        check_names_of(wanted, table)
        return keep_columns(table, wanted)
    if table.n_columns != len(wanted):
        raise ValueError(
            f"The model was fitted without column names and knows {len(wanted)} columns by their "
            f"position, but the table has {table.n_columns}; leave out the others with --drop."
        )
    if tell:
        note(
            "the model was fitted without column names, so columns count by their position: "
            f"{listing(table.names)}."
        )
    renamed = zip(wanted, table.columns, strict=True)
    return Table(tuple(replace(old, name=name) for name, old in renamed), table.n_rows, True)


def check_names_of(wanted: Sequence[str], table: Table | Source) -> None:
    """Refuse a table that lacks a column of these names."""
    from dtgfn.data.tables import listing

    missing = [name for name in wanted if name not in table.names]
    if missing:
        raise ValueError(
            f"The table lacks {listing(missing)}, which the model is fitted with; its columns are "
            f"{listing(table.names)}."
        )


def labels(column: Column) -> Any:
    """Class labels of a target column; numbers must be whole to count as classes."""
    import numpy as np

    values = column.values
    if column.kind == "boolean" and not np.isnan(values.astype(float)).any():
        return values.astype(bool)
    if column.kind == "number":
        numbers = values.astype(float)
        present = numbers[~np.isnan(numbers)]
        broken = present[present != np.rint(present)]
        if broken.size:
            raise ValueError(
                f"Column {column.name!r} holds numbers such as {broken[0]:g}, not classes; "
                "add --task regress to predict numbers."
            )
        if (np.abs(present) > 2**53).any():
            raise ValueError(
                f"Column {column.name!r} holds numbers too large to be told apart; "
                f"add --text-columns {column.name!r}."
            )
        if len(present) == len(numbers):
            return numbers.astype(np.int64)
    return values


def check_target(column: Column) -> None:
    """Refuse a target with empty cells, in the words of a file."""
    import pandas

    absent = pandas.isna(column.values)
    if absent.any():
        which = "every row" if absent.all() else f"row {int(absent.argmax()) + 1} of the table"
        raise ValueError(f"Column {column.name!r} is empty in {which}; drop such rows, or fill it.")


def by_label(texts: Any, classes: Any) -> Any:
    """Give weights that were typed to the classes of that name."""
    from dtgfn.data.tables import label

    if not isinstance(texts, dict):
        return texts
    known = {label(value): value for value in getattr(classes, "tolist", lambda: classes)()}
    return {known.get(text, text): weight for text, weight in texts.items()}
