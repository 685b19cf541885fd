"""The consensus tree: one tree that stands for the whole posterior.

The loss of showing tree T where T' is true is the weighted mean over the training rows of ``sum_c
(p_T(c | x) - p_T'(c | x))^2`` (of numbers, the squared difference). Its posterior expectation is,
by the usual decomposition of a mean square, the distance of T to the posterior's averaged
predictions plus a constant that does not depend on T. So the tree that is nearest to the average is
also the one with the least expected distance to a tree drawn from the posterior: a median tree that
takes one pass over the trees, not one over all pairs. Predictions are compared, not splits: trees
that cut the same rows in another order, or on columns that stand in for one another, are the same
to it. Of bags it is the plain average of their trees: the decomposition knows no sharpened one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dtgfn._support.arrays import Floats
from dtgfn.explain.nodes import average_values, describe_nodes
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.trees.batch import TreeBatch, route, tally

ROUNDING = 1e-12  # of the target's spread


class Consensus(NamedTuple):
    """A batch of one tree, and its mean squared distance to the averaged predictions."""

    tree: TreeBatch
    distance: float


def consensus_tree(posterior: TreePosterior) -> Consensus:
    """Find the known tree whose predictions are nearest to the posterior's on the training rows.

    Candidates are the sampled trees and the best tree; of equally near ones the smallest is taken,
    then the one with the highest log R. With the exact engine the average is the exact one.

    Examples
    --------
    >>> from dtgfn import infer
    >>> posterior = infer([[1.0], [2.0], [8.0], [9.0]] * 5, ["no", "no", "yes", "yes"] * 5,
    ...                   engine="exact", max_depth=2, n_thresholds=3)
    >>> consensus = consensus_tree(posterior)
    >>> consensus.tree.n_splits.tolist(), consensus.distance < 1e-4
    ([1], True)

    """
    trees, reward = posterior.trees, posterior.log_reward
    first, _ = tally(trees, posterior.weights)
    target = average_values(posterior, posterior.rows.codes)
    places = [(trees[b : b + 1], float(reward[b])) for b in first]
    places.append((posterior.best_tree, posterior.best_log_reward))
    distance = np.array([_distance(tree, posterior, target) for tree, _ in places])
    scale = float(np.var(target, axis=0).sum()) or 1.0
    near = np.flatnonzero(distance <= distance.min() + ROUNDING * scale)
    best = min(near, key=lambda k: (int(places[k][0].n_splits[0]), -places[k][1]))
    return Consensus(places[best][0], float(distance[best]))


def _distance(tree: TreeBatch, posterior: TreePosterior, target: Floats) -> float:
    """Weighted mean over the training rows of the squared distance to ``target`` [n, K]."""
    rows = posterior.rows
    value = describe_nodes(posterior, tree).value[0]
    off = value[route(tree, rows.codes)[0]] - target
    return float(np.average((off**2).sum(axis=1), weights=rows.weight))
