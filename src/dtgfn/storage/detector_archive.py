"""A fitted anomaly detector as the JSON and arrays of an archive, and back, checked."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dtgfn._support.arrays import Codes, Floats
from dtgfn._support.checks import check_integer, check_range
from dtgfn.anomaly.background import Background
from dtgfn.anomaly.density import View
from dtgfn.data.binner_dict import binner_from_dict, binner_to_dict
from dtgfn.estimators.anomaly import MAX_VIEWS, DTGFNAnomalyDetector
from dtgfn.storage.archived_parts import (
    ROUNDING,
    Arrays,
    array_of,
    finite,
    plain,
    trees_from,
    trees_to_arrays,
)
from dtgfn.trees.batch import MAX_DEPTH, TreeBatch

LARGEST_WEIGHT = 1e300  # of rows in a leaf: ratios stay numbers


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
        arrays[f"view.{i}.weights"] = view.weights
        width = arrays[f"view.{i}.feature"].shape[1]
        for field in ("normal", "background"):
            arrays[f"view.{i}.{field}"] = getattr(view, field)[:, :width]
    return arrays


def restore_detector(model: DTGFNAnomalyDetector, meta: dict[str, Any], arrays: Arrays) -> None:
    """Give an unfitted detector what a file holds; a ValueError says what is wrong."""
    background = _background_from(meta, arrays)
    if not isinstance(meta["views"], list) or not 0 < len(meta["views"]) <= MAX_VIEWS:
        raise ValueError("it has no views, or too many")
    views = tuple(_view_from(i, view, arrays, background) for i, view in enumerate(meta["views"]))
    offset = finite(meta["offset"])
    model.background_, model.views_, model.offset_ = background, views, offset
    model.score_histogram_ = _histogram_from(arrays)


def _histogram_from(arrays: Arrays) -> tuple[Floats, Floats] | None:
    """Return the histogram of training scores; older files have none."""
    if "scores.edges" not in arrays:
        return None
    edges = array_of(arrays, "scores.edges", "f8", 1)
    weight = array_of(arrays, "scores.weight", "f8", 1, len(edges) - 1)
    usable = np.isfinite(edges).all() and np.isfinite(weight).all()
    if not usable or (np.diff(edges) <= 0).any() or (weight < 0).any():
        raise ValueError("its training scores are not usable")
    return edges, weight


def _background_from(meta: dict[str, Any], arrays: Arrays) -> Background:
    binner = binner_from_dict(meta["binner"])
    n_columns = len(binner.columns)
    centre, scale = (array_of(arrays, name, "f8", 1, n_columns) for name in ("centre", "scale"))
    n_cells = array_of(arrays, "n_cells", "i8", 1, n_columns)
    if not np.isfinite(centre).all() or not (np.isfinite(scale) & (scale >= 0)).all():
        raise ValueError("its background has no usable centre and spread")
    if len(meta["ranked"]) != n_columns:
        raise ValueError("its background has no cells")
    rank: list[Codes | None] = []
    for i, (ranked, spec) in enumerate(zip(meta["ranked"], binner.columns, strict=True)):
        if bool(ranked) != (spec.kind == "category"):
            raise ValueError("its background's categories do not fit its columns")
        order = None
        if ranked:
            order = array_of(arrays, f"rank.{i}", "u2", 1, len(spec.categories) + 2)
        # Below, between and above the thresholds, and missing; or as many as there are ranks.
        expected = len(spec.thresholds) + 2 if order is None else int(order.max()) + 1
        if n_cells[i] != expected or not (ranked or spec.has_missing):
            raise ValueError("its background's cells do not fit its columns")
        rank.append(order)
    return Background(binner, centre, scale, n_cells, tuple(rank))


def _view_from(i: int, meta: dict[str, Any], arrays: Arrays, background: Background) -> View:
    columns = tuple(meta["columns"])
    n_columns = len(background.binner.columns)
    if not columns or len(set(columns)) != len(columns):
        raise ValueError("a view looks at no columns, or twice at one")
    for column in columns:
        check_integer("a view's column", column, 0, n_columns - 1)
    name = f"view.{i}"
    trees = trees_from(arrays, name, background.n_cells[list(columns)] - 1, MAX_DEPTH)
    weights = array_of(arrays, f"{name}.weights", "f8", 1, len(trees))
    if not (weights >= 0).all() or not abs(weights.sum() - 1) < ROUNDING:
        raise ValueError("a view's trees have no usable weights")
    normal, mass = (
        _node_weights(arrays, f"{name}.{field}", trees) for field in ("normal", "background")
    )
    evidence = meta["log_evidence"]
    concentration = meta["concentration"]
    check_range("concentration", concentration, 1e-6, 1e6)
    return View(
        columns=columns,
        trees=trees,
        weights=weights,
        normal=normal,
        background=mass,
        log_evidence=math.nan if evidence is None else finite(evidence),
        concentration=float(concentration),
    )


def _node_weights(arrays: Arrays, name: str, trees: TreeBatch) -> Floats:
    """Return a weight for every node [B, N]; a file may have room for more nodes."""
    weight = array_of(arrays, name, "f8", 2, len(trees))
    width = trees.feature.shape[1]
    if weight.shape[1] < width or not ((weight >= 0) & (weight <= LARGEST_WEIGHT)).all():
        raise ValueError("a view's leaves hold no usable weights")
    return np.ascontiguousarray(weight[:, :width])
