"""What a report tells of an anomaly detector: its columns, its trees, its scores."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from dtgfn._support.arrays import Floats
from dtgfn.anomaly.background import NO_CATEGORIES
from dtgfn.anomaly.density import View
from dtgfn.data.meanings import shown_category, shown_name
from dtgfn.estimators import DTGFNAnomalyDetector
from dtgfn.explain.column_labels import describe_columns, split_rule, split_test
from dtgfn.report.posterior_facts import plain_number, settings_of

SIDES = ["training rows", "background"]  # what the trees tell apart
MOST_NAMED = 4  # categories of a rule that are named one by one


def detector_facts(model: DTGFNAnomalyDetector) -> dict[str, Any]:
    """Tell what a detector was fitted to, and how."""
    first = model.views_[0]
    return {
        "estimator": type(model).__name__,
        "task": "anomalies",
        "engine": model.inference,
        "engine_sentence": f"In each of {len(model.views_):,} small sets of columns, trees of the "
        f"{model.inference} engine tell training rows from a background spread widely around them.",
        "rows": float(first.normal[0].sum()),
        "n_columns": len(model.binner_.columns),
        "classes": SIDES,
        "seconds": None,
        **settings_of(model),
        "prior_sentence": f"At most {model.max_depth} splits lie on a path; a row's score is "
        "minus the side of the empty cube around it, averaged over trees and sets of columns.",
        "leaf_sentence": "A leaf compares its share of training rows with its share of background: "
        "where there is more background, it is empty.",
    }


def anomaly_section(model: DTGFNAnomalyDetector) -> dict[str, Any]:
    """Threshold, views and, where the model has kept it, the histogram of training scores."""
    histogram = getattr(model, "score_histogram_", None)
    names = model.binner_.column_names
    return {
        "offset": float(model.offset_),
        "contamination": model.contamination,
        "views": [
            {
                "columns": [names[c] for c in view.columns],
                "log_evidence": _known(view.log_evidence),
                "trees": len(view.trees),
            }
            for view in model.views_
        ],
        "scores": None
        if histogram is None
        else {"edges": histogram[0].tolist(), "counts": histogram[1].tolist()},
        "sentence": f"A row whose score is below {model.offset_:.4g} is called an anomaly.",
    }


def detector_columns(model: DTGFNAnomalyDetector) -> list[dict[str, Any]]:
    """Describe the columns, without the categories that only keep others apart."""
    columns = describe_columns(model.binner_)
    for column in columns:
        column["categories"] = [c for c in column["categories"] if c not in NO_CATEGORIES]
    return columns


def column_gains(model: DTGFNAnomalyDetector) -> list[dict[str, Any]]:
    """How much each column helps to tell rows from background, in the views that have it."""
    n_columns = len(model.binner_.columns)
    used, gained, n_views = np.zeros(n_columns), np.zeros(n_columns), np.zeros(n_columns)
    for view in model.views_:
        gain, own = split_gains(view), list(view.columns)
        for feature, column in enumerate(own):
            here = view.trees.feature == feature
            used[column] += view.weights @ here.any(axis=1)
            gained[column] += view.weights @ np.where(here, gain, 0.0).sum(axis=1)
        n_views[own] += 1
    used, gained = used / np.maximum(n_views, 1), gained / np.maximum(n_views, 1)
    total = np.abs(gained).sum()
    names = model.binner_.column_names
    nothing = dict.fromkeys(
        f"{name}_{end}" for name in ("inclusion", "gain", "share") for end in ("low", "high")
    )
    return [
        {
            "name": names[c],
            "inclusion": float(used[c]),
            "gain": float(gained[c]),
            "share": float(gained[c] / total) if total > 0 else 0.0,
            **nothing,
        }
        for c in np.argsort(-gained, kind="stable")
    ]


def node_weights(view: View) -> npt.NDArray[np.float64]:
    """Weight of training rows and background mass at every node [B, N, 2]."""
    normal = view.normal.copy()
    for node in range(normal.shape[1] - 1, -1, -1):  # children come after parents
        inner = np.flatnonzero(view.trees.feature[:, node] >= 0)
        left = view.trees.left[inner, node]
        normal[inner, node] = normal[inner, left] + normal[inner, left + 1]
    return np.stack([normal, view.background], axis=-1)


def split_gains(view: View) -> Floats:
    """Gain of every split in nats [B, N], 0 at leaves."""
    counts = node_weights(view) + view.concentration
    log_m = gammaln(counts).sum(axis=-1) - gammaln(counts.sum(axis=-1))
    log_m -= 2 * gammaln(view.concentration) - gammaln(2 * view.concentration)
    batch, node = np.nonzero(view.trees.feature >= 0)
    left = view.trees.left[batch, node]
    gain = np.zeros(view.trees.feature.shape)
    gain[batch, node] = log_m[batch, left] + log_m[batch, left + 1] - log_m[batch, node]
    return gain


def telling_trees(model: DTGFNAnomalyDetector, n_trees: int) -> list[dict[str, Any]]:
    """Describe the heaviest tree of the views that tell rows from background best."""
    gains = [split_gains(view) for view in model.views_]
    heaviest = [int(np.argmax(view.weights)) for view in model.views_]
    gained = [gain[b].sum() for gain, b in zip(gains, heaviest, strict=True)]
    order = np.argsort(-np.array(gained), kind="stable")[:n_trees]
    return [
        _tree(model, model.views_[v], heaviest[v], gains[v][heaviest[v]], rank)
        for rank, v in enumerate(order, 1)
    ]


def _tree(
    model: DTGFNAnomalyDetector, view: View, b: int, gain: Floats, rank: int
) -> dict[str, Any]:
    trees = view.trees[b : b + 1]
    counts = node_weights(view)[b]
    parent: dict[int, int | None] = {0: None}
    nodes = []
    for node in range(int(trees.n_nodes[0])):
        left = int(trees.left[0, node])
        inner = trees.feature[0, node] >= 0
        if inner:
            parent |= {left: node, left + 1: node}
        value = counts[node] + view.concentration
        nodes.append(
            {
                "id": node,
                "parent": parent[node],
                "then": left if inner else None,
                "else": left + 1 if inner else None,
                **_split(model, view, int(trees.feature[0, node]), int(trees.cut[0, node])),
                "rows": plain_number(float(counts[node, 0])),
                "counts": [plain_number(count) for count in counts[node].tolist()],
                "value": (value / value.sum()).tolist(),
                "spread": None,
                "vote": f"{value[0] / value[1]:.3g} × the background",
                "gain": float(gain[node]) if inner else None,
            }
        )
    return {
        "rank": rank,
        "probability": None,
        "share": float(view.weights[b]) / len(model.views_),
        "log_reward": None,
        "n_splits": int(trees.n_splits[0]),
        "depth": int(trees.depth[0]),
        "text": _text(nodes, 0, ""),
        "nodes": nodes,
    }


def _split(model: DTGFNAnomalyDetector, view: View, feature: int, cut: int) -> dict[str, Any]:
    """Test and rules of a split on one of a view's columns."""
    if feature < 0:
        return dict.fromkeys(("test", "rule", "other"))
    column, binner = view.columns[feature], model.binner_
    rank = model.background_.rank[column]
    if rank is None:
        own = int(np.flatnonzero(binner.feature_column == column)[0])
        rule, other = split_rule(binner, own, cut)
        return {"test": split_test(binner, own, cut), "rule": rule, "other": other}
    spec = binner.columns[column]
    name = shown_name(spec.name, spec.meaning)
    cells = [*spec.categories, "missing", "never seen"]
    real = [text not in NO_CATEGORIES for text in cells]
    sides: tuple[list[str], list[str]] = ([], [])
    # What was never seen has cell 0; a category that is not real shares it.
    for text, cell, kept in zip(cells, [*rank.tolist()[:-1], 0], real, strict=True):
        if kept:
            sides[cell > cut].append(text)
    called = ([shown_category(text, spec.meaning) for text in side] for side in sides)
    rule, other = (f"{name} is {_listed(side)}" for side in called)
    return {"test": {"column": column, "among": sides[0]}, "rule": rule, "other": other}


def _listed(names: list[str]) -> str:
    if len(names) > MOST_NAMED:
        return f"one of {len(names)} values such as {names[0]}"
    return " or ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


def _text(nodes: list[dict[str, Any]], node: int, indent: str) -> str:
    """Write a tree as nested rules."""
    here = nodes[node]
    if here["rule"] is None:
        return f"{indent}{here['vote']}  ({here['rows']:g} rows)"
    return "\n".join(
        [
            f"{indent}if {here['rule']}",
            _text(nodes, here["then"], indent + "    "),
            f"{indent}else ({here['other']})",
            _text(nodes, here["else"], indent + "    "),
        ]
    )


def scored_rows(
    model: DTGFNAnomalyDetector,
    names: list[str],
    values: list[dict[str, Any]],
    score: Floats,
    truth: list[Any],
) -> list[dict[str, Any]]:
    """Rows with what the detector says of them; ``score`` [n] is its decision function."""
    return [
        {
            "name": name,
            "values": row,
            "truth": None if known is None else "anomaly" if known else "normal",
            "probability": None,
            "prediction": "anomaly" if value < 0 else "normal",
            "interval": None,
            "uncertainty": None,
            "score": float(value + model.offset_),
        }
        for name, row, value, known in zip(names, values, score, truth, strict=True)
    ]


def _known(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
