"""What ``dtgfn fit`` learns from: columns, target and weights of a table, and rows set aside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from dtgfn.cli import inputs
from dtgfn.cli.console import note

if TYPE_CHECKING:
    from dtgfn.data.tables import Column, Table

MANY_LABELS = 50  # numbers that are hardly classes any more


class Roles(NamedTuple):
    """Names of columns that are not predicted from, or are text; and whether gaps are left out."""

    target: str | None
    weight: str | None
    dropped: Sequence[str]
    as_text: Sequence[str]
    drop_missing_target: bool


class TrainingRows(NamedTuple):
    """Training rows: a table, what to predict, weights, and which rows of the file they are."""

    table: Table
    y: Any
    weight: Any
    numbers: Any


def training_rows(table: Table, roles: Roles, task: str) -> TrainingRows:
    """Take target, weights and dropped columns out of a table; all problems are told at once."""
    import numpy as np

    from dtgfn.data.problems import Problems
    from dtgfn.data.tables import split_column, take

    problems, y, weight = Problems(), None, None
    numbers = np.arange(table.n_rows)
    if roles.drop_missing_target and roles.target in table.names:
        numbers = _rows_with_target(table, str(roles.target))
        table = take(table, numbers)
    for name in roles.as_text:
        with problems.found():
            split_column(table, name)
    rest = table
    for name in roles.dropped:
        with problems.found():
            _, rest = split_column(rest, name)
    if roles.target is not None:
        with problems.found():
            column, rest = split_column(rest, roles.target)
            y = _target(column, task)
    if roles.weight is not None:
        with problems.found():
            weights, rest = split_column(rest, roles.weight)
            weight = _weight(weights)
    if rest.n_columns == 0:
        with problems.found():
            raise ValueError(
                f"There is no column besides {roles.target!r}; add some to predict it from."
            )
    problems.tell()
    return TrainingRows(rest, y, weight, numbers)


def _rows_with_target(table: Table, target: str) -> Any:
    """Return the numbers of the rows whose target is not empty, and say how many are left out."""
    import numpy as np
    import pandas

    from dtgfn.data.tables import split_column

    absent = pandas.isna(split_column(table, target)[0].values)
    if not absent.any() or absent.all():  # that every row lacks it is refused later
        return np.arange(table.n_rows)
    note(f"{absent.sum()} of {table.n_rows} rows have no {target!r} and are left out.")
    return np.flatnonzero(~absent)


def _weight(column: Column) -> Any:
    """Refuse, in the words of a file, what does not weigh rows."""
    import numpy as np

    if column.kind != "number":
        raise ValueError(
            f"Column {column.name!r} holds no numbers to use as --sample-weight; name another."
        )
    values = np.asarray(column.values, dtype=np.float64)
    bad = np.flatnonzero(~(values >= 0))
    if bad.size:
        raise ValueError(
            f"Column {column.name!r} is {values[bad[0]]:g} in row {bad[0] + 1} of the table, but "
            "--sample-weight must be 0 or more in every row; mend it, or name another."
        )
    return values


def _target(column: Column, task: str) -> Any:
    """Refuse, in the words of a file, a target that cannot be learned."""
    import pandas

    from dtgfn.data.tables import parse_number

    inputs.check_target(column)
    if task == "regress" and column.kind == "category":
        text = next((text for text in column.values if parse_number(text) is None), None)
        why = f"holds {text!r}, which is not a number" if text else "is read as text"
        raise ValueError(
            f"Column {column.name!r} {why}; leave out --task regress to predict classes."
        )
    if task == "regress":
        return column.values
    n_values = len(pandas.unique(column.values))
    if task == "classify" and n_values == 1:
        note(
            f"column {column.name!r} holds {column.values[0]!r} in every row, so there is nothing "
            "to tell apart; add rows of another class."
        )
    if task == "classify" and column.kind == "number" and n_values > MANY_LABELS:
        note(
            f"column {column.name!r} holds {n_values} different numbers, each a class of its own "
            "now; add --task regress to predict a number."
        )
    return inputs.labels(column)


def set_aside(
    rows: TrainingRows, share: float | None, seed: int | None
) -> tuple[TrainingRows, tuple[Table, Any] | None, list[int] | None]:
    """Split rows into those to fit, columns and truth of those to score on, and their numbers."""
    if share is None:
        return rows, None, None
    import numpy as np

    from dtgfn.data.tables import take

    n_rows = rows.table.n_rows
    n_others = round(share * n_rows)
    if not 0 < n_others < n_rows:
        raise ValueError(
            f"--test-size {share} leaves {n_others} of {n_rows} rows to score on; give another "
            "share, or more rows."
        )
    order = np.random.default_rng(seed).permutation(n_rows)
    kept, others = np.sort(order[n_others:]), np.sort(order[:n_others])
    weight = None if rows.weight is None else rows.weight[kept]
    y = np.asarray(rows.y)
    aside = take(rows.table, others), y[others]
    left = TrainingRows(take(rows.table, kept), y[kept], weight, rows.numbers[kept])
    return left, aside, rows.numbers[others].tolist()
