"""Looks: row sets that a policy for all tables would have expanded before anything is drawn.

Scouts look where the policy expects most mass; what they find settles flows and fits the policy's
last layer to this table, in closed form. All of it is counted in row sets, not in seconds, so that
a fit is the same on every machine.
"""

from __future__ import annotations

import numpy as np

from dtgfn.engines.gfn.fixed.fixed_policy import FixedPolicy
from dtgfn.engines.rowsets.partial.graph import PartialGraph

ROUNDS, LEARNED = 6, 3  # of looks, and after how many of them the policy learns
LOOKED = 5e7  # pairs of cuts, or cells and cuts, that looks and drawing may take each
MOST_LOOKS = 4000
FEWEST_LOOKS = 16
LOOKS = 1  # tells their randomness from that of steps


def affordable_looks(graph: PartialGraph) -> int:
    """How many row sets looks may expand, and drawing again."""
    problem = graph.problem
    work = 100.0 * problem.max_cuts + problem.n_rows * problem.feature.size
    if graph.tail_levels == 2:
        work += float(problem.max_cuts) ** 2
    return int(np.clip(LOOKED / max(work, 1.0), FEWEST_LOOKS, MOST_LOOKS))


def look_around(drawn: FixedPolicy, n_looks: int) -> None:
    """Look at the row sets that are expected to hold most mass, and learn from what they show."""
    rng = np.random.default_rng([drawn.flows.seed, drawn.flows.step, LOOKS])
    n_scouts, drawn.n_scouts = drawn.n_scouts, max(n_looks // (2 * ROUNDS), 1)
    try:
        for _ in range(ROUNDS // LEARNED):
            drawn.look(LEARNED, rng)
            if drawn.exact:
                break
            drawn.flows.adapt()
    finally:
        drawn.n_scouts = n_scouts
