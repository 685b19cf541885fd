"""What importance weights tell: how many draws they are worth, the evidence, how heavy their tail.

All of it is seen from the sampler's own draws. Trees that a sampler hardly ever draws leave no
trace in its weights, so good numbers here do not rule out a missed mode.
"""

from __future__ import annotations

import math

import numpy as np

from dtgfn._support.arrays import Floats

FEWEST_TAIL = 5


def effective_sample_size(log_weight: Floats) -> float:
    """Share of the draws that the weights are worth, (sum w)^2 / (B sum w^2), from 1/B to 1.

    It is 0 where all weights are zero, and nan without weights or where one is not known.

    Parameters
    ----------
    log_weight : float64 [B]
        Log importance weight of each draw.

    Returns
    -------
    float
        Share of the draws.

    Examples
    --------
    >>> round(effective_sample_size(np.log([1.0, 1.0, 2.0])), 3)
    0.889

    """
    weight, _ = _scaled(log_weight)
    if weight.size == 0 or np.isnan(weight).any():
        return math.nan
    total = weight.sum()
    return float(total**2 / (weight.size * (weight**2).sum())) if total > 0 else 0.0


def evidence_estimate(log_weight: Floats) -> tuple[float, float]:
    """Return log of the mean weight, which estimates log Z, and its standard error.

    ``log_weight`` is log R / temperature - log_prob without a constant left out. The error is the
    delta method's; it is nan for a single weight, or where all are zero.

    Parameters
    ----------
    log_weight : float64 [B]
        log R / temperature - log_prob of each draw.

    Returns
    -------
    tuple of float
        Estimate and standard error.

    Examples
    --------
    >>> evidence_estimate(np.log([2.0, 2.0, 2.0]))
    (0.693..., 0.0)

    """
    weight, peak = _scaled(log_weight)
    if weight.size == 0 or np.isnan(weight).any():
        return math.nan, math.nan
    mean = weight.mean()
    if mean == 0:
        return -math.inf, math.nan
    error = weight.std(ddof=1) / (mean * math.sqrt(weight.size)) if weight.size > 1 else math.nan
    return peak + math.log(mean), float(error)


def _scaled(log_weight: Floats) -> tuple[Floats, float]:
    """Weights relative to the largest one, and its log."""
    log_weight = np.asarray(log_weight, dtype=np.float64)
    peak = float(log_weight.max(initial=-math.inf))
    if peak == -math.inf:
        return np.zeros(log_weight.shape), 0.0
    if not math.isfinite(peak):
        return np.full(log_weight.shape, math.nan), peak
    return np.asarray(np.exp(log_weight - peak)), peak


def pareto_shape(log_weight: Floats) -> float:
    """Shape k of a generalized Pareto distribution fitted to the largest weights.

    Above 0.7 means of these weights cannot be relied on at any practical number of draws
    (Vehtari, Simpson, Gelman, Yao, Gabry 2024). It is nan where there is no tail to fit: equal
    weights, or fewer than five distinctly larger than the rest.

    Parameters
    ----------
    log_weight : float64 [B]
        Log importance weight of each draw.

    Returns
    -------
    float
        k, or nan.

    """
    weight, _ = _scaled(log_weight)
    n_tail = math.ceil(min(weight.size / 5, 3 * math.sqrt(weight.size)))
    if weight.size <= n_tail or np.isnan(weight).any():
        return math.nan
    ordered = np.sort(weight)
    cutoff = ordered[-n_tail - 1]
    # Rounding of equal weights is no tail.
    tail = ordered[ordered > cutoff * (1 + 1e-9)] - cutoff
    return _fit_shape(tail) if tail.size >= FEWEST_TAIL else math.nan


def _fit_shape(tail: Floats) -> float:
    """Shape of the generalized Pareto distribution of ascending excesses (Zhang, Stephens 2009)."""
    n = tail.size
    n_grid = 30 + int(math.sqrt(n))
    grid = 1 - np.sqrt(n_grid / (np.arange(1, n_grid + 1) - 0.5))
    grid = grid / (3 * tail[int(n / 4 + 0.5) - 1]) + 1 / tail[-1]
    shape = np.log1p(-grid[:, None] * tail).mean(axis=1)
    profile = n * (np.log(-grid / shape) - shape - 1)
    posterior = np.exp(profile - profile.max())
    rate = float(grid @ posterior / posterior.sum())
    fitted = float(np.log1p(-rate * tail).mean())
    # A weak prior, worth ten draws at 0.5, steadies short tails as in PSIS.
    return (n * fitted + 10 * 0.5) / (n + 10)
