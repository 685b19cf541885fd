"""Columns for a reader: label and unit apart, values of a code, tests and rules with units."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from dtgfn._support.arrays import Codes, Floats
from dtgfn._support.printable import visible
from dtgfn.data.binning import (
    Binner,
    ColumnSpec,
    category_indices,
    matching_columns,
    numbers_like,
    rule,
)
from dtgfn.data.meanings import Meaning, shown_name
from dtgfn.data.tables import Column, Table, label
from dtgfn.data.thresholds import threshold_text

MOST_THRESHOLDS = 20_000  # of all columns together
OTHER = "(another category)"
# A name may end in brackets that hold no unit, "income (estimated)": only known units count, and
# no lone capital that may as well be a name, as in "vitamin (C)".
_UNIT_WORDS = """
% ‰ ppm ppb m cm mm µm μm um nm km dm in inch inches ft yd mi mile miles px ha acre acres sqft sqm
g kg mg µg μg ug ng pg lb lbs oz l L dl dL ml mL µl μl cl fl fL gal mol mmol µmol nmol mM µM IU mIU
s sec secs second seconds ms µs us ns min mins minute minutes h hr hrs hour hours day days week
weeks month months yr yrs year years Hz kHz MHz GHz rpm bpm mph °C °F ° deg degree degrees rad
J kJ MJ cal kcal W kW MW GW Wh kWh MWh V mV kV mA Pa hPa kPa MPa bar mbar psi atm mmHg kN Nm dB lx
lm cd Ω ohm kB MB GB TB bit bits byte bytes nat nats € $ £ ¥ k$ M$ USD EUR GBP CHF JPY
"""
UNITS = frozenset(_UNIT_WORDS.split())
_BRACKETS = re.compile(r"^(?P<label>.*\S)\s*(?:\((?P<round>[^()]+)\)|\[(?P<square>[^\[\]]+)\])$")
_POWER = re.compile(r"(?:\^|\*\*)?-?[0-9²³¹⁻]+$")


def split_unit(name: str) -> tuple[str, str | None]:
    """Part a column's name into label and unit, where it ends in a unit in brackets.

    >>> split_unit("petal length (cm)"), split_unit("speed [m/s]"), split_unit("income (guess)")
    (('petal length', 'cm'), ('speed', 'm/s'), ('income (guess)', None))
    """
    found = _BRACKETS.match(name.strip())
    if found is None:
        return name, None
    unit = (found["round"] or found["square"]).strip()
    parts = [part for part in re.split(r"[\s/·*.]+", unit) if part and part != "per"]
    known = bool(parts) and all(part in UNITS or _POWER.sub("", part) in UNITS for part in parts)
    return (found["label"], unit) if known else (name, None)


def describe_columns(binner: Binner) -> list[dict[str, Any]]:
    """What a reader, or an explorer, is told of every column.

    Thresholds are left out where all columns together have too many; those that trees use are in
    their tests.
    """
    listed = sum(len(spec.thresholds) for spec in binner.columns) <= MOST_THRESHOLDS
    described = []
    for spec in binner.columns:
        numeric = spec.kind == "number"
        said, unit = label_and_unit(spec.name, spec.meaning, numeric)
        low, high = _range(spec.thresholds) if numeric else (None, None)
        described.append(
            {
                "name": spec.name,
                "label": said,
                "title": shown_name(spec.name, spec.meaning) if spec.meaning else spec.name,
                "unit": unit,
                "kind": spec.kind,
                "categories": list(spec.categories),
                "category_labels": _category_labels(spec),
                "has_missing": spec.has_missing,
                "low": low,
                "high": high,
                "thresholds": spec.thresholds.tolist() if numeric and listed else [],
            }
        )
    return described


def label_and_unit(
    name: str, meaning: Meaning | None, numeric: bool = True
) -> tuple[str, str | None]:
    """What a column is called, and its unit apart: as its meaning says, or as its name does."""
    if meaning is not None and (meaning.label or meaning.unit):
        label, unit = (meaning.label, None) if meaning.label else split_unit(name)
        return str(label), meaning.unit or unit
    return split_unit(name) if numeric else (name, None)


def titles(binner: Binner) -> dict[str, str]:
    """What each column is called, by its own name."""
    return {spec.name: shown_name(spec.name, spec.meaning) for spec in binner.columns}


def target_title(binner: Binner) -> str | None:
    """What is predicted, by its name or meaning; None if nobody said."""
    return (
        None if binner.target is None or not binner.target.label else visible(binner.target.label)
    )


def _category_labels(spec: ColumnSpec) -> dict[str, str]:
    """What categories are called, of those that are called something else."""
    return {} if spec.meaning is None else dict(spec.meaning.categories)


def _range(thresholds: Floats) -> tuple[float | None, float | None]:
    """Smallest and largest value worth trying: one step beyond the thresholds.

    On a uniform grid these are the smallest and the largest value that training had.

    >>> _range(np.array([0.03, 0.06, 0.09]))
    (0.0, 0.12)
    """
    if len(thresholds) == 0:
        return None, None
    first, last = float(thresholds[0]), float(thresholds[-1])
    step = (last - first) / (len(thresholds) - 1) if len(thresholds) > 1 else max(abs(first), 1.0)
    if not 0.0 < step < math.inf:
        return first, last
    digits = min(max(3 - math.floor(math.log10(step)), 0), 300)
    return round(first - step, digits), round(last + step, digits)


def split_test(binner: Binner, feature: int, cut: int) -> dict[str, Any]:
    """Return the test of a split as JSON has it; a row goes left where the test holds."""
    known = binner.features[feature]
    if known.kind == "category":
        return {"column": known.column, "is_not": known.category}
    if known.kind == "missing" or cut == len(known.thresholds):
        return {"column": known.column, "present": True}
    if known.kind == "boolean":
        return {"column": known.column, "is": False}
    return {"column": known.column, "at_most": float(known.thresholds[cut])}


def split_rule(binner: Binner, feature: int, cut: int) -> tuple[str, str]:
    """Words for the two sides of a split, with the unit behind the number.

    >>> from dtgfn.data.binning import fit_binner
    >>> import pandas
    >>> from dtgfn.data.tables import as_table
    >>> binner = fit_binner(as_table(pandas.DataFrame({"length (cm)": [1.0, 2.0]})), n_thresholds=1)
    >>> split_rule(binner, 0, 0)
    ('length ≤ 1.5 cm', 'length > 1.5 cm')
    """
    known = binner.features[feature]
    coded = known.kind == "number" and known.meaning is not None and known.meaning.categories
    if "at_most" not in split_test(binner, feature, cut) or coded:
        return rule(known, cut)
    said, unit = label_and_unit(known.name, known.meaning)
    shown = threshold_text(known.thresholds, cut) + (f" {unit}" if unit else "")
    too = " or missing" if known.has_missing else ""
    return f"{said} ≤ {shown}", f"{said} > {shown}{too}"


def code_value(thresholds: Floats, code: int) -> float:
    """Return a short number with this code: inside its bin, or half a step beyond the outer ones.

    >>> code_value(np.array([1.0, 2.0]), 1), code_value(np.array([1.0, 2.0]), 0)
    (1.5, 0.5)
    """
    if len(thresholds) == 0:
        return 0.0
    first, last = float(thresholds[0]), float(thresholds[-1])
    step = (last - first) / (len(thresholds) - 1) if len(thresholds) > 1 else max(abs(first), 1.0)
    if code == 0:
        wanted = first - step / 2
    elif code == len(thresholds):
        wanted = last + step / 2
    else:
        wanted = float(thresholds[code - 1]) / 2 + float(thresholds[code]) / 2
    shorter = (float(f"{wanted:.{digits}g}") for digits in range(2, 18))
    fits = (value for value in shorter if np.searchsorted(thresholds, value) == code)
    # Between neighbouring doubles there may be nothing but the upper threshold itself.
    return next(fits, float(thresholds[min(code, len(thresholds) - 1)]))


def values_of_codes(binner: Binner, codes: Codes) -> list[dict[str, Any]]:
    """Return rows of values that have these codes [n, features]; missing is None."""
    return [
        {
            spec.name: _value_of(binner, column, spec, row)
            for column, spec in enumerate(binner.columns)
        }
        for row in codes
    ]


def _value_of(binner: Binner, column: int, spec: ColumnSpec, row: Codes) -> Any:
    own = np.flatnonzero(binner.feature_column == column)
    if spec.kind != "category":
        code = int(row[own[0]])
        if code > len(spec.thresholds):
            return None
        return bool(code) if spec.kind == "boolean" else code_value(spec.thresholds, code)
    for feature in own:
        if row[feature]:
            return binner.features[feature].category
    varies = (feature for feature in own if len(binner.features[feature].thresholds))
    shown = {binner.features[feature].category for feature in varies}
    return next((text for text in spec.categories if text not in shown), OTHER)


def values_of_table(binner: Binner, table: Table) -> list[dict[str, Any]]:
    """Return rows of a table as plain values by the training columns' names; missing is None."""
    columns: dict[str, list[Any]] = {}
    for spec, column in zip(binner.columns, matching_columns(binner, table), strict=True):
        if spec.kind == "category":
            known = [*spec.categories, None]
            indices = category_indices(spec, column)
            cells = zip(indices.tolist(), column.values, strict=True)
            columns[spec.name] = [known[p] if p >= 0 else _text(column, v) for p, v in cells]
            continue
        numbers = [None if np.isnan(v) else float(v) for v in numbers_like(spec, column)]
        boolean = spec.kind == "boolean"
        columns[spec.name] = [bool(v) if boolean and v is not None else v for v in numbers]
    return [{name: cells[i] for name, cells in columns.items()} for i in range(table.n_rows)]


def _text(column: Column, value: Any) -> str:
    return str(bool(value)) if column.kind == "boolean" else label(value)
