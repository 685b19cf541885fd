"""The most probable trees in order, found on the support without listing any others.

Trees that part the rows alike count as one: a cut weighs as many as its thresholds. The k best
trees of a row set combine the k best of its children. One upward pass finds the best tree of every
set; the others are made only where they are asked for (lazy k-best derivations, Huang and Chiang
2005), so a hundred trees cost little more than one.

What is best on a row set with two levels left is not known from its sum (``two_level_best``), only
what it is at most. So only sets that may lie on a tree as probable as those asked for are looked
at, and more of them until the trees found are more probable than what was left out.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from dtgfn._support import clock
from dtgfn._support.arrays import Floats, Int32s, Int64s, UInt64s
from dtgfn._support.parallel import ChunkSize, Interruptible, Runner, run_at_once
from dtgfn.engines.rowsets.graph import (
    Edges,
    expand,
    expansion_bytes,
    make_row_sets,
    take_edges,
)
from dtgfn.engines.rowsets.inside import level_values
from dtgfn.engines.rowsets.problem import Problem
from dtgfn.engines.rowsets.support import SupportLevel, owners_of, step_probabilities
from dtgfn.engines.rowsets.tails import (
    add_best_splits,
    first_best,
    list_last_cuts,
    middle_split,
    tail_values,
)
from dtgfn.engines.rowsets.two_level_best import best_two_levels
from dtgfn.trees.batch import LEAF, TreeBatch, empty_batch, from_splits

Splits = dict[tuple[int, ...], tuple[int, int]]
AHEAD = 3.0  # nats below the most that the best tree can have, at first
BYTES_AT_ONCE = 1 << 27  # of row sets that are looked at, or cut again
LEAVES_AT_ONCE = 1 << 22  # bytes of row sets that the leaves of one row set's cuts may take
STEP = 5.0  # nats further down where that was not far enough


def ranked_trees(
    problem: Problem,
    support: list[SupportLevel],
    n_trees: int,
    run: Runner,
    deadline: float = math.inf,
) -> TreeBatch:
    """Return the ``n_trees`` most probable trees, the best first; fewer where there are fewer.

    Each stands for all trees equivalent to it (``trees.equivalent_cuts``), with middle thresholds.
    Once the clock passes ``deadline`` they are the best on the row sets looked at, maybe none.
    """
    # Which column a cut is on does not matter here, so all may count as one.
    one_column = problem.loops._replace(group=np.zeros_like(problem.loops.group))
    problem = replace(problem, loops=one_column, n_groups=1)
    tails = Tails(problem, support, run)
    least = tails.most - AHEAD
    while True:
        search = Search(problem, support, tails.best_log_probs(least, deadline), n_trees)
        root = search.node(0, problem.root_bits, 0)
        found = 0
        while found < n_trees and root.tree(found) is not None:
            found += 1
        last = root.found[found - 1].log_prob if found == n_trees else -np.inf
        if last >= least or tails.complete or clock.monotonic() >= deadline:
            trees = [root.splits(rank) for rank in range(found)]
            return from_splits(trees) if trees else empty_batch(0, 1)
        least = max(least - STEP, last)


def best_on_support(
    problem: Problem, support: list[SupportLevel], run: Runner, tail_most: Floats | None = None
) -> tuple[TreeBatch, float]:
    """Return the most probable tree, and its log probability with that of its equivalents.

    Ties go to fewer splits, then to the first cut. ``tail_most`` [K] is the most that log P(best
    tree | set) can be of each set of the last level, if that is known.
    """
    tails = Tails(problem, support, run, tail_most)
    least = tails.most - AHEAD
    while True:
        best = tails.best_log_probs(least)
        if best[0][0] >= least or tails.complete:
            break
        least = max(least - STEP, float(best[0][0]))
    splits: Splits = {}

    def grow(path: tuple[int, ...], position: int) -> None:
        here = support[len(path)]
        if len(path) == len(support) - 1:
            this = make_row_sets(problem, here.bits[[position]])
            add_best_splits(problem, this, path, splits, run_at_once, run)
            return
        span = slice(here.edges.start[position], here.edges.start[position + 1])
        edges = take_edges(here.edges, np.array([position]))
        weight = _edge_log_probs(edges, here.probability[span], best[len(path) + 1])
        # Rounding must not turn a tie into a needless split.
        if weight.size and weight.max() > _log(here.stop[position]) + 1e-10:
            chosen = first_best(weight)
            splits[path] = middle_split(problem, edges, chosen)
            grow((*path, 0), int(edges.left[chosen]))
            grow((*path, 1), int(edges.right[chosen]))

    grow((), 0)
    return from_splits([splits]), float(best[0][0])


class Tails:
    """How probable the best tree of each set of the last level is, as far as that was looked at."""

    def __init__(
        self,
        problem: Problem,
        support: list[SupportLevel],
        run: Runner,
        most: Floats | None = None,
    ) -> None:
        self.problem, self.support, self.run = problem, support, run
        n_sets = len(support[-1].bits)
        self.log_prob, self.known = np.full(n_sets, -np.inf), np.zeros(n_sets, dtype=np.bool_)
        tops = self._upwards(np.zeros(n_sets) if most is None else most)
        self.most = float(tops[0][0])  # what the best of all trees can have
        through = np.zeros(1)  # the most that the rest of a tree can have that passes a set
        for here, top in zip(support[:-1], tops[1:], strict=True):
            below, edges = np.full(len(top), -np.inf), here.edges
            rest = through[owners_of(edges)] + _log(here.probability)
            np.maximum.at(below, edges.left, rest + top[edges.right])
            np.maximum.at(below, edges.right, rest + top[edges.left])
            through = below
        self.reach = through + tops[-1]

    @property
    def complete(self) -> bool:
        """Whether all were looked at."""
        return bool(self.known.all())

    def best_log_probs(self, least: float, deadline: float = math.inf) -> list[Floats]:
        """Log P(most probable tree and its equivalents | row set) of every set of the support.

        Sets of the last level that lie on no tree as probable as ``least`` are left out, and those
        that there is no time for.
        """
        new = np.flatnonzero((self.reach >= least - 1e-9) & ~self.known)
        for part in self._parts(new, deadline):
            bits = self.support[-1].bits[part]
            self.log_prob[part] = tail_best(self.problem, bits, len(self.support) - 1, self.run)
            self.known[part] = True
        return self._upwards(self.log_prob)

    def _parts(self, sets: Int64s, deadline: float) -> Iterator[Int64s]:
        """Yield sets in parts of bounded memory, the most promising first, as time allows."""
        sets = sets[np.argsort(-self.reach[sets], kind="stable")]
        most, chunk, at = max(BYTES_AT_ONCE // (8 * self.problem.n_words), 1), ChunkSize(), 0
        while at < sets.size and (begun := clock.monotonic()) < deadline:
            size = min(most, sets.size if deadline == math.inf else chunk.size)
            part = sets[at : at + size]
            yield part
            at += part.size
            chunk.adapt(part.size, clock.monotonic() - begun)

    def _upwards(self, tail: Floats) -> list[Floats]:
        """Best log probability of each set of all levels, from that of the last level's."""
        best = [tail]
        for here in reversed(self.support[:-1]):
            peak = _log(here.stop)
            through = _edge_log_probs(here.edges, here.probability, best[0])
            np.maximum.at(peak, owners_of(here.edges), through)
            best.insert(0, peak)
        return best


def tail_best(problem: Problem, bits: UInt64s, depth: int, run: Runner) -> Floats:
    """Log P(most probable tree and its equivalents | row set) [K] with tail levels left."""
    levels_left = problem.score.max_depth - depth
    if levels_left != 2:
        values = tail_values(problem, make_row_sets(problem, bits), levels_left, run, False)
        return values.log_max - values.log_z
    if problem.two_levels_by_logs:
        return best_cut_again(problem, bits, run)
    by_feature = np.arange(len(problem.loops.group), dtype=problem.loops.group.dtype)
    loops = problem.loops.with_own_flag()._replace(group=by_feature)
    out = np.empty(len(bits))
    given = (bits, problem.max_cuts, depth, loops, out)
    run(Interruptible(lambda i, j: best_two_levels(i, j, *given), loops.halted), len(bits))
    return out


def best_cut_again(problem: Problem, bits: UInt64s, run: Runner) -> Floats:
    """As ``tail_best`` for two levels, from the row sets' children, some sets at a time."""
    at_once = max(1, int(BYTES_AT_ONCE // expansion_bytes(problem, problem.max_cuts)))
    best = []
    for begin in range(0, len(bits), at_once):
        sets = make_row_sets(problem, bits[begin : begin + at_once])
        edges, children = expand(problem, sets, run_at_once)
        values = level_values(problem, sets, edges, tail_values(problem, children, 1, run), 2, run)
        best.append(values.log_max - values.log_z)
    return np.concatenate([np.zeros(0), *best])


def _edge_log_probs(edges: Edges, probability: Floats, best: Floats) -> Floats:
    """Log probability of the best tree through each edge [E], all its thresholds together."""
    return np.asarray(_log(probability) + best[edges.left] + best[edges.right])


def _log(probability: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(probability))


class Ways(NamedTuple):
    """The ways on from a row set, best first: stop (feature ``LEAF``) or take a cut."""

    best: Floats  # [M] log probability of the best tree that goes this way
    feature: Int32s  # [M]
    cut: Int32s  # [M]
    left: Int32s  # [M] positions among the children
    right: Int32s  # [M]
    children: UInt64s  # [K, W] row sets of the children; leaves need none, and are all one [1, 0]


class Ranked(NamedTuple):
    """A tree on a row set: which way it goes, and the ranks of its subtrees on both sides."""

    log_prob: float
    way: int
    left: int
    right: int


@dataclass(frozen=True)
class Search:
    """What all nodes of a search share."""

    problem: Problem
    support: list[SupportLevel]
    best: list[Floats]
    n_trees: int
    nodes: dict[tuple[int, bytes], Node] = field(default_factory=dict)

    def node(self, depth: int, bits: UInt64s, position: int) -> Node:
        """Return the one node of a row set; ``position`` tells where it is in the support."""
        name = depth, bits.tobytes()
        if name not in self.nodes:
            self.nodes[name] = Node(self, depth, bits, position)
        return self.nodes[name]

    def ways(self, depth: int, bits: UInt64s, position: int) -> Ways:
        """Find the ways on from a row set."""
        last = self.problem.score.max_depth - 1
        if depth > last:
            only = np.full(1, LEAF, np.int32)
            return Ways(np.zeros(1), only, only, only, only, bits[None, :])
        if depth < len(self.support) - 1:
            here = self.support[depth]
            span = slice(here.edges.start[position], here.edges.start[position + 1])
            edges = take_edges(here.edges, np.array([position]))
            children, child_best = self.support[depth + 1].bits, self.best[depth + 1]
            stop, probability = here.stop[position : position + 1], here.probability[span]
            log_prob = _edge_log_probs(edges, probability, child_best)
            return self._sort(edges, stop, log_prob, children)
        # Below the support nothing is kept: cut the set again.
        if depth == last and not self.small:
            return self._last_ways(bits)
        return self._ways_below(depth, bits)

    @property
    def small(self) -> bool:
        """Whether there is room for the leaves of all cuts of a row set."""
        return expansion_bytes(self.problem, self.problem.max_cuts) <= LEAVES_AT_ONCE

    def _last_ways(self, bits: UInt64s) -> Ways:
        """Ways on with one level left of a long table, without row sets of its cuts' leaves.

        Those would take gigabytes, and most of the time. Probabilities differ by rounding.
        """
        depth = self.problem.score.max_depth - 1
        cuts, number, stop, _ = list_last_cuts(
            bits, depth, self.problem.max_cuts, self.problem.loops
        )
        probability = np.concatenate([[stop], cuts.weight[:number]])
        probability /= probability.sum()
        start, leaf = np.array([0, number]), np.zeros(number, np.int32)
        listed = cuts.feature[:number], cuts.low[:number], cuts.high[:number]
        edges = Edges(start, *listed, leaf, leaf)
        no_rows = np.zeros((1, 0), np.uint64)
        return self._sort(edges, probability[:1], _log(probability[1:]), no_rows)

    def _ways_below(self, depth: int, bits: UInt64s) -> Ways:
        """Ways on with more levels left, keeping the row sets that some way leads to."""
        sets = make_row_sets(self.problem, bits[None, :])
        levels_left = self.problem.score.max_depth - depth
        log_z = tail_values(self.problem, sets, levels_left, run_at_once).log_z
        edges, below = expand(self.problem, sets, run_at_once)
        values = tail_values(self.problem, below, levels_left - 1, run_at_once)
        stop, probability = step_probabilities(
            self.problem, sets, edges, values.log_z, log_z, depth, run_at_once
        )
        log_prob = _edge_log_probs(edges, probability, values.log_max - values.log_z)
        ways = self._sort(edges, stop, log_prob, below.bits)
        is_cut = ways.feature != LEAF
        kept = np.unique([ways.left[is_cut], ways.right[is_cut]])
        left, right = (
            np.where(is_cut, np.searchsorted(kept, side), LEAF).astype(np.int32)
            for side in (ways.left, ways.right)
        )
        return ways._replace(left=left, right=right, children=below.bits[kept])

    def _sort(self, edges: Edges, stop: Floats, log_prob: Floats, children: UInt64s) -> Ways:
        """List stop and every cut by the best tree behind it, as many as may count."""
        best = np.concatenate([_log(stop), log_prob])
        order = np.argsort(-best, kind="stable")[: self.n_trees]
        order = order[np.isfinite(best[order])]
        feature = np.concatenate([[LEAF], self.problem.feature[edges.feature]])
        middle = (edges.low + edges.high - 1) // 2
        cut, left, right = (
            np.concatenate([[-1], column])[order] for column in (middle, edges.left, edges.right)
        )
        return Ways(best[order], feature[order], cut, left, right, children)


class Node:
    """The trees on one row set, most probable first, found as they are asked for."""

    def __init__(self, search: Search, depth: int, bits: UInt64s, position: int) -> None:
        self.search, self.depth = search, depth
        self.ways = search.ways(depth, bits, position)
        self.found: list[Ranked] = []
        # Ways are sorted, so as a list of (-log probability, ...) this already is a heap.
        self.heap = [(-float(best), way, 0, 0) for way, best in enumerate(self.ways.best)]

    def tree(self, rank: int) -> Ranked | None:
        """Return the tree of this rank (0 is the best), None if there are not so many."""
        while len(self.found) <= rank:
            if self.found:
                self._offer_successors(self.found[-1])
            if not self.heap:
                return None
            loss, way, left, right = heapq.heappop(self.heap)
            self.found.append(Ranked(-loss, way, left, right))
        return self.found[rank]

    def _offer_successors(self, last: Ranked) -> None:
        """Offer what may follow a tree on its way: the next subtree on either side."""
        if self.ways.feature[last.way] == LEAF:
            return
        left, right = self.children(last.way)
        # Each pair of ranks has one predecessor, so none is offered twice.
        if (change := right.step(last.right)) is not None:
            self._offer(last.log_prob + change, last.way, last.left, last.right + 1)
        if last.right == 0 and (change := left.step(last.left)) is not None:
            self._offer(last.log_prob + change, last.way, last.left + 1, 0)

    def _offer(self, log_prob: float, way: int, left: int, right: int) -> None:
        heapq.heappush(self.heap, (-log_prob, way, left, right))

    def step(self, rank: int) -> float | None:
        """Return what log probability changes by from a rank to the next, if there is one."""
        here, after = self.tree(rank), self.tree(rank + 1)
        return None if here is None or after is None else after.log_prob - here.log_prob

    def children(self, way: int) -> tuple[Node, Node]:
        """Return the nodes on both sides of a split."""
        left, right = (
            self.search.node(self.depth + 1, self.ways.children[position], int(position))
            for position in (self.ways.left[way], self.ways.right[way])
        )
        return left, right

    def splits(self, rank: int, path: tuple[int, ...] = ()) -> Splits:
        """Return the splits of the tree of a rank that exists."""
        tree = self.tree(rank)
        assert tree is not None
        if self.ways.feature[tree.way] == LEAF:
            return {}
        left, right = self.children(tree.way)
        split = int(self.ways.feature[tree.way]), int(self.ways.cut[tree.way])
        below = left.splits(tree.left, (*path, 0)) | right.splits(tree.right, (*path, 1))
        return {path: split} | below
