"""Hope: how much of what the network promises of row sets nobody has looked at is believed.

Training looks where the network hopes, so there all of it counts, up to the ceilings. Trees drawn
for the user must not go where hope is false: on a table of many rows a promise that is tens of nats
off would send all of them there. So when training ends the network is believed less, the more it
is off at known nodes; and not at all where trees drawn with hope turn out worth less than what is
known without it.
"""

from __future__ import annotations

import numpy as np
from torch import nn

from dtgfn.engines.gfn.fixed.policy import describe, evaluate
from dtgfn.engines.rowsets.partial.graph import Graph
from dtgfn.engines.rowsets.partial.levels import known_nodes

MEASURED_NODES = 2048


class Hope:
    """What is believed now: everything (training), a share by level (``cautious``), or nothing."""

    def __init__(self, graph: Graph, network: nn.Module) -> None:
        self.graph, self.network = graph, network
        self.lost, self.cautious = False, False
        self._shares: dict[int, float] = {}

    def share(self, depth: int, rng: np.random.Generator) -> float:
        """Share of the network's promises at a level that its errors at known nodes leave.

        Flows add up as exponentials, where errors of spread s count as s^2 / 2 nats too much.
        """
        if not self.cautious:
            return 1.0
        if depth not in self._shares:
            level = self.graph.levels[depth]
            known = known_nodes(level)
            if known.size == 0:
                return 0.0
            if known.size > MEASURED_NODES:
                known = rng.choice(known, MEASURED_NODES)
            levels_left = self.graph.problem.score.max_depth - depth
            loops = self.graph.problem.loops
            x = describe(level.sums[known], level.look[known], levels_left, loops)
            guess = evaluate(self.network, x).astype(np.float64)
            error = level.flow[known] - level.look[known] - guess
            inflation = 0.5 * float((error**2).mean())
            self._shares[depth] = max(1.0 - inflation / max(float(guess.mean()), 1e-9), 0.0)
        return self._shares[depth]

    def grow_cautious(self, rng: np.random.Generator) -> None:
        """Believe only a share from now on."""
        if self.cautious:
            return
        self.cautious = True
        for level in self.graph.levels[-2::-1]:  # from below: flows must be calm to judge by them
            level.cuts.residual[: level.n_listed] *= self.share(level.depth + 1, rng)
            self.graph.settle(level.depth, known_nodes(level), remember=True)

    def lose(self) -> None:
        """Believe nothing from now on: every flow is a sum of trees that are known."""
        self.lost = True
        self.graph.settle_all(remember=True, hope=False)

    def regain(self, stale: int) -> None:
        """Believe everything again; nodes get the version ``stale``, so that they ask anew."""
        if self.cautious:
            self.cautious = False
            for level in self.graph.levels[:-1]:
                share = self._shares.get(level.depth + 1, 0.0)
                level.cuts.residual[: level.n_listed] /= share if share > 0 else 1.0
                level.version[:] = stale
            self._shares.clear()
        if self.lost:
            self.lost = False
            self.graph.settle_all(remember=True)
