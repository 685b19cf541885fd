"""FlatTrees: trees made to descend fast, summed and averaged over what their leaves say.

What the numbers are is the caller's business: class probabilities, moments of a regression leaf,
an anomaly score. Rows are taken in blocks that stay in cache while all trees pass over them, and
each row's sum runs over the trees in their order, so the result does not depend on the threads.
"""

# numba's decorators are untyped; the loops' own signatures are still checked.
# mypy: disallow-untyped-decorators=False

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dtgfn._support.arrays import Codes, Floats, Int32s, UInt32s
from dtgfn._support.compiled import njit
from dtgfn._support.parallel import Threads
from dtgfn.data.binning import as_codes
from dtgfn.trees.batch import TreeBatch
from dtgfn.trees.leaf_models import LeafModel, add_row, check_targets

NEVER = np.iinfo(np.uint16).max  # no code is above this cut
BLOCK_BYTES = 1 << 16


class FlatTrees(NamedTuple):
    """B trees as one list of M nodes with L leaves, made for descending without branches.

    Attributes
    ----------
    root : uint32 [B]
        Node at which each tree begins.
    depth : int32 [B]
        Steps after which every row has reached its leaf.
    feature : uint32 [M]
        Feature that the node asks for; 0 at leaves.
    cut : uint16 [M]
        A row goes to ``left + 1`` if its code is above the cut, which none is at a leaf.
    left : uint32 [M]
        Left child; a leaf is its own.
    leaf : uint32 [M]
        Number of the leaf, 0..L-1, in the order of trees; 0 at inner nodes.
    first_leaf : int64 [B + 1]
        The leaves of tree b are those from ``first_leaf[b]`` to ``first_leaf[b + 1] - 1``.

    """

    root: UInt32s
    depth: Int32s
    feature: UInt32s
    cut: npt.NDArray[np.uint16]
    left: UInt32s
    leaf: UInt32s
    first_leaf: npt.NDArray[np.int64]


@dataclass(frozen=True)
class WeightedTrees:
    """B trees, a vector of K numbers at each of their L leaves, a weight per tree.

    Attributes
    ----------
    trees : FlatTrees
    values : float64 [V, K]
        What a leaf says; ``trees.leaf`` numbers its rows.
    weights : float64 [B]

    Examples
    --------
    >>> from dtgfn.trees.batch import from_splits
    >>> trees = flatten(from_splits([{(): (0, 2)}, {}]))
    >>> weighted = WeightedTrees(trees, np.array([[1.0], [2.0], [10.0]]), np.array([0.5, 0.5]))
    >>> average(weighted, np.array([[1], [3]], dtype=np.uint16)).ravel()
    array([5.5, 6. ])

    """

    trees: FlatTrees
    values: Floats
    weights: Floats

    def __post_init__(self) -> None:
        n_trees, leaf = len(self.trees.root), self.trees.leaf
        n_values = int(leaf.max()) + 1 if leaf.size else 0
        if self.weights.shape != (n_trees,) or len(self.values) < n_values:
            raise ValueError(
                f"{n_trees} trees with {n_values} leaves do not go with {len(self.values)} rows of "
                f"values and weights of the shape {self.weights.shape}; give one for each."
            )


def flatten(trees: TreeBatch) -> FlatTrees:
    """Put the nodes in use [B, N] one after the other."""
    used = np.arange(trees.feature.shape[1])[None, :] < trees.n_nodes[:, None]
    root = np.concatenate([[0], np.cumsum(trees.n_nodes)[:-1]])
    inner = (trees.feature >= 0)[used]
    itself = np.arange(inner.size)
    child = (trees.left + root[:, None])[used]
    n_leaves = (trees.n_nodes.astype(np.int64) + 1) // 2
    return FlatTrees(
        root=root.astype(np.uint32),
        depth=trees.depth,
        feature=np.where(inner, trees.feature[used], 0).astype(np.uint32),
        cut=np.where(inner, trees.cut[used], NEVER).astype(np.uint16),
        left=np.where(inner, child, itself).astype(np.uint32),
        leaf=np.where(inner, 0, np.cumsum(~inner) - 1).astype(np.uint32),
        first_leaf=np.concatenate([[0], np.cumsum(n_leaves)]),
    )


@njit(cache=True, nogil=True)
def reach_leaves(
    trees: FlatTrees, b: int, codes: Codes, first: int, last: int, found: UInt32s
) -> None:
    """Write the leaf that rows first..last-1 reach in tree b to found [last - first].

    Four rows descend side by side: each waits for memory while the others move on.
    """
    root, depth = trees.root[b], trees.depth[b]
    feature, cut, left, leaf = trees.feature, trees.cut, trees.left, trees.leaf
    fours = first + (last - first) // 4 * 4
    for i in range(first, fours, 4):
        p = q = r = s = root
        for _ in range(depth):
            p = left[p] + np.uint32(codes[i, feature[p]] > cut[p])
            q = left[q] + np.uint32(codes[i + 1, feature[q]] > cut[q])
            r = left[r] + np.uint32(codes[i + 2, feature[r]] > cut[r])
            s = left[s] + np.uint32(codes[i + 3, feature[s]] > cut[s])
        found[i - first], found[i - first + 1] = leaf[p], leaf[q]
        found[i - first + 2], found[i - first + 3] = leaf[r], leaf[s]
    for i in range(fours, last):
        p = root
        for _ in range(depth):
            p = left[p] + np.uint32(codes[i, feature[p]] > cut[p])
        found[i - first] = leaf[p]


@njit(cache=True, nogil=True)
def average_rows(
    trees: FlatTrees,
    values: Floats,
    weights: Floats,
    codes: Codes,
    out: Floats,
    first: int,
    last: int,
    block: int,
) -> None:
    """Add each tree's weight times its leaf's values to out [n, K], rows first..last-1."""
    found = np.empty(block, dtype=np.uint32)
    for begin in range(first, last, block):
        end = min(begin + block, last)
        for b in range(weights.shape[0]):
            reach_leaves(trees, b, codes, begin, end, found)
            for i in range(begin, end):
                leaf = found[i - begin]
                for k in range(values.shape[1]):
                    out[i, k] += weights[b] * values[leaf, k]


@njit(cache=True, nogil=True)
def sum_rows(
    trees: FlatTrees,
    codes: Codes,
    statistics: Floats,
    totals: Floats,
    first: int,
    last: int,
    block: int,
) -> None:
    """Add each row's statistics [n, K] to the leaf it reaches [L, K], in trees first..last-1."""
    found = np.empty(block, dtype=np.uint32)
    for begin in range(0, codes.shape[0], block):
        end = min(begin + block, codes.shape[0])
        for b in range(first, last):
            reach_leaves(trees, b, codes, begin, end, found)
            for i in range(begin, end):
                for k in range(statistics.shape[1]):
                    totals[found[i - begin], k] += statistics[i, k]


@njit(cache=True, nogil=True)
def add_rows_to_leaves(
    trees: FlatTrees,
    codes: Codes,
    target: Any,
    weight: Floats,
    leaf: Any,
    totals: Floats,
    first: int,
    last: int,
    block: int,
) -> None:
    """Add each row to the leaf model's sums [L, K] where it ends, in trees first..last-1."""
    found = np.empty(block, dtype=np.uint32)
    for begin in range(0, codes.shape[0], block):
        end = min(begin + block, codes.shape[0])
        for b in range(first, last):
            reach_leaves(trees, b, codes, begin, end, found)
            for i in range(begin, end):
                add_row(totals[found[i - begin]], target[i], weight[i], leaf)


def average(weighted: WeightedTrees, codes: Codes, n_jobs: int | None = None) -> Floats:
    """Weighted sum over trees of what each row's leaf says, for rows of codes [n, d] -> [n, K].

    The weights are taken as they are: with weights that sum to one this is an average.

    Parameters
    ----------
    weighted : WeightedTrees
        Trees, weights and what leaves say.
    codes : uint16 [n, d]
        Coded rows, see ``TreePosterior.encode``.
    n_jobs : int or None
        Threads, all cores if None or -1.

    Returns
    -------
    float64 [n, K]
        The sum.

    """
    codes = as_codes(codes, _n_features_of(weighted.trees))
    out = np.zeros((codes.shape[0], weighted.values.shape[1]))
    block = _block_rows(codes, out)

    def work(first: int, last: int) -> None:
        average_rows(
            weighted.trees, weighted.values, weighted.weights, codes, out, first, last, block
        )  # fmt: skip

    Threads(n_jobs)(work, len(codes))
    return out


def leaves_of(trees: FlatTrees, codes: Codes) -> UInt32s:
    """Leaf number [B, n] that each row of codes [n, d] reaches in each tree."""
    codes = as_codes(codes, _n_features_of(trees))
    found = np.empty((len(trees.root), len(codes)), dtype=np.uint32)
    for b in range(len(found)):
        reach_leaves(trees, b, codes, 0, len(codes), found[b])
    return found


def sum_leaves(
    trees: FlatTrees, codes: Codes, statistics: Floats, n_jobs: int | None = None
) -> Floats:
    """Sum of the statistics [n, K] of the rows [n, d] that reach each leaf -> [L, K].

    One-hot labels times row weights give class counts; weight, target and its square give what a
    Normal leaf needs.
    """
    codes = as_codes(codes, _n_features_of(trees))
    statistics = np.ascontiguousarray(statistics, dtype=np.float64)
    if statistics.ndim != 2 or len(statistics) != len(codes):
        raise ValueError(
            f"There are {len(codes)} rows of codes, but the statistics have the shape "
            f"{statistics.shape}; give one row of them for each."
        )
    totals = np.zeros((int(trees.first_leaf[-1]), statistics.shape[1]))
    block = _block_rows(codes, statistics)

    def work(first: int, last: int) -> None:
        sum_rows(trees, codes, statistics, totals, first, last, block)

    Threads(n_jobs)(work, len(trees.root))
    return totals


def leaf_sums(
    trees: FlatTrees,
    codes: Codes,
    target: npt.NDArray[Any],
    weight: Floats,
    leaf: LeafModel,
    n_jobs: int | None = None,
) -> Floats:
    """The leaf model's sums over the rows [n, d] that reach each leaf -> [L, K]."""
    codes = as_codes(codes, _n_features_of(trees))
    check_targets(target, leaf)
    totals = np.zeros((int(trees.first_leaf[-1]), leaf.n_sums))
    given = (trees, codes, target, weight, leaf.terms(), totals)
    block = _block_rows(codes, totals[:, :1])
    Threads(n_jobs)(lambda i, j: add_rows_to_leaves(*given, i, j, block), len(trees.root))
    return totals


def _n_features_of(trees: FlatTrees) -> int:
    """How many columns of codes the trees ask for, at least: a leaf reads the first one, too."""
    return int(trees.feature.max(initial=0)) + 1 if trees.depth.any() else 0


def _block_rows(codes: Codes, numbers: Floats) -> int:
    """Rows whose codes and numbers fit into a near cache, a multiple of four."""
    bytes_per_row = 2 * codes.shape[1] + 8 * numbers.shape[1]
    return int(np.clip(BLOCK_BYTES // max(bytes_per_row, 1), 16, 1024)) // 4 * 4
