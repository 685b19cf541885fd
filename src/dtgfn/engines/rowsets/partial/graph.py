"""The fixed-order MDP: states are row sets with levels left, and each is stored once.

A tree is built level by level: every open leaf, a row set S with k levels left, stops or takes a
cut, whatever the other leaves do. What is optimal at a leaf depends on (S, k) alone, so the state
space is a graph of row sets that all trees share, and the balance condition is local::

    F(S, k) = m(S) + sum over cuts  e^-penalty F(left, k-1) F(right, k-1)

The last levels ("tails", two where a leaf table exists and cuts are not too many to be paired, else
one) are summed exactly, so the graph ends above them. A node's flow is known once its row set has
been looked at; the flow of a child nobody looked at yet is its look-ahead plus what the network
adds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dtgfn._support.arrays import Int64s
from dtgfn._support.parallel import Runner, run_at_once
from dtgfn.engines.rowsets.graph import RowSets, count_cuts, find_or_add
from dtgfn.engines.rowsets.partial.ceilings import bound_flows, count_thresholds, set_ceilings
from dtgfn.engines.rowsets.partial.children import link_children, reach_children, set_stop
from dtgfn.engines.rowsets.partial.flows import settle_flows
from dtgfn.engines.rowsets.partial.levels import (
    NODE_FIELDS,
    Level,
    check_level,
    fill_level,
    grow,
    grown_cuts,
    known_nodes,
    make_level,
)
from dtgfn.engines.rowsets.partial.lookahead import Cuts, look_ahead_by_formula, look_ahead_by_table
from dtgfn.engines.rowsets.problem import Problem
from dtgfn.engines.rowsets.tails import tail_values

# Cuts of a table whose pairs are still summed: more would take a tenth of a second a row set.
WIDEST_PAIRED = 6000
ROWS_AT_ONCE = 20_000_000  # that are put into row sets without a break: a tenth of a second


class Graph:
    """The nodes met so far, level by level, and the steps between them."""

    def __init__(
        self, problem: Problem, exact_tails: int, run: Runner, shares_span: bool = False
    ) -> None:
        score = problem.score
        self.run = run
        affordable = problem.two_levels_at_once and problem.max_cuts <= WIDEST_PAIRED
        most = exact_tails if affordable else 1
        self.tail_levels = min(score.max_depth, most)
        self.shares_span = shares_span
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
        root.sums[0] = problem.loops.sums.sum(axis=0)
        log_prior = float(problem.loops.log_stop[0])
        set_stop(np.zeros(1, np.int64), root.sums, log_prior, problem.loops, root.stop)
        if self.n_upper == 0:
            return
        # The root has no parent to look ahead for it.
        one = RowSets(problem.root_bits[None, :].copy(), keys[None, :])
        levels = self.tail_levels - 1
        at = replace(problem, score=replace(problem.score, max_depth=root.depth + levels))
        root.look[0] = tail_values(at, one, levels, run_at_once).log_z[0]

    def look_at(self, depth: int, nodes: Int64s) -> Int64s:
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

    def _sum_tails(self, level: Level, nodes: Int64s) -> None:
        sets = RowSets(level.nursery.bits[nodes], level.nursery.keys[nodes])
        values = tail_values(self.problem, sets, self.tail_levels, self.run)
        level.flow[nodes], level.best[nodes] = values.log_z, values.log_max
        level.open[nodes] = 0.0

    def _list_cuts(self, level: Level, nodes: Int64s) -> None:
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
        count_thresholds(nodes, level.start, level.n_cuts, level.cuts, level.span)
        if self.shares_span:
            level.span[nodes] = self.levels[0].span[0]
        known = (nodes, level.depth, level.start, level.n_cuts, level.span, loops, level.cuts)
        self.run(lambda i, j: set_ceilings(i, j, *known), nodes.size)
        below = self.levels[level.depth + 1].nursery
        link = (nodes, level.start, level.nursery, level.cuts, self.problem.keys, loops, below)
        self.run(lambda i, j: link_children(i, j, *link), nodes.size)
        if loops.uniform_rules:  # where nothing can be cut, stopping is free
            set_stop(nodes[counts == 0], level.sums, 0.0, loops, level.stop)

    def reach(self, depth: int, nodes: Int64s, cuts: Int64s) -> Int64s:
        """Return the children [M, 2] of cuts of nodes [M]; new ones join the next level."""
        level, below = self.levels[depth], self.levels[depth + 1]
        grow(below, len(below) + 2 * len(nodes))
        loops = self.problem.loops
        given = (level.nursery, level.cuts, self.problem.keys, loops, below.nursery)
        log_prior = float(loops.log_stop[below.depth])
        out = (below.sums, below.look, log_prior, below.stop)
        # The table of row sets takes one writer, so in pieces: Ctrl-C is heard between them.
        size = max(ROWS_AT_ONCE // self.problem.n_rows, 1)
        for first in range(0, len(nodes), size):
            some = slice(first, first + size)
            reach_children(nodes[some], cuts[some], *given, *out)
        return level.cuts.child[cuts].astype(np.int64)

    def settle(self, depth: int, nodes: Int64s, remember: bool, hope: bool = True) -> None:
        """Set the flows of nodes whose cuts are listed from those of their children.

        Without ``remember`` the children's own flows are not used, only look-ahead and network;
        without ``hope`` nothing is added to the look-ahead of children nobody looked at.
        """
        level = self.levels[depth]
        if depth < self.n_upper and nodes.size:
            leaf = self.problem.loops.leaf
            given = (level.start, level.n_cuts, level.cuts, leaf, level.stop)
            below = self.levels[depth + 1]
            out = (level.flow, level.best, level.open)
            known = (below.flow, below.best, below.open)
            how = (remember, hope)
            self.run(lambda i, j: settle_flows(i, j, nodes, *given, *known, *how, *out), nodes.size)

    def settle_all(self, remember: bool, hope: bool = True) -> None:
        """Settle every node whose flow is known, from the bottom up."""
        for depth in range(self.n_upper - 1, -1, -1):
            self.settle(depth, known_nodes(self.levels[depth]), remember, hope)

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
