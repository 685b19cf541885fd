"""FixedSampler: the GFlowNet whose leaves decide all at once, level by level."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from dtgfn._support.arrays import Float32s, Floats, Int32s, Int64s
from dtgfn._support.parallel import ChunkSize, Runner, run_at_once
from dtgfn.engines.gfn.fixed.balance import path_depths, path_residuals
from dtgfn.engines.gfn.fixed.best import best_tree
from dtgfn.engines.gfn.fixed.drawing import Drawing
from dtgfn.engines.gfn.fixed.hope import Hope
from dtgfn.engines.gfn.fixed.paths import (
    UNSEEN,
    Paths,
    Visits,
    join_paths,
    wanted_cuts,
    weigh,
)
from dtgfn.engines.gfn.fixed.policy import (
    LEVELS_LEFT,
    ResidualNetwork,
    choose,
    describe,
    evaluate,
    fill_residuals,
    promising_cuts,
    spread_evenly,
)
from dtgfn.engines.gfn.sampler import (
    Draws,
    Residuals,
    seeded_network,
)
from dtgfn.engines.rowsets.partial.graph import Graph
from dtgfn.engines.rowsets.partial.levels import Level, known_nodes
from dtgfn.engines.rowsets.partial.scouts import send_scouts
from dtgfn.engines.rowsets.problem import Problem
from dtgfn.engines.rowsets.tails import split_leaves
from dtgfn.trees.batch import TreeBatch, empty_batch
from dtgfn.trees.score import Rows, log_reward

CLOSED = 1e-3  # open mass below which nothing much is left to learn, once the network knows
REFRESH = 10  # network steps after which a node's residuals are computed again
REPLAYED_NODES = 512
SCOUTED_PAIRS = 1.5e7  # pairs of cuts that scouts may have looked at in a step
SHORTLIST = 128  # cuts of a node whose children the network sees
WARM_UP = 20  # steps before anyone listens to the network: a hardly trained one misleads
GUESSES = 3 * WARM_UP  # steps after which its guess of what is open can be held against a fit


class FixedSampler:
    """Flows on the graph of row sets: remembered where known, from the network elsewhere.

    With ``remember`` a child that has been looked at counts with its own flow, and the network
    learns these flows (for objective "db"); without, the policy is the network's alone, as
    objectives on whole trajectories need it.
    """

    whole_trees = False  # trajectories end in trunks, whose tails are summed
    ends = math.inf

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
    ) -> None:
        # Where the network is the policy, a row set must look the same from all its parents.
        self.graph = Graph(problem, exact_tails, run, shares_span=not remember)
        self.rows = rows  # equal ones merged
        self.n_scouts = affordable_scouts(problem) if n_scouts is None else n_scouts
        self.remember = remember
        n_sums = problem.score.leaf.n_sums
        network = seeded_network(lambda: ResidualNetwork(n_sums, hidden), seed)
        self.network = network.to(device)
        self.seed, self.step, self.n_replays = seed, 0, 0
        self.touched: list[list[Int64s]] = []
        self.hope = Hope(self.graph, self.network)
        self.drawing = Drawing(self.graph, rows, self.hope, self._walk_evenly)
        self._forget_touched()
        self._know(0, np.zeros(1, np.int64))
        root = self.graph.levels[0]
        self.log_z = nn.Parameter(torch.tensor(float(root.flow[0]), device=device))
        self._standardise()

    def rollout(self, n_trees: int, epsilon: float, rng: np.random.Generator) -> Paths:
        """Send scouts, then draw paths, a share ``epsilon`` of their actions uniform.

        Where flows are remembered, paths look at no more row sets than there are scouts, and end
        where they may not look: a step costs the same however wide the posterior is.
        """
        if not self.remember:
            return self._walk(n_trees, epsilon, rng, math.inf)
        self.hope.regain(stale=-REFRESH)
        if self.n_scouts:
            self._scout(rng)
        return self._walk(n_trees, epsilon, rng, max(self.n_scouts, 1))

    def _walk(
        self,
        n_trees: int,
        epsilon: float,
        rng: np.random.Generator,
        looks: float,
        evenly: bool = False,
    ) -> Paths:
        """Draw paths, which look at most at so many row sets that nobody has looked at."""
        graph = self.graph
        trees = empty_batch(n_trees, 2 * min(2**graph.n_upper, graph.problem.n_rows) - 1)
        tree, slot = np.arange(n_trees), np.zeros(n_trees, np.int64)
        node = np.zeros(n_trees, np.int64)
        visits = []
        for depth in range(graph.n_upper):
            level = graph.levels[depth]
            looks -= self._know_in_time(depth, self._affordable(depth, node, looks, rng))
            given = (level.start, level.n_cuts, level.cuts, level.stop, level.flow)
            uniform = rng.random((node.size, 2))
            if evenly:
                uniform[:, 1] = spread_evenly(node, uniform[:, 1], rng)
            cut = np.full(node.size, UNSEEN, np.int64)
            seen = np.flatnonzero(~np.isnan(level.flow[node]))
            order = np.argsort(node[seen], kind="stable")
            cut[seen] = choose(node[seen], order, *given, epsilon, uniform[seen])
            visits.append(Visits(tree, slot, node, cut))
            splits = cut >= 0
            children = graph.reach(depth, node[splits], cut[splits])
            cut = cut[splits]
            rule = graph.problem.feature[level.cuts.feature[cut]], level.cuts.low[cut]
            tree, slot = split_leaves(trees, tree[splits], slot[splits], *rule)
            node = children.ravel()
        self._know_in_time(graph.n_upper, self._affordable(graph.n_upper, node, looks, rng))
        visits.append(Visits(tree, slot, node, np.full(node.size, -1)))
        return weigh(graph, trees, visits)

    def _affordable(
        self, depth: int, nodes: Int64s, looks: float, rng: np.random.Generator
    ) -> Int64s:
        """Return the distinct nodes without the new ones beyond ``looks``, drawn at random."""
        nodes = np.unique(nodes)
        new = np.flatnonzero(np.isnan(self.graph.levels[depth].flow[nodes]))
        if new.size <= looks:
            return nodes
        return np.delete(nodes, rng.permutation(new)[int(looks) :])

    def retrace(self, trees: TreeBatch, rng: np.random.Generator) -> Paths:
        """Follow given trees (or trunks) through the graph; each has one path, so P_B is one."""
        return self.follow(trees)

    def follow(self, trees: TreeBatch) -> Paths:
        """Return the paths of trees; what lies on them becomes known."""
        graph = self.graph
        tree, slot = np.arange(len(trees)), np.zeros(len(trees), np.int64)
        node = np.zeros(len(trees), np.int64)
        visits = []
        for depth in range(graph.n_upper):
            self._know(depth, np.unique(node))
            here = Visits(tree, slot, node, np.zeros(0, np.int64))
            cut = wanted_cuts(graph, depth, trees, here)
            visits.append(Visits(tree, slot, node, cut))
            splits = cut >= 0
            node = graph.reach(depth, node[splits], cut[splits]).ravel()
            left = trees.left[tree[splits], slot[splits]].astype(np.int64)
            tree = np.repeat(tree[splits], 2)
            slot = np.stack([left, left + 1], axis=1).ravel()
        self._know(graph.n_upper, np.unique(node))
        visits.append(Visits(tree, slot, node, np.full(node.size, -1)))
        return weigh(graph, trees, visits)

    def draw(self, n_trees: int, rng: np.random.Generator) -> Draws:
        """Draw full trees from P_F as it is now, or without hope where that costs.

        Trees that meet at a node choose evenly over its actions: each is still a draw from P_F,
        but together they stand for it better than independent ones.
        """
        return self.drawing.draw(n_trees, rng, self.ends, self.remember and not self.exact)

    def _walk_evenly(
        self, n_trees: int, rng: np.random.Generator, looks: float, ends: float
    ) -> Paths:
        """Draw paths for the user: a look is no lesson, and none is taken after ``ends``."""
        before, self.ends = self.ends, ends
        try:
            return self._walk(n_trees, 0.0, rng, looks, evenly=True)
        finally:
            self.ends = before
            self._forget_touched()

    def log_prob(self, trees: TreeBatch) -> Floats:
        """Log P_F [B] of given trees, -inf for impossible ones."""
        score = self.graph.problem.score
        paths = self.follow(trees)
        self._forget_touched()
        reward = log_reward(trees, self.rows, score)
        with np.errstate(invalid="ignore"):
            value = paths.log_pf + (reward - paths.log_reward) / score.temperature
        return np.where(np.isneginf(reward) | np.isneginf(paths.log_pf), -np.inf, value)

    def depths(self, trajectories: Paths) -> Int32s:
        """Depth [B, K] of the row sets on the paths, in the order of ``residuals``."""
        return path_depths(self.graph, trajectories)

    @property
    def best_log_reward(self) -> float:
        """Log R of the best tree known."""
        return float(self.graph.levels[0].best[0]) * self.graph.problem.score.temperature

    @property
    def best_tree(self) -> TreeBatch:
        """The best tree known, a batch of one."""
        tree = best_tree(self.graph, self._know)
        self._forget_touched()
        return tree

    def bounds(self) -> tuple[float, float]:
        """What log Z is at least and at most, by the row sets known now."""
        return self.graph.bounds()

    @property
    def exact(self) -> bool:
        """Whether every child of every node has been looked at, so that P_F is the posterior."""
        remembered = self.remember or self.graph.n_upper == 0
        return remembered and float(self.graph.levels[0].open[0]) == 0.0

    @property
    def finished(self) -> bool:
        """Whether hardly a tree would pass a child nobody looked at, proven or guessed.

        An untrained network takes children nobody looked at to be worth too little, so it is not
        asked before it has seen a few. Where nothing is remembered, the network never finishes.
        """
        guessed = not self.hope.lost and float(self.graph.levels[0].open[0]) <= CLOSED
        guessed = guessed and self.step >= GUESSES
        return self.exact or (self.remember and (guessed or self.drawing.open_most <= CLOSED))

    def learn(self, trajectories: list[Paths]) -> dict[str, float]:
        """Widen the known part of the graph and settle the flows of what was touched."""
        graph = self.graph
        self.hope.regain(stale=-REFRESH)
        self.step += 1
        for depth in range(graph.n_upper - 1, -1, -1):
            nodes = np.unique(np.concatenate(self.touched[depth]))
            level = graph.levels[depth]
            self._refresh(level, nodes[level.version[nodes] + REFRESH <= self.step])
            graph.settle(depth, nodes, self.remember)
        self._forget_touched()
        self._tell_log_z()
        return self.standing()

    def standing(self) -> dict[str, float]:
        """How much of the graph is known."""
        told = {"nodes": float(self.graph.n_nodes)}
        if self.remember:  # else all flows are guessed, whoever looked at what
            told["open"] = float(self.graph.levels[0].open[0])
            told["early"] = float(self.step < GUESSES and not self.exact)
        if self.hope.lost:
            told["drawing_gain"] = self.drawing.gain
            told["open"] = max(told["open"], self.drawing.found_open)
        return told

    def carry(self, before: FixedSampler) -> bool:
        """Take the network of a sampler trained on other rows of the same table, if it fits.

        Its inputs, counts and look-ahead, still mean the same; row sets and their flows do not.
        Nobody listens to it before it has learned from the new rows (``WARM_UP``): with more rows
        there is more to gain, and what it has learned of fewer is off by nats.
        """
        fits = self.graph.tail_levels == before.graph.tail_levels  # else it sums other levels
        if fits:
            self.network.load_state_dict(before.network.state_dict())
        return fits

    def settle(self) -> None:
        """Bring every flow up to date, after training."""
        if not self.remember:  # the policy is the network as it is now
            for level in self.graph.levels[:-1]:
                known = known_nodes(level)
                self._refresh(level, known[level.version[known] < self.step])
        elif self.step >= WARM_UP:
            self.hope.grow_cautious(self._rng)
        self.hope.lost = False
        self.graph.settle_all(self.remember)
        self._tell_log_z()

    def memory(self) -> dict[str, npt.NDArray[Any]]:
        """Graph and counters, for a checkpoint."""
        counters = np.array([self.step, self.n_replays, self.seed, self.hope.lost])
        return {"counters": counters, **self.graph.arrays()}

    def restore(self, arrays: dict[str, npt.NDArray[Any]]) -> None:
        """Take back what ``memory`` gave."""
        counters = [int(value) for value in arrays["counters"]]
        if min(counters) < 0:
            raise ValueError("a counter is below zero")
        self.step, self.n_replays, self.seed, self.hope.lost = *counters[:3], bool(counters[3])
        self.graph.restore(arrays)
        self._forget_touched()

    def residuals(self, trajectories: list[Paths], with_flows: bool) -> Residuals:
        """Residuals along the paths (see ``balance.py``), the same for all objectives."""
        paths = join_paths(trajectories)
        return path_residuals(self, paths, REPLAYED_NODES if self.remember else 0)

    def _scout(self, rng: np.random.Generator) -> None:
        """Look at the children of the cuts that scouts find."""
        frontier, passed = send_scouts(self.graph, self.n_scouts, rng)
        for depth, nodes in enumerate(passed):
            self.touched[depth].append(nodes)
        for depth, nodes, cuts in frontier:
            children = self.graph.reach(depth, nodes, cuts)
            self._know_in_time(depth + 1, np.unique(children))

    def _know(self, depth: int, nodes: Int64s) -> int:
        """Make the flows of nodes known, and return how many were not.

        New ones get the network's residuals at once.
        """
        graph, level = self.graph, self.graph.levels[depth]
        new = graph.look_at(depth, nodes)
        self.touched[depth].append(nodes)
        if new.size and depth < graph.n_upper:
            self._refresh(level, new)
            graph.settle(depth, new, self.remember, not self.hope.lost)
        return int(new.size)

    def _know_in_time(self, depth: int, nodes: Int64s) -> int:
        """Make the flows of nodes known, a few at a time, as long as there is time."""
        if self.ends == math.inf:
            return self._know(depth, nodes)
        new = np.isnan(self.graph.levels[depth].flow[nodes])
        self._know(depth, nodes[~new])
        chunk, first, nodes = ChunkSize(), 0, nodes[new]
        while first < nodes.size and (begun := time.monotonic()) < self.ends:
            part = nodes[first : first + chunk.size]
            self._know(depth, part)
            first += part.size
            chunk.adapt(part.size, time.monotonic() - begun)
        return first

    def _refresh(self, level: Level, nodes: Int64s) -> None:
        """Let the network say again what it adds to the look-ahead of the nodes' children."""
        if nodes.size == 0 or (self.remember and self.step < WARM_UP):
            return
        cuts = promising_cuts(nodes, level.start, level.n_cuts, level.cuts, SHORTLIST)
        residual = evaluate(self.network, self._described(level, cuts)).reshape(-1, 2)
        residual *= self.hope.share(level.depth + 1, self._rng)
        fill_residuals(nodes, level.start, level.n_cuts, cuts, residual, level.cuts)
        level.version[nodes] = self.step

    @property
    def _rng(self) -> np.random.Generator:
        """Randomness that is the same whenever a step is taken up again."""
        return np.random.default_rng([self.seed, self.step])

    def _described(self, level: Level, cuts: Int64s) -> Float32s:
        """Describe both children of some cuts."""
        levels_left = self.graph.problem.score.max_depth - level.depth
        sums = level.cuts.sums[cuts].reshape(-1, level.sums.shape[1])
        look = level.cuts.look[cuts].reshape(-1)
        return describe(sums, look, levels_left - 1, self.graph.problem.loops)

    def _standardise(self) -> None:
        """Give the network inputs of unit spread, by the root's children."""
        if self.graph.n_upper:
            root = self.graph.levels[0]
            x = self._described(root, np.arange(root.n_cuts[0]))
            deepest = np.arange(len(x)) % self.graph.problem.score.max_depth
            x[:, LEVELS_LEFT] -= np.minimum(deepest, x[:, LEVELS_LEFT] - 1)  # all depths to come
            self.network.standardise(torch.from_numpy(x).to(self.log_z.device))

    def _tell_log_z(self) -> None:
        """Let log Z be the root's flow, where that is remembered."""
        if self.remember:
            with torch.no_grad():
                self.log_z.fill_(float(self.graph.levels[0].flow[0]))

    def _forget_touched(self) -> None:
        self.touched = [[np.zeros(0, np.int64)] for _ in self.graph.levels]


def affordable_scouts(problem: Problem) -> int:
    """Scouts per step whose two children each cost about as much as the rest of a step."""
    return int(np.clip(SCOUTED_PAIRS / max(problem.max_cuts, 1) ** 2, 8, 512))
