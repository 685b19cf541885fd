"""FixedPolicy: flows on the graph of row sets, and the trees that are drawn by them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from dtgfn._support import clock
from dtgfn._support.arrays import Floats, Int64s
from dtgfn.engines.gfn.draws import Draws
from dtgfn.engines.gfn.fixed.drawing import Findings, draw_trees
from dtgfn.engines.gfn.fixed.estimates import WARM_UP, FlowEstimates
from dtgfn.engines.gfn.fixed.paths import follow_trees
from dtgfn.engines.gfn.fixed.policies import Policy
from dtgfn.engines.rowsets.partial.best_tree import best_known_tree
from dtgfn.engines.rowsets.partial.graph import PartialGraph
from dtgfn.engines.rowsets.partial.known_support import known_support
from dtgfn.engines.rowsets.partial.levels import known_nodes
from dtgfn.engines.rowsets.partial.scouts import send_scouts
from dtgfn.engines.rowsets.problem import Problem
from dtgfn.engines.rowsets.ranking import ranked_trees
from dtgfn.trees.batch import TreeBatch
from dtgfn.trees.score import Rows, log_reward

CLOSED = 1e-3  # open mass below which nothing much is left to learn, once the network knows
GUESSES = 3 * WARM_UP  # steps after which its guess of what is open can be held against a fit
MEASURED = 2048  # row sets of a depth
SCOUTED_PAIRS = 1.5e7  # pairs of cuts that scouts may have summed in a step
SCOUTED_CELLS = 1e8  # and cells of the table


class FixedPolicy:
    """What draws: flows remembered where known, guessed elsewhere. It needs no torch.

    What explores is in ``paths.py`` and ``scouts.py``, what remembers in ``estimates.py``, and
    drawing for the user in ``drawing.py``; ``FixedSampler`` adds what trains the guesses.
    """

    complete_trees = False  # trajectories end in trunks, whose tails are summed
    knows_tree_probability = True
    deadline = math.inf

    def __init__(self, flows: FlowEstimates, rows: Rows, n_scouts: int) -> None:
        self.flows, self.n_scouts = flows, n_scouts
        self.rows = rows  # equal ones merged
        self.findings = Findings()  # of the last draw
        self.most_new = math.inf  # row sets that drawing may expand
        self.log_z: Any = flows.graph.levels[0].flow[0]  # a parameter where it is learned

    @property
    def graph(self) -> PartialGraph:
        """What is known."""
        return self.flows.graph

    @property
    def remember(self) -> bool:
        """Whether flows are remembered."""
        return self.flows.remember

    @property
    def shared(self) -> Policy | None:
        """The policy for all tables that it began from, if it did."""
        return getattr(self.flows.network, "policy", None)

    def errors(self) -> list[float]:
        """Mean squared error, by depth, of what is guessed of row sets that are known."""
        out, network = [0.0], self.flows.network
        for level in self.graph.levels[1:]:
            known = known_nodes(level)[:MEASURED]
            x = network.see_nodes(self.graph, level.depth, known)
            error = level.lookahead[known] + network.predict(x) - level.flow[known]
            out.append(float((error**2).mean()) if known.size else 0.0)
        return out

    def scout(self, rng: np.random.Generator) -> None:
        """Expand the children of the cuts that scouts find."""
        frontier, passed = send_scouts(self.graph, self.n_scouts, rng)
        for depth, nodes in enumerate(passed):
            self.flows.touched[depth].append(nodes)
        for depth, nodes, cuts in frontier:
            children = self.graph.reach(depth, nodes, cuts)
            self.flows.expand_in_time(depth + 1, np.unique(children), self.deadline)

    def look(self, n_rounds: int, rng: np.random.Generator) -> None:
        """Send scouts some times, and settle what they find: no guess is learned from it."""
        for _ in range(n_rounds):
            if clock.monotonic() > self.deadline or self.exact:
                break
            self.scout(rng)
            self.flows.settle()

    # Trees.

    def draw(self, n_trees: int, rng: np.random.Generator) -> Draws:
        """Draw full trees from P_F as it is now, or without optimism where that costs."""
        may_drop = self.remember and not self.exact
        draws, self.findings = draw_trees(
            self.flows,
            self.rows,
            n_trees,
            rng,
            deadline=self.deadline,
            may_drop=may_drop,
            most_new=self.most_new,
        )
        return draws

    def log_prob(self, trees: TreeBatch) -> Floats:
        """Log P_F [B] of given trees, -inf for impossible ones."""
        score = self.graph.problem.score
        paths = follow_trees(self.flows, trees)
        self.flows.forget_touched()
        reward = log_reward(trees, self.rows, score)
        with np.errstate(invalid="ignore"):
            value = paths.log_pf + (reward - paths.log_reward) / score.temperature
        return np.where(np.isneginf(reward) | np.isneginf(paths.log_pf), -np.inf, value)

    def best_known(self) -> TreeBatch:
        """Return the most probable tree known, a batch of one; what it passes is expanded."""

        def expand(depth: int, nodes: Int64s) -> int:
            return self.flows.expand_in_time(depth, nodes, self.deadline)

        tree = best_known_tree(self.graph, expand)
        self.flows.forget_touched()
        return tree

    def most_probable(self, n_trees: int) -> TreeBatch:
        """Return the most probable trees of what is known, the best first; maybe fewer."""
        support, run = known_support(self.graph), self.graph.run
        if not support:
            return self.best_known()
        found = ranked_trees(self.graph.problem, support, n_trees, run, self.deadline)
        return found if len(found) else self.best_known()

    # How far it is.

    @property
    def best_log_mass(self) -> float:
        """Log R^(1/temperature) of the most probable tree known and those equivalent to it.

        Where two levels are summed at once it may be a little more (``most_probable`` counts).
        """
        return float(self.graph.levels[0].best[0])

    def bounds(self) -> tuple[float, float]:
        """What log Z is at least and at most, by the row sets known now."""
        return self.graph.bounds()

    @property
    def summed_levels(self) -> int:
        """How many of the last levels are summed."""
        return self.graph.tail_levels

    @property
    def exact(self) -> bool:
        """Whether every child of every node has been expanded, so that P_F is the posterior."""
        remembered = self.remember or self.graph.n_upper == 0
        return remembered and float(self.graph.levels[0].open[0]) == 0.0

    @property
    def full(self) -> bool:
        """Whether there is no memory for more row sets."""
        return self.graph.is_full

    def stop_growing(self) -> None:
        """Look at no more row sets."""
        self.graph.limits = replace(self.graph.limits, memory=0.0)

    @property
    def finished(self) -> bool:
        """Whether hardly a tree would pass a child nobody has expanded, proven or guessed.

        An untrained network takes children nobody has expanded to be worth too little, so it is
        not asked before it has seen a few. Where nothing is remembered, it never finishes.
        """
        guessed = not self.flows.optimism.dropped and float(self.graph.levels[0].open[0]) <= CLOSED
        guessed = guessed and self.flows.step >= GUESSES
        return self.exact or (self.remember and (guessed or self.findings.open_most <= CLOSED))

    def risen(self) -> float:
        """Nats by which nine of ten row sets rose at most above their look-ahead, once known."""
        gains = [np.zeros(1)]
        for level in self.graph.levels[1:]:
            known = known_nodes(level)
            gains.append(level.flow[known] - level.lookahead[known])
        return float(np.quantile(np.concatenate(gains), 0.9))

    def diagnostics(self) -> dict[str, float]:
        """How much of the graph is known."""
        numbers = {"nodes": float(self.graph.n_nodes)}
        if self.remember:  # else all flows are guessed, whoever expanded what
            numbers["open"] = float(self.graph.levels[0].open[0])
            numbers["early"] = float(self.flows.step < GUESSES and not self.exact)
        if self.flows.optimism.dropped:
            numbers["drawing_gain"] = self.findings.gain
            numbers["open"] = max(numbers["open"], self.findings.found_open)
        return numbers


def affordable_scouts(problem: Problem) -> int:
    """Scouts per step whose two children each cost about as much as the rest of a step."""
    by_pairs = SCOUTED_PAIRS / max(problem.max_cuts, 1) ** 2
    by_cells = SCOUTED_CELLS / max(problem.n_rows * problem.feature.size, 1)
    return int(np.clip(min(by_pairs, by_cells), 8, 512))
