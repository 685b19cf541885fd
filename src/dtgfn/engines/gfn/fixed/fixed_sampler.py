"""FixedSampler: the GFlowNet whose leaves decide all at once, level by level."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from dtgfn._support import clock
from dtgfn._support.arrays import Floats, Int32s, Int64s
from dtgfn._support.parallel import Runner, run_at_once
from dtgfn.engines.gfn.fixed.drawing import Findings, draw_trees
from dtgfn.engines.gfn.fixed.estimates import WARM_UP, FlowEstimates
from dtgfn.engines.gfn.fixed.network import ResidualNetwork
from dtgfn.engines.gfn.fixed.paths import Paths, draw_paths, follow_trees, join_paths
from dtgfn.engines.gfn.fixed.residuals import draw_known_nodes, path_depths, path_residuals
from dtgfn.engines.gfn.objectives import Residuals
from dtgfn.engines.gfn.sampler import Draws, seeded_network
from dtgfn.engines.rowsets.partial.best_tree import best_known_tree
from dtgfn.engines.rowsets.partial.graph import Limits, PartialGraph
from dtgfn.engines.rowsets.partial.levels import known_nodes
from dtgfn.engines.rowsets.partial.pairs import find_pairs
from dtgfn.engines.rowsets.partial.saved import graph_arrays, restore_graph
from dtgfn.engines.rowsets.partial.scouts import next_to_pair, send_scouts
from dtgfn.engines.rowsets.problem import Problem
from dtgfn.trees.batch import TreeBatch
from dtgfn.trees.score import Rows, log_reward

CLOSED = 1e-3  # open mass below which nothing much is left to learn, once the network knows
REPLAYED_NODES = 512
SCOUTED_PAIRS = 1.5e7  # pairs of cuts that scouts may have summed in a step
SCOUTED_CELLS = 1e8  # and cells of the table
PATH_ROWS, FEWEST_PATHS = 20_000_000, 8  # rows that the paths of a step are sent down with
MOST_PAIRS, FEW_PAIRS = 8, 4  # of columns that are looked at together, of all rows and of some
PAIRED = 0.2  # of the time that training has left, for pairs of columns of one row set
MOST_MET = 64  # row sets that paths of a step may meet in any case
GUESSES = 3 * WARM_UP  # steps after which its guess of what is open can be held against a fit


class FixedSampler:
    """Flows on the graph of row sets: remembered where known, from the network elsewhere.

    With ``remember`` a child that is known counts with its own flow, and the network learns these
    flows (for objective "db"); without, the policy is the network's alone, as objectives on whole
    trajectories need it. What explores is in ``paths.py`` and ``scouts.py``, what remembers in
    ``estimates.py``, the residuals are in ``residuals.py``, and drawing for the user in
    ``drawing.py``.
    """

    complete_trees = False  # trajectories end in trunks, whose tails are summed
    knows_tree_probability = True
    deadline = math.inf

    def __init__(
        self,
        problem: Problem,
        rows: Rows,
        *,
        hidden: tuple[int, ...] = (64, 64),
        n_scouts: int | None = None,
        exact_tails: int = 2,
        remember: bool = True,
        device: str = "cpu",
        seed: int = 0,
        run: Runner = run_at_once,
        limits: Limits | None = None,
    ) -> None:
        # Where the network is the policy, a row set must look the same from all its parents.
        graph = PartialGraph(problem, exact_tails, run, root_thresholds=not remember, limits=limits)
        n_sums = problem.score.leaf.n_sums
        network = seeded_network(lambda: ResidualNetwork(n_sums, hidden), seed).to(device)
        self.rows = rows  # equal ones merged
        self.n_scouts = affordable_scouts(problem) if n_scouts is None else n_scouts
        # Of a large table scouts are few, and a tree is to be met whole; pairs are not summed.
        self.large = n_scouts is None and graph.is_large and graph.tail_levels == 1
        self.paired: list[set[int]] = [set() for _ in range(graph.n_upper)]
        self.flows = FlowEstimates(graph, network, remember=remember, seed=seed)
        self.findings = Findings()  # of the last draw
        flow = float(graph.levels[0].flow[0])
        self.log_z = nn.Parameter(torch.tensor(flow, device=device))

    @property
    def graph(self) -> PartialGraph:
        """What is known."""
        return self.flows.graph

    @property
    def network(self) -> ResidualNetwork:
        """What is learned by gradients but log Z."""
        return self.flows.network

    @property
    def remember(self) -> bool:
        """Whether flows are remembered."""
        return self.flows.remember

    # Trajectories, and what is learned from them.

    def rollout(self, n_trees: int, epsilon: float, rng: np.random.Generator) -> Paths:
        """Send scouts, then draw paths, a share ``epsilon`` of their actions uniform.

        Where flows are remembered, paths expand no more row sets than there are scouts, and end
        where they may not: a step costs the same however wide the posterior is.
        """
        most_new = math.inf
        n_trees = min(n_trees, max(PATH_ROWS // self.graph.problem.n_rows, FEWEST_PATHS))
        if self.remember:
            self.flows.restore_optimism()
            if self.n_scouts:
                self._scout(rng)
            most_new = max(self.n_scouts, 1)
            if self.large:
                self._scout_pairs()
                most_new = max(most_new, min(2 ** (self.graph.n_upper + 1), MOST_MET))
        return draw_paths(
            self.flows, n_trees, rng, epsilon=epsilon, most_new=most_new, deadline=self.deadline
        )

    def _scout(self, rng: np.random.Generator) -> None:
        """Expand the children of the cuts that scouts find."""
        frontier, passed = send_scouts(self.graph, self.n_scouts, rng)
        for depth, nodes in enumerate(passed):
            self.flows.touched[depth].append(nodes)
        for depth, nodes, cuts in frontier:
            children = self.graph.reach(depth, nodes, cuts)
            self.flows.expand_in_time(depth + 1, np.unique(children), self.deadline)

    def _scout_pairs(self) -> None:
        """Look behind cuts that may help only together, at the first node nobody has done so for.

        Nodes come in the order in which trees meet them: the root, then the likeliest child.
        """
        graph = self.graph
        place = next_to_pair(graph, self.paired)
        if place is None or clock.monotonic() > self.deadline:
            return
        depth, node = place
        self.paired[depth].add(node)
        level, most = graph.levels[depth], MOST_PAIRS if depth == 0 else FEW_PAIRS
        # With very many columns the products alone would take all the time that training has.
        now = clock.monotonic()
        until = now + PAIRED * (self.deadline - now)
        wanted = find_pairs(level.sets.bits[node], graph.problem.loops, most, until)
        if len(wanted) == 0:
            return
        cuts = graph.keep(depth, node, wanted)
        cuts = cuts[cuts >= 0]
        children = graph.reach(depth, np.full(cuts.size, node, np.int64), cuts)
        self.flows.expand_in_time(depth + 1, np.unique(children), self.deadline)
        for above in range(depth, -1, -1):
            graph.update(above, known_nodes(graph.levels[above]), remember=True)

    def retrace(self, trees: TreeBatch, rng: np.random.Generator) -> Paths:
        """Follow given trees (or trunks) through the graph; each has one path, so P_B is one."""
        return follow_trees(self.flows, trees, self.deadline)

    def residuals(
        self, trajectories: list[Paths], with_flows: bool, n_update: int = 0
    ) -> Residuals:
        """Residuals along the paths (see ``residuals.py``), the same for all objectives.

        Where flows are remembered, those of known nodes follow, which ``n_update`` seeds.
        """
        rng = np.random.default_rng([self.flows.seed, n_update])
        replayed = draw_known_nodes(self.graph, REPLAYED_NODES if self.remember else 0, rng)
        return path_residuals(self.flows, self.log_z, join_paths(trajectories), replayed)

    def depths(self, trajectories: Paths) -> Int32s:
        """Depth [B, K] of the row sets on the paths, in the order of ``residuals``."""
        return path_depths(self.graph, trajectories)

    def learn(self, trajectories: list[Paths]) -> dict[str, float]:
        """Bring the flows of what was touched up to date."""
        self.flows.update()
        self._set_log_z()
        return self.diagnostics()

    def finish(self) -> None:
        """Bring every flow up to date, after training."""
        self.flows.finish()
        self._set_log_z()

    def _set_log_z(self) -> None:
        """Let log Z be the root's flow, where that is remembered."""
        if self.remember:
            with torch.no_grad():
                self.log_z.fill_(float(self.graph.levels[0].flow[0]))

    # Trees.

    def draw(self, n_trees: int, rng: np.random.Generator) -> Draws:
        """Draw full trees from P_F as it is now, or without optimism where that costs."""
        may_drop = self.remember and not self.exact
        draws, self.findings = draw_trees(
            self.flows, self.rows, n_trees, rng, deadline=self.deadline, may_drop=may_drop
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

    # How far it is.

    @property
    def best_log_mass(self) -> float:
        """Log R^(1/temperature) of the most probable tree known and those equivalent to it."""
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

    # Going on from elsewhere.

    def warm_start(self, before: FixedSampler) -> bool:
        """Take the network of a sampler trained on other rows of the same table, if it fits.

        Its inputs, counts and look-ahead, still mean the same; row sets and their flows do not.
        Nobody listens to it before it has learned from the new rows (``WARM_UP``): with more rows
        there is more to gain, and what it has learned of fewer is off by nats.
        """
        fits = self.summed_levels == before.summed_levels  # else it sums other levels
        if fits:
            self.network.load_state_dict(before.network.state_dict())
        return fits

    def memory(self) -> dict[str, npt.NDArray[Any]]:
        """Graph and counters, for a checkpoint."""
        flows = self.flows
        counters = np.array([flows.step, flows.seed, flows.optimism.dropped])
        return {"counters": counters, **graph_arrays(self.graph)}

    def restore(self, arrays: dict[str, npt.NDArray[Any]]) -> None:
        """Take back what ``memory`` gave."""
        self.paired = [set() for _ in self.paired]  # looked for again, which finds the same
        step, seed, dropped = (int(value) for value in arrays["counters"])
        if min(step, seed, dropped) < 0:
            raise ValueError("a counter is below zero")
        flows = self.flows
        flows.step, flows.seed, flows.optimism.dropped = step, seed, bool(dropped)
        restore_graph(self.graph, arrays)
        flows.forget_touched()


def affordable_scouts(problem: Problem) -> int:
    """Scouts per step whose two children each cost about as much as the rest of a step."""
    by_pairs = SCOUTED_PAIRS / max(problem.max_cuts, 1) ** 2
    by_cells = SCOUTED_CELLS / max(problem.n_rows * problem.feature.size, 1)
    return int(np.clip(min(by_pairs, by_cells), 8, 512))
