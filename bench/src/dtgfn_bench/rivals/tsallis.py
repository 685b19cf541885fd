"""The greedy tree of the best (alpha, beta)-Tsallis entropy (Balcan & Sharma 2024)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dtgfn._support.arrays import Int64s
from dtgfn_bench.contract import Method, TrainingRows
from dtgfn_bench.rivals.cuts import Cuts, all_cuts, impurity_left
from dtgfn_bench.rivals.single_tree import SingleTree, Split

ALPHAS = [0.5, 1.1, *np.arange(1.5, 8.1, 0.5).tolist()]
BETAS = [float(beta) for beta in range(1, 9)]


class Grown(NamedTuple):
    """A subtree and its errors on training rows."""

    split: Split | None
    errors: int


class TsallisTrees:
    """The greedy trees of many (alpha, beta) at once: as long as they agree they share the work."""

    def __init__(
        self, rows: TrainingRows, pairs: Sequence[tuple[float, float]], depth: int, min_split: int
    ) -> None:
        self.rows = rows
        self.pairs = pairs
        self.depth = depth
        self.min_split = min_split

    def grow(self) -> dict[int, Grown]:
        """The tree of each pair, by its index in ``pairs``."""
        return self._grow(np.arange(len(self.rows.y)), 0, list(range(len(self.pairs))))

    def _grow(self, index: Int64s, depth: int, members: list[int]) -> dict[int, Grown]:
        y = self.rows.y[index]
        errors = len(y) - int(np.bincount(y).max())
        leaf = dict.fromkeys(members, Grown(None, errors))
        if errors == 0 or depth == self.depth or len(y) < self.min_split:
            return leaf
        cuts = all_cuts(self.rows.X[index], y, self.rows.n_classes)
        if len(cuts.feature) == 0:
            return leaf
        grown: dict[int, Grown] = {}
        for cut, agreeing in self._choices(cuts, members).items():
            feature, threshold = int(cuts.feature[cut]), float(cuts.threshold[cut])
            goes_below = self.rows.X[index, feature] <= threshold
            below = self._grow(index[goes_below], depth + 1, agreeing)
            above = self._grow(index[~goes_below], depth + 1, agreeing)
            for pair in agreeing:
                split = Split(feature, threshold, below[pair].split, above[pair].split)
                grown[pair] = Grown(split, below[pair].errors + above[pair].errors)
        return grown

    def _choices(self, cuts: Cuts, members: list[int]) -> dict[int, list[int]]:
        """The pairs that choose each cut."""
        by_alpha: dict[float, list[int]] = defaultdict(list)
        for pair in members:
            by_alpha[self.pairs[pair][0]].append(pair)
        choices: dict[int, list[int]] = defaultdict(list)
        for alpha, alike in by_alpha.items():
            betas = np.array([self.pairs[pair][1] for pair in alike])
            best = impurity_left(cuts, alpha, betas).argmin(axis=1)
            for pair, cut in zip(alike, best.tolist(), strict=True):
                choices[cut].append(pair)
        return choices


def fit_tsallis(
    rows: TrainingRows,
    seed: int,
    *,
    alphas: Sequence[float],
    betas: Sequence[float],
    depth: int,
    min_split: int,
) -> SingleTree:
    """The tree of the pair with the fewest training errors, the first of the grid if several."""
    del seed  # nothing is drawn
    pairs = [(alpha, beta) for alpha in alphas for beta in betas]
    trees = TsallisTrees(rows, pairs, depth, min_split).grow()
    best = min(range(len(pairs)), key=lambda pair: trees[pair].errors)
    return SingleTree(trees[best].split, rows)


METHODS: tuple[Method, ...] = (
    Method(
        name="tsallis",
        label="(α*, β*)-Tsallis",
        fit=fit_tsallis,
        note=(
            "Greedy tree of depth 5 that splits nodes of more than 10 rows; (α, β) from a grid of "
            "16 × 8 by training accuracy, the first best; not pruned."
        ),
        settings={"alphas": ALPHAS, "betas": BETAS, "depth": 5, "min_split": 11},
        quick={"alphas": [0.5, 1.1, 2.0, 4.0], "betas": [1.0, 2.0, 4.0]},
    ),
)
