"""What a user demands of trees, read into columns and cuts: splits at places, columns left out.

A place is "root" or a way down from it, such as "root.left.right". A demand at a place is a split
("age <= 50", "sex is male", "income is missing"), a column whose cut is left open ("age"), or
"stop". "never" lists columns that no split may use, "never below age" those that none may use
further down than a split on age, and "monotone" columns with which predictions only rise ("up") or
fall ("down").
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dtgfn.data.binning import Binner, Feature, rule
from dtgfn.data.tables import listing

ROOT = "root"
STOP = "stop"
NEVER, BELOW, MONOTONE = "never", "never below ", "monotone"
DIRECTIONS = {"up": 1, "down": -1}
TURNS = {"left": 0, "right": 1}
Place = tuple[int, ...]  # turns from the root: 0 left, 1 right

_AT_MOST = re.compile(r"^(?P<column>.+?)\s*(?:<=|≤)\s*(?P<value>\S+)$")
_IS = re.compile(r"^(?P<column>.+?)\s+is\s+(?P<value>.+)$")


@dataclass(frozen=True)
class Demand:
    """What must stand at one place.

    Attributes
    ----------
    features : tuple of int
        Features that may be split on; none at a place that must be a leaf.
    cut : int or None
        The cut; None leaves it open.
    words : str
        The demand as it was understood.

    """

    features: tuple[int, ...]
    cut: int | None
    words: str


@dataclass(frozen=True)
class Demands:
    """All demands on a tree.

    Attributes
    ----------
    at : dict of tuple to Demand
        By place; below a split that is fixed anything may follow.
    never : tuple of int
        Columns that are not used.
    below : dict of int to tuple of int
        Columns that are not used below a split on another one.
    monotone : dict of int to int
        Columns and the direction, 1 or -1, in which predictions go with them.
    names : tuple of str
        Of all columns there are.

    """

    at: Mapping[Place, Demand] = field(default_factory=dict)
    never: tuple[int, ...] = ()
    below: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    monotone: Mapping[int, int] = field(default_factory=dict)
    names: tuple[str, ...] = ()

    @property
    def words(self) -> list[str]:
        """One line each, as they were understood."""
        names, directions = self.names, {1: "up", -1: "down"}
        lines = [f"{place_name(place)}: {demand.words}" for place, demand in self.at.items()]
        lines += [f"never {names[column]}" for column in self.never]
        lines += [f"never {names[c]} below {names[y]}" for y, cs in self.below.items() for c in cs]
        return lines + [f"monotone {directions[d]} in {names[c]}" for c, d in self.monotone.items()]


def place_name(place: Place) -> str:
    """Name of a place.

    >>> place_name((0, 1))
    'root.left.right'
    """
    return ".".join([ROOT, *(("left", "right")[turn] for turn in place)])


def read_demands(given: str | Mapping[str, Any], binner: Binner) -> Demands:
    """Read what a user demands; a text alone is a demand at the root.

    >>> from dtgfn.data.binning import fit_binner
    >>> from dtgfn.data.tables import as_table
    >>> import pandas
    >>> table = as_table(pandas.DataFrame({"age": [20.0, 80.0], "sex": ["f", "m"]}))
    >>> read_demands({"root": "age <= 49", "never": ["sex"]}, fit_binner(table)).words
    ['root: age <= 48.8', 'never sex']
    """
    if isinstance(given, str):
        given = {ROOT: given}
    if not isinstance(given, Mapping) or not given:
        raise ValueError(
            f"given={given!r} says nothing of trees; give a dict such as "
            '{"root": "age <= 50", "never": ["income"]}.'
        )
    at: dict[Place, Demand] = {}
    never: tuple[int, ...] = ()
    below: dict[int, tuple[int, ...]] = {}
    monotone: dict[int, int] = {}
    for key, wanted in given.items():
        if key == NEVER:
            never = _find_columns(wanted, binner)
        elif str(key).startswith(BELOW):
            upper = find_column(str(key).removeprefix(BELOW), binner)
            below[upper] = _find_columns(wanted, binner)
        elif key == MONOTONE:
            monotone = _read_monotone(wanted, binner)
        else:
            at[read_place(key)] = read_demand(wanted, binner)
    at = dict(sorted(at.items(), key=lambda item: (len(item[0]), item[0])))
    check_reachable(at)
    _check_never(at, never, binner)
    return Demands(at, never, below, monotone, binner.column_names)


def _find_columns(wanted: Any, binner: Binner) -> tuple[int, ...]:
    names = [wanted] if isinstance(wanted, str) else list(wanted)
    return tuple(find_column(name, binner) for name in names)


def _read_monotone(wanted: Any, binner: Binner) -> dict[int, int]:
    if not isinstance(wanted, Mapping) or not set(wanted.values()) <= DIRECTIONS.keys():
        raise ValueError(
            f"monotone={wanted!r} is not usable; give columns and 'up' or 'down', such as "
            '{"age": "up"}.'
        )
    found = {find_column(name, binner): DIRECTIONS[way] for name, way in wanted.items()}
    for column in found:
        if binner.columns[column].kind == "category":
            raise ValueError(
                f"monotone names {binner.column_names[column]!r}, whose categories have no order; "
                "give columns of numbers."
            )
    return found


def _check_never(at: Mapping[Place, Demand], never: tuple[int, ...], binner: Binner) -> None:
    """Refuse a column that is demanded and forbidden."""
    for place, demand in at.items():
        both = {int(binner.feature_column[f]) for f in demand.features} & set(never)
        if both:
            raise ValueError(
                f"given demands {binner.column_names[min(both)]!r} at {place_name(place)} and "
                "never; leave out one of the two."
            )


def read_place(key: object) -> Place:
    """Read a place such as "root.left"."""
    head, *turns = str(key).split(".")
    if head != ROOT or not set(turns) <= TURNS.keys():
        raise ValueError(
            f"given has the place {key!r}, which is none; give 'root', or a way down such as "
            "'root.left.right'; or 'never', 'never below COLUMN', 'monotone'."
        )
    return tuple(TURNS[turn] for turn in turns)


def check_reachable(at: Mapping[Place, Demand]) -> None:
    """Refuse demands below a place that nothing is said of, or that must be a leaf."""
    for place in at:
        if place and place[:-1] not in at:
            raise ValueError(
                f"given says nothing of {place_name(place[:-1])}, so {place_name(place)} may not "
                "exist; say which split is above it."
            )
        if place and not at[place[:-1]].features:
            raise ValueError(
                f"given stops at {place_name(place[:-1])}, so there is no {place_name(place)}; "
                "leave out one of the two."
            )


def read_demand(wanted: object, binner: Binner) -> Demand:
    """Read what must stand at a place."""
    text = str(wanted).strip()
    if text == STOP and STOP not in binner.column_names:
        return Demand((), None, STOP)
    if text in binner.column_names:
        features = _features_of(binner.column_names.index(text), binner)
        return Demand(features, None, f"{text}, at any cut")
    for pattern, read in ((_AT_MOST, _read_at_most), (_IS, _read_is)):
        found = pattern.match(text)
        if found is not None:
            column = find_column(found["column"], binner)
            return read(text, column, found["value"], binner)
    find_column(text, binner)
    raise AssertionError("find_column refuses what is no column")


def _read_at_most(text: str, column: int, value: str, binner: Binner) -> Demand:
    """Read a threshold: the candidate that is nearest to it."""
    spec = binner.columns[column]
    if spec.kind != "number" or not len(spec.thresholds):
        raise ValueError(
            f"given demands {text!r}, but {spec.name!r} has no thresholds; give "
            f"'{spec.name} is ...' or another column."
        )
    try:
        wanted = float(value)
    except ValueError:
        raise ValueError(f"given demands {text!r}, but {value!r} is no number; give one.") from None
    if not np.isfinite(wanted):
        raise ValueError(f"given demands {text!r}; give a finite threshold.")
    cut = int(np.argmin(np.abs(spec.thresholds - wanted)))
    (feature,) = _features_of(column, binner)
    return Demand((feature,), cut, rule(binner.features[feature], cut)[0])


def _read_is(text: str, column: int, value: str, binner: Binner) -> Demand:
    """Read a category, a truth value, or "missing"."""
    spec = binner.columns[column]
    for feature in _features_of(column, binner):
        cut = _cut_that_tells(binner.features[feature], spec.categories, value)
        if cut is not None:
            left, right = rule(binner.features[feature], cut)
            return Demand((feature,), cut, f"{left} / {right}")
    known = {"category": list(spec.categories), "boolean": ["true", "false"]}.get(spec.kind, [])
    known += ["missing"] if spec.has_missing else []
    has = f"it has {listing(known)}" if known else "it is a number: give 'column <= threshold'"
    raise ValueError(
        f"given demands {text!r}, but {spec.name!r} has no such value to split on; {has}."
    )


def _cut_that_tells(feature: Feature, categories: tuple[str, ...], value: str) -> int | None:
    """The cut of a feature with one value on one side and all others on the other."""
    if feature.kind == "category":
        # Of two categories only one has an indicator, which tells the other one too.
        alone = len(categories) == 2 and not feature.has_missing and value in categories
        return 0 if len(feature.thresholds) and (value == feature.category or alone) else None
    if value == "missing":
        missing = len(feature.thresholds) if feature.has_missing else None
        return 0 if feature.kind == "missing" else missing
    if feature.kind == "boolean" and value.lower() in ("true", "false"):
        return 0 if len(feature.thresholds) else None
    return None


def _features_of(column: int, binner: Binner) -> tuple[int, ...]:
    return tuple(np.flatnonzero(binner.feature_column == column).tolist())


def find_column(name: object, binner: Binner) -> int:
    """Number of a column; refuse one that training did not have, with the nearest name."""
    names = list(binner.column_names)
    if name in names:
        return names.index(str(name))
    near = difflib.get_close_matches(str(name), names, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"training had {listing(names)}."
    raise ValueError(f"given names {name!r}, which is no column; {hint}")
