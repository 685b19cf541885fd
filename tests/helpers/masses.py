"""What a tree and all trees equivalent to it weigh together."""

from dtgfn.trees.batch import TreeBatch
from dtgfn.trees.equivalent_cuts import equivalent_cuts, log_n_equivalent
from dtgfn.trees.score import Rows, Score, log_reward


def log_mass(tree: TreeBatch, rows: Rows, score: Score) -> float:
    """Log of the sum of R^(1/temperature) over the equivalents of a batch of one tree."""
    number = log_n_equivalent(equivalent_cuts(tree, rows.codes))
    return float((log_reward(tree, rows, score) / score.temperature + number)[0])
