"""DPDT: a tree by dynamic programming over tests that greedy trees propose (Kohler 2023-25)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import xlogy

from dtgfn._support.arrays import Int64s
from dtgfn_bench.contract import Method, TrainingRows
from dtgfn_bench.rivals.single_tree import SingleTree, Split


class Greedy(NamedTuple):
    """The cut of some rows with the least entropy, and the rows on its two sides."""

    feature: int
    threshold: float
    below: Int64s
    above: Int64s


class Plan(NamedTuple):
    """The best that can be done with some rows: its cost, and the split to begin with."""

    cost: float
    split: Split | None


class Planner:
    """Backward induction over states (rows, depth).

    Predicting a state's majority costs its errors; a test costs ``zeta`` per row that takes it.
    The tests tried at depth t are those of the entropy CART of depth ``generator_depths[t]`` grown
    on the state's rows, so the tree's depth is the length of that list.
    """

    def __init__(self, rows: TrainingRows, generator_depths: Sequence[int], zeta: float) -> None:
        self.rows = rows
        self.generator_depths = tuple(generator_depths)
        self.zeta = zeta
        self._columns = np.ascontiguousarray(rows.X.T)
        self._order = np.argsort(self._columns, axis=1, kind="stable")
        counts = np.arange(len(rows.y) + 1.0)
        self._xlogx = xlogy(counts, counts)
        self._greedy: dict[bytes, Greedy | None] = {}
        self._plans: dict[tuple[bytes, int], Plan] = {}

    def plan(self, index: Int64s, depth: int = 0) -> Plan:
        """The cheapest plan for these rows; of equals, the prediction, then the earliest test."""
        key = (index.tobytes(), depth)
        if key not in self._plans:
            self._plans[key] = self._search(index, depth)
        return self._plans[key]

    def _search(self, index: Int64s, depth: int) -> Plan:
        best = Plan(float(len(index) - np.bincount(self.rows.y[index]).max()), None)
        if depth == len(self.generator_depths):
            return best
        fee = self.zeta * len(index)
        if best.cost <= fee:
            return best
        for feature, threshold in self.proposals(index, self.generator_depths[depth]):
            goes_below = self.rows.X[index, feature] <= threshold
            below = self.plan(index[goes_below], depth + 1)
            if fee + below.cost >= best.cost:
                continue
            above = self.plan(index[~goes_below], depth + 1)
            cost = fee + below.cost + above.cost
            if cost < best.cost:
                best = Plan(cost, Split(feature, threshold, below.split, above.split))
            if best.cost <= fee:
                break
        return best

    def proposals(self, index: Int64s, levels: int) -> list[tuple[int, float]]:
        """The tests of the greedy tree of these rows, the root's first; each cuts these rows."""
        found: dict[tuple[int, float], None] = {}
        level = [index]
        for _ in range(levels):
            cuts = [cut for cut in map(self.greedy, level) if cut is not None]
            found.update(dict.fromkeys((cut.feature, cut.threshold) for cut in cuts))
            level = [side for cut in cuts for side in (cut.below, cut.above)]
        return list(found)

    def greedy(self, index: Int64s) -> Greedy | None:
        """The greedy cut of these rows, or None if they are pure or alike."""
        key = index.tobytes()
        if key not in self._greedy:
            self._greedy[key] = self._cut(index)
        return self._greedy[key]

    def _cut(self, index: Int64s) -> Greedy | None:
        # Here, since it brings numba.
        from dtgfn_bench.rivals.entropy_cut import least_entropy

        y = self.rows.y[index]
        if (y == y[0]).all():
            return None
        member = np.zeros(len(self.rows.y), np.bool_)
        member[index] = True
        feature, threshold = least_entropy(
            self._columns, self.rows.y, self._order, member, self._xlogx, self.rows.n_classes
        )
        if feature < 0:
            return None
        goes_below = self.rows.X[index, feature] <= threshold
        return Greedy(feature, threshold, index[goes_below], index[~goes_below])


def fit_dpdt(
    rows: TrainingRows, seed: int, *, generator_depths: Sequence[int], zeta: float
) -> SingleTree:
    """The planned tree."""
    del seed  # nothing is drawn
    planner = Planner(rows, generator_depths, zeta)
    return SingleTree(planner.plan(np.arange(len(rows.y))).split, rows)


METHODS: tuple[Method, ...] = (
    Method(
        name="dpdt",
        label="DPDT-4",
        fit=fit_dpdt,
        note=(
            "Depth 5; tests proposed at every state by an entropy CART of depth 4 on its rows (the "
            "last level: its best cut), as in the authors' first code; ζ = 0, so training errors "
            "alone decide, the smaller plan on a tie of stopping and testing."
        ),
        settings={"generator_depths": [4, 4, 4, 4, 1], "zeta": 0.0},
        quick={"generator_depths": [4, 3, 2, 1, 1]},
    ),
)
