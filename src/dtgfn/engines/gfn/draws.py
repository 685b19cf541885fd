"""Draws: trees from a policy with what their importance weights need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dtgfn._support import clock
from dtgfn._support.arrays import Bools, Floats
from dtgfn.trees.batch import TreeBatch, stack_trees


@dataclass(frozen=True)
class Draws:
    """Trees drawn on-policy with what their importance weights need.

    log_weight = log R / temperature + log P_B(trajectory | tree) - log P_F(trajectory).
    ``cut_short`` [B] tells which trees had to end before they were done, for want of time.
    """

    trees: TreeBatch
    log_reward: Floats
    log_pf: Floats
    log_pb: Floats
    cut_short: Bools

    def log_weight(self, temperature: float) -> Floats:
        """Log importance weights [B]; their mean weight estimates Z without bias."""
        return np.asarray(self.log_reward / temperature + self.log_pb - self.log_pf)


def draw_in_parts(
    draw: Callable[[int], Draws], n_trees: int, n_at_once: int, deadline: float
) -> Draws:
    """Draw trees so many at a time until all are, or the deadline passes; some always are."""
    parts = [draw(min(n_at_once, n_trees))]
    n_drawn = min(n_at_once, n_trees)
    while n_drawn < n_trees and clock.monotonic() < deadline:
        size = min(n_at_once, n_trees - n_drawn)
        parts.append(draw(size))
        n_drawn += size
    return join_draws(parts)


def join_draws(parts: list[Draws]) -> Draws:
    """Put draws under one another."""
    if len(parts) == 1:
        return parts[0]
    return Draws(
        trees=stack_trees([part.trees for part in parts]),
        log_reward=np.concatenate([part.log_reward for part in parts]),
        log_pf=np.concatenate([part.log_pf for part in parts]),
        log_pb=np.concatenate([part.log_pb for part in parts]),
        cut_short=np.concatenate([part.cut_short for part in parts]),
    )
