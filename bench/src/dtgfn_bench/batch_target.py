"""The target that rewards on mini-batches of rows lead to, known exactly.

The squared trajectory-balance loss of a tree, (log Z + log P_F - log P_B - log R_b)^2 with the
reward R_b of a batch b, has as its mean over batches the same square with E[log R_b] in place of
log R_b, plus the variance of log R_b, which no policy changes. So its minimum draws trees in
proportion to exp(E[log R_b]). E[log R_b] is a sum over leaves like log R itself: of a leaf that
holds k of the n rows, the batch has a hypergeometric number, so the mean of each log gamma function
is a number that depends on k only, and the exact engine can sum over all trees.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from scipy.special import gammaln
from scipy.stats import hypergeom

from dtgfn._support.arrays import Floats
from dtgfn.trees.leaf_models import DirichletLeaf, DirichletTerms
from dtgfn.trees.score import PenaltyPrior, Score

# What is multiplied by n / batch: the likelihood (this package), the prior as well (the paper's
# released code), or nothing (its text, which has no factor).
SCALINGS = ("likelihood", "both", "neither")


@dataclass(frozen=True)
class BatchLeaf(DirichletLeaf):
    """The leaf model whose log m is n / batch times the mean of log m over batches of the rows."""

    n_rows: int = 1
    n_batch: int = 1

    def terms(self, weight: Floats | None = None) -> DirichletTerms:
        """Tabulate the means for 0, 1, ... n rows; weights have to be whole."""
        shapes = self.concentration, self.n_classes * self.concentration
        table = [mean_log_gammas(self.n_rows, self.n_batch, shape) for shape in shapes]
        return DirichletTerms(self.concentration, self.n_rows / self.n_batch * np.stack(table))


@cache
def mean_log_gammas(n_rows: int, n_batch: int, shape: float) -> Floats:
    """E[lnG(K + shape) - lnG(shape)] where the batch has K of k rows, for k = 0..n [n + 1]."""
    in_batch, held = np.arange(n_batch + 1), np.arange(n_rows + 1)
    chance = hypergeom.pmf(in_batch[None, :], n_rows, held[:, None], n_batch)
    return np.asarray(chance @ (gammaln(in_batch + shape) - gammaln(shape)))


def scaled_score(score: Score, n_rows: int, n_batch: int, scaling: str) -> Score:
    """The score with which training on batches has this scaling, where ours has "likelihood".

    A prior that counts n / batch times is a penalty so much larger; and where nothing counts more
    than once, that and a temperature of n / batch are the same.
    """
    if not isinstance(score.prior, PenaltyPrior):
        raise TypeError(f"The prior is {score.prior}; give a score with a penalty for each split.")
    if scaling not in SCALINGS:
        raise ValueError(f"scaling={scaling!r} is not known; give one of {', '.join(SCALINGS)}.")
    factor = n_rows / n_batch
    penalty = score.prior.penalty * (1.0 if scaling == "likelihood" else factor)
    temperature = score.temperature * (factor if scaling == "neither" else 1.0)
    return replace(score, prior=PenaltyPrior(penalty), temperature=temperature)


def batch_target(score: Score, n_rows: int, n_batch: int, scaling: str) -> Score:
    """The score whose reward is exp(E[log R_b]); of classes and of rows that weigh one each."""
    if not isinstance(score.leaf, DirichletLeaf):
        raise TypeError(f"Leaves are {type(score.leaf).__name__}; give a score of classes.")
    leaf = BatchLeaf(score.leaf.n_classes, score.leaf.concentration, n_rows, n_batch)
    return replace(scaled_score(score, n_rows, n_batch, scaling), leaf=leaf)
