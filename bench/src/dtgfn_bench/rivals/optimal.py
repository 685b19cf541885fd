"""The tree of some depth with the fewest training errors: Quant-BnB's optimum, by ConTree."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from dtgfn_bench.contract import Method, TrainingRows
from dtgfn_bench.rivals.single_tree import SingleTree, Split


def fit_optimal(rows: TrainingRows, seed: int, *, depth: int, seconds: float) -> SingleTree:
    """An optimal tree; the best one found so far when ``seconds`` are over."""
    from pycontree import ConTree  # type: ignore[import-not-found,import-untyped]

    del seed  # nothing is drawn
    # ConTree indexes its counts by label: the labels must have no gap.
    seen, labels = np.unique(rows.y, return_inverse=True)
    if len(seen) == 1:
        return SingleTree(None, rows)
    search = ConTree(max_depth=depth, time_limit=seconds)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Fitting exceeds time limit")
        search.fit(rows.X, labels.astype(np.intc))
    return SingleTree(_splits(search.get_tree()), rows)


def _splits(node: Any) -> Split | None:
    if node.is_leaf_node():
        return None
    return Split(
        int(node.get_split_feature()),
        float(node.get_split_threshold()),
        _splits(node.get_left()),
        _splits(node.get_right()),
    )


METHODS: tuple[Method, ...] = (
    Method(
        name="quant-bnb",
        label="Quant-BnB (optimum)",
        fit=fit_optimal,
        note=(
            "The optimum of depth 3 found by ConTree (pycontree) instead of Quant-BnB, which needs "
            "Julia: training errors are the same, ties between optimal trees may fall otherwise."
        ),
        settings={"depth": 3, "seconds": 120.0},
        quick={"depth": 2},
        needs=("pycontree",),
    ),
)
