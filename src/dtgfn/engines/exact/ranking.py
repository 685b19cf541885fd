"""The most probable trees in order, found on the support without listing any others.

Trees that part the rows alike count as one: a cut weighs as many as its thresholds. The k best
trees of a row set combine the k best of its children. One upward pass finds the best tree of every
set; the others are made only where they are asked for (lazy k-best derivations, Huang and Chiang
2005), so a hundred trees cost little more than one.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from dtgfn._support.arrays import Floats, Int32s, UInt64s
from dtgfn._support.parallel import Runner, run_at_once
from dtgfn.engines.exact.inside_outside import SupportLevel, step_probabilities
from dtgfn.engines.rowsets.graph import Edges, expand, make_row_sets, take_edges
from dtgfn.engines.rowsets.problem import Problem
from dtgfn.engines.rowsets.tails import tail_values
from dtgfn.trees.batch import LEAF, TreeBatch, from_splits

Splits = dict[tuple[int, ...], tuple[int, int]]


def ranked_trees(
    problem: Problem, support: list[SupportLevel], n_trees: int, run: Runner
) -> TreeBatch:
    """Return the ``n_trees`` most probable trees, the best first; fewer where there are fewer.

    Each stands for all trees equivalent to it (``trees.equivalent_cuts``), with middle thresholds.
    """
    # Which column a cut is on does not matter here, so all may count as one.
    one_column = problem.loops._replace(group=np.zeros_like(problem.loops.group))
    problem = replace(problem, loops=one_column, n_groups=1)
    search = Search(problem, support, best_log_probs(problem, support, run), n_trees)
    root = search.node(0, problem.root_bits, 0)
    found = 0
    while found < n_trees and root.tree(found) is not None:
        found += 1
    return from_splits([root.splits(rank) for rank in range(found)])


def best_log_probs(problem: Problem, support: list[SupportLevel], run: Runner) -> list[Floats]:
    """Log P(most probable tree and its equivalents | row set) of every set of the support."""
    levels_left = problem.score.max_depth - (len(support) - 1)
    values = tail_values(problem, make_row_sets(problem, support[-1].bits), levels_left, run)
    best = [values.log_max - values.log_z]
    for here in reversed(support[:-1]):
        with np.errstate(divide="ignore"):
            peak = np.log(here.stop)
        owner = np.repeat(np.arange(len(here.bits)), np.diff(here.edges.start))
        np.maximum.at(peak, owner, _edge_log_probs(here.edges, here.probability, best[0]))
        best.insert(0, peak)
    return best


def _edge_log_probs(edges: Edges, probability: Floats, best: Floats) -> Floats:
    """Log probability of the best tree through each edge [E], all its thresholds together."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(probability) + best[edges.left] + best[edges.right])


class Ways(NamedTuple):
    """The ways on from a row set, best first: stop (feature ``LEAF``) or take a cut."""

    best: Floats  # [M] log probability of the best tree that goes this way
    feature: Int32s  # [M]
    cut: Int32s  # [M]
    left: Int32s  # [M] positions among the children
    right: Int32s  # [M]
    children: UInt64s  # [K, W] row sets of the children


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
        if depth == self.problem.score.max_depth:
            only = np.full(1, LEAF, np.int32)
            return Ways(np.zeros(1), only, only, only, only, bits[None, :])
        if depth < len(self.support) - 1:
            here = self.support[depth]
            span = slice(here.edges.start[position], here.edges.start[position + 1])
            edges = take_edges(here.edges, np.array([position]))
            children, child_best = self.support[depth + 1].bits, self.best[depth + 1]
            stop, probability = here.stop[position : position + 1], here.probability[span]
        else:
            # Below the support nothing is kept: cut the set again.
            sets = make_row_sets(self.problem, bits[None, :])
            levels_left = self.problem.score.max_depth - depth
            log_z = tail_values(self.problem, sets, levels_left, run_at_once).log_z
            edges, below = expand(self.problem, sets, run_at_once)
            values = tail_values(self.problem, below, levels_left - 1, run_at_once)
            children, child_best = below.bits, values.log_max - values.log_z
            stop, probability = step_probabilities(
                self.problem, sets, edges, values.log_z, log_z, depth, run_at_once
            )
        return self._sort(edges, stop, _edge_log_probs(edges, probability, child_best), children)

    def _sort(self, edges: Edges, stop: Floats, log_prob: Floats, children: UInt64s) -> Ways:
        """List stop and every cut by the best tree behind it, as many as may count."""
        with np.errstate(divide="ignore"):
            best = np.concatenate([np.log(stop), log_prob])
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
