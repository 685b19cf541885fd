"""Pass one: what each partition says of its columns, target and weights, and what all say together.

Everything is merged without rounding, so that what is learned does not depend on the partitions:
ranges and categories as they are, sums of numbers exactly (``whole_numbers.py``).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from dtgfn._support.arrays import Floats
from dtgfn._support.checks import check_weights
from dtgfn.dask.whole_numbers import exact_sum
from dtgfn.data.tables import Column, Kind, Table, as_table, listing, take, without_order
from dtgfn.data.targets import as_target, check_classes, check_numbers

MOST_WEIGHT = 1e11  # of all rows; beyond, differences of log gammas lose their digits
CATEGORY_UNITS = 2**20  # weights of categories are counted in so many parts of one


@dataclass
class ColumnFacts:
    """What is known of a column; ``kind`` is None while nothing but missing values was seen."""

    name: str
    kind: Kind | None = None
    seen_in: int = 0  # the partition that told the kind
    low: float = math.inf
    high: float = -math.inf
    masses: Counter[str] = field(default_factory=Counter)
    has_missing: bool = False


@dataclass
class Facts:
    """What is known of some rows; ``classes`` is None of numbers, and the three sums of classes.

    Weights of zero do not count, as if their rows were not there.
    """

    n_rows: int = 0
    columns: list[ColumnFacts] = field(default_factory=list)
    named: bool = False
    weight: Fraction = Fraction(0)
    whole_weights: bool = True
    classes: npt.NDArray[Any] | None = None
    label_kind: tuple[str, int] = ("", 0)  # text or numbers, and the partition that told
    target: Fraction = Fraction(0)  # weight times number, added up
    lowest: float = math.inf
    highest: float = -math.inf


def read_part(
    number: int, x: Any, y: Any, weight: Any, numbers: bool
) -> tuple[Table, npt.NDArray[Any], Floats] | None:
    """Rows of a partition that count, their targets and weights; None if there are none."""
    if len(x) != len(y) or (weight is not None and len(weight) != len(x)):
        other = "y" if len(x) != len(y) else "sample_weight"
        n_other = len(y) if other == "y" else len(weight)
        raise ValueError(
            f"Partition {number} has {len(x)} rows in X but {n_other} in {other}; give both the "
            "same partitions, such as columns of the same frame."
        )
    if not len(x):
        return None
    try:
        table, target = without_order(as_table(x)), as_target(y)
        target = check_numbers(target) if numbers else check_classes(target)
        given = check_weights(weight, table.n_rows, none_weighs=True)
    except (TypeError, ValueError) as refusal:
        raise type(refusal)(f"In partition {number}: {refusal}") from None
    if given is None:
        return table, target, np.ones(table.n_rows)
    there = given > 0
    if not there.any():
        return None
    return take(table, there), target[there], given[there]


def facts_of_part(number: int, x: Any, y: Any, weight: Any, numbers: bool) -> Facts:
    """What one partition says."""
    read = read_part(number, x, y, weight, numbers)
    if read is None:
        return Facts()
    table, target, weights = read
    facts = Facts(table.n_rows, named=table.named)
    facts.columns = [facts_of_column(number, column, weights) for column in table.columns]
    facts.weight = exact_sum(weights)
    facts.whole_weights = bool((weights == np.rint(weights)).all())
    if numbers:
        facts.target = exact_sum(weights * target)
        facts.lowest, facts.highest = float(target.min()), float(target.max())
    else:
        facts.classes = np.unique(target)
        text = facts.classes.dtype.kind in "OUST"
        facts.label_kind = ("text" if text else "numbers", number)
    return facts


def facts_of_column(number: int, column: Column, weights: Floats) -> ColumnFacts:
    """What one partition says of one column."""
    facts = ColumnFacts(column.name, seen_in=number)
    if column.kind == "category":
        cells = column.values
        present = np.array([cell is not None for cell in cells])
        distinct, member = np.unique(cells[present].astype(str), return_inverse=True)
        units = np.maximum(np.rint(weights[present] * CATEGORY_UNITS), 1)
        masses = np.bincount(member, units, len(distinct)) if len(distinct) else np.zeros(0)
        facts.masses = Counter(
            {str(name): int(mass) for name, mass in zip(distinct, masses, strict=True)}
        )
    else:
        values = cast(Floats, column.values)
        present = ~np.isnan(values)
        if present.any():
            facts.low, facts.high = float(values[present].min()), float(values[present].max())
    facts.has_missing = not present.all()
    facts.kind = column.kind if present.any() else None
    return facts


def merge_facts(several: Sequence[Facts]) -> Facts:
    """What some partitions say together; refuse what does not fit together."""
    total = Facts()
    for facts in several:
        if not facts.n_rows:
            continue
        if not total.n_rows:
            total.columns = [ColumnFacts(each.name) for each in facts.columns]
            total.named, total.label_kind = facts.named, facts.label_kind
        check_same_columns(total, facts)
        for mine, theirs in zip(total.columns, facts.columns, strict=True):
            merge_column(mine, theirs)
        if facts.classes is not None:
            total.classes = merge_classes(total, facts)
        total.n_rows += facts.n_rows
        total.weight += facts.weight
        total.whole_weights &= facts.whole_weights
        total.target += facts.target
        total.lowest = min(total.lowest, facts.lowest)
        total.highest = max(total.highest, facts.highest)
    return total


def check_same_columns(total: Facts, facts: Facts) -> None:
    """Refuse partitions of different columns."""
    ours, theirs = ([each.name for each in some.columns] for some in (total, facts))
    if ours != theirs:
        where = facts.columns[0].seen_in if facts.columns else 0
        raise ValueError(
            f"Partition {where} has the columns {listing(theirs)}, but others have "
            f"{listing(ours)}; give every partition the same columns in the same order."
        )


def merge_column(mine: ColumnFacts, theirs: ColumnFacts) -> None:
    """Add what other partitions say of a column."""
    if mine.kind is not None and theirs.kind is not None and mine.kind != theirs.kind:
        raise ValueError(
            f"Column {mine.name!r} is a {mine.kind} in partition {mine.seen_in}, but a "
            f"{theirs.kind} in partition {theirs.seen_in}; give it one dtype in all of them, as "
            f"with X.astype({{{mine.name!r}: str}})."
        )
    if mine.kind is None:
        mine.kind, mine.seen_in = theirs.kind, theirs.seen_in
    mine.low, mine.high = min(mine.low, theirs.low), max(mine.high, theirs.high)
    mine.masses.update(theirs.masses)
    mine.has_missing |= theirs.has_missing


def merge_classes(total: Facts, facts: Facts) -> npt.NDArray[Any]:
    """All labels of both; refuse text beside numbers."""
    assert facts.classes is not None
    if total.classes is None:
        return facts.classes
    if total.label_kind[0] != facts.label_kind[0]:
        (ours, here), (theirs, there) = total.label_kind, facts.label_kind
        raise ValueError(
            f"y holds {ours} in partition {here}, but {theirs} in partition {there}; make all of "
            "it text, as with y.astype(str)."
        )
    return np.unique(np.concatenate([total.classes, facts.classes]))


def check_facts(facts: Facts) -> None:
    """Refuse a table without rows, and weights that are too large."""
    if not facts.n_rows:
        raise ValueError(
            "No partition of X has a row that counts; give at least one row of a weight above 0."
        )
    if facts.weight > MOST_WEIGHT:
        raise ValueError(
            f"The rows weigh {float(facts.weight):g} together, more than {MOST_WEIGHT:g}; "
            "give a sample_weight that is divided by a constant (it counts as that many rows)."
        )
