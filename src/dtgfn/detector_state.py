"""A fitted anomaly detector as JSON meta data and arrays, and back, checked."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dtgfn.background import Background
from dtgfn.binning_state import binner_from_dict, binner_to_dict
from dtgfn.checks import check_range
from dtgfn.emptiness import View
from dtgfn.estimators.anomaly import DTGFNAnomalyDetector
from dtgfn.kernels import Codes, Floats
from dtgfn.posterior_state import Arrays, array_of, plain, trees_from, trees_to_arrays


def detector_to_meta(model: DTGFNAnomalyDetector) -> dict[str, Any]:
    """Return what JSON can hold of a detector."""
    return {
        "binner": binner_to_dict(model.background_.binner),
        "offset": model.offset_,
        "views": [
            {
                "columns": list(view.columns),
                "log_evidence": plain(view.log_evidence),
                "concentration": view.concentration,
            }
            for view in model.views_
        ],
        "ranked": [rank is not None for rank in model.background_.rank],
    }


def detector_to_arrays(model: DTGFNAnomalyDetector) -> Arrays:
    """Return the arrays of background and views."""
    background = model.background_
    arrays: Arrays = {
        "centre": background.centre,
        "scale": background.scale,
        "n_cells": background.n_cells,
    }
    arrays |= {f"rank.{i}": rank for i, rank in enumerate(background.rank) if rank is not None}
    histogram = getattr(model, "score_histogram_", None)  # a pickle may be older
    if histogram is not None:
        arrays["scores.edges"], arrays["scores.weight"] = histogram
    for i, view in enumerate(model.views_):
        arrays |= trees_to_arrays(f"view.{i}", view.trees)
        for field in ("weights", "normal", "background"):
            arrays[f"view.{i}.{field}"] = getattr(view, field)
    return arrays


def restore_detector(model: DTGFNAnomalyDetector, meta: dict[str, Any], arrays: Arrays) -> None:
    """Give an unfitted detector what a file holds; a ValueError says what is wrong."""
    background = _background_from(meta, arrays)
    views = tuple(_view_from(i, told, arrays, background) for i, told in enumerate(meta["views"]))
    offset = float(meta["offset"])
    if not views or not math.isfinite(offset):
        raise ValueError("it has no views, or no offset")
    model.background_, model.views_, model.offset_ = background, views, offset
    model.score_histogram_ = _histogram_from(arrays)


def _histogram_from(arrays: Arrays) -> tuple[Floats, Floats] | None:
    """Return the histogram of training scores; older files have none."""
    if "scores.edges" not in arrays:
        return None
    edges = array_of(arrays, "scores.edges", "f", 1)
    weight = array_of(arrays, "scores.weight", "f", 1, len(edges) - 1)
    usable = np.isfinite(edges).all() and np.isfinite(weight).all()
    if not usable or (np.diff(edges) <= 0).any() or (weight < 0).any():
        raise ValueError("its training scores are not usable")
    return edges, weight


def _background_from(meta: dict[str, Any], arrays: Arrays) -> Background:
    binner = binner_from_dict(meta["binner"])
    n_columns = len(binner.columns)
    centre, scale = (array_of(arrays, name, "f", 1, n_columns) for name in ("centre", "scale"))
    n_cells = array_of(arrays, "n_cells", "i", 1, n_columns).astype(np.int64)
    if not np.isfinite(centre).all() or not (np.isfinite(scale) & (scale >= 0)).all():
        raise ValueError("its background has no usable place and spread")
    if (n_cells < 1).any() or len(meta["ranked"]) != n_columns:
        raise ValueError("its background has no cells")
    rank: list[Codes | None] = []
    for i, (ranked, spec) in enumerate(zip(meta["ranked"], binner.columns, strict=True)):
        if bool(ranked) != (spec.kind == "category"):
            raise ValueError("its background's categories do not fit its columns")
        if not ranked:
            rank.append(None)
            continue
        order = array_of(arrays, f"rank.{i}", "u", 1, len(spec.categories) + 2).astype(np.uint16)
        if (order >= n_cells[i]).any():
            raise ValueError("a category has no cell")
        rank.append(order)
    return Background(binner, centre, scale, n_cells, tuple(rank))


def _view_from(i: int, told: dict[str, Any], arrays: Arrays, background: Background) -> View:
    columns = tuple(int(column) for column in told["columns"])
    n_columns = len(background.binner.columns)
    if not columns or not all(0 <= column < n_columns for column in columns):
        raise ValueError("a view looks at columns that do not exist")
    trees = trees_from(arrays, f"view.{i}", len(columns))
    weights = array_of(arrays, f"view.{i}.weights", "f", 1, len(trees))
    normal, mass = (
        array_of(arrays, f"view.{i}.{field}", "f", 2, len(trees))
        for field in ("normal", "background")
    )
    fits = normal.shape == mass.shape == trees.feature.shape
    if not fits or not all((np.isfinite(a) & (a >= 0)).all() for a in (weights, normal, mass)):
        raise ValueError("a view's leaves hold no usable weights")
    evidence = told["log_evidence"]
    concentration = told["concentration"]
    check_range("concentration", concentration, 1e-6, 1e6)
    return View(
        columns=columns,
        trees=trees,
        weights=weights,
        normal=normal,
        background=mass,
        log_evidence=math.nan if evidence is None else float(evidence),
        concentration=float(concentration),
    )
