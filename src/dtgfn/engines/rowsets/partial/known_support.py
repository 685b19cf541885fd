"""What a partial graph knows, as a support: the trees that can be ranked without a guess."""

from __future__ import annotations

import numpy as np

from dtgfn._support.arrays import Int32s, Int64s
from dtgfn.engines.rowsets.graph import Edges, no_edges
from dtgfn.engines.rowsets.partial.graph import PartialGraph
from dtgfn.engines.rowsets.support import SupportLevel, carriers, pass_mass

NEGLIGIBLE = 1e-10


def known_support(graph: PartialGraph) -> list[SupportLevel]:
    """Walk down from the root, by cuts whose sides are both known, and keep what carries mass.

    Probabilities are those of the flows, guesses included: what is not known has its share, though
    nothing of it is here. Empty if not even the root is known.
    """
    nodes, mass = np.zeros(1, np.int64), np.ones(1)
    if np.isnan(graph.levels[0].flow[0]):
        return []
    support = []
    for depth in range(graph.n_upper):
        level, below = graph.levels[depth], graph.levels[depth + 1]
        owner, cuts = known_cuts(graph, depth, nodes)
        child = level.cuts.child[cuts].astype(np.int64)
        log_p = level.cuts.prior[cuts] + below.flow[child].sum(axis=1) - level.flow[nodes[owner]]
        probability = np.exp(log_p)
        children, inverse = np.unique(child, return_inverse=True)
        position: Int32s = inverse.reshape(child.shape).astype(np.int32)
        passed = np.zeros(len(children))
        edges = as_edges(graph, depth, owner, cuts, position, len(nodes))
        pass_mass(edges, probability, mass, passed)
        kept = carriers(passed, NEGLIGIBLE / max(graph.n_upper, 1))
        number = np.full(len(children), -1, np.int32)
        number[kept] = np.arange(len(kept), dtype=np.int32)
        alive = (number[position] >= 0).all(axis=1)
        edges = as_edges(
            graph, depth, owner[alive], cuts[alive], number[position[alive]], len(nodes)
        )
        stop = np.exp(level.stop[nodes] - level.flow[nodes])
        support.append(SupportLevel(graph.bits_of(depth, nodes), stop, edges, probability[alive]))
        nodes, mass = children[kept], passed[kept]
    last = graph.bits_of(graph.n_upper, nodes)
    return [*support, SupportLevel(last, np.empty(0), no_edges(len(last)), np.empty(0))]


def known_cuts(graph: PartialGraph, depth: int, nodes: Int64s) -> tuple[Int64s, Int64s]:
    """Cuts of nodes [K] whose sides are both known: position of the node, and of the cut."""
    level, below = graph.levels[depth], graph.levels[depth + 1]
    number = level.n_cuts[nodes].astype(np.int64)
    owner = np.repeat(np.arange(len(nodes)), number)
    ends = np.cumsum(number)
    cuts = np.arange(ends[-1] if len(ends) else 0) - (ends - number)[owner]
    cuts += level.start[nodes][owner]
    child = level.cuts.child[cuts].astype(np.int64)
    known = ((child >= 0) & ~np.isnan(below.flow[np.maximum(child, 0)])).all(axis=1)
    return owner[known], cuts[known]


def as_edges(
    graph: PartialGraph,
    depth: int,
    owner: Int64s,
    cuts: Int64s,
    sides: Int32s,
    n_nodes: int,
) -> Edges:
    """Edges of nodes to the positions ``sides`` [E, 2] of their children."""
    table = graph.levels[depth].cuts
    start = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=n_nodes))])
    return Edges(
        start.astype(np.int64),
        table.feature[cuts],
        table.low[cuts],
        table.high[cuts],
        np.ascontiguousarray(sides[:, 0], dtype=np.int32),
        np.ascontiguousarray(sides[:, 1], dtype=np.int32),
    )
