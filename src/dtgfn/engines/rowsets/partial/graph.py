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

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dtgfn._support.arrays import Floats, Int32s, Int64s, UInt64s
from dtgfn._support.parallel import Interruptible, Runner, Work, run_at_once
from dtgfn.engines.rowsets.graph import RowSets, count_cuts, find_or_add
from dtgfn.engines.rowsets.partial.cuts import (
    CutTable,
    empty_cuts,
    find_cuts,
    link_children,
    look_ahead_by_table,
    reach_children,
    set_stop,
)
from dtgfn.engines.rowsets.partial.flows import (
    bound_flows,
    count_thresholds,
    mass_of,
    set_ceilings,
    sum_flows,
)
from dtgfn.engines.rowsets.partial.largest import (
    copy_children,
    copy_cut,
    draw_of_rest,
    find_in_rest,
    list_largest,
)
from dtgfn.engines.rowsets.partial.leaf_cuts import (
    LeafScratch,
    look_ahead_by_formula,
    make_leaf_scratch,
)
from dtgfn.engines.rowsets.partial.levels import (
    Level,
    close_gaps,
    cut_bytes,
    known_nodes,
    make_level,
    reserve_cuts,
    reserve_nodes,
)
from dtgfn.engines.rowsets.partial.rebuilt import rebuild_bits, sets_at_once
from dtgfn.engines.rowsets.problem import LONG, Problem
from dtgfn.engines.rowsets.tails import tail_values

# Cuts of a table whose pairs are still summed: more would take a tenth of a second a row set.
WIDEST_PAIRED = 6000
ROWS_AT_ONCE = 20_000_000  # that are put into row sets without a break: a tenth of a second
ALL_KEPT, KEPT_CUTS = 8192, 2048  # cuts of a table whose nodes keep all, and what others' keep
KEPT_OF_LONG = 512  # cuts that nodes of a long table keep: the others weigh next to nothing
MOST_LINKED = 2_000_000  # cells of a table whose new nodes look for children that are there
GROWTH = 0.6  # of the memory: while room grows, a part of it is there twice
NOTHING = np.zeros((0, 2), np.int32)
HEAVY = 500_000  # cells of a table whose nodes are each worth a thread


@dataclass(frozen=True)
class Limits:
    """How much a graph keeps.

    Attributes
    ----------
    kept_cuts : int or None
        Largest cuts of a node that it keeps (see ``largest.py``); None for all.
    linked : bool
        Whether new nodes look for children that other nodes have made; else they are found when a
        tree takes the cut.
    memory : float
        Bytes beyond which no more row sets are looked at.
    rebuilt : bool
        Whether row sets are made again when they are looked at (``rebuilt.py``), not kept.

    """

    kept_cuts: int | None = None
    linked: bool = True
    memory: float = math.inf
    rebuilt: bool = False


def limits_for(problem: Problem, memory: float = math.inf, n_jobs: int = 1) -> Limits:
    """Return what suits a table: small ones keep everything.

    Of ``memory`` bytes the table itself and what threads work with come off, and a share that
    growing takes for a moment.
    """
    wide = problem.max_cuts > ALL_KEPT
    long = problem.n_rows >= LONG and not problem.two_levels_at_once
    kept = min(KEPT_CUTS if wide else problem.max_cuts, KEPT_OF_LONG if long else problem.max_cuts)
    of_table = sum(a.nbytes for a in (problem.keys, *problem.loops[:5]))
    room = cut_bytes(problem.score.leaf.n_sums) * problem.max_cuts * (n_jobs + 1)
    memory = max(GROWTH * (memory - of_table - room), 0.0)
    linked = not (wide or long) and problem.n_rows * problem.feature.size <= MOST_LINKED
    return Limits(kept if kept < problem.max_cuts else None, linked, memory, rebuilt=long)


class PartialGraph:
    """The nodes met so far, level by level, and the steps between them."""

    def __init__(
        self,
        problem: Problem,
        exact_tails: int,
        run: Runner,
        root_thresholds: bool = False,
        limits: Limits | None = None,
    ) -> None:
        score = problem.score
        self.run = run
        self.limits = limits_for(problem) if limits is None else limits
        self.tail_levels = self.levels_summed(problem, exact_tails)
        self.root_thresholds = root_thresholds  # whether ceilings count the root's at every node
        # Which column a feature comes from does not matter to flows: all may count as one.
        loops = problem.loops._replace(group=np.zeros_like(problem.loops.group))
        self.problem = replace(problem, loops=loops, n_groups=1)
        self.n_upper = score.max_depth - self.tail_levels
        if self.limits.kept_cuts is not None and self.tail_levels != 1:
            raise ValueError("Nodes keep their largest cuts where one level is summed, not two.")
        if self.limits.rebuilt and (self.limits.linked or self.tail_levels > 1):
            raise ValueError("Row sets that are not kept have no links, and one level is summed.")
        self.clear()

    @staticmethod
    def levels_summed(problem: Problem, exact_tails: int) -> int:
        """How many of the last levels can be summed, of ``exact_tails`` that are wanted."""
        affordable = problem.two_levels_at_once and problem.max_cuts <= WIDEST_PAIRED
        return min(problem.score.max_depth, exact_tails if affordable else 1)

    def clear(self) -> None:
        """Forget all nodes but the root."""
        depths = range(self.n_upper + 1)
        self.levels = [make_level(self.problem, depth, self.limits.rebuilt) for depth in depths]
        self._add_root()

    @property
    def n_nodes(self) -> int:
        """Nodes met so far."""
        return sum(len(level) for level in self.levels)

    @property
    def is_large(self) -> bool:
        """Whether the table is so long or wide that a row set takes milliseconds."""
        cells = self.problem.n_rows * self.problem.feature.size
        return self.limits.kept_cuts is not None or self.limits.rebuilt or cells >= HEAVY

    @property
    def total_mass(self) -> float:
        """Weight of all rows."""
        return float(mass_of(self.levels[0].sums[0], self.problem.loops.leaf))

    @property
    def n_bytes(self) -> float:
        """Memory that nodes, cuts and what is kept of nodes take."""
        n_sums = self.problem.score.leaf.n_sums
        n_words = 0 if self.limits.rebuilt else self.problem.n_words
        of_node = 8.0 * (n_words + n_sums + 20)
        n_cuts = sum(level.n_listed for level in self.levels)
        kept = sum(array.nbytes for level in self.levels for array in level.memo.values())
        return self.n_nodes * of_node + n_cuts * cut_bytes(n_sums) + kept

    @property
    def is_full(self) -> bool:
        """Whether no more row sets may be looked at."""
        return self.limits.memory < math.inf and self.n_bytes > self.limits.memory

    def run_heavy(self, work: Work, n_items: int) -> None:
        """Run work on nodes; where each takes long all threads begin at once."""
        if self.is_large and n_items > 1 and not isinstance(work, Interruptible):
            work = Interruptible(work, np.zeros(1, np.uint8))
        self.run(work, n_items)

    def _add_root(self) -> None:
        problem, root = self.problem, self.levels[0]
        keys = np.bitwise_xor.reduce(problem.keys, axis=0)
        find_or_add(keys[0], keys[1], problem.root_bits[: root.sets.bits.shape[1]], root.sets)
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

    def bits_of(self, depth: int, nodes: Int64s) -> UInt64s:
        """Rows [N, W] of nodes of a depth."""
        if self.limits.rebuilt:
            return rebuild_bits(self.problem, self.levels, depth, nodes)
        return self.levels[depth].sets.bits[nodes]

    def row_sets(self, depth: int, nodes: Int64s) -> RowSets:
        """Return the row sets of nodes of a depth."""
        return RowSets(self.bits_of(depth, nodes), self.levels[depth].sets.keys[nodes])

    def in_parts(self, nodes: Int64s) -> Iterator[Int64s]:
        """Yield nodes in parts whose row sets may be there together."""
        size = sets_at_once(self.problem) if self.limits.rebuilt else max(nodes.size, 1)
        for first in range(0, nodes.size, size):
            yield nodes[first : first + size]

    def _sum_tails(self, level: Level, nodes: Int64s) -> None:
        for part in self.in_parts(nodes):
            sets = self.row_sets(level.depth, part)
            values = tail_values(self.problem, sets, self.tail_levels, self.run_heavy)
            level.flow[part], level.best[part] = values.log_z, values.log_max
            level.open[part] = 0.0

    def _list_cuts(self, level: Level, nodes: Int64s) -> None:
        loops, most = self.problem.loops, self.limits.kept_cuts
        if most is None:
            self._list_all(level, nodes)
        else:
            reserve_cuts(level, level.n_listed + most * nodes.size)
            level.start[nodes] = level.n_listed + most * np.arange(nodes.size)
            self._list_largest(level, nodes, most, NOTHING)
            close_gaps(level, nodes)
        if self.root_thresholds:
            level.n_thresholds[nodes] = self.levels[0].n_thresholds[0]
        known = (level.start, level.n_cuts, level.n_thresholds, loops, level.cuts)
        self.run(lambda i, j: set_ceilings(i, j, nodes, level.depth, *known), nodes.size)
        if self.limits.linked:
            below = self.levels[level.depth + 1].sets
            link = (nodes, level.start, level.sets, level.cuts, self.problem.keys, loops, below)
            self.run(lambda i, j: link_children(i, j, *link), nodes.size)
        if loops.uniform_rules:  # where nothing can be cut, stopping is free
            set_stop(nodes[level.n_cuts[nodes] == 0], level.sums, 0.0, loops, level.stop)

    def _list_all(self, level: Level, nodes: Int64s) -> None:
        loops, counts = self.problem.loops, np.empty(nodes.size, np.int32)

        def count(first: int, last: int) -> None:
            bits = self.bits_of(level.depth, nodes[first:last])
            count_cuts(0, last - first, bits, loops, counts[first:last])

        self.run(count, nodes.size)
        ends = level.n_listed + np.cumsum(counts, dtype=np.int64)
        reserve_cuts(level, int(ends[-1]))
        level.start[nodes], level.n_cuts[nodes] = ends - counts, counts
        level.n_listed = int(ends[-1])
        look = look_ahead_by_table if self.tail_levels == 2 else look_ahead_by_formula
        given = (level.depth, level.start, self.problem.max_cuts, loops, level.cuts)

        def work(first: int, last: int) -> None:
            some = nodes[first:last]
            look(some, self.bits_of(level.depth, some), *given)

        self.run_heavy(work, nodes.size)
        count_thresholds(nodes, level.start, level.n_cuts, level.cuts, level.n_thresholds)

    def _list_largest(self, level: Level, nodes: Int64s, most: int, wanted: Int32s) -> None:
        given = (level.depth, level.start, level.n_cuts, most, wanted, self.problem.loops)
        out = (level.n_thresholds, level.rest, level.rest_ceiling, level.cuts)

        def work(first: int, last: int) -> None:
            some = nodes[first:last]
            list_largest(some, self.bits_of(level.depth, some), *given, self._room(), *out)

        self.run_heavy(work, nodes.size)

    @cached_property
    def _leaf(self) -> LeafScratch:
        return make_leaf_scratch(self.problem.loops)

    def _room(self) -> CutTable:
        """Return room for all cuts of a row set."""
        return empty_cuts(self.problem.max_cuts, self.problem.score.leaf.n_sums)

    def keep(self, depth: int, node: int, wanted: Int32s) -> Int64s:
        """Let a known node keep some cuts [M, 2], by feature and lowest threshold; find all [M].

        Its flow must be updated; -1 is a cut that it does not have.
        """
        level, most = self.levels[depth], self.limits.kept_cuts
        one = np.full(len(wanted), node, np.int64)
        given = (one, wanted[:, 0].copy(), wanted[:, 1].copy(), level.start, level.n_cuts)
        found = find_cuts(*given, level.cuts)
        if most is None or (found >= 0).all():
            return found
        old, n_old = int(level.start[node]), int(level.n_cuts[node])
        reserve_cuts(level, level.n_listed + most + len(wanted))
        level.start[node] = level.n_listed
        nodes = np.array([node])
        self._list_largest(level, nodes, most, wanted)
        level.n_listed += int(level.n_cuts[node])
        copy_children(int(level.start[node]), int(level.n_cuts[node]), old, n_old, level.cuts)
        known = (level.start, level.n_cuts, level.n_thresholds, self.problem.loops, level.cuts)
        set_ceilings(0, 1, nodes, depth, *known)
        return find_cuts(*given, level.cuts)

    def draw_rest(self, depth: int, nodes: Int64s, uniform: Floats) -> Int64s:
        """Draw for each visit [V] of nodes one of the cuts that are not kept; -1 if there is none.

        ``uniform`` [V] is random.
        """
        level = self.levels[depth]

        def draw(here: Int64s, bits: UInt64s, room: CutTable) -> Int64s:
            first, number = level.start[nodes[here[0]]], level.n_cuts[nodes[here[0]]]
            given = (bits, depth, first, number, level.cuts, uniform[here])
            return draw_of_rest(*given, self.problem.loops, self._leaf, room)

        return self._look_up(depth, nodes, draw)

    def find_rest(self, depth: int, nodes: Int64s, feature: Int32s, threshold: Int32s) -> Int64s:
        """Find for each visit [V] the cut that is not kept and a threshold makes; -1 if none."""

        def find(here: Int64s, bits: UInt64s, room: CutTable) -> Int64s:
            given = (bits, depth, feature[here], threshold[here])
            return find_in_rest(*given, self.problem.loops, self._leaf, room)

        return self._look_up(depth, nodes, find)

    def _look_up(
        self, depth: int, nodes: Int64s, which: Callable[[Int64s, UInt64s, CutTable], Int64s]
    ) -> Int64s:
        """List the nodes' cuts again; those that ``which`` chooses get a place of their own."""
        level, room = self.levels[depth], self._room()
        out = np.full(nodes.size, -1, np.int64)
        for node in np.unique(nodes):
            here = np.flatnonzero(nodes == node)
            bits = self.bits_of(depth, np.array([node]))[0]
            for i, u in zip(here, which(here, bits, room), strict=True):
                if u < 0:
                    continue
                name = int(node), int(room.feature[u]), int(room.low[u])
                if name not in level.looked_up:
                    reserve_cuts(level, level.n_listed + 1)
                    copy_cut(u, room, level.n_listed, level.cuts)
                    level.looked_up[name] = level.n_listed
                    level.n_listed += 1
                out[i] = level.looked_up[name]
        return out

    def reach(self, depth: int, nodes: Int64s, cuts: Int64s) -> Int64s:
        """Return the children [M, 2] of cuts of nodes [M]; new ones join the next level."""
        level, below = self.levels[depth], self.levels[depth + 1]
        reserve_nodes(below, len(below) + 2 * len(nodes))
        loops = self.problem.loops
        given = (level.sets, level.cuts, self.problem.keys, loops, below.sets, level.sums)
        log_prior = float(loops.log_stop[below.depth])
        out = (below.sums, below.lookahead, log_prior, below.stop, below.parent, below.origin)
        new = np.flatnonzero((level.cuts.child[cuts] < 0).any(axis=1))
        # The table of row sets takes one writer, so in pieces: Ctrl-C is heard between them.
        size = max(ROWS_AT_ONCE // self.problem.n_rows, 1)
        for first in range(0, new.size, size):
            some = new[first : first + size]
            where, bits = nodes[some], level.sets.bits
            if self.limits.rebuilt:
                which, where = np.unique(nodes[some], return_inverse=True)
                bits = self.bits_of(depth, which)
            reach_children(nodes[some], cuts[some], bits, where, *given, *out)
        return level.cuts.child[cuts].astype(np.int64)

    def update(self, depth: int, nodes: Int64s, remember: bool, optimistic: bool = True) -> None:
        """Set the flows of nodes whose cuts are listed from those of their children.

        Without ``remember`` the children's own flows are not used, only look-ahead and network; if
        not ``optimistic`` nothing is added to the look-ahead of children nobody has expanded.
        """
        level = self.levels[depth]
        if depth < self.n_upper and nodes.size:
            leaf = self.problem.loops.leaf
            given = (level.start, level.n_cuts, level.cuts, leaf, level.stop, level.rest)
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
            given = (nodes, level.start, level.n_cuts, level.cuts, level.stop)
            worth = (*given, level.rest, level.rest_ceiling, below.flow, floor, ceiling, *out)
            self.run(lambda i, j, worth=worth: bound_flows(i, j, *worth), nodes.size)  # type: ignore[misc]
            (floor, ceiling), below = out, level
        return float(floor[0]), float(ceiling[0])
