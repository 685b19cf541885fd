"""The rows of a fitted model: all of them, as far as its trees can tell them apart.

Trees of a posterior ask few of the thresholds. Rows that agree on all of these end in the same leaf
of every tree, so they become one row: what leaves hold, log R and predictions stay what they are,
and the rows of a cluster fit into one model.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dtgfn._support.arrays import Codes, Floats, Int32s
from dtgfn.dask.coding import merge_part
from dtgfn.engines.smc.histograms import CodedPart
from dtgfn.trees.batch import TreeBatch
from dtgfn.trees.score import Rows

MOST_GROUPS = 2_000_000


class UsedCuts(NamedTuple):
    """The features that trees ask, and the cuts of each, ascending; at most so many groups."""

    feature: Int32s  # [U]
    cuts: tuple[Int32s, ...]  # [U]
    most: int


def used_cuts(trees: TreeBatch, most: int = MOST_GROUPS) -> UsedCuts:
    """What trees ask."""
    inner = trees.feature >= 0
    feature, cut = trees.feature[inner], trees.cut[inner]
    asked = np.unique(feature).astype(np.int32)
    return UsedCuts(asked, tuple(np.unique(cut[feature == each]) for each in asked), most)


def group_part(part: CodedPart, used: UsedCuts) -> CodedPart | None:
    """Groups of a part's rows, by the lowest code of each; None if there are too many."""
    codes = np.zeros((len(part.slot), len(used.feature)), dtype=np.uint16)
    for u, (feature, cuts) in enumerate(zip(used.feature, used.cuts, strict=True)):
        lowest = np.append(0, cuts + 1).astype(np.uint16)
        codes[:, u] = lowest[np.searchsorted(cuts, part.codes[:, feature], side="left")]
    return merge_groups([part._replace(codes=codes)], used.most)


def merge_groups(several: list[CodedPart | None], most: int = MOST_GROUPS) -> CodedPart | None:
    """Groups of several parts together; None if there are too many."""
    known = [part for part in several if part is not None]
    if len(known) < len(several):
        return None
    columns = (np.concatenate(each) for each in zip(*known, strict=True))
    merged = merge_part(CodedPart(*columns))
    return merged if len(merged.slot) <= most else None


def as_rows(groups: CodedPart, used: UsedCuts, n_features: int, unit: Floats) -> Rows:
    """Groups as rows; of numbers two rows for each, which have its weight, mean and squares."""
    codes: Codes = np.zeros((len(groups.slot), n_features), dtype=np.uint16)
    codes[:, used.feature] = groups.codes
    if groups.amount.shape[1] == 1:
        return Rows(codes, groups.slot, groups.amount[:, 0] * unit[0])
    weight, first, second = (groups.amount * unit).T
    mean = first / weight
    spread = np.sqrt(np.maximum(second / weight - mean**2, 0.0))
    one = spread <= 1e-12 * np.maximum(np.abs(mean), 1e-300)
    target = np.concatenate([np.where(one, mean, mean - spread), (mean + spread)[~one]])
    weights = np.concatenate([np.where(one, weight, weight / 2), weight[~one] / 2])
    return Rows(np.concatenate([codes, codes[~one]]), target, weights)
