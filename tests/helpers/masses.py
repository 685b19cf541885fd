"""What a tree and all trees equivalent to it weigh together."""

from itertools import product

import numpy as np

from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.trees.batch import TreeBatch, stack_trees
from dtgfn.trees.equivalent_cuts import equivalent_cuts, log_n_equivalent
from dtgfn.trees.score import Rows, Score, log_reward


def log_mass(tree: TreeBatch, rows: Rows, score: Score) -> float:
    """Log of the sum of R^(1/temperature) over the equivalents of a batch of one tree."""
    number = log_n_equivalent(equivalent_cuts(tree, rows.codes))
    return float((log_reward(tree, rows, score) / score.temperature + number)[0])


def single_trees(posterior: TreePosterior, n_trees: int) -> tuple[TreeBatch, np.ndarray]:
    """The single trees, each threshold for itself, of the most probable trees, and their chances.

    Enough of these must be asked for: a tree of many equivalents is many single ones.
    """
    found = posterior.most_probable(n_trees)
    batches, chances = [], []
    for b in range(len(found)):
        ends = zip(found.cuts.first[b], found.cuts.last[b], strict=True)
        spans = [range(first, last + 1) for first, last in ends]
        cuts = np.array(list(product(*spans)), dtype=np.int32)
        rows = np.full(len(cuts), b)
        trees = found.trees[rows]
        batches.append(
            TreeBatch(trees.feature, cuts[:, : trees.cut.shape[1]], trees.left, trees.n_nodes)
        )
        chances.append(np.full(len(cuts), found.probability[b] / len(cuts)))
    chance = np.concatenate(chances)
    order = np.argsort(-chance, kind="stable")[:n_trees]
    return stack_trees(batches)[order], chance[order]
