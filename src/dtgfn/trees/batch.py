"""TreeBatch: many decision trees as arrays, and the questions one asks of them.

Where a row goes, what it adds up to at the nodes it passes, which trees are equal, and whether
arrays are trees at all. The compiled loops that answer are at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dtgfn._support.arrays import Bools, Codes, Floats, Int32s, Int64s
from dtgfn._support.compiled import njit
from dtgfn._support.parallel import run_serial
from dtgfn.data.binning import as_codes
from dtgfn.trees.leaf_models import LeafModel, add_row, check_targets

LEAF = -1
MAX_DEPTH = 30
NODES_AT_ONCE = 1 << 20  # checked, so that it takes a few megabytes
BLOCK = 256  # rows


@dataclass(frozen=True)
class TreeBatch:
    """B trees of at most N nodes each; node 0 is the root and children come after parents.

    Attributes
    ----------
    feature : int32 [B, N]
        Feature split at the node, or ``LEAF``; slots past ``n_nodes`` hold ``LEAF``.
    cut : int32 [B, N]
        A row goes left when ``code <= cut``.
    left : int32 [B, N]
        Index of the left child (the right one is ``left + 1``), -1 at leaves.
    n_nodes : int32 [B]
        Number of nodes in use.

    Examples
    --------
    >>> stump = from_splits([{(): (0, 2)}])
    >>> route(stump, np.array([[1], [3]], dtype=np.uint16)).tolist()
    [[1, 2]]

    """

    feature: Int32s
    cut: Int32s
    left: Int32s
    n_nodes: Int32s

    def __len__(self) -> int:
        return int(self.feature.shape[0])

    def __getitem__(self, index: slice | npt.NDArray[np.generic] | Sequence[int]) -> TreeBatch:
        """Take a part of the batch (a slice, a mask or a list of positions)."""
        rows = np.asarray(index) if not isinstance(index, slice) else index
        return TreeBatch(self.feature[rows], self.cut[rows], self.left[rows], self.n_nodes[rows])

    @property
    def n_splits(self) -> Int32s:
        """Number of splits of each tree [B]."""
        return (self.n_nodes - 1) // 2

    @property
    def depth(self) -> Int32s:
        """Number of edges on the longest path of each tree [B]."""
        return np.asarray(node_depths(self).max(axis=1), dtype=np.int32)


def from_splits(trees: Sequence[dict[tuple[int, ...], tuple[int, int]]]) -> TreeBatch:
    """Build a batch from readable trees: path of turns (0 left, 1 right) -> (feature, cut)."""
    width = max(2 * len(splits) + 1 for splits in trees)
    batch = empty_batch(len(trees), width)
    for b, splits in enumerate(trees):
        slot: dict[tuple[int, ...], int] = {(): 0}
        used = 1
        for path in sorted(splits, key=len):
            node = slot[path]
            batch.feature[b, node], batch.cut[b, node] = splits[path]
            batch.left[b, node] = used
            slot[(*path, 0)], slot[(*path, 1)] = used, used + 1
            used += 2
        batch.n_nodes[b] = used
    return batch


def empty_batch(n_trees: int, width: int) -> TreeBatch:
    """Return a batch of single-leaf trees with room for ``width`` nodes."""
    return TreeBatch(
        feature=np.full((n_trees, width), LEAF, dtype=np.int32),
        cut=np.zeros((n_trees, width), dtype=np.int32),
        left=np.full((n_trees, width), -1, dtype=np.int32),
        n_nodes=np.ones(n_trees, dtype=np.int32),
    )


def node_depths(trees: TreeBatch) -> Int32s:
    """Depth of every node [B, N]; slots that are not in use get -1."""
    depth = np.full(trees.feature.shape, -1, dtype=np.int32)
    depth[:, 0] = 0
    batch = np.arange(len(trees))
    for node in range(trees.feature.shape[1]):
        inner = batch[trees.feature[:, node] >= 0]
        child = trees.left[inner, node]
        depth[inner, child] = depth[inner, node] + 1
        depth[inner, child + 1] = depth[inner, node] + 1
    return depth


def route(trees: TreeBatch, codes: Codes) -> Int32s:
    """Leaf index [B, n] reached by each row of ``codes`` [n, d] in each tree."""
    codes = as_codes(codes, n_features_of(trees))
    leaf = np.empty((len(trees), codes.shape[0]), dtype=np.int32)

    def work(first: int, last: int) -> None:
        some = slice(first, last)
        route_rows(trees.feature[some], trees.cut[some], trees.left[some], codes, leaf[some])

    run_serial(work, len(trees))
    return leaf


def n_features_of(trees: TreeBatch) -> int:
    """How many columns of codes the trees ask for, at least."""
    return int(trees.feature.max(initial=LEAF)) + 1


def node_sums(
    trees: TreeBatch, codes: Codes, target: Int32s | Floats, weight: Floats, leaf: LeafModel
) -> tuple[Floats, Int32s]:
    """Leaf model's sums [B, N, K] (class counts, say) and number of rows [B, N] at every node."""
    codes = as_codes(codes, n_features_of(trees))
    check_targets(target, leaf)
    if not len(codes) == len(target) == len(weight):
        raise ValueError(
            f"There are {len(codes)} rows of codes, {len(target)} targets and {len(weight)} "
            "weights; give as many of each."
        )
    shape = trees.feature.shape
    sums = np.zeros((*shape, leaf.n_sums))
    n_rows = np.zeros(shape, dtype=np.int32)
    terms = leaf.terms()

    def work(first: int, last: int) -> None:
        some = slice(first, last)
        arrays = (trees.feature, trees.cut, trees.left, codes[some], target[some], weight[some])
        sum_nodes(*arrays, terms, sums, n_rows)

    run_serial(work, len(codes))
    return sums, n_rows


def canonical_keys(trees: TreeBatch) -> list[bytes]:
    """One key per tree, equal exactly when two trees have the same splits at the same places."""
    words = np.empty((len(trees), 2 * trees.feature.shape[1]), dtype=np.int32)
    length = np.empty(len(trees), dtype=np.int64)
    write_preorder(trees.feature, trees.cut, trees.left, words, length)
    return [words[b, :n].tobytes() for b, n in enumerate(length.tolist())]


def stack_trees(batches: Sequence[TreeBatch]) -> TreeBatch:
    """Put batches of trees one after the other, with room for the widest of them.

    >>> stack_trees([from_splits([{}]), from_splits([{(): (0, 3)}])]).n_nodes.tolist()
    [1, 3]
    """
    width = max(batch.feature.shape[1] for batch in batches)
    stacked = empty_batch(sum(map(len, batches)), width)
    start = 0
    for batch in batches:
        trees = slice(start, start + len(batch))
        used = trees, slice(batch.feature.shape[1])
        stacked.feature[used], stacked.cut[used] = batch.feature, batch.cut
        stacked.left[used], stacked.n_nodes[trees] = batch.left, batch.n_nodes
        start += len(batch)
    return stacked


def trim(trees: TreeBatch) -> TreeBatch:
    """Leave out the slots that no tree has a node in."""
    used = slice(0, int(trees.n_nodes.max(initial=1)))
    return TreeBatch(trees.feature[:, used], trees.cut[:, used], trees.left[:, used], trees.n_nodes)


def uses_columns(feature: Int32s, column: Int32s, n_columns: int) -> Bools:
    """Whether each tree [B] splits on a feature of each column [n_columns].

    ``feature`` [B, N] is that of the trees' nodes, -1 at leaves; ``column`` [d] is each feature's.
    """
    used = np.zeros((len(feature), n_columns), dtype=np.bool_)
    tree, node = np.nonzero(feature >= 0)
    used[tree, column[feature[tree, node]]] = True
    return used


def distinct_trees(trees: TreeBatch) -> tuple[Int64s, Int64s]:
    """Where each distinct tree is first [D], and which of them every tree is [B].

    >>> batch = from_splits([{(): (0, 3)}, {}, {(): (0, 3)}])
    >>> [found.tolist() for found in distinct_trees(batch)]
    [[0, 1], [0, 1, 0]]
    """
    number: dict[bytes, int] = {}
    keys = canonical_keys(trees)
    member = np.array([number.setdefault(key, len(number)) for key in keys], dtype=np.int64)
    return np.unique(member, return_index=True)[1], member


def tally(trees: TreeBatch, weight: Floats) -> tuple[Int64s, Floats]:
    """Where each distinct tree is first [D], and the total weight [D] of its copies."""
    first, member = distinct_trees(trees)
    return first, np.asarray(np.bincount(member, weights=weight), dtype=np.float64)


def check_trees(
    trees: TreeBatch, n_cuts: npt.NDArray[np.integer[Any]], max_depth: int = MAX_DEPTH
) -> None:
    """Refuse arrays that are not trees, so that no loop over them can run wild.

    ``n_cuts`` [d] is how many cuts each feature has. Files come from strangers, and the compiled
    loops do not check bounds.
    """
    feature, n_nodes = trees.feature, trees.n_nodes
    if feature.ndim != 2 or {trees.cut.shape, trees.left.shape} != {feature.shape}:
        raise ValueError("tree arrays differ in shape")
    if n_nodes.shape != feature.shape[:1] or feature.shape[1] < 1:
        raise ValueError("tree arrays have no nodes")
    if ((n_nodes < 1) | (n_nodes > feature.shape[1])).any():
        raise ValueError("a tree has more nodes than there is room for")
    step = max(NODES_AT_ONCE // feature.shape[1], 1)
    for first in range(0, len(trees), step):
        part = trees[first : first + step]
        _check_splits(part, n_cuts)
        _check_depth(part, max_depth)


def _check_splits(trees: TreeBatch, n_cuts: npt.NDArray[np.integer[Any]]) -> None:
    """Refuse splits that are none, and nodes that are not the child of just one."""
    if (trees.feature < LEAF).any() or (trees.feature >= len(n_cuts)).any():
        raise ValueError("a tree splits on a feature that does not exist")
    batch, node = np.nonzero(trees.feature >= 0)
    child = trees.left[batch, node].astype(np.int64)
    if ((child <= node) | (child + 1 >= trees.n_nodes[batch])).any():
        raise ValueError("a tree's child index is out of range")
    parents = np.zeros(trees.feature.shape, dtype=np.int32)
    np.add.at(parents, (batch, child), 1)
    np.add.at(parents, (batch, child + 1), 1)
    slots = np.arange(trees.feature.shape[1])[None, :]
    if (parents != ((slots < trees.n_nodes[:, None]) & (slots > 0))).any():
        raise ValueError("a tree's nodes are not connected")
    cut = trees.cut[batch, node]
    if ((cut < 0) | (cut >= n_cuts[trees.feature[batch, node]])).any():
        raise ValueError("a tree's cut is out of range")


def _check_depth(trees: TreeBatch, max_depth: int) -> None:
    """Refuse trees that go deeper, level by level: their nodes are known to be connected."""
    batch, node = np.arange(len(trees)), np.zeros(len(trees), dtype=np.int64)
    for _ in range(max_depth + 1):
        inner = trees.feature[batch, node] >= 0
        batch = np.repeat(batch[inner], 2)
        node = np.repeat(trees.left[batch[::2], node[inner]], 2).astype(np.int64)
        node[1::2] += 1
    if batch.size:
        raise ValueError(f"a tree is deeper than its {max_depth} levels")


@njit(cache=True, nogil=True)
def route_rows(feature: Int32s, cut: Int32s, left: Int32s, codes: Codes, leaf: Int32s) -> None:
    """Write the leaf [B, n] that each row [n, d] reaches in each tree [B, N]."""
    for b in range(feature.shape[0]):
        for i in range(codes.shape[0]):
            node = 0
            while feature[b, node] >= 0:
                goes_right = codes[i, feature[b, node]] > cut[b, node]
                node = left[b, node] + (1 if goes_right else 0)
            leaf[b, i] = node


@njit(cache=True, nogil=True)
def sum_nodes(
    feature: Int32s,
    cut: Int32s,
    left: Int32s,
    codes: Codes,
    target: Int32s | Floats,
    weight: Floats,
    leaf: Any,
    sums: Floats,
    n_rows: Int32s,
) -> None:
    """Add each row to sums [B, N, K], and one to n_rows [B, N], where it passes."""
    for start in range(0, codes.shape[0], BLOCK):  # whose codes stay in the cache for all trees
        for b in range(feature.shape[0]):
            for i in range(start, min(start + BLOCK, codes.shape[0])):
                node = 0
                while True:
                    add_row(sums[b, node], target[i], weight[i], leaf)
                    n_rows[b, node] += 1
                    if feature[b, node] < 0:
                        break
                    goes_right = codes[i, feature[b, node]] > cut[b, node]
                    node = left[b, node] + (1 if goes_right else 0)


@njit(cache=True, nogil=True)
def node_code_ranges(
    feature: Int32s,
    cut: Int32s,
    left: Int32s,
    codes: Codes,
    lowest: Int32s,
    highest: Int32s,
) -> None:
    """Lowest and highest code [N, d] among the rows at each node of ONE tree [N]."""
    for i in range(codes.shape[0]):
        node = 0
        while True:
            for f in range(codes.shape[1]):
                lowest[node, f] = min(lowest[node, f], codes[i, f])
                highest[node, f] = max(highest[node, f], codes[i, f])
            if feature[node] < 0:
                break
            node = left[node] + (1 if codes[i, feature[node]] > cut[node] else 0)


@njit(cache=True, nogil=True)
def write_preorder(
    feature: Int32s, cut: Int32s, left: Int32s, words: Int32s, length: npt.NDArray[np.int64]
) -> None:
    """Write each tree's splits in preorder, -1 for a leaf."""
    pending = np.empty(feature.shape[1] + 1, dtype=np.int32)
    for b in range(feature.shape[0]):
        n_words = 0
        n_pending = 1
        pending[0] = 0
        while n_pending > 0:
            n_pending -= 1
            node = pending[n_pending]
            words[b, n_words] = feature[b, node]
            n_words += 1
            if feature[b, node] >= 0:
                words[b, n_words] = cut[b, node]
                n_words += 1
                pending[n_pending] = left[b, node] + 1
                pending[n_pending + 1] = left[b, node]
                n_pending += 2
        length[b] = n_words
