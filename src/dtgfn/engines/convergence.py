"""Whether chains agree: split R-hat and effective sample size of traces [chains, draws].

Both as in Vehtari, Gelman, Simpson, Carpenter, Buerkner (2021), on the bulk of the draws.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri
from scipy.stats import rankdata

from dtgfn._support.arrays import Floats

# Chains that stand still at different values have no finite R-hat, but files want a number.
MAX_R_HAT = 1e6


def split_r_hat(trace: Floats) -> float:
    """Rank-normalised split R-hat, 1 where all draws are equal, nan for fewer than 4 draws."""
    halves = _halves(trace)
    if halves.shape[1] < 2:
        return float("nan")
    if (halves == halves[0, 0]).all():
        return 1.0
    ranks = rankdata(halves, axis=None).reshape(halves.shape)
    normal = ndtri((ranks - 0.375) / (halves.size + 0.25))
    within = normal.var(axis=1, ddof=1).mean()
    between = normal.mean(axis=1).var(ddof=1)
    n_draws = halves.shape[1]
    if within <= 0.0:
        return MAX_R_HAT
    return float(min(np.sqrt((n_draws - 1) / n_draws + between / within), MAX_R_HAT))


def effective_draws(trace: Floats) -> float:
    """Effective sample size of the mean, from all chains' autocorrelations together.

    ESS = draws / (1 + 2 sum_t rho_t), the sum ended by Geyer's monotone positive pairs; nan where
    all draws are equal or there are fewer than 4 per chain.
    """
    halves = _halves(trace)
    n_chains, n_draws = halves.shape
    if n_draws < 2 or (halves == halves[0, 0]).all():
        return float("nan")
    covariance = _autocovariance(halves).mean(axis=0)
    within = covariance[0] * n_draws / (n_draws - 1)
    total = covariance[0] + (halves.mean(axis=1).var(ddof=1) if n_chains > 1 else 0.0)
    rho = 1.0 - (within - covariance) / total
    rho[0] = 1.0
    pairs = rho[: n_draws // 2 * 2].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs < 0.0)
    pairs = np.minimum.accumulate(pairs[: negative[0] if negative.size else len(pairs)])
    time = max(2.0 * pairs.sum() - 1.0, 1.0 / np.log10(max(halves.size, 10)))
    return float(halves.size / time)


def _halves(trace: Floats) -> Floats:
    half = trace.shape[1] // 2
    return np.concatenate([trace[:, :half], trace[:, trace.shape[1] - half :]])


def _autocovariance(draws: Floats) -> Floats:
    centred = draws - draws.mean(axis=1, keepdims=True)
    n_draws = draws.shape[1]
    spectrum = np.fft.rfft(centred, n=2 * n_draws, axis=1)
    power = np.fft.irfft(np.abs(spectrum) ** 2, n=2 * n_draws, axis=1)
    return np.asarray(power[:, :n_draws] / n_draws)
