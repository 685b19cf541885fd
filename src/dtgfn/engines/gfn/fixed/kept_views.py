"""Views that a graph keeps: what a look has said of a node does not change, so it is said once.

Of nodes whose cuts are listed the pooled cuts are kept, and of nodes that the network learns from
their views. A node whose cuts are listed anew begins elsewhere in the table of cuts: by that it is
seen that what was kept is no longer true.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dtgfn._support.arrays import Float32s, Floats, Int64s
from dtgfn.engines.gfn.fixed.views import N_CONTEXT, N_VIEW, describe_cuts, pool_nodes
from dtgfn.engines.rowsets.partial.graph import PartialGraph
from dtgfn.engines.rowsets.partial.levels import Level

FEW = 256  # rows of room to begin with


def view_children(graph: PartialGraph, level: Level, nodes: Int64s, cuts: Int64s) -> Float32s:
    """Views [2 N, V] of both children of cuts [N] of ``nodes`` [N] of a level."""
    at, contexts, columns = kept_contexts(graph, level, nodes)
    return describe_cuts(graph, level, nodes, cuts, at, contexts, columns)


def view_nodes(graph: PartialGraph, depth: int, nodes: Int64s) -> Float32s:
    """Views [N, V] of nodes of a depth; the root, which no cut leads to, has an empty one."""
    if depth == 0 or nodes.size == 0:
        return np.zeros((nodes.size, N_VIEW), np.float32)
    above, level = graph.levels[depth - 1], graph.levels[depth]
    begins = above.start[level.parent[nodes]]
    at, new = find_places(level, "views", nodes, begins)
    if new.size:
        origin = level.origin[new]
        x = view_children(graph, above, level.parent[new], origin >> 1)
        x = x.reshape(-1, 2, N_VIEW)[np.arange(new.size), origin & 1]
        keep(level, "views", new, above.start[level.parent[new]], (x,))
        at = level.memo["views.at"][nodes]
    return level.memo["views.0"][at]


def kept_contexts(
    graph: PartialGraph, level: Level, nodes: Int64s
) -> tuple[Int64s, Float32s, Floats]:
    """Contexts and columns of nodes, see ``pool_cuts``, and the rows [N] where they stand."""
    at, new = find_places(level, "contexts", nodes, level.start[nodes])
    if new.size:
        keep(level, "contexts", new, level.start[new], pool_nodes(graph, level, new))
        at = level.memo["contexts.at"][nodes]
    if not at.size:
        n_features = graph.problem.loops.ranks.shape[0]
        return at, np.zeros((0, N_CONTEXT), np.float32), np.zeros((0, n_features + 2))
    return at, level.memo["contexts.0"], level.memo["contexts.1"]


def find_places(level: Level, name: str, nodes: Int64s, begins: Int64s) -> tuple[Int64s, Int64s]:
    """Rows [N] of what is kept of nodes, and the distinct nodes that nothing true is kept of."""
    memo, room = level.memo, level.flow.size
    for part in (f"{name}.at", f"{name}.begin"):
        before = memo.get(part, np.zeros(0, np.int64))
        if before.size < room:
            memo[part] = np.full(room, -1, np.int64)
            memo[part][: before.size] = before
    at = memo[f"{name}.at"][nodes]
    missing = (at < 0) | (memo[f"{name}.begin"][nodes] != begins)
    return at, np.unique(nodes[missing])


def keep(
    level: Level, name: str, nodes: Int64s, begins: Int64s, parts: Sequence[npt.NDArray[Any]]
) -> None:
    """Keep a row of each part for each of some distinct nodes."""
    memo = level.memo
    at = memo[f"{name}.at"][nodes]
    used = int(memo.get(f"{name}.used", np.zeros(1, np.int64))[0])
    fresh = at < 0
    at[fresh] = used + np.arange(int(fresh.sum()))
    used += int(fresh.sum())
    for i, part in enumerate(parts):
        old = memo.get(f"{name}.{i}", part[:0])
        if len(old) < used:
            larger = np.zeros((max(used, 2 * len(old), FEW), *part.shape[1:]), part.dtype)
            larger[: len(old)] = old
            memo[f"{name}.{i}"] = larger
        memo[f"{name}.{i}"][at] = part
    memo[f"{name}.at"][nodes], memo[f"{name}.begin"][nodes] = at, begins
    memo[f"{name}.used"] = np.array([used])
