"""Leaf sums of many trees on many rows: rows go down a path once for all trees that share it.

Draws of one posterior begin alike, and on a long table the time goes into sending rows down. Rows
keep their order on the way, so sums are to the last digit those of ``node_sums``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dtgfn._support.arrays import Codes, Floats, Int32s, Int64s
from dtgfn._support.compiled import njit
from dtgfn.trees.batch import TreeBatch
from dtgfn.trees.leaf_models import LeafModel, add_row, check_targets


def shared_leaf_sums(
    trees: TreeBatch, codes: Codes, target: Int32s | Floats, weight: Floats, leaf: LeafModel
) -> tuple[Floats, Int32s]:
    """As ``node_sums``, but only leaves are filled: sums [B, N, K] and numbers of rows [B, N]."""
    check_targets(target, leaf)
    shape, terms = trees.feature.shape, leaf.terms()
    sums, n_rows = np.zeros((*shape, leaf.n_sums)), np.zeros(shape, dtype=np.int32)
    by_feature: dict[int, npt.NDArray[np.uint16]] = {}

    def visit(tree: Int64s, slot: Int64s, rows: Int32s) -> None:
        """Send rows on from a place where all of some trees are at a slot of theirs."""
        feature = trees.feature[tree, slot]
        ends = feature < 0
        if ends.any():
            total = np.zeros(leaf.n_sums)
            add_listed(rows, target, weight, terms, total)
            sums[tree[ends], slot[ends]] = total
            n_rows[tree[ends], slot[ends]] = rows.size
        tree, slot, feature = tree[~ends], slot[~ends], feature[~ends]
        cut = trees.cut[tree, slot]
        rules, rule = np.unique(np.stack([feature, cut], axis=1), axis=0, return_inverse=True)
        for number, (chosen, at) in enumerate(rules.tolist()):
            if chosen not in by_feature:
                by_feature[chosen] = np.ascontiguousarray(codes[:, chosen])
            here = np.flatnonzero(rule.ravel() == number)
            left = trees.left[tree[here], slot[here]].astype(np.int64)
            goes_left, goes_right = part_listed(rows, by_feature[chosen], at)
            visit(tree[here], left, goes_left)
            visit(tree[here], left + 1, goes_right)

    everywhere = np.arange(len(trees)), np.zeros(len(trees), dtype=np.int64)
    visit(*everywhere, np.arange(len(target), dtype=np.int32))
    return sums, n_rows


@njit(cache=True, nogil=True)
def part_listed(rows: Int32s, codes: npt.NDArray[np.uint16], cut: int) -> tuple[Int32s, Int32s]:
    """Listed rows whose code [n] is at most the cut, and the others, in their order."""
    left, right = np.empty_like(rows), np.empty_like(rows)
    n_left, n_right = 0, 0
    for row in rows:
        # No branch on the code: it would be mispredicted half of the time.
        goes_right = codes[row] > cut
        left[n_left] = row
        right[n_right] = row
        n_left += not goes_right
        n_right += goes_right
    return left[:n_left].copy(), right[:n_right].copy()


@njit(cache=True, nogil=True)
def add_listed(
    rows: Int32s, target: Int32s | Floats, weight: Floats, leaf: Any, total: Floats
) -> None:
    """Add listed rows to sums [K]."""
    for row in rows:
        add_row(total, target[row], weight[row], leaf)
