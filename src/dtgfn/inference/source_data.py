"""Training data from a source: one pass learns its columns, a second codes its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, NoReturn, cast

import numpy as np
import numpy.typing as npt

from dtgfn._support.arrays import Array, Floats
from dtgfn._support.checks import check_weights
from dtgfn._support.progress import Progress, silent
from dtgfn.data.binning import Binner, encode
from dtgfn.data.column_summaries import TableSummary
from dtgfn.data.equal_rows import CodedRows
from dtgfn.data.open_source import is_source, open_source
from dtgfn.data.row_store import RowStore
from dtgfn.data.sources import Reread, Source
from dtgfn.data.tables import Column, Table, TableError, split_column, take
from dtgfn.data.targets import MAX_CLASSES, MAX_NUMBER, encode_labels
from dtgfn.data.thresholds import Binning


@dataclass(frozen=True)
class TrainingSource:
    """A source, and which of its columns are the target and the rows' weights.

    ``class_factors``, given the classes [C] and how many rows each has [C], returns what the
    weights of their rows are multiplied by [C].
    """

    source: Source
    target: str
    weight: str | None = None
    class_factors: Callable[[Array, Floats], Floats] | None = None

    def __post_init__(self) -> None:
        for name in self.roles:
            self.source.check_column(name)
        if self.weight == self.target:
            raise TableError(f"y and sample_weight are both {self.target!r}; name two columns.")
        if not self.names:
            raise TableError(
                f"There is no column besides {self.target!r} in {self.source.what}; add some to "
                "predict it from."
            )

    @property
    def roles(self) -> tuple[str, ...]:
        """Columns that are not predicted from."""
        return (self.target,) if self.weight is None else (self.target, self.weight)

    @property
    def names(self) -> tuple[str, ...]:
        """Columns that are predicted from."""
        return tuple(name for name in self.source.names if name not in self.roles)

    def chunks(self, progress: Progress, stage: str) -> Iterator[Chunk]:
        """Read rows that weigh something, target and weights apart."""
        n_before = 0
        for table in self.source.chunks(progress, stage):
            whole, weights = table, None
            if self.weight is not None:
                column, table = split_column(table, self.weight)
                weights = _weights(column, self.source.what, n_before)
            target, table = split_column(table, self.target)
            _refuse_missing(target, self.source.what, n_before)
            n_before += whole.n_rows
            if weights is not None and not weights.all():
                present = weights > 0
                target = replace(target, values=target.values[present])
                table, weights = take(table, present), weights[present]
            if table.n_rows:
                yield Chunk(table, target, weights)


def training_source(X: Any, y: Any, sample_weight: Any = None) -> TrainingSource | None:
    """Return what is to be read in chunks, None if X is a table in memory.

    A lazy frame with a target that is no column of it counts as a table: it is collected.
    """
    if not is_source(X) or (hasattr(X, "collect") and not isinstance(y, str | None)):
        return None
    source = open_source(X)
    for name, given in (("y", y), ("sample_weight", sample_weight)):
        optional = name == "sample_weight" and given is None
        if not isinstance(given, str) and not optional:
            shown = "None" if given is None else f"a {type(given).__name__}"
            raise ValueError(
                f"{name} is {shown}, but {source.what} is read in chunks; name a column of it, as "
                f"in {name}={source.names[-1]!r}."
            )
    return TrainingSource(source, y, sample_weight)


class Chunk(NamedTuple):
    """Some rows: columns to predict from, the target, and weights [n] unless all are one."""

    table: Table
    target: Column
    weights: Floats | None


class Learned(NamedTuple):
    """What the first pass tells: how to code rows, and of classes how many rows each has."""

    training: TrainingSource
    binner: Binner
    labels: dict[Any, int]
    n_rows: int


class SourceRows(NamedTuple):
    """Coded rows whose target is a class 0..C-1, or a number in its own units."""

    rows: CodedRows
    binner: Binner
    classes: Array | None


def read_rows(
    training: TrainingSource,
    *,
    of_classes: bool,
    binning: Binning,
    n_thresholds: int,
    classes: npt.ArrayLike | None = None,
    merge: bool = True,
    progress: Progress = silent,
) -> SourceRows:
    """Learn thresholds and categories of a source, then code its rows; equal ones become one.

    ``classes`` names all classes where the target may lack some.
    """
    learned = _learn(training, of_classes, binning, n_thresholds, progress)
    if not of_classes:
        return SourceRows(_code(learned, None, None, merge, progress), learned.binner, None)
    present = _sorted_classes(learned)
    known = present if classes is None else np.unique(np.asarray(classes))
    factors = None
    if training.class_factors is not None:
        n_each = np.array([learned.labels.get(label, 0) for label in known.tolist()], np.float64)
        factors = training.class_factors(known, n_each)
    return SourceRows(_code(learned, known, factors, merge, progress), learned.binner, known)


def _learn(
    training: TrainingSource,
    of_classes: bool,
    binning: Binning,
    n_thresholds: int,
    progress: Progress,
) -> Learned:
    """Read once; again from the beginning where a column turns out to be text."""
    while True:
        summary = TableSummary(binning, n_thresholds)
        labels: dict[Any, int] = {}
        n_rows = 0
        try:
            for chunk in training.chunks(progress, "learning the columns of"):
                _check_target(chunk.target, of_classes)
                if of_classes:
                    _count_labels(chunk.target, labels)
                summary.add(chunk.table, chunk.weights)
                n_rows += chunk.table.n_rows
        except Reread as again:
            training = replace(training, source=again.source)
            continue
        if n_rows == 0:
            raise ValueError(
                f"All rows of {training.source.what} weigh nothing; give some a weight."
            )
        return Learned(training, summary.binner(), labels, n_rows)


def _code(
    learned: Learned,
    classes: Array | None,
    factors: Floats | None,
    merge: bool,
    progress: Progress,
) -> CodedRows:
    store, n_rows = RowStore(merge), 0
    try:
        for chunk in learned.training.chunks(progress, "coding"):
            n_rows += chunk.table.n_rows
            weight = np.ones(chunk.table.n_rows) if chunk.weights is None else chunk.weights
            target: Any = cast(Floats, chunk.target.values) + 0.0 if classes is None else None
            if classes is not None:
                target = _encoded(chunk.target, classes, learned)
                weight = weight if factors is None else weight * factors[target]
            codes = encode(learned.binner, chunk.table)
            present = weight > 0  # a class may weigh nothing
            rows = CodedRows(codes, target, weight)
            store.add(rows if present.all() else rows.take(present))
    except Reread:
        _refuse_change(learned)
    except BaseException:
        store.close()
        raise
    if n_rows != learned.n_rows:
        _refuse_change(learned)
    return store.finish()


def _refuse_change(learned: Learned) -> NoReturn:
    raise TableError(
        f"{learned.training.source.what} changed while it was read; start again when nobody writes "
        "to it."
    )


def _weights(column: Column, what: str, n_before: int) -> Floats:
    """Weights of a chunk; refuse what is none."""
    if column.kind == "category":
        raise TableError(
            f"Column {column.name!r} of {what} holds no numbers to use as sample_weight; name "
            "another."
        )
    _refuse_missing(column, what, n_before)
    values = cast(Floats, column.values)
    return cast(Floats, check_weights(values, len(values), none_weighs=True))


def _refuse_missing(column: Column, what: str, n_before: int) -> None:
    import pandas

    absent = np.flatnonzero(pandas.isna(column.values))
    if absent.size:
        raise TableError(
            f"Column {column.name!r} of {what} is empty in row {n_before + absent[0] + 1}; drop "
            "such rows, or fill it."
        )


def _check_target(column: Column, of_classes: bool) -> None:
    """Refuse numbers that are no classes, and texts or sizes that are no numbers."""
    if of_classes and column.kind == "number":
        numbers = cast(Floats, column.values)
        broken = numbers[numbers != np.rint(numbers)]
        if broken.size:
            raise ValueError(
                f"Column {column.name!r} holds numbers such as {broken[0]:g}, not classes; bin it, "
                "or predict a number (DTGFNRegressor)."
            )
        if (np.abs(numbers) > 2**53).any():
            raise ValueError(
                f"Column {column.name!r} holds numbers too large to be told apart; make them text."
            )
    if not of_classes and column.kind == "category":
        raise ValueError(
            f"Column {column.name!r} holds {column.values[0]!r}, which is not a number; predict "
            "classes (DTGFNClassifier)."
        )
    if not of_classes and (largest := np.abs(cast(Floats, column.values)).max()) > MAX_NUMBER:
        raise ValueError(
            f"Column {column.name!r} holds {largest:g}, larger than {MAX_NUMBER:g}; rescale it."
        )


def _count_labels(column: Column, labels: dict[Any, int]) -> None:
    """Count the labels of a chunk; ever more of them are no classes."""
    found, count = np.unique(_labels(column), return_counts=True)
    for label, n in zip(found.tolist(), count.tolist(), strict=True):
        labels[label] = labels.get(label, 0) + n
    if len(labels) > MAX_CLASSES:
        raise ValueError(
            f"Column {column.name!r} has more than {MAX_CLASSES} distinct labels; is it an "
            "identifier, or a number to predict (DTGFNRegressor)?"
        )


def _labels(column: Column) -> Array:
    """Class labels as frames have them: whole numbers, truth values or text."""
    types = {"number": np.int64, "boolean": np.bool_, "category": object}
    return column.values.astype(types[column.kind])


def _sorted_classes(learned: Learned) -> Array:
    labels = list(learned.labels)
    return np.unique(np.array(labels, dtype=object if isinstance(labels[0], str) else None))


def _encoded(column: Column, classes: Array, learned: Learned) -> Array:
    """Index of each label among the classes; one that the first pass has not seen is a change."""
    labels = _labels(column)
    try:
        return encode_labels(labels, classes)
    except ValueError:
        if set(labels.tolist()) <= set(learned.labels):
            raise
        _refuse_change(learned)
