"""COPOD: how far out in the tails of the columns a row lies, column by column (Li et al. 2020)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dtgfn._support.arrays import Floats
from dtgfn_bench.contract import Method, TrainingRows


def skew_signs(X: Floats) -> Floats:
    """Sign [d] of each column's skewness; 0 of one that never varies."""
    return np.sign(np.mean((X - X.mean(axis=0)) ** 3, axis=0))


def tail_score(left: Floats, right: Floats, signs: Floats) -> Floats:
    """Score [n] from -log tail probabilities [n, d]: the skewed side, or both's mean if more."""
    skewed = np.where(signs < 0, left, right)
    return np.maximum(skewed, (left + right) / 2).sum(axis=1)


def tails(X: Floats, among: Floats, itself: int) -> tuple[Floats, Floats]:
    """-log shares of rows ``among`` at or below, and at or above, each value of X [n, d].

    ``itself`` is 1 if X's rows are not among them: each then counts as one row more, so that no
    share is zero.
    """
    ordered, n = np.sort(among, axis=0), len(among)
    below, above = np.empty(X.shape), np.empty(X.shape)
    for column in range(X.shape[1]):
        below[:, column] = np.searchsorted(ordered[:, column], X[:, column], "right")
        above[:, column] = n - np.searchsorted(ordered[:, column], X[:, column], "left")
    total = n + itself
    return -np.log((below + itself) / total), -np.log((above + itself) / total)


@dataclass(frozen=True)
class FittedCopod:
    """The training rows; ``transductive`` counts tails on the rows to score as well."""

    X: Floats
    transductive: bool

    def score(self, X: Floats) -> Floats:
        """Score [n] of rows; the higher, the more anomalous."""
        if not self.transductive:
            return tail_score(*tails(X, self.X, itself=1), skew_signs(self.X))
        both = np.vstack([self.X, X])
        return tail_score(*tails(X, both, itself=0), skew_signs(both))

    def training_scores(self) -> Floats:
        """The training rows among themselves."""
        return tail_score(*tails(self.X, self.X, itself=0), skew_signs(self.X))

    def size(self) -> None:
        """There are no trees."""
        return None


def fit_copod(rows: TrainingRows, seed: int, transductive: bool) -> FittedCopod:
    """There is nothing to learn but the rows."""
    return FittedCopod(rows.X, transductive)


METHODS: tuple[Method, ...] = (
    Method(
        name="copod",
        label="COPOD",
        fit=fit_copod,
        detects=True,
        note="Tails and skewness by the training rows alone (the authors' code counts test rows "
        "too); sums each column's maximum, as their code does.",
        settings={"transductive": False},
    ),
    Method(
        name="copod-transductive",
        label="COPOD (transductive)",
        fit=fit_copod,
        detects=True,
        note="As in the authors' code: tails and skewness counted on training and test rows "
        "together, so a row's score depends on the others it is scored with.",
        settings={"transductive": True},
    ),
)
