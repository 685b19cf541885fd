"""Sums of trees as other programs get them: trees alone, a straight line being one more tree.

What a line says depends on one code, so it is a tree of one feature with a leaf for each code.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dtgfn._support.arrays import Floats, Int32s
from dtgfn.posterior.sum_posterior import SumPosterior
from dtgfn.trees.batch import TreeBatch
from dtgfn.trees.leaf_models import NormalLeaf
from dtgfn.trees.summed_lines import SummedLines
from dtgfn.trees.summed_trees import SummedTrees


def n_sum_nodes(posterior: SumPosterior) -> int:
    """Nodes of the trees that ``only_trees`` gives."""
    lines, n_nodes = posterior.summed.lines, int(posterior.summed.batch.n_nodes.sum())
    return n_nodes if lines is None else n_nodes + n_line_nodes(lines, _has_linear_mean(posterior))


def only_trees(posterior: SumPosterior) -> SummedTrees:
    """Sums whose mean prediction is the posterior's, and that have no lines."""
    return unfold_lines(posterior.summed, merged=_has_linear_mean(posterior))


def _has_linear_mean(posterior: SumPosterior) -> bool:
    """Whether a prediction is the mean of the draws' sums, so that draws can share their lines."""
    return isinstance(posterior.leaf, NormalLeaf)


def line_cuts(score: Floats) -> Int32s:
    """Cuts of a feature where its score [L] changes."""
    return np.flatnonzero(score[1:] != score[:-1]).astype(np.int32)


def n_line_nodes(lines: SummedLines, merged: bool) -> int:
    """Nodes of the trees that ``unfold_lines`` makes of lines."""
    per_sum = sum(2 * len(line_cuts(score)) + 1 for score in lines.score)
    n_draws, n_sums, n_lines = lines.slope.shape
    return n_sums * (per_sum + (n_draws - 1) * (n_lines if merged else per_sum))


def unfold_lines(summed: SummedTrees, merged: bool) -> SummedTrees:
    """The same sums with every line as one more tree.

    With ``merged`` the first draw has the lines of all draws and the others have none, which only
    leaves the mean over draws as it is, and takes fewer nodes.
    """
    lines = summed.lines
    if lines is None:
        return summed
    slope = lines.slope
    if merged:
        slope = np.concatenate([slope.sum(axis=0, keepdims=True), np.zeros_like(slope[1:])])
    staircases = [
        _staircase(int(feature), score)
        for feature, score in zip(lines.feature, lines.score, strict=True)
    ]
    width = max([summed.batch.feature.shape[1], *(len(s.feature) for s in staircases)])
    shape = (summed.n_draws, summed.n_sums, summed.n_summed + len(staircases), width)
    size = np.ones(shape[:3], dtype=np.int32)
    feature, left = np.full((2, *shape), -1, dtype=np.int32)
    cut, value = np.zeros(shape, dtype=np.int32), np.zeros(shape)
    batch, own = summed.batch, (*shape[:2], summed.n_summed, -1)
    size[:, :, : summed.n_summed] = batch.n_nodes.reshape(own[:3])
    there = np.s_[:, :, : summed.n_summed, : batch.feature.shape[1]]
    feature[there], left[there] = batch.feature.reshape(own), batch.left.reshape(own)
    cut[there], value[there] = batch.cut.reshape(own), summed.value.reshape(own)
    for d, stairs in enumerate(staircases):
        m, used = summed.n_summed + d, slope[:, :, d] != 0
        n_nodes = len(stairs.feature)
        size[used, m] = n_nodes
        feature[used, m, :n_nodes], cut[used, m, :n_nodes] = stairs.feature, stairs.cut
        left[used, m, :n_nodes] = stairs.left
        value[used, m, :n_nodes] = slope[used, d][:, None] * stairs.value
    flat = (-1, width)
    trees = TreeBatch(
        feature.reshape(flat), cut.reshape(flat), left.reshape(flat), size.reshape(-1)
    )
    return replace(summed, batch=trees, value=value.reshape(flat), n_summed=shape[2], lines=None)


@dataclass(frozen=True)
class _Stairs:
    """One tree of a single feature; arrays [N]."""

    feature: Int32s
    cut: Int32s
    left: Int32s
    value: Floats


def _staircase(asked: int, score: Floats) -> _Stairs:
    """Return the balanced tree that says the score of a feature."""
    cuts = line_cuts(score)
    n_nodes = 2 * len(cuts) + 1
    feature, left = np.full((2, n_nodes), -1, dtype=np.int32)
    cut, value = np.zeros(n_nodes, dtype=np.int32), np.zeros(n_nodes)
    size, waiting = 1, [(0, 0, len(cuts))]  # node, and the cuts below it
    while waiting:
        node, first, last = waiting.pop()
        if first == last:
            value[node] = score[cuts[first] if first < len(cuts) else len(score) - 1]
            continue
        middle = (first + last) // 2
        feature[node], cut[node], left[node] = asked, cuts[middle], size
        waiting += [(size, first, middle), (size + 1, middle + 1, last)]
        size += 2
    return _Stairs(feature, cut, left, value)
