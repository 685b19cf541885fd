"""A binner as a plain dict, and back with every check: the dict may come from a stranger."""

from __future__ import annotations

import sys
from typing import Any, cast, get_args

import numpy as np

from dtgfn.data.binning import Binner, ColumnSpec, check_settings
from dtgfn.data.categories import MAX_CATEGORIES
from dtgfn.data.meanings import Meaning
from dtgfn.data.scales import Scale
from dtgfn.data.tables import MOST_LEVELS, Kind, listing


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
            **({} if spec.meaning is None else {"meaning": _meaning_to_dict(spec.meaning)}),
            **({} if spec.scale is None else {"scale": list(spec.scale.levels)}),
        }
        for spec in binner.columns
    ]
    return {
        "named": binner.named,
        "binning": binner.binning,
        "n_thresholds": binner.n_thresholds,
        "columns": columns,
        **({} if binner.target is None else {"target": _meaning_to_dict(binner.target)}),
    }


def _meaning_to_dict(meaning: Meaning) -> dict[str, Any]:
    pairs = list(map(list, meaning.categories))
    return {"label": meaning.label, "unit": meaning.unit, "categories": pairs}


def _meaning_from_dict(data: object) -> Meaning | None:
    """Rebuild what a column means; files of before have no meanings."""
    if data is None:
        return None
    _demand(isinstance(data, dict), "a meaning must be a dict")
    fields = cast(dict[str, Any], data)
    known = {"label", "unit", "categories"}
    _demand(fields.keys() == known, f"a meaning must have the fields {listing(known)} only")
    texts = [fields["label"], fields["unit"]]
    _demand(all(text is None or type(text) is str for text in texts), "a meaning must be a text")
    pairs = fields["categories"]
    good = type(pairs) is list and all(
        type(pair) is list and len(pair) == 2 and all(type(text) is str for text in pair)
        for pair in pairs
    )
    _demand(good, "the categories of a meaning must be pairs of texts")
    return Meaning(texts[0], texts[1], tuple((text, shown) for text, shown in pairs))


def binner_from_dict(data: object) -> Binner:
    """Rebuild a binner, trusting nothing: a ValueError says what is wrong.

    >>> from dtgfn.data.binning import fit_binner
    >>> from dtgfn.data.tables import as_table
    >>> binner = fit_binner(as_table([[1.0], [2.0]]), n_thresholds=3)
    >>> binner_from_dict(binner_to_dict(binner)).features[0].thresholds.tolist()
    [1.25, 1.5, 1.75]
    """
    data, target = _without(data, "target")
    fields = _fields(data, "binner", named=bool, binning=str, n_thresholds=int, columns=list)
    check_settings(fields["binning"], fields["n_thresholds"])
    specs = tuple(_spec_from_dict(column, fields["n_thresholds"]) for column in fields["columns"])
    names = {spec.name for spec in specs}
    _demand(0 < len(specs) == len(names), "the columns of a binner need distinct names")
    named, binning, n_thresholds = (fields[f] for f in ("named", "binning", "n_thresholds"))
    return Binner(specs, named, binning, n_thresholds, _meaning_from_dict(target))


def _spec_from_dict(data: object, n_thresholds: int) -> ColumnSpec:
    data, meaning = _without(data, "meaning")
    data, scale = _without(data, "scale")
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
    return ColumnSpec(
        name,
        cast(Kind, kind),
        thresholds,
        tuple(categories),
        has_missing,
        _meaning_from_dict(meaning),
        _scale_from(scale, name, kind),
    )


def _scale_from(levels: object, name: str, kind: str) -> Scale | None:
    """Rebuild the levels of an ordered category; none at all are the scale of dates."""
    if levels is None:
        return None
    fits = isinstance(levels, list) and all(type(text) is str for text in levels)
    _demand(fits and kind == "number", f"column {name!r} has levels that are none")
    known = tuple(cast(list[str], levels))
    _demand(len(set(known)) == len(known) <= MOST_LEVELS, f"column {name!r} has unusable levels")
    return Scale(known)


def _without(data: object, name: str) -> tuple[object, object]:
    """Return a dict without a field that it may have, and that field."""
    if not isinstance(data, dict):
        return data, None
    return {key: value for key, value in data.items() if key != name}, data.get(name)


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
