"""KnownTrees: the trees that a sampler has met, equivalent ones told as one, in order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dtgfn._support.arrays import Floats, Int64s
from dtgfn.trees.batch import TreeBatch, distinct_trees, stack_trees
from dtgfn.trees.equivalent_cuts import EquivalentCuts, group_equivalent, with_middle_cuts
from dtgfn.trees.score import Rows, Score, log_reward

MOST_STEPS = 100_000_000  # rows times trees times levels that are looked at: half a second
FEWEST = 20  # trees that are looked at anyway


class KnownTrees(NamedTuple):
    """D classes of equivalent trees, the most probable first.

    Attributes
    ----------
    trees : TreeBatch
        One tree of each class, its cuts in the middle of those that part the rows alike.
    cuts : EquivalentCuts
        First and last of these [D, N].
    log_reward : float64 [D]
        Log R, the same for all trees of a class.
    log_mass : float64 [D]
        Log of the sum of R^(1/temperature) over the class.
    share : float64 [D]
        Weight of the draws that are of the class.

    """

    trees: TreeBatch
    cuts: EquivalentCuts
    log_reward: Floats
    log_mass: Floats
    share: Floats


def known_trees(
    trees: TreeBatch,
    reward: Floats,
    weight: Floats,
    rows: Rows,
    score: Score,
    *,
    also: TreeBatch | None = None,
    by_share: bool = False,
    middle: bool = True,
) -> KnownTrees:
    """Group and rank drawn trees [B], of which log R and the weights [B] are given.

    ``also`` are trees that are known without having been drawn; of equals they come first. The
    order is that of the exact mass of all trees of a class; ``by_share`` it is that of the weight
    of its draws, which is all that counts in bags and all that chains tell, and the mass decides
    between equals. Of very many rows only the best trees are looked at: there thresholds hardly
    ever part rows alike. Unless in the ``middle``, cuts are those of the first tree of a class.
    """
    first, member = distinct_trees(trees)
    share = np.bincount(member, weights=weight)
    value = share if by_share else reward[first]
    most = max(MOST_STEPS // (len(rows.codes) * max(score.max_depth, 1)), FEWEST)
    kept = np.sort(np.argsort(-value, kind="stable")[:most])
    first, share = first[kept], share[kept]
    known, log_r = trees[first], reward[first]
    if also is not None:
        known = stack_trees([also, known])
        log_r = np.concatenate([log_reward(also, rows, score), log_r])
        share = np.concatenate([np.zeros(len(also)), share])
    groups = group_equivalent(known, rows.codes)
    log_r = log_r[groups.leader]
    log_mass = log_r / score.temperature + groups.log_number
    shares = np.asarray(np.bincount(groups.member, weights=share), dtype=np.float64)
    order = _order(log_mass)
    if by_share:
        order = order[np.argsort(-np.round(shares[order], 12), kind="stable")]
    cuts = EquivalentCuts(*(cut[order] for cut in groups.cuts))
    shown = known[groups.leader[order]]
    shown = with_middle_cuts(shown, cuts) if middle else shown
    return KnownTrees(shown, cuts, log_r[order], log_mass[order], shares[order])


def _order(log_mass: Floats) -> Int64s:
    """Positions, the greatest first; those that rounding may have told apart stay in order."""
    order = np.argsort(-log_mass, kind="stable")
    ranked = log_mass[order]
    step = ranked[:-1] - ranked[1:] > 1e-10 * np.maximum(np.abs(ranked[:-1]), 1.0)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.concatenate([[0], np.cumsum(step)])
    return np.argsort(place, kind="stable")
