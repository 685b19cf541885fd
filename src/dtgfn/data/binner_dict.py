"""A binner as a plain dict, and back with every check: the dict may come from a stranger."""

from __future__ import annotations

import sys
from typing import Any, cast, get_args

import numpy as np

from dtgfn.data.binning import Binner, ColumnSpec, check_settings
from dtgfn.data.categories import MAX_CATEGORIES
from dtgfn.data.tables import Kind, listing


def binner_to_dict(binner: Binner) -> dict[str, Any]:
    """Describe a binner in lists, strings and numbers that survive JSON exactly.

    >>> from dtgfn.data.binning import fit_binner
    >>> from dtgfn.data.tables import as_table
    >>> binner_to_dict(fit_binner(as_table([["red"], ["blue"]])))["columns"][0]["categories"]
    ['blue', 'red']
    """
    columns = [
        {
            "name": spec.name,
            "kind": spec.kind,
            "thresholds": spec.thresholds.tolist(),
            "categories": list(spec.categories),
            "has_missing": spec.has_missing,
        }
        for spec in binner.columns
    ]
    return {
        "named": binner.named,
        "binning": binner.binning,
        "n_thresholds": binner.n_thresholds,
        "columns": columns,
    }


def binner_from_dict(data: object) -> Binner:
    """Rebuild a binner, trusting nothing: a ValueError says what is wrong.

    >>> from dtgfn.data.binning import fit_binner
    >>> from dtgfn.data.tables import as_table
    >>> binner = fit_binner(as_table([[1.0], [2.0]]), n_thresholds=3)
    >>> binner_from_dict(binner_to_dict(binner)).features[0].thresholds.tolist()
    [1.25, 1.5, 1.75]
    """
    fields = _fields(data, "binner", named=bool, binning=str, n_thresholds=int, columns=list)
    check_settings(fields["binning"], fields["n_thresholds"])
    specs = tuple(_spec_from_dict(column, fields["n_thresholds"]) for column in fields["columns"])
    names = {spec.name for spec in specs}
    _demand(0 < len(specs) == len(names), "the columns of a binner need distinct names")
    return Binner(specs, fields["named"], fields["binning"], fields["n_thresholds"])


def _spec_from_dict(data: object, n_thresholds: int) -> ColumnSpec:
    fields = _fields(
        data, "column", name=str, kind=str, thresholds=list, categories=list, has_missing=bool
    )
    name, kind, has_missing = fields["name"], fields["kind"], fields["has_missing"]
    _demand(kind in get_args(Kind), f"column {name!r} has the unknown kind {kind!r}")
    raw, categories = fields["thresholds"], fields["categories"]
    # isfinite of an int beyond float64 would raise, hence the comparison
    numeric = all(type(x) in (int, float) and abs(x) <= sys.float_info.max for x in raw)
    _demand(numeric, f"the thresholds of column {name!r} must be finite numbers")
    thresholds = np.array(raw, dtype=np.float64)
    _demand(
        bool((thresholds[1:] > thresholds[:-1]).all()), f"column {name!r}: thresholds must ascend"
    )
    # A detector's column of one value has two: below it, it, above it.
    most = max(n_thresholds, 2)
    _demand(len(raw) <= most, f"column {name!r} has more thresholds than n_thresholds")
    _demand(kind == "number" or raw in ([], [0.5]), f"column {name!r} needs no such thresholds")
    _demand(
        all(type(text) is str for text in categories) and categories == sorted(set(categories)),
        f"the categories of column {name!r} must be distinct strings in sorted order",
    )
    if kind == "category":
        _demand(raw == [], f"column {name!r} is a category and must have no thresholds")
        enough = len(categories) + has_missing > 0
        _demand(enough and len(categories) <= MAX_CATEGORIES, f"column {name!r}: 1..254 categories")
    else:
        _demand(categories == [], f"column {name!r} is a {kind} and must have no categories")
    return ColumnSpec(name, cast(Kind, kind), thresholds, tuple(categories), has_missing)


def _fields(data: object, what: str, **types: type) -> dict[str, Any]:
    _demand(isinstance(data, dict), f"a {what} must be a dict, not {type(data).__name__}")
    fields = cast(dict[str, Any], data)
    _demand(fields.keys() == types.keys(), f"a {what} must have the fields {listing(types)} only")
    for key, expected in types.items():
        found = type(fields[key])
        _demand(found is expected, f"{key!r} must be {expected.__name__}, not {found.__name__}")
    return fields


def _demand(condition: bool, what: str) -> None:
    if not condition:
        raise ValueError(f"This is not a valid binner: {what}.")
