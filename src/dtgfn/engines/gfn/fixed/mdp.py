"""The fixed-order MDP: states are row sets with levels left, and each is stored once.

A tree is built level by level: every open leaf, a row set S with k levels left, stops or takes a
cut, whatever the other leaves do. What is optimal at a leaf depends on (S, k) alone, so the state
space is a graph of row sets that all trees share, and the balance condition is local::

    F(S, k) = m(S) + sum over cuts  e^-penalty F(left, k-1) F(right, k-1)

The last levels ("tails", two where a leaf table exists, else one) are summed exactly, so the graph
ends above them. A node's flow is known once its row set has been looked at; the flow of a child
nobody looked at yet is its look-ahead plus what the network adds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from dtgfn.engines.exact.graph import Level as RowSets
from dtgfn.engines.exact.graph import (
    Longs,
    Nursery,
    Run,
    count_classes,
    count_cuts,
    find_or_add,
    rows_of,
)
from dtgfn.engines.exact.inside import tail_values
from dtgfn.engines.exact.problem import Loops, Problem, Words
from dtgfn.engines.gfn.fixed.lookahead import (
    Cuts,
    empty_cuts,
    look_ahead_by_formula,
    look_ahead_by_table,
)
from dtgfn.engines.gfn.fixed.neighbours import correct_by_neighbours, is_known
from dtgfn.kernels import Floats, Ints
from dtgfn.score import dirichlet_log_marginal

Flags = npt.NDArray[np.bool_]

LEAST_OPEN = 1e-300  # of a node below which something is unknown, should its share underflow


@dataclass
class Level:
    """All nodes met at one depth; capacity is doubled as they come, ``used`` of it is filled.

    Attributes
    ----------
    depth : int
    nursery : Nursery
        Row sets (bits, keys) and the hash table over them.
    counts : float64 [K, C]
        Class counts.
    look : float64 [K]
        Look-ahead value, as the parent sees it.
    stop : float64 [K]
        Log flow of stopping here.
    flow : float64 [K]
        Log flow; nan until the node has been looked at.
    best : float64 [K]
        Log weight of the best tree known on the row set.
    open : float64 [K]
        Probability that a tree drawn from here passes a child nobody looked at; 0 only if there is
        no such child, however improbable.
    start : int64 [K]
        Where the node's cuts begin, -1 until they are listed.
    n_cuts : int32 [K]
    version : int64 [K]
        Step of the network whose residuals the node's cuts carry.
    cuts : Cuts
        Of all nodes of the level; ``n_listed`` of the room is filled.

    """

    depth: int
    nursery: Nursery
    counts: Floats
    look: Floats
    stop: Floats
    flow: Floats
    best: Floats
    open: Floats
    start: Longs
    n_cuts: Ints
    version: Longs
    cuts: Cuts
    n_listed: int

    def __len__(self) -> int:
        return int(self.nursery.used[0])


class Graph:
    """The nodes met so far, level by level, and the steps between them."""

    def __init__(self, problem: Problem, exact_tails: int, run: Run) -> None:
        score = problem.score
        self.run = run
        most = exact_tails if problem.two_levels_at_once else 1
        self.tail_levels = min(score.max_depth, most)
        # Which column a feature comes from does not matter to flows: all may count as one.
        loops = problem.loops._replace(group=np.zeros_like(problem.loops.group))
        self.problem = replace(problem, loops=loops, n_groups=1)
        self.n_upper = score.max_depth - self.tail_levels
        self.clear()

    def clear(self) -> None:
        """Forget all nodes but the root."""
        self._make_levels()
        self._add_root()

    def _make_levels(self) -> None:
        self.levels = [make_level(self.problem, depth) for depth in range(self.n_upper + 1)]

    @property
    def n_nodes(self) -> int:
        """Nodes met so far."""
        return sum(len(level) for level in self.levels)

    def _add_root(self) -> None:
        problem, root = self.problem, self.levels[0]
        keys = np.bitwise_xor.reduce(problem.keys, axis=0)
        find_or_add(keys[0], keys[1], problem.root_bits, root.nursery)
        root.counts[0] = problem.loops.stats.sum(axis=0)
        log_prior = float(problem.loops.log_stop[0])
        set_stop(np.zeros(1, np.int64), root.counts, log_prior, problem.loops, root.stop)
        if self.n_upper == 0:
            return
        # The root has no parent to look ahead for it.
        one = RowSets(problem.root_bits[None, :].copy(), keys[None, :])
        levels = self.tail_levels - 1
        at = replace(problem, score=replace(problem.score, max_depth=root.depth + levels))
        root.look[0] = tail_values(at, one, levels, _at_once).log_z[0]

    def look_at(self, depth: int, nodes: Longs) -> Longs:
        """Make the flows of nodes known as far as can be; return those whose cuts are new.

        Tails get their exact flow. Above, cuts are listed with the look-ahead of their children;
        the flow follows with ``settle``, once the network has said what it adds.
        """
        level = self.levels[depth]
        # By its flow, which comes last: a listing that Ctrl-C broke off is done again.
        new = nodes[np.isnan(level.flow[nodes])]
        if new.size:
            (self._sum_tails if depth == self.n_upper else self._list_cuts)(level, new)
        return new

    def _sum_tails(self, level: Level, nodes: Longs) -> None:
        sets = RowSets(level.nursery.bits[nodes], level.nursery.keys[nodes])
        values = tail_values(self.problem, sets, self.tail_levels, self.run)
        level.flow[nodes], level.best[nodes] = values.log_z, values.log_max
        level.open[nodes] = 0.0

    def _list_cuts(self, level: Level, nodes: Longs) -> None:
        loops, bits = self.problem.loops, level.nursery.bits
        counts = np.empty(nodes.size, np.int32)
        chosen = bits[nodes]
        self.run(lambda i, j: count_cuts(i, j, chosen, loops, counts), nodes.size)
        ends = level.n_listed + np.cumsum(counts, dtype=np.int64)
        level.cuts = grown_cuts(level.cuts, level.n_listed, int(ends[-1]))
        level.start[nodes], level.n_cuts[nodes] = ends - counts, counts
        level.n_listed = int(ends[-1])
        look = look_ahead_by_table if self.tail_levels == 2 else look_ahead_by_formula
        given = (nodes, bits, level.depth, level.start, self.problem.max_cuts, loops, level.cuts)
        self.run(lambda i, j: look(i, j, *given), nodes.size)
        below = self.levels[level.depth + 1].nursery
        link = (nodes, level.start, level.nursery, level.cuts, self.problem.keys, loops, below)
        self.run(lambda i, j: link_children(i, j, *link), nodes.size)
        if loops.uniform_rules:  # where nothing can be cut, stopping is free
            set_stop(nodes[counts == 0], level.counts, 0.0, loops, level.stop)

    def reach(self, depth: int, nodes: Longs, cuts: Longs) -> Longs:
        """Return the children [M, 2] of cuts of nodes [M]; new ones join the next level."""
        level, below = self.levels[depth], self.levels[depth + 1]
        grow(below, len(below) + 2 * len(nodes))
        loops = self.problem.loops
        given = (level.nursery, level.cuts, self.problem.keys, loops, below.nursery)
        log_prior = float(loops.log_stop[below.depth])
        reach_children(nodes, cuts, *given, below.counts, below.look, log_prior, below.stop)
        return level.cuts.child[cuts].astype(np.int64)

    def settle(self, depth: int, nodes: Longs, remember: bool) -> None:
        """Set the flows of nodes whose cuts are listed from those of their children.

        Without ``remember`` the children's own flows are not used, only look-ahead and network.
        """
        level = self.levels[depth]
        if depth < self.n_upper and nodes.size:
            given = (level.start, level.n_cuts, level.cuts, level.stop)
            below = self.levels[depth + 1]
            out = (level.flow, level.best, level.open)
            known = (below.flow, below.best, below.open)
            self.run(
                lambda i, j: settle_flows(i, j, nodes, *given, *known, remember, *out), nodes.size
            )

    def settle_all(self, remember: bool) -> None:
        """Settle every node whose flow is known, from the bottom up."""
        for depth in range(self.n_upper - 1, -1, -1):
            self.settle(depth, known_nodes(self.levels[depth]), remember)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Everything learned, for a checkpoint; views, which go on changing with the graph."""
        out: dict[str, npt.NDArray[Any]] = {}
        for level in self.levels:
            n, name = len(level), f"level.{level.depth}."
            out[name + "bits"], out[name + "keys"] = level.nursery.bits[:n], level.nursery.keys[:n]
            for field in NODE_FIELDS:
                out[name + field] = getattr(level, field)[:n]
            for field in Cuts._fields:
                out[name + "cuts." + field] = getattr(level.cuts, field)[: level.n_listed]
        return out

    def restore(self, arrays: dict[str, npt.NDArray[Any]]) -> None:
        """Take back what ``arrays`` gave, and nothing of what was there before."""
        self._make_levels()
        for level in self.levels:
            name = f"level.{level.depth}."
            part = {key.removeprefix(name): a for key, a in arrays.items() if key.startswith(name)}
            fill_level(level, part)
        for level, below in zip(self.levels, [*self.levels[1:], None], strict=True):
            check_level(level, below, self.problem)


NODE_FIELDS = ("counts", "look", "stop", "flow", "best", "open", "start", "n_cuts", "version")


def known_nodes(level: Level) -> Longs:
    """Nodes whose flow is known."""
    return np.flatnonzero(~np.isnan(level.flow[: len(level)]))


def fill_level(level: Level, arrays: dict[str, npt.NDArray[Any]]) -> None:
    """Fill an empty level from the arrays that ``Graph.arrays`` made of one."""
    n_nodes, n_cuts = len(arrays["bits"]), len(arrays["cuts.feature"])
    grow(level, n_nodes)
    level.cuts, level.n_listed = grown_cuts(level.cuts, 0, n_cuts), n_cuts
    places = {"bits": level.nursery.bits, "keys": level.nursery.keys}
    places |= {field: getattr(level, field) for field in NODE_FIELDS}
    places |= {f"cuts.{field}": column for field, column in level.cuts._asdict().items()}
    for name, place in places.items():
        length = n_cuts if name.startswith("cuts.") else n_nodes
        if arrays[name].shape != (length, *place.shape[1:]):
            raise ValueError(f"{name} has the shape {arrays[name].shape}")
        place[:length] = arrays[name]
    level.nursery.used[0] = n_nodes
    fill_slots(n_nodes, level.nursery.keys, level.nursery.slots)


def check_level(level: Level, below: Level | None, problem: Problem) -> None:
    """Refuse positions that point nowhere: files may be damaged, and the loops do not check."""
    n_nodes, n_listed, cuts = len(level), level.n_listed, level.cuts
    start, n_cuts = level.start[:n_nodes], level.n_cuts[:n_nodes]
    known = ~np.isnan(level.flow[:n_nodes])
    feature, child = cuts.feature[:n_listed], cuts.child[:n_listed]
    wrong = (
        (level.nursery.bits[:n_nodes] & ~problem.root_bits).any()
        or (n_cuts < 0).any()
        or (start + n_cuts > n_listed).any()
        or (below is not None and (start[known] < 0).any())
        or ((feature < 0) | (feature >= problem.feature.size)).any()
        or ((child < -1) | (child >= (0 if below is None else len(below)))).any()
        or (level.depth == 0 and n_nodes != 1)
    )
    if wrong:
        raise ValueError(f"the row sets at depth {level.depth} do not fit together")


def _at_once(work: Any, n_items: int) -> None:
    work(0, n_items)


def make_level(problem: Problem, depth: int, capacity: int = 64) -> Level:
    """Return an empty level."""
    n_classes = problem.score.n_classes
    return Level(
        depth=depth,
        nursery=Nursery(
            np.full(4 * capacity, -1, np.int32),
            np.empty((capacity, problem.n_words), np.uint64),
            np.empty((capacity, 2), np.uint64),
            np.zeros(1, np.int32),
        ),
        counts=np.empty((capacity, n_classes)),
        look=np.empty(capacity),
        stop=np.empty(capacity),
        flow=np.full(capacity, np.nan),
        best=np.full(capacity, -np.inf),
        open=np.ones(capacity),
        start=np.full(capacity, -1, np.int64),
        n_cuts=np.zeros(capacity, np.int32),
        version=np.zeros(capacity, np.int64),
        cuts=empty_cuts(0, n_classes),
        n_listed=0,
    )


def grow(level: Level, needed: int) -> None:
    """Make room for at least so many nodes."""
    old = level.counts.shape[0]
    if needed <= old:
        return
    capacity = max(needed, 2 * old)
    used, nursery = len(level), level.nursery
    slots = np.full(1 << (4 * capacity - 1).bit_length(), -1, np.int32)
    bits = np.empty((capacity, nursery.bits.shape[1]), np.uint64)
    keys = np.empty((capacity, 2), np.uint64)
    bits[:used], keys[:used] = nursery.bits[:used], nursery.keys[:used]
    level.nursery = Nursery(slots, bits, keys, nursery.used)
    fill_slots(used, keys, slots)
    for field in NODE_FIELDS:
        array = getattr(level, field)
        empty = {"flow": np.nan, "best": -np.inf, "open": 1.0, "start": -1}.get(field, 0)
        larger = np.full((capacity, *array.shape[1:]), empty, array.dtype)
        larger[:used] = array[:used]
        setattr(level, field, larger)


def grown_cuts(cuts: Cuts, used: int, needed: int) -> Cuts:
    """Return the cuts with room for at least so many."""
    if needed <= cuts.feature.size:
        return cuts
    larger = empty_cuts(max(needed, 2 * cuts.feature.size), cuts.counts.shape[2])
    for field in Cuts._fields:
        getattr(larger, field)[:used] = getattr(cuts, field)[:used]
    return larger


@njit(cache=True, nogil=True)
def fill_slots(used: int, keys: Words, slots: Ints) -> None:
    """Put the first nodes into an empty hash table."""
    mask = np.uint64(slots.shape[0] - 1)
    for k in range(used):
        slot = keys[k, 0] & mask
        while slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = k


@njit(cache=True, nogil=True)
def set_stop(nodes: Longs, counts: Floats, log_prior: float, loops: Loops, stop: Floats) -> None:
    """Set the log flow of stopping: m(S)^(1/temperature) and the prior of a stop."""
    for k in nodes:
        stop[k] = stop_flow(counts[k], log_prior, loops)


@njit(cache=True, nogil=True)
def stop_flow(counts: Floats, log_prior: float, loops: Loops) -> float:
    """Log flow of stopping at class counts [C]."""
    value = dirichlet_log_marginal(counts, loops.concentration, loops.gammas)
    return value / loops.temperature + log_prior


@njit(cache=True, nogil=True)
def reach_children(
    nodes: Longs,
    chosen: Longs,
    nursery: Nursery,
    cuts: Cuts,
    row_keys: Words,
    loops: Loops,
    below: Nursery,
    counts: Floats,
    look: Floats,
    log_prior: float,
    stop: Floats,
) -> None:
    """Link each chosen cut to the nodes of its two sides, which join the next level if new."""
    n_words = nursery.bits.shape[1]
    rows = np.empty(loops.ranks.shape[1], np.int32)
    members = np.empty(loops.ranks.shape[1], np.int32)
    side_bits = np.empty((2, n_words), np.uint64)
    for i in range(nodes.shape[0]):
        node, e = nodes[i], chosen[i]
        if cuts.child[e, 0] >= 0 and cuts.child[e, 1] >= 0:
            continue
        left0, left1 = np.uint64(0), np.uint64(0)
        for w in range(n_words):
            side_bits[0, w] = 0
        f = cuts.feature[e]
        for r in range(rows_of(nursery.bits[node], rows)):
            row = rows[r]
            if loops.rank_code[f, loops.ranks[f, row]] <= cuts.low[e]:
                side_bits[0, row >> 6] |= np.uint64(1) << np.uint64(row & 63)
                left0 ^= row_keys[row, 0]
                left1 ^= row_keys[row, 1]
        for w in range(n_words):
            side_bits[1, w] = nursery.bits[node, w] & ~side_bits[0, w]
        right0, right1 = nursery.keys[node, 0] ^ left0, nursery.keys[node, 1] ^ left1
        for side in range(2):
            before = below.used[0]
            if side == 0:
                child = find_or_add(left0, left1, side_bits[0], below)
            else:
                child = find_or_add(right0, right1, side_bits[1], below)
            if child == before:
                look[child] = cuts.look[e, side]
                # Not the cut's counts: they are single precision, and flows must not be.
                count_classes(side_bits[side], loops, members, counts[child])
                stop[child] = stop_flow(counts[child], log_prior, loops)
            cuts.child[e, side] = child


@njit(cache=True, nogil=True)
def link_children(
    first: int,
    last: int,
    nodes: Longs,
    start: Longs,
    nursery: Nursery,
    cuts: Cuts,
    row_keys: Words,
    loops: Loops,
    below: Nursery,
) -> None:
    """Link the cuts of newly listed nodes to children that are there already."""
    n_features, n_rows = loops.ranks.shape
    n_ranks = loops.rank_code.shape[1]
    rows, stamp = np.empty(n_rows, np.int32), np.zeros(n_ranks, np.int32)
    bucket = np.zeros((n_ranks, 2), np.uint64)
    for i in range(first, last):
        node, e = nodes[i], start[nodes[i]]
        s = rows_of(nursery.bits[node], rows)
        for f in range(n_features):
            lowest, highest = n_ranks, -1
            for r in range(s):
                rank = loops.ranks[f, rows[r]]
                stamp[rank] = 1
                bucket[rank, 0] ^= row_keys[rows[r], 0]
                bucket[rank, 1] ^= row_keys[rows[r], 1]
                lowest, highest = min(lowest, rank), max(highest, rank)
            left0, left1, previous = np.uint64(0), np.uint64(0), -1
            for rank in range(lowest, highest + 1):
                if stamp[rank] == 0:
                    continue
                if previous >= 0:
                    cuts.child[e, 0] = find(left0, left1, below)
                    right0, right1 = nursery.keys[node, 0] ^ left0, nursery.keys[node, 1] ^ left1
                    cuts.child[e, 1] = find(right0, right1, below)
                    e += 1
                previous = rank
                left0 ^= bucket[rank, 0]
                left1 ^= bucket[rank, 1]
                stamp[rank] = 0
                bucket[rank, 0], bucket[rank, 1] = 0, 0


@njit(cache=True, nogil=True)
def find(key0: np.uint64, key1: np.uint64, nursery: Nursery) -> int:
    """Position of a row set among the nodes of a level, -1 if it is not there."""
    mask = np.uint64(nursery.slots.shape[0] - 1)
    slot = key0 & mask
    while nursery.slots[slot] >= 0:
        node = nursery.slots[slot]
        if nursery.keys[node, 0] == key0 and nursery.keys[node, 1] == key1:
            return node
        slot = (slot + np.uint64(1)) & mask
    return -1


@njit(cache=True, nogil=True)
def settle_flows(
    first: int,
    last: int,
    nodes: Longs,
    start: Longs,
    n_cuts: Ints,
    cuts: Cuts,
    stop: Floats,
    below_flow: Floats,
    below_best: Floats,
    below_open: Floats,
    remember: bool,
    flow: Floats,
    best: Floats,
    open_mass: Floats,
) -> None:
    """F = stop + sum over cuts of split F(left) F(right); with it the best tree and open mass."""
    correction = np.zeros((2, n_cuts.max() + 1))
    for i in range(first, last):
        node = nodes[i]
        if remember:
            for side in range(2):
                given = (start[node], n_cuts[node], side, cuts, below_flow)
                correct_by_neighbours(*given, correction[side])
        top, best[node] = stop[node], stop[node]
        for e in range(start[node], start[node] + n_cuts[node]):
            value = cuts.prior[e]
            best_here = cuts.prior[e] - math.log(cuts.high[e] - cuts.low[e])
            for side in range(2):
                child = cuts.child[e, side]
                if child >= 0 and not math.isnan(below_flow[child]):
                    best_here += below_best[child]
                else:
                    best_here += cuts.best[e, side]
                if remember and is_known(e, side, cuts, below_flow):
                    value += below_flow[child]
                else:
                    value += cuts.look[e, side] + cuts.residual[e, side]
                    value += correction[side, e - start[node]]
            cuts.logit[e] = value
            top, best[node] = max(top, value), max(best[node], best_here)
        total, unseen, closed = math.exp(stop[node] - top), 0.0, True
        for e in range(start[node], start[node] + n_cuts[node]):
            share = math.exp(cuts.logit[e] - top)
            total += share
            opening = cut_open(e, cuts, below_flow, below_open)
            unseen += share * opening
            closed = closed and opening == 0.0
        flow[node] = top + math.log(total)
        open_mass[node] = 0.0 if closed else max(unseen / total, LEAST_OPEN)


@njit(cache=True, nogil=True)
def cut_open(e: int, cuts: Cuts, below_flow: Floats, below_open: Floats) -> float:
    """Probability that a tree taking this cut passes a child nobody looked at."""
    either, both = 0.0, 1.0
    for side in range(2):
        child = cuts.child[e, side]
        if child < 0 or math.isnan(below_flow[child]):
            return 1.0
        either += below_open[child]
        both *= below_open[child]
    return either - both  # not 1 - product: what is left open may be far below rounding
