"""What a file without training rows keeps of them: sums at the nodes of its trees, checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dtgfn._support.arrays import Floats
from dtgfn.storage.archived_parts import LARGEST_TOTAL, ROUNDING, Arrays, array_of
from dtgfn.trees.batch import TreeBatch, trim
from dtgfn.trees.equivalent_cuts import EquivalentCuts
from dtgfn.trees.leaf_models import DirichletLeaf, LeafModel
from dtgfn.trees.left_out_rows import (
    KnownTree,
    LeftOutRows,
    cuts_alike,
    known_trees_of,
    sums_at_nodes,
)

if TYPE_CHECKING:
    from dtgfn.posterior.tree_posterior import TreePosterior

LARGEST_CUT = np.iinfo(np.uint16).max


def known_to_arrays(posterior: TreePosterior) -> Arrays:
    """Return sums at the nodes of all trees, and the cuts that part the rows as the best tree's."""
    leaf = posterior.score.leaf
    batches = {"trees": posterior.trees, "best": posterior.best_tree, "paper": posterior.paper_tree}
    arrays: Arrays = {
        f"{name}.sums": sums_at_nodes(trim(trees), posterior.rows, leaf)
        for name, trees in batches.items()
    }
    first, last = cuts_alike(trim(posterior.best_tree), posterior.rows)
    return {**arrays, "best.first": first, "best.last": last}


def known_from(arrays: Arrays, batches: dict[str, TreeBatch], leaf: LeafModel) -> LeftOutRows:
    """Return what is known of trees whose rows were left out; the last batch is the best tree."""
    known: dict[bytes, KnownTree] = {}
    for name, trees in batches.items():
        sums = array_of(arrays, f"{name}.sums", "f8", 3, len(trees))
        if sums.shape != (*trees.feature.shape, leaf.n_sums):
            raise ValueError(f"its array {name}.sums is of the wrong shape")
        _check_sums(sums, leaf)
        alike = _cuts_from(arrays, trees) if name == "best" else None
        known |= known_trees_of(trees, sums, alike)
    return LeftOutRows(known)


def _check_sums(sums: Floats, leaf: LeafModel) -> None:
    """Refuse what no rows can sum to."""
    usable = np.isfinite(sums).all() and bool(np.abs(sums).max(initial=0.0) <= LARGEST_TOTAL)
    if usable and isinstance(leaf, DirichletLeaf):
        usable = bool((sums >= 0).all())
    elif usable:
        n, first, second = np.moveaxis(sums, -1, 0)
        largest = np.sqrt(np.maximum(n, 0.0)) * np.sqrt(np.maximum(second, 0.0))
        usable = bool((n >= 0).all() and (np.abs(first) <= largest * (1 + ROUNDING)).all())
    if not usable:
        raise ValueError("a leaf holds no usable sums")


def _cuts_from(arrays: Arrays, trees: TreeBatch) -> EquivalentCuts:
    first, last = (array_of(arrays, f"best.{end}", "i4", 2) for end in ("first", "last"))
    if first.shape != trees.cut.shape or last.shape != trees.cut.shape:
        raise ValueError("its best tree's cuts are of the wrong shape")
    inner = trees.feature >= 0
    around = (first >= 0) & (first <= trees.cut) & (trees.cut <= last) & (last <= LARGEST_CUT)
    if not around[inner].all():
        raise ValueError("its best tree's cuts do not hold its splits")
    return EquivalentCuts(first, last)
