"""Paths of trees through the graph: drawing them, following given trees, weighing them.

A path stops at the tails, whose trees are summed: the weight of a path is that of all trees that
share it, so nothing that can be summed is left to chance::

    log R(path) = sum over stops log m(S) + sum over cuts log prior + sum over tails log Z(S)
    log P_F(path) = sum over stops and cuts of log P(action | S)
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numba import njit

from dtgfn._support.arrays import Bools, Floats, Int32s, Int64s, UInt64s
from dtgfn._support.parallel import ChunkSize
from dtgfn.engines.gfn.fixed.policy import spread_evenly
from dtgfn.engines.rowsets.partial.graph import Graph
from dtgfn.engines.rowsets.partial.lookahead import Cuts
from dtgfn.engines.rowsets.tails import (
    draw_first_of_two,
    draw_last,
    draw_splits,
    split_leaves,
)
from dtgfn.trees.batch import TreeBatch, empty_batch, stack_trees

IMPOSSIBLE = -2  # the tree takes a cut that is not valid here
UNSEEN = -3  # nobody has looked at the row set, and the path ends here


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
    set that nobody looked at counts with its look-ahead.
    """

    trees: TreeBatch
    visits: list[Visits]
    log_reward: Floats
    log_pf: Floats

    def __len__(self) -> int:
        return len(self.trees)


def weigh(graph: Graph, trees: TreeBatch, visits: list[Visits]) -> Paths:
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
        np.add.at(reward, here.tree[ends], level.look[here.node[ends]])
    tails, level = visits[-1], graph.levels[-1]
    flow = level.flow[tails.node]
    np.add.at(reward, tails.tree, np.where(np.isnan(flow), level.look[tails.node], flow))
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


def complete(
    graph: Graph, paths: Paths, rng: np.random.Generator, ends: float = math.inf
) -> tuple[TreeBatch, Bools, Bools]:
    """Draw one full tree for every path: a threshold for each cut, and the tails.

    Below a row set nobody looked at a tree is one of those that the look-ahead sums. Returns also
    which trees [B] have such ends, and which [B] are done: some are not, chosen by chance, if the
    clock passes ``ends``.
    """
    problem, max_depth = graph.problem, graph.problem.score.max_depth
    trees = empty_batch(len(paths), 2 * min(2**max_depth, problem.n_rows) - 1)
    cut_short = np.zeros(len(paths), np.bool_)
    ended = []
    for depth, here in enumerate(paths.visits[:-1]):
        # Splitting in the order of the visits gives the slots that the visits have.
        splits = here.cut >= 0
        cuts, chosen = graph.levels[depth].cuts, here.cut[splits]
        span = cuts.high[chosen] - cuts.low[chosen]
        threshold = cuts.low[chosen] + np.floor(rng.random(chosen.size) * span).astype(np.int32)
        feature = problem.feature[cuts.feature[chosen]]
        split_leaves(trees, here.tree[splits], here.slot[splits], feature, threshold)
        ended.append(leaves_at(graph, depth, here, here.cut == UNSEEN))
    tails = paths.visits[-1]
    unseen = np.isnan(graph.levels[-1].flow[tails.node])
    ended.append(leaves_at(graph, graph.n_upper, tails, unseen))
    leaves, done = leaves_at(graph, graph.n_upper, tails, ~unseen), np.ones(len(paths), np.bool_)
    for levels_left in range(graph.tail_levels, 0, -1):
        leaves, done = draw_level(graph, trees, leaves, levels_left, done, rng, ends)
        ends = math.inf  # what is left are few row sets of those that were paid for
    for leaves in ended:
        cut_short[leaves.tree] = True
        if graph.tail_levels == 2:  # the look-ahead has summed one more level
            draw_level(graph, trees, leaves, 1, done, rng)
    return trees, cut_short, done


@dataclass(frozen=True)
class Leaves:
    """Leaves to be drawn on: tree [V], slot [V] and row set [V, W]."""

    tree: Int64s
    slot: Int64s
    bits: UInt64s

    def where(self, mask: Bools) -> Leaves:
        """Keep some."""
        return Leaves(self.tree[mask], self.slot[mask], self.bits[mask])


def leaves_at(graph: Graph, depth: int, here: Visits, mask: Bools) -> Leaves:
    """Return the leaves at some of the visits of a depth."""
    bits = graph.levels[depth].nursery.bits[here.node[mask]]
    return Leaves(here.tree[mask], here.slot[mask], bits)


def draw_level(
    graph: Graph,
    trees: TreeBatch,
    leaves: Leaves,
    levels_left: int,
    done: Bools,
    rng: np.random.Generator,
    ends: float = math.inf,
) -> tuple[Leaves, Bools]:
    """Let leaves stop or split as trees of one or two levels do.

    Returns the new leaves, and which of the trees that were ``done`` [B] still are.
    """
    problem = graph.problem
    bits, row_set = np.unique(leaves.bits, axis=0, return_inverse=True)
    row_set, uniform = row_set.ravel(), rng.random((row_set.size, 2))
    uniform[:, 0] = spread_evenly(row_set, uniform[:, 0], rng)
    draw = draw_first_of_two if levels_left == 2 else draw_last
    depth = problem.score.max_depth - levels_left
    n_leaves = row_set.size
    feature, threshold = np.full(n_leaves, -1, np.int32), np.zeros(n_leaves, np.int32)
    sides = np.zeros((n_leaves, 2, problem.n_words), np.uint64)
    drawn = np.zeros(n_leaves, np.bool_)
    for part in parts_in_time(leaves.tree, row_set, ends):
        here = np.isin(row_set, part)
        sets, member = np.unique(row_set[here], return_inverse=True)
        given = (problem, draw, depth, bits[sets], member.ravel(), uniform[here], graph.run)
        feature[here], threshold[here], sides[here] = draw_splits(*given)
        drawn |= here
    done = done.copy()
    done[leaves.tree[~drawn]] = False
    split = (feature >= 0) & done[leaves.tree]
    names = problem.feature[feature[split]]
    tree, slot = split_leaves(
        trees, leaves.tree[split], leaves.slot[split], names, threshold[split]
    )
    return Leaves(tree, slot, sides[split].reshape(-1, problem.n_words)), done


def parts_in_time(tree: Int64s, row_set: Int64s, ends: float) -> Iterator[Int64s]:
    """Yield row sets in parts until the clock passes ``ends``, those of whole trees together.

    Trees come by chance, so that those done in time are a fair sample; one always is.
    """
    if ends == math.inf or row_set.size == 0:
        yield np.unique(row_set)
        return
    # Not the draw's own randomness: with time enough, a deadline must change nothing.
    place = np.random.default_rng(0).permutation(int(tree.max()) + 1)[tree]
    order = np.argsort(place, kind="stable")
    sets, first = np.unique(row_set[order], return_index=True)
    by_chance = sets[np.argsort(first)]
    at = int(np.unique(row_set[place == place.min()]).size)
    yield by_chance[:at]
    chunk = ChunkSize()
    while at < by_chance.size and (begun := time.monotonic()) < ends:
        part = by_chance[at : at + chunk.size]
        yield part
        at += part.size
        chunk.adapt(part.size, time.monotonic() - begun)


def wanted_cuts(graph: Graph, depth: int, trees: TreeBatch, here: Visits) -> Int64s:
    """Cuts [V] of the level that given trees take at their visits (-1 stop, IMPOSSIBLE)."""
    level = graph.levels[depth]
    internal = np.full(int(graph.problem.feature.max(initial=0)) + 1, -1, np.int32)
    internal[graph.problem.feature] = np.arange(graph.problem.feature.size)
    feature = trees.feature[here.tree, here.slot]
    known = (feature >= 0) & (feature < internal.size)
    wanted = np.where(known, internal[np.where(known, feature, 0)], -1).astype(np.int32)
    threshold = trees.cut[here.tree, here.slot]
    found = find_cuts(here.node, wanted, threshold, level.start, level.n_cuts, level.cuts)
    return np.where(feature < 0, -1, found)


@njit(cache=True, nogil=True)
def find_cuts(
    nodes: Int64s, feature: Int32s, threshold: Int32s, start: Int64s, n_cuts: Int32s, cuts: Cuts
) -> Int64s:
    """Find the cut of each node that a threshold of a feature makes, IMPOSSIBLE if none."""
    found = np.empty(nodes.shape[0], np.int64)
    for i in range(nodes.shape[0]):
        found[i] = IMPOSSIBLE
        first = start[nodes[i]]
        for e in range(first, first + n_cuts[nodes[i]]):
            if cuts.feature[e] == feature[i] and cuts.low[e] <= threshold[i] < cuts.high[e]:
                found[i] = e
                break
    return found
