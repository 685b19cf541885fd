"""Paths of trees through the graph: drawn from the policy or followed, and weighed.

A path stops at the tails, whose trees are summed: the weight of a path is that of all trees that
share it, so nothing that can be summed is left to chance::

    log R(path) = sum over stops log m(S) + sum over cuts log prior + sum over tails log Z(S)
    log P_F(path) = sum over stops and cuts of log P(action | S)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dtgfn._support.arrays import Floats, Int32s, Int64s
from dtgfn._support.compiled import njit
from dtgfn.engines.gfn.fixed.estimates import FlowEstimates
from dtgfn.engines.rowsets.draws import split_leaves
from dtgfn.engines.rowsets.partial.cuts import IMPOSSIBLE, CutTable, find_cuts
from dtgfn.engines.rowsets.partial.graph import PartialGraph
from dtgfn.trees.batch import TreeBatch, empty_batch, stack_trees

UNSEEN = -3  # nobody has expanded the row set, and the path ends here
REST = -4  # one of the cuts that the node does not keep, to be drawn


@dataclass(frozen=True)
class Visits:
    """Open leaves of one depth: tree, slot in the tree, node of the level, chosen cut [V].

    A cut of -1 is a stop, UNSEEN an end; at the depth of the tails nothing is chosen.
    """

    tree: Int64s
    slot: Int64s
    node: Int64s
    cut: Int64s


@dataclass(frozen=True)
class Paths:
    """B paths: the visits of every depth, the last being tails, and their trunks as trees.

    ``log_reward`` [B] is that of the path, all its trees together, before the temperature; a row
    set that nobody has expanded counts with its look-ahead.
    """

    trees: TreeBatch
    visits: list[Visits]
    log_reward: Floats
    log_pf: Floats

    def __len__(self) -> int:
        return len(self.trees)


def weigh(graph: PartialGraph, trees: TreeBatch, visits: list[Visits]) -> Paths:
    """Add up rewards and policy along the visits, with flows as they are now."""
    reward, log_pf = np.zeros(len(trees)), np.zeros(len(trees))
    for depth, here in enumerate(visits[:-1]):
        level = graph.levels[depth]
        stops, splits = here.cut == -1, here.cut >= 0
        stop, cut = level.stop[here.node[stops]], here.cut[splits]
        np.add.at(reward, here.tree[stops], stop)
        np.add.at(log_pf, here.tree[stops], stop - level.flow[here.node[stops]])
        np.add.at(reward, here.tree[splits], level.cuts.prior[cut])
        logit = level.cuts.logit[cut] - level.flow[here.node[splits]]
        np.add.at(log_pf, here.tree[splits], logit)
        reward[here.tree[here.cut == IMPOSSIBLE]] = -np.inf
        ends = here.cut == UNSEEN
        np.add.at(reward, here.tree[ends], level.lookahead[here.node[ends]])
    tails, level = visits[-1], graph.levels[-1]
    flow = level.flow[tails.node]
    np.add.at(reward, tails.tree, np.where(np.isnan(flow), level.lookahead[tails.node], flow))
    log_pf[np.isneginf(reward)] = -np.inf
    return Paths(trees, visits, reward * graph.problem.score.temperature, log_pf)


def join_paths(parts: list[Paths]) -> Paths:
    """Put paths under one another."""
    if len(parts) == 1:
        return parts[0]
    first = np.cumsum([0, *(len(part) for part in parts)])
    visits = []
    for together in zip(*(part.visits for part in parts), strict=True):
        shifted = [
            (here.tree + start, here.slot, here.node, here.cut)
            for here, start in zip(together, first, strict=False)
        ]
        visits.append(Visits(*(np.concatenate(column) for column in zip(*shifted, strict=True))))
    return Paths(
        stack_trees([part.trees for part in parts]),
        visits,
        np.concatenate([part.log_reward for part in parts]),
        np.concatenate([part.log_pf for part in parts]),
    )


def draw_paths(
    flows: FlowEstimates,
    n_trees: int,
    rng: np.random.Generator,
    *,
    epsilon: float = 0.0,
    most_new: float = math.inf,
    deadline: float = math.inf,
    evenly: bool = False,
) -> Paths:
    """Draw paths from the policy, a share ``epsilon`` of their actions uniform.

    At most ``most_new`` row sets that nobody has expanded are, none after the ``deadline``; where
    they may not be, paths end. ``evenly``: trees that meet at a node choose evenly over its
    actions. Each is still a draw from P_F, but together they stand for it better than independent
    ones.
    """
    graph = flows.graph
    trees = empty_batch(n_trees, 2 * min(2**graph.n_upper, graph.problem.n_rows) - 1)
    tree, slot = np.arange(n_trees), np.zeros(n_trees, np.int64)
    node = np.zeros(n_trees, np.int64)
    visits = []
    for depth in range(graph.n_upper):
        level = graph.levels[depth]
        affordable = affordable_nodes(graph, depth, node, most_new, rng)
        most_new -= flows.expand_in_time(depth, affordable, deadline)
        given = (level.start, level.n_cuts, level.cuts, level.stop, level.rest, level.flow)
        uniform = rng.random((node.size, 2))
        if evenly:
            uniform[:, 1] = spread_evenly(node, uniform[:, 1], rng)
        cut = np.full(node.size, UNSEEN, np.int64)
        seen = np.flatnonzero(~np.isnan(level.flow[node]))
        order = np.argsort(node[seen], kind="stable")
        cut[seen] = choose_cuts(node[seen], order, *given, epsilon, uniform[seen])
        if (rest := np.flatnonzero(cut == REST)).size:
            cut[rest] = graph.draw_rest(depth, node[rest], rng.random(rest.size))
        visits.append(Visits(tree, slot, node, cut))
        splits = cut >= 0
        children = graph.reach(depth, node[splits], cut[splits])
        cut = cut[splits]
        rule = graph.problem.feature[level.cuts.feature[cut]], level.cuts.low[cut]
        tree, slot = split_leaves(trees, tree[splits], slot[splits], *rule)
        node = children.ravel()
    affordable = affordable_nodes(graph, graph.n_upper, node, most_new, rng)
    flows.expand_in_time(graph.n_upper, affordable, deadline)
    visits.append(Visits(tree, slot, node, np.full(node.size, -1)))
    return weigh(graph, trees, visits)


def affordable_nodes(
    graph: PartialGraph, depth: int, nodes: Int64s, most_new: float, rng: np.random.Generator
) -> Int64s:
    """Return the distinct nodes without the new ones beyond ``most_new``, drawn at random."""
    nodes = np.unique(nodes)
    new = np.flatnonzero(np.isnan(graph.levels[depth].flow[nodes]))
    if new.size <= most_new:
        return nodes
    return np.delete(nodes, rng.permutation(new)[int(most_new) :])


def follow_trees(flows: FlowEstimates, trees: TreeBatch, deadline: float = math.inf) -> Paths:
    """Return the paths of given trees (or trunks); what lies on them becomes known.

    With a ``deadline``, only as long as there is time and memory: where not, paths end.
    """
    graph = flows.graph
    tree, slot = np.arange(len(trees)), np.zeros(len(trees), np.int64)
    node = np.zeros(len(trees), np.int64)
    visits = []
    for depth in range(graph.n_upper):
        flows.expand_in_time(depth, np.unique(node), deadline)
        here = Visits(tree, slot, node, np.zeros(0, np.int64))
        cut = cuts_of_trees(graph, depth, trees, here)
        cut[np.isnan(graph.levels[depth].flow[node])] = UNSEEN
        visits.append(Visits(tree, slot, node, cut))
        splits = cut >= 0
        node = graph.reach(depth, node[splits], cut[splits]).ravel()
        left = trees.left[tree[splits], slot[splits]].astype(np.int64)
        tree = np.repeat(tree[splits], 2)
        slot = np.stack([left, left + 1], axis=1).ravel()
    flows.expand_in_time(graph.n_upper, np.unique(node), deadline)
    visits.append(Visits(tree, slot, node, np.full(node.size, -1)))
    return weigh(graph, trees, visits)


def cuts_of_trees(graph: PartialGraph, depth: int, trees: TreeBatch, here: Visits) -> Int64s:
    """Cuts [V] of the level that given trees take at their visits (-1 stop, IMPOSSIBLE)."""
    level = graph.levels[depth]
    internal = np.full(int(graph.problem.feature.max(initial=0)) + 1, -1, np.int32)
    internal[graph.problem.feature] = np.arange(graph.problem.feature.size)
    feature = trees.feature[here.tree, here.slot]
    known = (feature >= 0) & (feature < internal.size)
    wanted = np.where(known, internal[np.where(known, feature, 0)], -1).astype(np.int32)
    threshold = trees.cut[here.tree, here.slot]
    found = find_cuts(here.node, wanted, threshold, level.start, level.n_cuts, level.cuts)
    rest = level.rest[here.node] > -np.inf
    missed = np.flatnonzero((found == IMPOSSIBLE) & (wanted >= 0) & rest)
    if missed.size:
        there = graph.find_rest(depth, here.node[missed], wanted[missed], threshold[missed])
        found[missed] = np.where(there >= 0, there, IMPOSSIBLE)
    return np.where(feature < 0, -1, found)


@njit(cache=True, nogil=True)
def choose_cuts(
    nodes: Int64s,
    order: Int64s,
    start: Int64s,
    n_cuts: Int32s,
    cuts: CutTable,
    stop: Floats,
    rest: Floats,
    flow: Floats,
    epsilon: float,
    uniform: Floats,
) -> Int64s:
    """Choose a cut, -1 to stop or REST, for every open leaf [V]; ``order`` sorts ``nodes`` [V].

    With probability ``epsilon`` all actions are equally likely. ``uniform`` [V, 2] is random.
    """
    chosen = np.empty(nodes.shape[0], np.int64)
    cumulative = np.empty(n_cuts.max() + 2)
    previous = np.int64(-1)
    for position in range(nodes.shape[0]):
        i = order[position]
        node = nodes[i]
        first, number = start[node], n_cuts[node]
        if node != previous:
            previous = node
            cumulative[0] = math.exp(stop[node] - flow[node])
            for u in range(number):
                share = math.exp(cuts.logit[first + u] - flow[node])
                cumulative[u + 1] = cumulative[u] + share
            cumulative[number + 1] = cumulative[number] + math.exp(rest[node] - flow[node])
        last = number if rest[node] == -math.inf else number + 1
        if uniform[i, 0] < epsilon:
            action = int(uniform[i, 1] * (number + 1))
        else:
            wanted = uniform[i, 1] * cumulative[last]
            action = np.searchsorted(cumulative[: last + 1], wanted, side="right")
        action = min(action, last)
        chosen[i] = -1 if action == 0 else first + action - 1
        if action > number:
            chosen[i] = REST
    return chosen


def spread_evenly(nodes: Int64s, uniform: Floats, rng: np.random.Generator) -> Floats:
    """Turn random numbers [V] into ones that are spread evenly over the visits of each node.

    The v visits of a node get one number from each of v equal parts, in random order.
    """
    shuffled = rng.permutation(nodes.size)
    order = shuffled[np.argsort(nodes[shuffled], kind="stable")]
    sorted_nodes = nodes[order]
    first = np.searchsorted(sorted_nodes, sorted_nodes)
    count = np.searchsorted(sorted_nodes, sorted_nodes, side="right") - first
    out = np.empty(nodes.size)
    out[order] = (np.arange(nodes.size) - first + uniform[order]) / count
    return out
