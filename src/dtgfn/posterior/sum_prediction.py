"""SumPredictor: a posterior over sums of trees made ready to predict, and all that it tells.

Each draw says a number f(x), or one for each class. Classes get the average over draws of the
logistic or softmax function of these; a number is a mixture of Normal(f(x), noise), one for each
draw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import entr, expit, ndtr, ndtri, softmax

from dtgfn._support.arrays import Codes, Floats
from dtgfn._support.checks import check_level
from dtgfn.data.binning import as_codes
from dtgfn.posterior.moments import Variance
from dtgfn.posterior.sum_posterior import SumPosterior
from dtgfn.posterior.uncertainty import Uncertainty
from dtgfn.trees.leaf_models import NormalLeaf
from dtgfn.trees.summed_trees import FastSums, make_fast, sum_draws

BLOCK = 1 << 22  # rows x draws x classes that are held at once
BISECTIONS = 40


@dataclass(frozen=True, eq=False)
class SumPredictor:
    """A posterior over sums of trees, ready to predict.

    Parameters
    ----------
    posterior : SumPosterior
        Where the draws come from.
    n_jobs : int or None
        Threads, all cores if None or -1; results do not depend on it.

    """

    posterior: SumPosterior
    n_jobs: int | None = None

    @cached_property
    def _fast(self) -> FastSums:
        return make_fast(self.posterior.summed)

    def draws(self, codes: Codes) -> Floats:
        """What each draw says of rows of codes [n, d].

        P(class | x) [n, K, C], or a number's mean [n, K] in its own units.
        """
        return self.outputs(self._sums(codes))

    def average_sums(self, codes: Codes) -> Floats:
        """What the draws' sums add up to on average [n, S], which Shapley values share out.

        Log odds of the second of two classes; of more, the logs of what softmax normalises; of a
        number its mean.
        """
        sums = self._sums(codes).mean(axis=1)
        if self.posterior.is_of_classes:
            return np.asarray(sums + self.posterior.offset)
        leaf = self._normal()
        return np.asarray(leaf.location + leaf.scale * sums)

    def _sums(self, codes: Codes) -> Floats:
        return sum_draws(self._fast, self.posterior.summed, self._check(codes), self.n_jobs)

    def outputs(self, sums: Floats) -> Floats:
        """What draws say whose trees add up to sums [n, K, S]; see ``draws``."""
        posterior = self.posterior
        if not posterior.is_of_classes:
            leaf = self._normal()
            return np.asarray(leaf.location + leaf.scale * sums[:, :, 0])
        if posterior.leaf.n_outputs == 1:
            return np.ones((len(sums), posterior.n_draws, 1))
        sums = sums + posterior.offset
        if sums.shape[2] > 1:
            return np.asarray(softmax(sums, axis=2))
        return np.concatenate([expit(-sums), expit(sums)], axis=2)

    def average(self, codes: Codes, ratios: Floats | None = None) -> Floats:
        """P(class | x) [n, C], or a number's mean [n].

        ``ratios`` [C] says how many times as frequent as in training each class is.
        """
        if ratios is None and self._is_of_two_classes:
            return self._average_two(codes)

        def mean(draws: Floats, _: slice) -> Floats:
            if ratios is not None:
                draws = draws * ratios
                draws /= draws.sum(axis=2, keepdims=True)
            return np.asarray(draws.mean(axis=1))

        return self._by_block(codes, mean)

    @property
    def _is_of_two_classes(self) -> bool:
        return self.posterior.is_of_classes and self.posterior.leaf.n_outputs == 2

    def _average_two(self, codes: Codes) -> Floats:
        """P(class | x) [n, 2]: one of two is enough, and half of the work."""
        posterior, codes, parts = self.posterior, self._check(codes), []
        for rows in self._blocks(len(codes)):
            sums = self._sums(codes[rows])
            parts.append(expit(sums[:, :, 0] + posterior.offset[0]).mean(axis=1))
        second = np.concatenate(parts)
        return np.stack([1.0 - second, second], axis=1)

    def interval(self, codes: Codes, level: float = 0.9) -> Floats:
        """Bounds, tails even: of P(class | x) [n, C, 2] over draws, or of a new number [n, 2]."""
        check_level(level)
        tails = np.array([0.5 - level / 2, 0.5 + level / 2])
        if not self.posterior.is_of_classes:
            return self.quantiles(codes, tails)
        return self._by_block(
            codes, lambda draws, _: np.moveaxis(np.quantile(draws, tails, axis=1), 0, -1)
        )

    def quantiles(self, codes: Codes, levels: Floats) -> Floats:
        """Quantiles [n, L] of new numbers: mixtures of one normal distribution for each draw."""
        width = self._normal().scale * np.sqrt(self.posterior.noise)

        def solve(draws: Floats, _: slice) -> Floats:
            return np.stack([normal_mixture_quantile(draws, width, q) for q in levels], axis=1)

        return self._by_block(codes, solve)

    def class_uncertainty(self, codes: Codes) -> Uncertainty:
        """Entropy of the class [n] in nats, parted into noise and what the draws disagree on."""

        def part(draws: Floats, _: slice) -> Floats:
            noise = entr(draws).sum(axis=2).mean(axis=1)
            model = np.maximum(entr(draws.mean(axis=1)).sum(axis=1) - noise, 0.0)
            return np.stack([noise, model], axis=1)

        noise, model = self._by_block(codes, part).T
        return Uncertainty(total=noise + model, noise=noise, model=model)

    def moments(self, codes: Codes) -> tuple[Floats, Variance]:
        """Mean [n] and variance of new numbers."""
        noise = self._normal().scale ** 2 * float(self.posterior.noise.mean())

        def both(draws: Floats, _: slice) -> Floats:
            return np.stack([draws.mean(axis=1), draws.var(axis=1)], axis=1)

        mean, model = self._by_block(codes, both).T
        return mean, Variance(noise + model, np.full(len(mean), noise), model)

    def log_density(self, codes: Codes, target: Floats) -> Floats:
        """Log predictive density [n] of numbers [n]."""
        width = self._normal().scale * np.sqrt(self.posterior.noise)

        def density(draws: Floats, rows: slice) -> Floats:
            z = (target[rows, None] - draws) / width
            logs = -0.5 * z**2 - np.log(width) - 0.5 * np.log(2 * np.pi)
            top = logs.max(axis=1, keepdims=True)
            return np.asarray(top[:, 0] + np.log(np.exp(logs - top).mean(axis=1)))

        return self._by_block(codes, density)

    def _normal(self) -> NormalLeaf:
        leaf = self.posterior.leaf
        if not isinstance(leaf, NormalLeaf):
            raise TypeError("This sum of trees predicts classes, not numbers.")
        return leaf

    def _by_block(self, codes: Codes, work: Callable[[Floats, slice], Floats]) -> Floats:
        """Apply work(draws, rows) to blocks of rows, and put the results together."""
        codes = self._check(codes)
        parts = [work(self.draws(codes[rows]), rows) for rows in self._blocks(len(codes))]
        return np.concatenate(parts)

    def _blocks(self, n_rows: int) -> Iterator[slice]:
        size = self.posterior.n_draws * self.posterior.leaf.n_outputs
        step = max(BLOCK // size, 1)
        return (slice(first, first + step) for first in range(0, max(n_rows, 1), step))

    def _check(self, codes: Codes) -> Codes:
        n_features = len(self.posterior.column)
        codes = as_codes(codes, n_features)
        if codes.shape[1] != n_features:
            raise ValueError(
                f"codes have {codes.shape[1]} columns, but the training rows have {n_features}; "
                "posterior.encode(X) makes codes of a table X."
            )
        return codes


def normal_mixture_quantile(center: Floats, width: Floats, level: float) -> Floats:
    """Solve mean_k P(Normal(center[i, k], width[k]) <= q) = level for each row i -> [n].

    By bisection: each draw's own quantile bounds that of the mixture.
    """
    own = center + width * ndtri(level)
    low, high = own.min(axis=1), own.max(axis=1)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        above = ndtr((middle[:, None] - center) / width).mean(axis=1) > level
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return np.asarray((low + high) / 2)
