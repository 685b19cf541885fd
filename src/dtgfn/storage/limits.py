"""What the arrays of a model file become, in memory and work, counted before they do.

A file may be small and ask for much: codes are padded, trees are flattened, leaves get a number
for each class, pairs of cuts are summed. What nobody who fits models needs is refused.
"""

from __future__ import annotations

import numpy as np

from dtgfn._support.arrays import UInt64s
from dtgfn._support.memory import gigabytes
from dtgfn._support.parallel import run_at_once
from dtgfn.engines.rowsets.graph import count_edges, make_row_sets
from dtgfn.engines.rowsets.problem import Problem
from dtgfn.trees.batch import TreeBatch, distinct_trees
from dtgfn.trees.leaf_models import LeafModel
from dtgfn.trees.score import Rows

MOST_BYTES = 2 << 30
MOST_STEPS = 2e11  # of rows down trees, which take minutes
MOST_PAIRS = 1e12  # of cuts, likewise
MOST_DRAWS = 2e8  # of a leaf's probabilities, likewise
SETS_AT_ONCE = 1000


def check_bytes(n_bytes: float, what: str) -> None:
    """Refuse before memory is taken, not after."""
    if n_bytes > MOST_BYTES:
        raise ValueError(
            f"it needs {gigabytes(n_bytes)} for {what}, more than the {gigabytes(MOST_BYTES)} that "
            "a model may"
        )


def check_forest(trees: TreeBatch, rows: Rows, leaf: LeafModel, max_depth: int) -> None:
    """Refuse trees [B] whose leaves cannot be counted in any reasonable memory or time."""
    n_trees, n_leaves = len(trees), float(((trees.n_nodes + 1) // 2).sum(dtype=np.int64))
    if not _affordable(n_trees, n_leaves, rows, leaf, max_depth):  # equal trees count once
        first, _ = distinct_trees(trees)
        n_trees = len(first)
        n_leaves = float(((trees.n_nodes[first] + 1) // 2).sum(dtype=np.int64))
    check_bytes(_leaf_bytes(n_leaves, leaf), f"{n_leaves:,.0f} leaves")
    if not _affordable(n_trees, n_leaves, rows, leaf, max_depth):
        raise ValueError(
            f"its {n_trees:,} trees would have to be counted on {len(rows.target):,} rows"
        )


def check_draws(trees: TreeBatch, leaf: LeafModel) -> None:
    """Refuse draws of leaf probabilities, one for each leaf of each draw of a tree, without end."""
    n_leaves = int(((trees.n_nodes + 1) // 2).sum(dtype=np.int64))
    if n_leaves * leaf.n_outputs > MOST_DRAWS:
        raise ValueError(f"it would draw the probabilities of {n_leaves:,} leaves")


def _affordable(n_trees: int, n_leaves: float, rows: Rows, leaf: LeafModel, max_depth: int) -> bool:
    n_steps = float(n_trees) * len(rows.target) * (max_depth + leaf.n_sums)
    return n_steps <= MOST_STEPS and _leaf_bytes(n_leaves, leaf) <= MOST_BYTES


def _leaf_bytes(n_leaves: float, leaf: LeafModel) -> float:
    return 8.0 * n_leaves * (leaf.n_sums + leaf.n_outputs)


def check_exact(rows: Rows, leaf: LeafModel) -> None:
    """Refuse rows that would not fit once they are made a problem (``make_problem``)."""
    n_rows, n_features = rows.codes.shape
    check_bytes(8.0 * n_rows * leaf.n_sums, f"{n_rows:,} rows with {leaf.n_sums:,} sums each")
    # Ranks are padded to the feature with the most codes.
    widest = min(n_rows, int(rows.codes.max(initial=0)) + 1)
    check_bytes(4.0 * n_features * widest, f"{n_features:,} features of {widest:,} codes")


def affordable_threads(problem: Problem, n_threads: int) -> int:
    """How many threads may average at a time; a problem too large for one is refused."""
    n_features, n_rows = problem.loops.ranks.shape
    width, n_outputs = problem.loops.rank_code.shape[1], problem.score.leaf.n_outputs
    each = 32.0 * problem.max_cuts * n_outputs + 8.0 * width * problem.score.leaf.n_sums
    if problem.two_levels_at_once:
        each += 4.0 * (n_features * n_rows + width * width)
    check_bytes(each, f"{problem.max_cuts:,} cuts")
    return int(np.clip(MOST_BYTES // max(each, 1.0), 1, n_threads))


def check_pairs(problem: Problem, bits: UInt64s, levels_left: int) -> None:
    """Refuse row sets [K, W] whose (pairs of) cuts nobody could sum."""
    if len(bits) * float(problem.max_cuts) ** levels_left <= MOST_PAIRS:
        return
    n_pairs = 0.0
    for first in range(0, len(bits), SETS_AT_ONCE):
        level = make_row_sets(problem, bits[first : first + SETS_AT_ONCE])
        counts = count_edges(problem, level, run_at_once).astype(np.float64)
        n_pairs += float((counts**levels_left).sum())
        if n_pairs > MOST_PAIRS:
            raise ValueError(f"it would sum more than {MOST_PAIRS:.0e} pairs of cuts")
