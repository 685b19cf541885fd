"""Conditions: what a path through a tree demands of each column, said once per column."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from dtgfn._support.printable import visible
from dtgfn.data.binning import Binner
from dtgfn.data.thresholds import threshold_text
from dtgfn.trees.batch import TreeBatch


class Turn(NamedTuple):
    """One step down a path: the split's feature and cut, and which way it went."""

    feature: int
    cut: int
    goes_right: bool


@dataclass(frozen=True)
class Interval:
    """A number or boolean column whose code must lie from ``lowest`` to ``highest``.

    With q thresholds the codes 0..q are those of numbers, q + 1 is that of a missing value.
    """

    column: int
    lowest: int
    highest: int


@dataclass(frozen=True)
class Choice:
    """A category column: ``only`` this category, or none of those ``excluded``.

    ``missing`` is True if the cell must be missing, False if it must not, None if it may.
    """

    column: int
    only: str | None = None
    excluded: tuple[str, ...] = ()
    missing: bool | None = None


Condition = Interval | Choice


def paths_to_leaves(trees: TreeBatch, b: int) -> list[tuple[int, tuple[Turn, ...]]]:
    """Leaves of tree ``b``, from left to right, each with the turns that lead there."""
    found: list[tuple[int, tuple[Turn, ...]]] = []
    pending: list[tuple[int, tuple[Turn, ...]]] = [(0, ())]
    feature, cut, left = (part[b].tolist() for part in (trees.feature, trees.cut, trees.left))
    while pending:
        node, turns = pending.pop()
        if feature[node] < 0:
            found.append((node, turns))
            continue
        for goes_right in (True, False):  # the left side is taken up first
            turn = Turn(feature[node], cut[node], goes_right)
            pending.append((left[node] + goes_right, (*turns, turn)))
    return found


def gather_conditions(binner: Binner, turns: Iterable[Turn]) -> tuple[Condition, ...]:
    """Merge the turns of a path into one condition per column, in the order of their first use.

    Examples
    --------
    >>> from dtgfn.data.binning import fit_binner
    >>> from dtgfn.data.tables import as_table
    >>> binner = fit_binner(as_table([[0.0], [4.0]]), n_thresholds=3)
    >>> path = [Turn(0, 2, False), Turn(0, 0, True)]
    >>> [condition_text(binner, condition) for condition in gather_conditions(binner, path)]
    ['1 < x0 <= 3']

    """
    found: dict[int, Condition] = {}
    for turn in turns:
        column = binner.features[turn.feature].column
        if binner.columns[column].kind == "category":
            found[column] = _narrow_choice(binner, found.get(column, Choice(column)), turn)
        else:
            q = len(binner.columns[column].thresholds)
            found[column] = _narrow_interval(found.get(column, Interval(column, 0, q + 1)), turn)
    return tuple(found.values())


def _narrow_interval(now: Condition, turn: Turn) -> Interval:
    assert isinstance(now, Interval)
    if turn.goes_right:
        return Interval(now.column, max(now.lowest, turn.cut + 1), now.highest)
    return Interval(now.column, now.lowest, min(now.highest, turn.cut))


def _narrow_choice(binner: Binner, now: Condition, turn: Turn) -> Choice:
    """Say the most that is known: being one category excludes all others, and being missing."""
    assert isinstance(now, Choice)
    feature = binner.features[turn.feature]
    if turn.goes_right and feature.kind == "missing":
        return Choice(now.column, missing=True)
    if turn.goes_right:
        return Choice(now.column, only=feature.category)
    if now.only is not None or now.missing:
        return now
    if feature.kind == "missing":
        return replace(now, missing=False)
    return replace(now, excluded=tuple(sorted({*now.excluded, str(feature.category)})))


def condition_text(binner: Binner, condition: Condition) -> str:
    """Words for a condition, in the user's units."""
    spec = binner.columns[condition.column]
    name = visible(spec.name)
    if isinstance(condition, Choice):
        return f"{name} {_choice_words(condition)}"
    known = _interval_words(binner, condition)
    if known is not None:
        return f"{name} {known}"
    low, high = _bounds(binner, condition)
    if low is not None and high is not None:
        return f"{low} < {name} <= {high}"
    if high is not None:
        return f"{name} <= {high}"
    may_miss = spec.has_missing and condition.highest > len(spec.thresholds)
    return f"{name} > {low}" + (" or missing" if may_miss else "")


def met_text(binner: Binner, condition: Condition, cell: str | None, known: bool = True) -> str:
    """Words for how a row meets a condition; ``cell`` is its value as text, None if missing.

    ``known`` tells whether training had this category.
    """
    spec = binner.columns[condition.column]
    name, cell = visible(spec.name), None if cell is None else visible(cell)
    if isinstance(condition, Choice):
        return f"{name} {_met_choice(condition, cell, known)}"
    words = _interval_words(binner, condition)
    if words == "is missing":
        return f"{name} is missing"
    low, high = _bounds(binner, condition)
    if cell is None:
        side = "true" if spec.kind == "boolean" else f"above {low}"
        return f"{name} is missing, as good as {side}"
    if words == "is present":
        return f"{name} = {cell} is present"
    if spec.kind == "boolean":
        return f"{name} is {cell}"
    sides = [f"above {low}"] * (low is not None) + [f"at most {high}"] * (high is not None)
    return f"{name} = {cell} is {' and '.join(sides)}"


def _interval_words(binner: Binner, condition: Interval) -> str | None:
    """Words for an interval that has no threshold in it, None for one that has."""
    spec = binner.columns[condition.column]
    q = len(spec.thresholds)
    if condition.lowest > q:
        return "is missing"
    if condition.lowest == 0 and condition.highest == q:
        return "is present"
    if spec.kind != "boolean":
        return None
    if condition.highest == 0:
        return "is false"
    return "is true or missing" if spec.has_missing and condition.highest > q else "is true"


def _bounds(binner: Binner, condition: Interval) -> tuple[str | None, str | None]:
    """The thresholds that an interval lies between."""
    thresholds = binner.columns[condition.column].thresholds
    low = threshold_text(thresholds, condition.lowest - 1) if condition.lowest > 0 else None
    inside = condition.highest < len(thresholds)
    return low, threshold_text(thresholds, condition.highest) if inside else None


def _choice_words(condition: Choice) -> str:
    if condition.only is not None:
        return f"is {visible(condition.only)}"
    if condition.missing:
        return "is missing"
    parts = ["present"] * (condition.missing is False) + [_none_of(condition)] * bool(
        condition.excluded
    )
    return "is " + " and ".join(parts)


def _met_choice(condition: Choice, cell: str | None, known: bool) -> str:
    if cell is None:
        return "is missing" + (f", so {_none_of(condition)}" if condition.excluded else "")
    shown = f"= {cell}" if known else f"= {cell} (not known from training)"
    if condition.only is not None:
        return shown
    return f"{shown} {_choice_words(condition)}"


def _none_of(condition: Choice) -> str:
    if len(condition.excluded) == 1:
        return f"not {visible(condition.excluded[0])}"
    return f"none of {', '.join(map(visible, condition.excluded))}"
