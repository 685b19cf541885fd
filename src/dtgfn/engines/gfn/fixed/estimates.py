"""FlowEstimates: the flows of row sets, remembered where known and from the network elsewhere.

Optimism is how much of what the network promises of row sets nobody has expanded is believed.
Training goes where the network promises most, so there all of it counts, up to the ceilings. Trees
drawn for the user must not go where a promise is false: on a table of many rows one that is tens of
nats off would send all of them there. So when training ends promises are shrunk, the more the
network is off at known nodes; and dropped where trees drawn by them turn out worth less than what
is known without them.
"""

from __future__ import annotations

import math

import numpy as np

from dtgfn._support import clock
from dtgfn._support.arrays import Float32s, Int32s, Int64s
from dtgfn._support.compiled import njit
from dtgfn._support.parallel import ChunkSize
from dtgfn.engines.gfn.fixed.guesses import Guesser, PolicyGuesser
from dtgfn.engines.rowsets.partial.cuts import CutTable
from dtgfn.engines.rowsets.partial.graph import PartialGraph
from dtgfn.engines.rowsets.partial.levels import Level, known_nodes

MEASURED_NODES = 2048
REFRESH = 10  # network steps after which a node's residuals are computed again
AT_ONCE = 2  # row sets that are looked at before the clock is again: one for each of two threads
SHORTLIST = 128  # cuts of a node whose children the network sees
ASKED = 48, 10.0  # cuts that a policy for all tables is asked about, and nats behind the best
WARM_UP = 20  # steps before anyone listens to the network: a hardly trained one misleads


class Optimism:
    """What is believed now: everything (training), a share by level (``shrunk``), or nothing."""

    def __init__(self, graph: PartialGraph, network: Guesser) -> None:
        self.graph, self.network = graph, network
        self.dropped, self.shrunk = False, False
        self._shares: dict[int, float] = {}

    def share(self, depth: int, rng: np.random.Generator) -> float:
        """Share of the network's promises at a level that its errors at known nodes leave.

        Flows add up as exponentials, where errors of spread s count as s^2 / 2 nats too much.
        """
        if not self.shrunk:
            return 1.0
        if depth not in self._shares:
            level = self.graph.levels[depth]
            known = known_nodes(level)
            if known.size == 0:
                return 0.0
            if known.size > MEASURED_NODES:
                known = rng.choice(known, MEASURED_NODES)
            x = self.network.see_nodes(self.graph, depth, known)
            guess = self.network.predict(x).astype(np.float64)
            error = level.flow[known] - level.lookahead[known] - guess
            inflation = 0.5 * float((error**2).mean())
            self._shares[depth] = max(1.0 - inflation / max(float(guess.mean()), 1e-9), 0.0)
        return self._shares[depth]

    def shrink(self, rng: np.random.Generator) -> None:
        """Believe only a share from now on."""
        if self.shrunk:
            return
        self.shrunk = True
        for level in self.graph.levels[-2::-1]:  # from below: flows must be calm to judge by them
            level.cuts.residual[: level.n_listed] *= self.share(level.depth + 1, rng)
            self.graph.update(level.depth, known_nodes(level), remember=True)

    def drop(self) -> None:
        """Believe nothing from now on: every flow is a sum of trees that are known."""
        self.dropped = True
        self.graph.update_all(remember=True, optimistic=False)

    def restore(self, stale: int) -> None:
        """Believe everything again; nodes get the version ``stale``, so that they ask anew."""
        if self.shrunk:
            self.shrunk = False
            for level in self.graph.levels[:-1]:
                share = self._shares.get(level.depth + 1, 0.0)
                level.cuts.residual[: level.n_listed] /= share if share > 0 else 1.0
                level.version[:] = stale
            self._shares.clear()
        if self.dropped:
            self.dropped = False
            self.graph.update_all(remember=True)


class FlowEstimates:
    """A graph of row sets, a network over it, and flows that follow from both.

    Attributes
    ----------
    graph, network
        What is known, and what guesses the rest.
    remember : bool
        Whether a known child counts with its own flow; if not, the policy is the network's alone.
    seed, step : int
        Of all randomness here, with the steps that the network has been trained.
    optimism : Optimism
    touched : list of list of int64 arrays
        By depth, nodes that were passed since the last ``update``, which brings their flows up to
        date.

    """

    def __init__(self, graph: PartialGraph, network: Guesser, *, remember: bool, seed: int) -> None:
        self.graph, self.network, self.remember, self.seed = graph, network, remember, seed
        self.step = 0
        self.shortlist = ASKED if network.trained else (SHORTLIST, math.inf)
        self.optimism = Optimism(graph, network)
        self.forget_touched()
        self.begin()

    def begin(self) -> None:
        """Expand the root, and let the network see its cuts."""
        root, graph = np.zeros(1, np.int64), self.graph
        self.expand(0, root)
        if graph.n_upper:
            self.network.begin(graph)

    def listen_to(self, network: Guesser) -> None:
        """Ask another one from now on."""
        self.network = self.optimism.network = network

    def forget_touched(self) -> None:
        """Let what was passed be no lesson."""
        self.touched: list[list[Int64s]] = [[np.zeros(0, np.int64)] for _ in self.graph.levels]

    def expand(self, depth: int, nodes: Int64s) -> int:
        """Make the flows of nodes known, and return how many were not.

        New ones get the network's residuals at once.
        """
        graph, level = self.graph, self.graph.levels[depth]
        new = graph.expand(depth, nodes)
        self.touched[depth].append(nodes)
        if new.size and depth < graph.n_upper:
            self.refresh(level, new)
            graph.update(depth, new, self.remember, not self.optimism.dropped)
        return int(new.size)

    def expand_in_time(self, depth: int, nodes: Int64s, deadline: float) -> int:
        """Make the flows of nodes known, a few at a time, as long as there is time and memory."""
        graph = self.graph
        if deadline == math.inf and graph.limits.memory == math.inf:
            return self.expand(depth, nodes)
        new = np.isnan(graph.levels[depth].flow[nodes])
        self.expand(depth, nodes[~new])
        chunk, first, nodes = ChunkSize(), 0, nodes[new]
        while first < nodes.size and (begun := clock.monotonic()) < deadline and not graph.is_full:
            part = nodes[first : first + max(chunk.size, AT_ONCE)]
            self.expand(depth, part)
            first += part.size
            chunk.adapt(part.size, clock.monotonic() - begun)
        return first

    def restore_optimism(self) -> None:
        """Believe the network again, and ask it anew."""
        self.optimism.restore(stale=-REFRESH)

    def update(self) -> None:
        """After a step of the network, bring the flows of what was touched up to date."""
        self.restore_optimism()
        self.step += 1
        for depth in range(self.graph.n_upper - 1, -1, -1):
            nodes = np.unique(np.concatenate(self.touched[depth]))
            level = self.graph.levels[depth]
            self.refresh(level, nodes[level.version[nodes] + REFRESH <= self.step])
            self.graph.update(depth, nodes, self.remember)
        self.forget_touched()

    def settle(self) -> None:
        """Bring the flows of what was touched up to date, with the network as it is."""
        for depth in range(self.graph.n_upper - 1, -1, -1):
            self.graph.update(depth, np.unique(np.concatenate(self.touched[depth])), self.remember)
        self.forget_touched()

    def adapt(self) -> None:
        """Let a policy for all tables learn from the row sets known now, and ask it anew."""
        graph, guesser = self.graph, self.network
        if not isinstance(guesser, PolicyGuesser) or graph.n_upper == 0:
            return
        views, nats, rng = [], [], self._rng()
        for level in graph.levels[1:]:
            known = known_nodes(level)
            if known.size > MEASURED_NODES:
                known = rng.choice(known, MEASURED_NODES, replace=False)
            views.append(guesser.see_nodes(graph, level.depth, known))
            nats.append(np.maximum(level.flow[known] - level.lookahead[known], 0.0))
        learned = guesser.adapted(np.concatenate(views), np.concatenate(nats))
        if learned is None:
            return
        self.listen_to(learned)
        for level in graph.levels[-2::-1]:
            known = known_nodes(level)
            self.refresh(level, known)
            graph.update(level.depth, known, self.remember)

    def finish(self) -> None:
        """Bring every flow up to date, after training."""
        if not self.remember:  # the policy is the network as it is now
            for level in self.graph.levels[:-1]:
                known = known_nodes(level)
                self.refresh(level, known[level.version[known] < self.step])
        elif self.step >= WARM_UP:
            self.optimism.shrink(self._rng())
        self.optimism.dropped = False
        self.graph.update_all(self.remember)

    def refresh(self, level: Level, nodes: Int64s) -> None:
        """Let the network say again what it adds to the look-ahead of the nodes' children."""
        waits = self.remember and not self.network.trained and self.step < WARM_UP
        if nodes.size == 0 or waits:
            return
        given = (nodes, level.start, level.n_cuts, level.cuts)
        cuts, of_node = promising_cuts(*given, *self.shortlist)
        x = self.network.see_children(self.graph, level, of_node, cuts)
        residual = self.network.predict(x).reshape(-1, 2)
        residual *= self.optimism.share(level.depth + 1, self._rng())
        fill_residuals(nodes, level.start, level.n_cuts, cuts, residual, level.cuts)
        level.version[nodes] = self.step

    def _rng(self) -> np.random.Generator:
        """Randomness that is the same whenever a step is taken up again."""
        return np.random.default_rng([self.seed, self.step])


@njit(cache=True, nogil=True)
def promising_cuts(
    nodes: Int64s, start: Int64s, n_cuts: Int32s, cuts: CutTable, most: int, behind: float
) -> tuple[Int64s, Int64s]:
    """Cuts with the largest look-ahead, node after node, and the node of each.

    At most so many of a node, and none that is more than ``behind`` nats behind the largest.
    """
    total, widest = 0, 0
    for i in range(nodes.shape[0]):
        total += min(n_cuts[nodes[i]], most)
        widest = max(widest, n_cuts[nodes[i]])
    out, of_node = np.empty(total, np.int64), np.empty(total, np.int64)
    at, value = 0, np.empty(widest)
    for i in range(nodes.shape[0]):
        first, number = start[nodes[i]], n_cuts[nodes[i]]
        lowest, taken = -math.inf, 0
        for u in range(number):
            e = first + u
            value[u] = cuts.prior[e] + cuts.lookahead[e, 0] + cuts.lookahead[e, 1]
            lowest = max(lowest, value[u] - behind)
        if number > most:
            lowest = max(lowest, np.partition(value[:number], number - most)[number - most])
        for u in range(number):
            if value[u] >= lowest and taken < most:
                out[at], of_node[at] = first + u, nodes[i]
                at += 1
                taken += 1
    return out[:at], of_node[:at]


@njit(cache=True, nogil=True)
def fill_residuals(
    nodes: Int64s, start: Int64s, n_cuts: Int32s, chosen: Int64s, residual: Float32s, cuts: CutTable
) -> None:
    """Write what the network said of the chosen cuts, and its mean to the others of each node.

    ``chosen`` is what ``promising_cuts`` gave for the same nodes, ``residual`` is [len(chosen), 2].
    """
    at = 0
    for i in range(nodes.shape[0]):
        first, number = start[nodes[i]], n_cuts[nodes[i]]
        until = at
        while until < chosen.shape[0] and first <= chosen[until] < first + number:
            until += 1
        for side in range(2):
            if until - at < number:
                cuts.residual[first : first + number, side] = residual[at:until, side].mean()
            for j in range(at, until):
                cuts.residual[chosen[j], side] = residual[j, side]
        at = until
