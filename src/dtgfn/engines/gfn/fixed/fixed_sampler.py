"""FixedSampler: the GFlowNet whose leaves decide all at once, level by level."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from dtgfn._support import clock
from dtgfn._support.arrays import Int32s
from dtgfn._support.parallel import Runner, run_at_once
from dtgfn.engines.gfn.fixed.estimates import FlowEstimates
from dtgfn.engines.gfn.fixed.fixed_policy import FixedPolicy, affordable_scouts
from dtgfn.engines.gfn.fixed.guesses import PolicyGuesser
from dtgfn.engines.gfn.fixed.looks import affordable_looks, look_around
from dtgfn.engines.gfn.fixed.network import CorrectedNetwork, Learner, ResidualNetwork
from dtgfn.engines.gfn.fixed.paths import Paths, draw_paths, follow_trees, join_paths
from dtgfn.engines.gfn.fixed.policies import Policy
from dtgfn.engines.gfn.fixed.residuals import draw_known_nodes, path_depths, path_residuals
from dtgfn.engines.gfn.objectives import Residuals
from dtgfn.engines.gfn.sampler import seeded_network
from dtgfn.engines.rowsets.partial.graph import Limits, PartialGraph
from dtgfn.engines.rowsets.partial.levels import known_nodes
from dtgfn.engines.rowsets.partial.pairs import find_pairs
from dtgfn.engines.rowsets.partial.saved import graph_arrays, restore_graph
from dtgfn.engines.rowsets.partial.scouts import next_to_pair
from dtgfn.engines.rowsets.problem import Problem
from dtgfn.trees.batch import TreeBatch
from dtgfn.trees.score import Rows

REPLAYED_NODES = 512
PATH_ROWS, FEWEST_PATHS = 20_000_000, 8  # rows that the paths of a step are sent down with
MOST_PAIRS, FEW_PAIRS = 8, 4  # of columns that are looked at together, of all rows and of some
PAIRED = 0.2  # of the time that training has left, for pairs of columns of one row set
MOST_MET = 64  # row sets that paths of a step may meet in any case


class FixedSampler(FixedPolicy):
    """A policy in fixed order in training: its network learns from the row sets that are known.

    With ``remember`` a child that is known counts with its own flow, and the network learns these
    flows (for objective "db"); without, the policy is the network's alone, as objectives on whole
    trajectories need it. A ``policy`` for all tables is what the network begins from; without one
    it begins from nothing. The residuals are in ``residuals.py``.
    """

    def __init__(
        self,
        problem: Problem,
        rows: Rows,
        *,
        policy: Policy | None = None,
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

        def make() -> Learner:
            if policy is None:
                return ResidualNetwork(n_sums, hidden)
            return CorrectedNetwork(policy, hidden)

        network = seeded_network(make, seed).to(device)
        flows = FlowEstimates(graph, network, remember=remember, seed=seed)
        super().__init__(flows, rows, affordable_scouts(problem) if n_scouts is None else n_scouts)
        # Of a large table scouts are few, and a tree is to be met whole; pairs are not summed.
        self.large = n_scouts is None and graph.is_large and graph.tail_levels == 1
        self.paired: list[set[int]] = [set() for _ in range(graph.n_upper)]
        flow = float(graph.levels[0].flow[0])
        self.log_z = nn.Parameter(torch.tensor(flow, device=device))

    @property
    def network(self) -> Learner:
        """What is learned by gradients but log Z."""
        return cast("Learner", self.flows.network)

    def look_first(self, most: float = math.inf) -> None:
        """Make the looks that a fit without training makes, so that training is never behind it.

        At ``most`` so many. What the policy for all tables learns of this one is where the network
        begins.
        """
        flows, network, policy = self.flows, self.network, self.shared
        if policy is None or not self.remember or self.graph.n_upper == 0:
            return
        looking = PolicyGuesser(policy)
        flows.listen_to(looking)
        try:
            look_around(self, int(min(affordable_looks(self.graph), most)))
            learned = getattr(flows.network, "learned", None)
            if isinstance(network, CorrectedNetwork) and learned is not None:
                network.begin_from(learned)
        finally:
            flows.listen_to(network)
        self._set_log_z()

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
                self.scout(rng)
            most_new = max(self.n_scouts, 1)
            if self.large:
                self._scout_pairs()
                most_new = max(most_new, min(2 ** (self.graph.n_upper + 1), MOST_MET))
        return draw_paths(
            self.flows, n_trees, rng, epsilon=epsilon, most_new=most_new, deadline=self.deadline
        )

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
        most = MOST_PAIRS if depth == 0 else FEW_PAIRS
        # With very many columns the products alone would take all the time that training has.
        now = clock.monotonic()
        until = now + PAIRED * (self.deadline - now)
        bits = graph.bits_of(depth, np.array([node]))[0]
        wanted = find_pairs(bits, graph.problem.loops, most, until)
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
