"""The part of the graph of row sets that has been explored: each row set is a node, stored once.

A tree is built level by level: every open leaf, a row set S with k levels left, stops or takes a
cut, whatever the other leaves do. What is optimal at a leaf depends on (S, k) alone, so the state
space is a graph of row sets that all trees share, and the balance condition is local::

    F(S, k) = m(S) + sum over cuts  e^-penalty F(left, k-1) F(right, k-1)

The last levels ("tails", two where a leaf table exists and cuts are not too many to be paired, else
one) are summed exactly, so the graph ends above them. A node is known, by its flow, once it has
been expanded; the flow of a child nobody has expanded is its look-ahead plus what the network adds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dtgfn._support.arrays import Floats, Int32s, Int64s, UInt64s
from dtgfn._support.compiled import njit
from dtgfn._support.parallel import Runner, run_at_once
from dtgfn.engines.rowsets.graph import RowSets, RowSetTable, count_cuts, find_or_add
from dtgfn.engines.rowsets.partial.cuts import (
    CutTable,
    empty_cuts,
    link_children,
    look_ahead_by_formula,
    look_ahead_by_table,
    reach_children,
    set_stop,
)
from dtgfn.engines.rowsets.partial.flows import (
    bound_flows,
    count_thresholds,
    set_ceilings,
    sum_flows,
)
from dtgfn.engines.rowsets.problem import Problem
from dtgfn.engines.rowsets.tails import Splits, add_best_splits, first_best, tail_values
from dtgfn.trees.batch import TreeBatch, from_splits

# Cuts of a table whose pairs are still summed: more would take a tenth of a second a row set.
WIDEST_PAIRED = 6000
ROWS_AT_ONCE = 20_000_000  # that are put into row sets without a break: a tenth of a second
NODE_FIELDS = (
    "sums",
    "lookahead",
    "stop",
    "flow",
    "best",
    "open",
    "start",
    "n_cuts",
    "n_thresholds",
    "version",
)


@dataclass
class Level:
    """All nodes met at one depth, K of which there is room for; the room is doubled as they come.

    Attributes
    ----------
    depth : int
    sets : RowSetTable
        Row sets (bits, keys) and the hash table over them.
    sums : float64 [K, S]
        The leaf model's sums over the rows.
    lookahead : float64 [K]
        Look-ahead value, as the parent sees it.
    stop : float64 [K]
        Log flow of stopping here.
    flow : float64 [K]
        Log flow; nan until the node has been expanded.
    best : float64 [K]
        Log weight of the best tree known on the row set, with all that part the rows alike.
    open : float64 [K]
        Probability that a tree drawn from here passes a child nobody has expanded; 0 only if there
        is no such child, however improbable.
    start : int64 [K]
        Where the node's cuts begin, -1 until they are listed.
    n_cuts : int32 [K]
    version : int64 [K]
        Step of the network whose residuals the node's cuts have.
    n_thresholds : float64 [K]
        Thresholds that are valid here, once cuts are listed.
    cuts : CutTable
        Of all nodes of the level; ``n_listed`` of the room is filled.

    """

    depth: int
    sets: RowSetTable
    sums: Floats
    lookahead: Floats
    stop: Floats
    flow: Floats
    best: Floats
    open: Floats
    start: Int64s
    n_cuts: Int32s
    version: Int64s
    n_thresholds: Floats
    cuts: CutTable
    n_listed: int

    def __len__(self) -> int:
        return int(self.sets.used[0])


def known_nodes(level: Level) -> Int64s:
    """Nodes whose flow is known."""
    return np.flatnonzero(~np.isnan(level.flow[: len(level)]))


def make_level(problem: Problem, depth: int, capacity: int = 64) -> Level:
    """Return an empty level."""
    n_sums = problem.score.leaf.n_sums
    return Level(
        depth=depth,
        sets=RowSetTable(
            np.full(4 * capacity, -1, np.int32),
            np.empty((capacity, problem.n_words), np.uint64),
            np.empty((capacity, 2), np.uint64),
            np.zeros(1, np.int32),
        ),
        sums=np.empty((capacity, n_sums)),
        lookahead=np.empty(capacity),
        stop=np.empty(capacity),
        flow=np.full(capacity, np.nan),
        best=np.full(capacity, -np.inf),
        open=np.ones(capacity),
        start=np.full(capacity, -1, np.int64),
        n_cuts=np.zeros(capacity, np.int32),
        version=np.zeros(capacity, np.int64),
        n_thresholds=np.zeros(capacity),
        cuts=empty_cuts(0, n_sums),
        n_listed=0,
    )


def reserve_nodes(level: Level, needed: int) -> None:
    """Make room for at least so many nodes."""
    old = level.sums.shape[0]
    if needed <= old:
        return
    capacity = max(needed, 2 * old)
    used, sets = len(level), level.sets
    slots = np.full(1 << (4 * capacity - 1).bit_length(), -1, np.int32)
    bits = np.empty((capacity, sets.bits.shape[1]), np.uint64)
    keys = np.empty((capacity, 2), np.uint64)
    bits[:used], keys[:used] = sets.bits[:used], sets.keys[:used]
    level.sets = RowSetTable(slots, bits, keys, sets.used)
    fill_slots(used, keys, slots)
    for field in NODE_FIELDS:
        array = getattr(level, field)
        empty = {"flow": np.nan, "best": -np.inf, "open": 1.0, "start": -1}.get(field, 0)
        larger = np.full((capacity, *array.shape[1:]), empty, array.dtype)
        larger[:used] = array[:used]
        setattr(level, field, larger)


def reserve_cuts(level: Level, needed: int) -> None:
    """Make room for at least so many cuts."""
    cuts = level.cuts
    if needed <= cuts.feature.size:
        return
    larger = empty_cuts(max(needed, 2 * cuts.feature.size), cuts.sums.shape[2])
    for field in CutTable._fields:
        getattr(larger, field)[: level.n_listed] = getattr(cuts, field)[: level.n_listed]
    level.cuts = larger


@njit(cache=True, nogil=True)
def fill_slots(used: int, keys: UInt64s, slots: Int32s) -> None:
    """Put the first nodes into an empty hash table."""
    mask = np.uint64(slots.shape[0] - 1)
    for k in range(used):
        slot = keys[k, 0] & mask
        while slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = k


class PartialGraph:
    """The nodes met so far, level by level, and the steps between them."""

    def __init__(
        self, problem: Problem, exact_tails: int, run: Runner, root_thresholds: bool = False
    ) -> None:
        score = problem.score
        self.run = run
        affordable = problem.two_levels_at_once and problem.max_cuts <= WIDEST_PAIRED
        most = exact_tails if affordable else 1
        self.tail_levels = min(score.max_depth, most)
        self.root_thresholds = root_thresholds  # whether ceilings count the root's at every node
        # Which column a feature comes from does not matter to flows: all may count as one.
        loops = problem.loops._replace(group=np.zeros_like(problem.loops.group))
        self.problem = replace(problem, loops=loops, n_groups=1)
        self.n_upper = score.max_depth - self.tail_levels
        self.clear()

    def clear(self) -> None:
        """Forget all nodes but the root."""
        self.levels = [make_level(self.problem, depth) for depth in range(self.n_upper + 1)]
        self._add_root()

    @property
    def n_nodes(self) -> int:
        """Nodes met so far."""
        return sum(len(level) for level in self.levels)

    def _add_root(self) -> None:
        problem, root = self.problem, self.levels[0]
        keys = np.bitwise_xor.reduce(problem.keys, axis=0)
        find_or_add(keys[0], keys[1], problem.root_bits, root.sets)
        root.sums[0] = problem.loops.sums.sum(axis=0)
        log_prior = float(problem.loops.log_stop[0])
        set_stop(np.zeros(1, np.int64), root.sums, log_prior, problem.loops, root.stop)
        if self.n_upper == 0:
            root.lookahead[0] = root.stop[0]  # not needed, but read along with other nodes'
            return
        # The root has no parent to look ahead for it.
        one = RowSets(problem.root_bits[None, :].copy(), keys[None, :])
        levels = self.tail_levels - 1
        at = replace(problem, score=replace(problem.score, max_depth=root.depth + levels))
        root.lookahead[0] = tail_values(at, one, levels, run_at_once).log_z[0]

    def expand(self, depth: int, nodes: Int64s) -> Int64s:
        """Make the flows of nodes known as far as can be; return those whose cuts are new.

        Tails get their exact flow. Above, cuts are listed with the look-ahead of their children;
        the flow follows with ``update``, once the network has said what it adds.
        """
        level = self.levels[depth]
        # By its flow, which comes last: a listing that Ctrl-C broke off is done again.
        new = nodes[np.isnan(level.flow[nodes])]
        if new.size:
            (self._sum_tails if depth == self.n_upper else self._list_cuts)(level, new)
        return new

    def _sum_tails(self, level: Level, nodes: Int64s) -> None:
        sets = RowSets(level.sets.bits[nodes], level.sets.keys[nodes])
        values = tail_values(self.problem, sets, self.tail_levels, self.run)
        level.flow[nodes], level.best[nodes] = values.log_z, values.log_max
        level.open[nodes] = 0.0

    def _list_cuts(self, level: Level, nodes: Int64s) -> None:
        loops, bits = self.problem.loops, level.sets.bits
        counts = np.empty(nodes.size, np.int32)
        chosen = bits[nodes]
        self.run(lambda i, j: count_cuts(i, j, chosen, loops, counts), nodes.size)
        ends = level.n_listed + np.cumsum(counts, dtype=np.int64)
        reserve_cuts(level, int(ends[-1]))
        level.start[nodes], level.n_cuts[nodes] = ends - counts, counts
        level.n_listed = int(ends[-1])
        look = look_ahead_by_table if self.tail_levels == 2 else look_ahead_by_formula
        given = (nodes, bits, level.depth, level.start, self.problem.max_cuts, loops, level.cuts)
        self.run(lambda i, j: look(i, j, *given), nodes.size)
        count_thresholds(nodes, level.start, level.n_cuts, level.cuts, level.n_thresholds)
        if self.root_thresholds:
            level.n_thresholds[nodes] = self.levels[0].n_thresholds[0]
        known = (level.start, level.n_cuts, level.n_thresholds, loops, level.cuts)
        self.run(lambda i, j: set_ceilings(i, j, nodes, level.depth, *known), nodes.size)
        below = self.levels[level.depth + 1].sets
        link = (nodes, level.start, level.sets, level.cuts, self.problem.keys, loops, below)
        self.run(lambda i, j: link_children(i, j, *link), nodes.size)
        if loops.uniform_rules:  # where nothing can be cut, stopping is free
            set_stop(nodes[counts == 0], level.sums, 0.0, loops, level.stop)

    def reach(self, depth: int, nodes: Int64s, cuts: Int64s) -> Int64s:
        """Return the children [M, 2] of cuts of nodes [M]; new ones join the next level."""
        level, below = self.levels[depth], self.levels[depth + 1]
        reserve_nodes(below, len(below) + 2 * len(nodes))
        loops = self.problem.loops
        given = (level.sets, level.cuts, self.problem.keys, loops, below.sets)
        log_prior = float(loops.log_stop[below.depth])
        out = (below.sums, below.lookahead, log_prior, below.stop)
        # The table of row sets takes one writer, so in pieces: Ctrl-C is heard between them.
        size = max(ROWS_AT_ONCE // self.problem.n_rows, 1)
        for first in range(0, len(nodes), size):
            some = slice(first, first + size)
            reach_children(nodes[some], cuts[some], *given, *out)
        return level.cuts.child[cuts].astype(np.int64)

    def update(self, depth: int, nodes: Int64s, remember: bool, optimistic: bool = True) -> None:
        """Set the flows of nodes whose cuts are listed from those of their children.

        Without ``remember`` the children's own flows are not used, only look-ahead and network; if
        not ``optimistic`` nothing is added to the look-ahead of children nobody has expanded.
        """
        level = self.levels[depth]
        if depth < self.n_upper and nodes.size:
            leaf = self.problem.loops.leaf
            given = (level.start, level.n_cuts, level.cuts, leaf, level.stop)
            below = self.levels[depth + 1]
            out = (level.flow, level.best, level.open)
            known = (below.flow, below.best, below.open)
            how = (remember, optimistic)
            self.run(lambda i, j: sum_flows(i, j, nodes, *given, *known, *how, *out), nodes.size)

    def update_all(self, remember: bool, optimistic: bool = True) -> None:
        """Update every node whose flow is known, from the bottom up."""
        for depth in range(self.n_upper - 1, -1, -1):
            self.update(depth, known_nodes(self.levels[depth]), remember, optimistic)

    def bounds(self) -> tuple[float, float]:
        """Floor and ceiling of log Z, by what is known now; equal once everything is.

        The floor sums all trees whose worth is known.
        """
        below = self.levels[-1]
        floor = ceiling = below.flow
        for level in self.levels[-2::-1]:
            nodes = known_nodes(level)
            out = np.full(level.flow.size, np.nan), np.full(level.flow.size, np.nan)
            given = (nodes, level.start, level.n_cuts, level.cuts, level.stop, below.flow)
            worth = (*given, floor, ceiling, *out)
            self.run(lambda i, j, worth=worth: bound_flows(i, j, *worth), nodes.size)  # type: ignore[misc]
            (floor, ceiling), below = out, level
        return float(floor[0]), float(ceiling[0])


def best_known_tree(graph: PartialGraph, expand: Callable[[int, Int64s], object]) -> TreeBatch:
    """Follow the best cut of every node down; a batch of one.

    ``expand`` makes the flows of nodes of a depth known.
    """
    splits: Splits = {}
    problem = graph.problem

    def grow(path: tuple[int, ...], node: int) -> None:
        depth = len(path)
        level = graph.levels[depth]
        expand(depth, np.array([node]))
        if depth == graph.n_upper:
            this = RowSets(level.sets.bits[[node]], level.sets.keys[[node]])
            add_best_splits(problem, this, path, splits, run_at_once, graph.run)
            return
        first, number = int(level.start[node]), int(level.n_cuts[node])
        value = best_through(graph, depth, np.arange(first, first + number))
        if number == 0 or value.max() <= level.stop[node]:
            return
        cut = first + first_best(value)
        threshold = (int(level.cuts.low[cut]) + int(level.cuts.high[cut]) - 1) // 2
        splits[path] = int(problem.feature[level.cuts.feature[cut]]), threshold
        for side, child in enumerate(graph.reach(depth, np.array([node]), np.array([cut]))[0]):
            grow((*path, side), int(child))

    grow((), 0)
    return from_splits([splits])


def best_through(graph: PartialGraph, depth: int, cuts: Int64s) -> Floats:
    """Log weight of the best tree through each cut, all its thresholds, as far as it is known."""
    here, below = graph.levels[depth].cuts, graph.levels[depth + 1]
    child = here.child[cuts]
    known = (child >= 0) & ~np.isnan(below.flow[np.maximum(child, 0)])
    sides = np.where(known, below.best[np.maximum(child, 0)], here.best[cuts])
    return np.asarray(here.prior[cuts] + sides.sum(axis=1))
