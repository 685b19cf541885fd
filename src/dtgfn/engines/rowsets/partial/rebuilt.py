"""Row sets of long tables, made again from the cuts that lead to them instead of being kept.

A million rows are 125 kilobytes of a bitset, and a fit meets thousands of row sets; but every one
was first reached by a cut of another, and looking at a handful of columns makes its rows again, in
a fraction of the time that listing its cuts takes.
"""

from __future__ import annotations

import numpy as np

from dtgfn._support.arrays import Int64s, UInt64s
from dtgfn.engines.rowsets.partial.levels import Level
from dtgfn.engines.rowsets.partial.sides import narrow
from dtgfn.engines.rowsets.problem import Problem

BYTES_AT_ONCE = 1 << 23  # of row sets that are made again together


def sets_at_once(problem: Problem) -> int:
    """How many row sets may be made again together."""
    return max(BYTES_AT_ONCE // (8 * problem.n_words), 1)


def rebuild_bits(problem: Problem, levels: list[Level], depth: int, nodes: Int64s) -> UInt64s:
    """Rows [N, W] of nodes of a level, by the cuts on the way to them."""
    bits = np.empty((nodes.size, problem.n_words), np.uint64)
    feature, low = np.empty(depth, np.int32), np.empty(depth, np.int32)
    left = np.empty(depth, np.bool_)
    for i, node in enumerate(nodes.tolist()):
        bits[i] = problem.root_bits
        at = node
        for d in range(depth, 0, -1):
            level, above = levels[d], levels[d - 1]
            e, side = divmod(int(level.origin[at]), 2)
            feature[d - 1], low[d - 1] = above.cuts.feature[e], above.cuts.low[e]
            left[d - 1], at = side == 0, int(level.parent[at])
        narrow(feature, low, left, problem.loops, bits[i])
    return bits
