"""Trees drawn for the user: spread evenly, in time, and worth no less than what is known.

Every tree drawn without hope weighs at least as much as all known trees together. So if trees drawn
with hope weigh less on average, hope is lost and others are drawn, the last of them where
everything is known already.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np

from dtgfn.engines.gfn.fixed.hope import Hope
from dtgfn.engines.gfn.fixed.paths import Paths, complete
from dtgfn.engines.gfn.sampler import Draws, draw_in_time, join_draws
from dtgfn.engines.rowsets.partial.graph import Graph
from dtgfn.trees.score import Rows, log_reward

# Looks at row sets that trees may take when they are drawn again. Without any, what is known stays
# as it is, but for links to row sets known already.
DRAWN_AGAIN = (math.inf, 0, 0)
ROWS_AT_ONCE = 10_000_000  # rows times trees that are drawn before looking at the clock again
ROUNDING = 1e-6  # of sums of look-aheads, which are single precision

Walk = Callable[[int, np.random.Generator, float, float], Paths]  # trees, rng, looks, ends


class Drawing:
    """Draws trees, and tells what drawing them found out.

    Attributes
    ----------
    gain : float
        Nats that the floor of log Z rose by in the last draw.
    open_most : float
        Share of the posterior that can be unknown at most, after the last draw.
    found_open : float
        Share that was open when it began, by the weights of the trees that passed there.

    """

    def __init__(self, graph: Graph, rows: Rows, hope: Hope, walk: Walk) -> None:
        self.graph, self.rows, self.hope, self.walk = graph, rows, hope, walk
        self.gain, self.open_most, self.found_open = 0.0, 1.0, 1.0

    def draw(self, n_trees: int, rng: np.random.Generator, ends: float, may_lose: bool) -> Draws:
        """Draw trees until the clock passes ``ends``, without hope if it costs (``may_lose``)."""
        known, flow = self.graph.bounds()[0], float(self.graph.levels[0].flow[0])
        share = max(ends - time.monotonic(), 0.0) / (2 + len(DRAWN_AGAIN))
        looks = math.inf
        draws = self.draw_in_time(n_trees, rng, looks, time.monotonic() + 2 * share)
        self.found_open = self._found_open(draws, flow, known)
        for looks_again in DRAWN_AGAIN:
            if not (may_lose and self._below_floor(draws)):
                break
            self.hope.lose()
            looks = looks_again
            draws = self.draw_in_time(n_trees, rng, looks, time.monotonic() + share)
        n_missing = n_trees - len(draws.trees)
        if n_missing > 0 and time.monotonic() < ends:
            more = join_draws([draws, self.draw_in_time(n_missing, rng, looks, ends)])
            draws = draws if may_lose and self._below_floor(more) else more
        floor, ceiling = self.graph.bounds()
        self.gain, self.open_most = floor - known, -math.expm1(min(floor - ceiling, 0.0))
        return draws

    def draw_in_time(
        self, n_trees: int, rng: np.random.Generator, looks: float, ends: float
    ) -> Draws:
        """Draw trees from P_F as it is now, as many as there is time for.

        All at once, so that they are spread evenly, unless there are too many rows for that.
        """
        n_at_once = max(ROWS_AT_ONCE // len(self.rows.target), 10)
        return draw_in_time(
            lambda size: self._draw(size, rng, looks, ends), n_trees, n_at_once, ends
        )

    def _draw(self, n_trees: int, rng: np.random.Generator, looks: float, ends: float) -> Draws:
        score = self.graph.problem.score
        paths = self.walk(n_trees, rng, looks, ends)
        trees, cut_short, is_done = complete(self.graph, paths, rng, ends)
        done = np.flatnonzero(is_done)
        reward = log_reward(trees[done], self.rows, score)
        # What is drawn below a path has the probability that it has among the path's trees.
        log_pf = paths.log_pf[done] + (reward - paths.log_reward[done]) / score.temperature
        return Draws(trees[done], reward, log_pf, np.zeros(done.size), cut_short[done])

    def _found_open(self, draws: Draws, flow: float, known: float) -> float:
        """Share of the posterior that was open when trees were drawn, two standard errors up.

        ``flow`` is that of the root, which every tree weighs that passes known row sets alone;
        the others' weights estimate what the open part holds, however wild the hopes.
        """
        log_weight = draws.log_weight(self.graph.problem.score.temperature)
        passed = np.abs(log_weight - flow) > ROUNDING * max(1.0, abs(flow))
        weight = np.where(passed, np.exp(np.minimum(log_weight - known, 100.0)), 0.0)
        most = float(weight.mean() + 2 * weight.std() / math.sqrt(weight.size))
        return most / (1.0 + most)

    def _below_floor(self, draws: Draws) -> bool:
        """Whether trees weigh less on average than all known ones together."""
        elbo = float(draws.log_weight(self.graph.problem.score.temperature).mean())
        floor, _ = self.graph.bounds()
        return elbo < floor - ROUNDING * max(1.0, abs(floor))
