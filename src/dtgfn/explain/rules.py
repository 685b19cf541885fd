"""Rules: what the path to a leaf demands of each column, said once per column, and frames of it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from dtgfn._support.printable import visible
from dtgfn.data.binning import Binner
from dtgfn.data.meanings import Meaning, codes_between, shown_category, shown_name
from dtgfn.data.thresholds import threshold_text
from dtgfn.explain.tree_set import TreeSet, Which, take_trees
from dtgfn.trees.batch import TreeBatch

if TYPE_CHECKING:
    import pandas

ALWAYS = "always"
# Of a category: signs and words that rules are made of.
_MISREAD = re.compile(r"[<>=,;:]|\b(?:and|or|is|not|none of|missing|present)\b|^$", re.IGNORECASE)


class PathStep(NamedTuple):
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


def paths_to_leaves(trees: TreeBatch, b: int) -> list[tuple[int, tuple[PathStep, ...]]]:
    """Leaves of tree ``b``, from left to right, each with the steps that lead there."""
    found: list[tuple[int, tuple[PathStep, ...]]] = []
    pending: list[tuple[int, tuple[PathStep, ...]]] = [(0, ())]
    feature, cut, left = (part[b].tolist() for part in (trees.feature, trees.cut, trees.left))
    while pending:
        node, steps = pending.pop()
        if feature[node] < 0:
            found.append((node, steps))
            continue
        for goes_right in (True, False):  # the left side is taken up first
            step = PathStep(feature[node], cut[node], goes_right)
            pending.append((left[node] + goes_right, (*steps, step)))
    return found


def gather_conditions(binner: Binner, steps: Iterable[PathStep]) -> tuple[Condition, ...]:
    """Merge the steps of a path into one condition per column, in the order of their first use.

    Examples
    --------
    >>> from dtgfn.data.binning import fit_binner
    >>> from dtgfn.data.tables import as_table
    >>> binner = fit_binner(as_table([[0.0], [4.0]]), n_thresholds=3)
    >>> path = [PathStep(0, 2, False), PathStep(0, 0, True)]
    >>> [condition_text(binner, condition) for condition in gather_conditions(binner, path)]
    ['1 < x0 <= 3']

    """
    found: dict[int, Condition] = {}
    for step in steps:
        column = binner.features[step.feature].column
        if binner.columns[column].kind == "category":
            found[column] = _narrow_choice(binner, found.get(column, Choice(column)), step)
        else:
            q = len(binner.columns[column].thresholds)
            found[column] = _narrow_interval(found.get(column, Interval(column, 0, q + 1)), step)
    return tuple(found.values())


def _narrow_interval(now: Condition, step: PathStep) -> Interval:
    assert isinstance(now, Interval)
    if step.goes_right:
        return Interval(now.column, max(now.lowest, step.cut + 1), now.highest)
    return Interval(now.column, now.lowest, min(now.highest, step.cut))


def _narrow_choice(binner: Binner, now: Condition, step: PathStep) -> Choice:
    """Say the most that is known: being one category excludes all others, and being missing."""
    assert isinstance(now, Choice)
    feature = binner.features[step.feature]
    if step.goes_right and feature.kind == "missing":
        return Choice(now.column, missing=True)
    if step.goes_right:
        return Choice(now.column, only=feature.category)
    if now.only is not None or now.missing:
        return now
    if feature.kind == "missing":
        return replace(now, missing=False)
    return replace(now, excluded=tuple(sorted({*now.excluded, str(feature.category)})))


def condition_text(binner: Binner, condition: Condition) -> str:
    """Words for a condition, in the user's units."""
    spec = binner.columns[condition.column]
    name = shown_name(spec.name, spec.meaning)
    if isinstance(condition, Choice):
        return f"{name} {_choice_words(_in_words(condition, spec.meaning))}"
    known = _interval_words(binner, condition)
    if known is not None:
        return f"{name} {known}"
    may_miss = spec.has_missing and condition.highest > len(spec.thresholds)
    too = " or missing" if may_miss else ""
    if (codes := _codes_inside(binner, condition)) is not None:
        return f"{name} is {codes}{too}"
    low, high = _bounds(binner, condition)
    if low is not None and high is not None:
        return f"{low} < {name} <= {high}"
    if high is not None:
        return f"{name} <= {high}"
    return f"{name} > {low}{too}"


def met_text(binner: Binner, condition: Condition, cell: str | None, known: bool = True) -> str:
    """Words for how a row meets a condition; ``cell`` is its value as text, None if missing.

    ``known`` tells whether training had this category.
    """
    spec = binner.columns[condition.column]
    name = shown_name(spec.name, spec.meaning)
    cell = None if cell is None else shown_category(cell, spec.meaning)
    if isinstance(condition, Choice):
        return f"{name} {_met_choice(_in_words(condition, spec.meaning), cell, known)}"
    words = _interval_words(binner, condition)
    if words == "is missing":
        return f"{name} is missing"
    low, high = _bounds(binner, condition)
    if cell is None:
        side = "true" if spec.kind == "boolean" else f"above {low}"
        return f"{name} is missing, as good as {side}"
    if words == "is present":
        return f"{name} = {cell} is present"
    if spec.kind == "boolean" or _codes_inside(binner, condition) is not None:
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
    no, yes = (shown_category(text, spec.meaning) for text in ("false", "true"))
    if condition.highest == 0:
        return f"is {no}"
    return f"is {yes}" + (" or missing" if spec.has_missing and condition.highest > q else "")


def _codes_inside(binner: Binner, condition: Interval) -> str | None:
    """Names of the codes inside an interval, where numbers are codes with a name each."""
    spec = binner.columns[condition.column]
    inside = condition.highest < len(spec.thresholds)
    low = float(spec.thresholds[condition.lowest - 1]) if condition.lowest > 0 else -math.inf
    high = float(spec.thresholds[condition.highest]) if inside else math.inf
    return codes_between(low, high, spec.meaning) if spec.kind == "number" else None


def _bounds(binner: Binner, condition: Interval) -> tuple[str | None, str | None]:
    """The thresholds that an interval lies between."""
    thresholds = binner.columns[condition.column].thresholds
    low = threshold_text(thresholds, condition.lowest - 1) if condition.lowest > 0 else None
    inside = condition.highest < len(thresholds)
    return low, threshold_text(thresholds, condition.highest) if inside else None


def _in_words(condition: Choice, meaning: Meaning | None) -> Choice:
    """The same, by what categories are called."""
    if meaning is None or not meaning.categories:
        return condition
    only = None if condition.only is None else meaning.category(condition.only)
    return replace(
        condition, only=only, excluded=tuple(meaning.category(text) for text in condition.excluded)
    )


def _choice_words(condition: Choice) -> str:
    if condition.only is not None:
        return f"is {_quoted(condition.only)}"
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
        return f"not {_quoted(condition.excluded[0])}"
    return f"none of {', '.join(map(_quoted, condition.excluded))}"


def _quoted(category: str) -> str:
    """Write a category, in quotes where it could be read as a part of the rule around it.

    >>> _quoted("radio/tv"), _quoted("< 0"), _quoted("salt and pepper")
    ('radio/tv', '"< 0"', '"salt and pepper"')
    """
    shown = visible(category)
    return f'"{shown}"' if _MISREAD.search(category) else shown


def leaf_rules(source: Any, trees: Which = "best") -> pandas.DataFrame:
    """One row per leaf of each tree, leaves from left to right.

    ``trees`` is "best", "consensus", "all" (the distinct sampled trees, heaviest first), the index
    of a sampled tree or a batch of trees. Columns: ``tree`` (its number in this frame), ``weight``
    (share of the tree in the prediction), ``rule``, ``n_conditions``, ``rows`` (of training) and
    ``P(class)`` for each class, or ``value``.

    Parameters
    ----------
    source : TreePosterior or fitted model
        Where the trees come from.
    trees : "best", "consensus", "all", int or TreeBatch
        Which trees; an int is the index of a sampled one.

    Returns
    -------
    DataFrame
        One row per leaf.

    Examples
    --------
    >>> from dtgfn import infer
    >>> posterior = infer([[1.0], [2.0], [8.0], [9.0]] * 5, ["no", "no", "yes", "yes"] * 5,
    ...                   engine="exact", max_depth=1, n_thresholds=3)
    >>> print(leaf_rules(posterior)[["rule", "rows", "P(yes)"]].round(2).to_string())
         rule  rows  P(yes)
    0 x0 <= 5  10.0    0.01
    1  x0 > 5  10.0    0.99

    """
    import pandas

    chosen = take_trees(source, trees)
    records, words = [], _Words(chosen.binner)
    for b in range(len(chosen.trees)):
        for node, steps in paths_to_leaves(chosen.trees, b):
            conditions = gather_conditions(chosen.binner, steps)
            head = {"tree": b, "weight": chosen.weight[b]}
            records.append(head | _record(chosen, b, node, words.of(conditions)))
    return pandas.DataFrame.from_records(records)


def distinct_rules(source: Any) -> pandas.DataFrame:
    """One row per distinct rule of the sampled trees, the most probable first.

    ``probability`` is that of a tree that has a leaf with exactly these conditions. A rule is the
    same whatever the order in which a tree asks; it is another one if a threshold differs. The
    other columns are those of ``leaf_rules``.

    Parameters
    ----------
    source : TreePosterior or fitted model
        Where the trees come from.

    Returns
    -------
    DataFrame
        One row per rule.

    Examples
    --------
    >>> from dtgfn import infer
    >>> posterior = infer([[1.0], [2.0], [8.0], [9.0]] * 5, ["no", "no", "yes", "yes"] * 5,
    ...                   engine="exact", max_depth=1, n_thresholds=1)
    >>> print(distinct_rules(posterior)[["rule", "probability"]].to_string())
         rule  probability
    0 x0 <= 5          1.0
    1  x0 > 5          1.0

    """
    import pandas

    chosen = take_trees(source, "all")
    records: dict[frozenset[Condition], dict[str, Any]] = {}
    words = _Words(chosen.binner)
    for b in range(len(chosen.trees)):
        for node, steps in paths_to_leaves(chosen.trees, b):
            conditions = gather_conditions(chosen.binner, steps)
            key = frozenset(conditions)
            if key not in records:
                records[key] = {"probability": 0.0} | _record(chosen, b, node, words.of(conditions))
            records[key]["probability"] += float(chosen.weight[b])
    frame = pandas.DataFrame.from_records(list(records.values()))
    order = ["probability", "rows"]
    return frame.sort_values(order, ascending=False, kind="stable", ignore_index=True)


def _record(chosen: TreeSet, b: int, node: int, texts: list[str]) -> dict[str, Any]:
    """What a frame says of one leaf."""
    value = zip(chosen.outputs, chosen.value[b, node].tolist(), strict=True)
    return {
        "rule": " and ".join(texts) or ALWAYS,
        "n_conditions": len(texts),
        "rows": float(chosen.rows[b, node]),
        **{name if chosen.classes is None else f"P({visible(name)})": said for name, said in value},
    }


class _Words(dict[Condition, str]):
    """Conditions in words, each put into words once: many leaves share them."""

    def __init__(self, binner: Binner) -> None:
        super().__init__()
        self.binner = binner

    def __missing__(self, condition: Condition) -> str:
        self[condition] = condition_text(self.binner, condition)
        return self[condition]

    def of(self, conditions: tuple[Condition, ...]) -> list[str]:
        """Put conditions into words, in the order of their columns."""
        return [self[c] for c in sorted(conditions, key=lambda condition: condition.column)]
