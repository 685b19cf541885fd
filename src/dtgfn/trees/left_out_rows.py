"""Training rows that a model file was written without, and what is still known of its trees.

Leaves of single trees are sums over training rows. A file without rows keeps these sums, and which
cuts part the rows alike, for the trees that it holds; nothing can be counted in any other tree.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

import numpy as np

from dtgfn._support.arrays import Floats, Int32s
from dtgfn.trees.batch import TreeBatch, node_sums
from dtgfn.trees.equivalent_cuts import EquivalentCuts, equivalent_cuts
from dtgfn.trees.leaf_models import LeafModel
from dtgfn.trees.score import Rows


class RowsLeftOutError(ValueError):
    """Raised by what needs training rows that a model file was written without."""


def _refuse() -> NoReturn:
    raise RowsLeftOutError(
        "This model was saved without its training rows (rows=False), which this needs; "
        "predictions, their intervals and exports need none: for the rest save the model with its "
        "rows."
    )


class KnownTree(NamedTuple):
    """What is known of one tree of N nodes.

    ``sums`` [N, K] are the leaf model's at every node; ``first`` and ``last`` [N] the cuts that
    part the rows alike at every split, None of most trees.
    """

    sums: Floats
    first: Int32s | None = None
    last: Int32s | None = None


class LeftOutRows(Rows):
    """Rows that are not there: whoever asks for them is refused; some trees are known."""

    known: Mapping[bytes, KnownTree]

    def __init__(self, known: Mapping[bytes, KnownTree] | None = None) -> None:
        """Hold what is known of trees, by ``tree_keys``."""
        object.__setattr__(self, "known", known or {})

    def __getattribute__(self, name: str) -> Any:
        if name in ("codes", "target", "weight"):
            _refuse()
        return object.__getattribute__(self, name)

    def find(self, trees: TreeBatch) -> list[KnownTree]:
        """What is known of each tree; trees that are not are refused."""
        keys = tree_keys(trees)
        if not all(key in self.known for key in keys):
            _refuse()
        return [self.known[key] for key in keys]


def tree_keys(trees: TreeBatch) -> list[bytes]:
    """One key per tree, equal where its nodes are numbered and split alike."""
    used = trees.n_nodes.tolist()
    parts = trees.feature, trees.cut, trees.left
    return [b"".join(part[b, :n].tobytes() for part in parts) for b, n in enumerate(used)]


def known_trees_of(
    trees: TreeBatch, sums: Floats, alike: EquivalentCuts | None = None
) -> dict[bytes, KnownTree]:
    """What is known of trees [B] with sums [B, N, K], by their keys."""
    known = {}
    for b, (key, n) in enumerate(zip(tree_keys(trees), trees.n_nodes.tolist(), strict=True)):
        cuts = () if alike is None else (alike.first[b, :n], alike.last[b, :n])
        known[key] = KnownTree(sums[b, :n], *cuts)
    return known


def sums_at_nodes(trees: TreeBatch, rows: Rows, leaf: LeafModel) -> Floats:
    """Leaf model's sums [B, N, K] over the training rows at every node, counted or known."""
    if not isinstance(rows, LeftOutRows):
        return node_sums(trees, rows.codes, rows.target, rows.weight, leaf)[0]
    sums = np.zeros((*trees.feature.shape, leaf.n_sums))
    for b, one in enumerate(rows.find(trees)):
        sums[b, : len(one.sums)] = one.sums
    return sums


def sums_at_leaves(trees: TreeBatch, rows: LeftOutRows, leaf: LeafModel) -> Floats:
    """The same at the leaves of all trees, one after the other [L, K]."""
    used = np.arange(trees.feature.shape[1])[None, :] < trees.n_nodes[:, None]
    return np.asarray(sums_at_nodes(trees, rows, leaf)[used & (trees.feature < 0)])


def cuts_alike(trees: TreeBatch, rows: Rows) -> EquivalentCuts:
    """First and last cut [B, N] that parts the training rows alike, found or known."""
    if not isinstance(rows, LeftOutRows):
        return equivalent_cuts(trees, rows.codes)
    first, last = trees.cut.copy(), trees.cut.copy()
    for b, one in enumerate(rows.find(trees)):
        if one.first is None or one.last is None:
            _refuse()
        first[b, : len(one.first)], last[b, : len(one.last)] = one.first, one.last
    return EquivalentCuts(first, last)
