"""Polya-gamma draws against the moments of their series and the closed form of their transform."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numba import njit
from thoroughness import diagonal

from dtgfn.engines.sums import polya_gamma
from dtgfn.engines.sums.polya_gamma import FEW_TERMS, LARGE, MANY_TERMS, SMALL

SHAPES, TILTS = [0.3, 1.0, 2.5, 7.0], [0.0, 0.005, 1.0, 3.9, 5.0, 30.0]
FAR = 4.5  # standard errors


@njit
def polya_gamma_moments(b, z):
    return polya_gamma.polya_gamma_moments(b, z)


@njit
def draw_polya_gamma(b, z, rng):
    return polya_gamma.draw_polya_gamma(b, z, rng)


def series_moments(b: float, z: float, n_terms: int = 1_000_000) -> tuple[float, float]:
    """Mean and variance of the sum of gammas, term by term; what is left of it as an integral."""
    k = np.arange(n_terms) + 0.5
    scale = 1 / (2 * math.pi**2 * (k**2 + (z / (2 * math.pi)) ** 2))
    tail = 1 / (2 * math.pi**2 * n_terms)
    return b * (scale.sum() + tail), b * (scale**2).sum()


def log_transform(t: float, b: float, z: float) -> float:
    """Log E exp(-t PG(b, z)), by Polson, Scott, Windle (2013)."""

    def log_cosh(x: float) -> float:
        return x + math.log1p(math.exp(-2 * x)) - math.log(2)

    return b * (log_cosh(abs(z) / 2) - log_cosh(math.sqrt(z * z / 4 + t / 2)))


@pytest.mark.parametrize("z", [*TILTS, 0.999 * SMALL, 1.001 * SMALL, -3.0, 800.0])
def test_closed_moments_are_those_of_the_series(z):
    mean, variance = polya_gamma_moments(1.7, z)
    assert (mean, variance) == pytest.approx(series_moments(1.7, z), rel=1e-8)


def test_moments_do_not_jump_where_their_formula_changes():
    below, above = (np.array(polya_gamma_moments(1.0, SMALL * f)) for f in (1 - 1e-9, 1 + 1e-9))
    np.testing.assert_allclose(below, above, rtol=1e-8)


@pytest.mark.parametrize(
    ("n_terms", "z", "most"), [(FEW_TERMS, LARGE, 1e-5), (MANY_TERMS, 10.0, 1e-5), (16, 30.0, 4e-4)]
)
def test_the_third_cumulant_is_off_by_as_little_as_is_said(n_terms, z, most):
    """Of the terms that are drawn together, as one gamma variable."""
    scale = 1 / (2 * math.pi**2 * ((np.arange(100_000) + 0.5) ** 2 + (z / (2 * math.pi)) ** 2))
    mean = scale[n_terms:].sum() + 1 / (2 * math.pi**2 * len(scale))
    variance = (scale[n_terms:] ** 2).sum()
    error = 2 * variance**2 / mean - 2 * (scale[n_terms:] ** 3).sum()
    assert abs(error) < most * 2 * (scale**3).sum()


@pytest.mark.parametrize(("z", "b"), diagonal(TILTS, SHAPES))
def test_draws_have_the_distribution(b, z):
    """Mean, variance and Laplace transform, each within its standard error."""
    rng, n_draws = np.random.default_rng(int(100 * b + z)), 40_000
    drawn = np.array([draw_polya_gamma(b, z, rng) for _ in range(n_draws)])
    assert (drawn > 0).all()
    mean, variance = series_moments(b, z)
    assert abs(drawn.mean() - mean) < FAR * math.sqrt(variance / n_draws)
    squares = (drawn - mean) ** 2
    assert abs(squares.mean() - variance) < FAR * squares.std() / math.sqrt(n_draws)
    for t in np.array([0.3, 1.0, 3.0]) / mean:
        terms = np.exp(-t * drawn)
        wanted = math.exp(log_transform(float(t), b, z))
        assert abs(terms.mean() - wanted) < FAR * terms.std() / math.sqrt(n_draws)


def test_a_draw_of_a_sum_is_a_sum_of_draws():
    """PG(2, z) is the sum of two PG(1, z), which are drawn by another generator."""
    rng, n_draws = np.random.default_rng(0), 20_000
    whole = np.sort([draw_polya_gamma(2.0, 1.5, rng) for _ in range(n_draws)])
    parts = np.sort(
        [draw_polya_gamma(1.0, 1.5, rng) + draw_polya_gamma(1.0, -1.5, rng) for _ in range(n_draws)]
    )
    place = np.searchsorted(whole, parts) / n_draws
    gap = np.abs(place - np.arange(n_draws) / n_draws).max()
    assert gap < 2.2 * math.sqrt(2 / n_draws)  # Kolmogorov-Smirnov, at about 1e-4
