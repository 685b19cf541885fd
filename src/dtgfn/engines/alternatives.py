"""What may stand at a node of a tree: the posterior of every split there, by exact sums.

Given the rows at a node and the levels left, the rest of the tree does not matter: P(stop) and
P(cut) are those of a tree on these rows alone.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from dtgfn._support.arrays import Bools, Floats, Int32s, UInt64s
from dtgfn._support.parallel import run_at_once
from dtgfn.data.binning import distinct_codes
from dtgfn.engines.rowsets.graph import count_edges, expand, make_row_sets
from dtgfn.engines.rowsets.problem import Problem, make_problem
from dtgfn.engines.rowsets.ranking import tail_best
from dtgfn.engines.rowsets.tails import edge_log_weights, log_stop_weights, tail_values
from dtgfn.trees.score import Rows, Score

MOST_WORK = 2e8  # of one node: what the loops look at


class Alternatives(NamedTuple):
    """What may stand on some rows, E splits in all; see ``NodeSums.at``.

    ``stop`` is P(leaf), ``probability`` [E] that of each split, all thresholds ``low`` <= j <
    ``high`` together; they add up to one. ``best`` [E] is the log probability of the most probable
    subtree that begins so.
    """

    stop: float
    feature: Int32s
    low: Int32s
    high: Int32s
    probability: Floats
    best: Floats


class NodeSums:
    """Sums over all trees on some rows of a table, where these are quickly done.

    Parameters
    ----------
    rows : Rows
        All training rows.
    score : Score
        Prior and leaf model.

    """

    def __init__(self, rows: Rows, score: Score) -> None:
        n_features = rows.codes.shape[1]
        column = np.zeros(n_features, dtype=np.int32)  # which column does not matter here
        self.problem: Problem = make_problem(rows, score, column, 1)
        self.member = distinct_codes(rows.codes)[1]

    def at(self, inside: Bools, depth: int) -> Alternatives | None:
        """Sum over what may stand on the rows ``inside`` [n], at a depth; None if that takes long.

        At most three levels can be summed at once, or two where leaves are no class counts.
        """
        problem = self.problem
        levels_left = problem.score.max_depth - depth
        this = make_row_sets(problem, self._bits(inside))
        counts = count_edges(problem, this, run_at_once)
        n_edges = int(counts.sum())
        if levels_left == 0 or n_edges == 0:
            nothing, empty = np.zeros(0, np.int32), np.zeros(0)
            return Alternatives(1.0, nothing, nothing, nothing, empty, empty)
        if self._work(n_edges, levels_left, int(inside.sum())) > MOST_WORK:
            return None
        edges, children = expand(problem, this, run_at_once, counts)
        values = tail_values(problem, children, levels_left - 1, run_at_once)
        weight = np.empty(n_edges)
        edge_log_weights(0, 1, edges, values.log_z, depth, problem.loops, weight)
        weight += np.log(edges.high - edges.low)
        stop = float(log_stop_weights(problem, this, depth, np.array([True]), run_at_once)[0])
        log_z = float(logsumexp(np.append(weight, stop)))
        below = tail_best(problem, children.bits, depth + 1, run_at_once)
        log_p = weight - log_z
        return Alternatives(
            math.exp(stop - log_z),
            problem.feature[edges.feature],
            edges.low,
            edges.high,
            np.exp(log_p),
            log_p + below[edges.left] + below[edges.right],
        )

    def _work(self, n_edges: int, levels_left: int, n_rows: int) -> float:
        if levels_left <= 2:
            return 2.0 * n_edges * n_rows * self.problem.feature.size * (levels_left - 1.0)
        possible = levels_left == 3 and self.problem.two_levels_at_once
        return float(n_edges) ** 3 if possible else math.inf

    def _bits(self, inside: Bools) -> UInt64s:
        """Rows as one bitset [1, W] of distinct rows."""
        problem = self.problem
        there = np.zeros(64 * problem.n_words, dtype=np.bool_)
        there[self.member[inside]] = True
        return np.packbits(there, bitorder="little").view(np.uint64)[None, :].copy()
