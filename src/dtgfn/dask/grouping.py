"""The rows of a fitted model: all of them, as far as its trees can tell them apart.

Trees of a posterior ask few of the thresholds. Rows that agree on all of these end in the same leaf
of every tree, so they become one row: what leaves hold, log R and predictions stay what they are,
and the rows of a cluster fit into one model.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dtgfn._support.arrays import Codes, Floats, Int32s, Int64s
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


def as_rows(groups: CodedPart, used: UsedCuts, n_codes: Int64s, unit: Floats) -> Rows:
    """Groups as rows, two for each: one with its lowest and one with its highest codes.

    So a cut that was not asked for never seems to part the rows as one that was. Both have half of
    the group's weight; of numbers they are at its mean less and plus its spread, which gives its
    sums of weights, numbers and squares.
    """
    n_features = len(n_codes)
    codes: Codes = np.zeros((2, len(groups.slot), n_features), dtype=np.uint16)
    codes[1] = n_codes - 1
    codes[0][:, used.feature] = groups.codes
    for u, (feature, cuts) in enumerate(zip(used.feature, used.cuts, strict=True)):
        highest = np.append(cuts, n_codes[feature] - 1).astype(np.uint16)
        codes[1][:, feature] = highest[np.searchsorted(cuts, groups.codes[:, u], side="left")]
    both = codes.reshape(-1, n_features)
    amount = groups.amount * (unit[: groups.amount.shape[1]])
    weight = np.tile(amount[:, 0] / 2, 2)
    if amount.shape[1] == 1:
        return Rows(both, np.tile(groups.slot, 2), weight)
    mean = amount[:, 1] / amount[:, 0]
    spread = np.sqrt(np.maximum(amount[:, 2] / amount[:, 0] - mean**2, 0.0))
    return Rows(both, np.concatenate([mean - spread, mean + spread]), weight)
