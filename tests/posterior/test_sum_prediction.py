"""Predictions of sums of trees against a twin that routes each row by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm
from thoroughness import examples

from dtgfn.posterior.sum_posterior import SumPosterior
from dtgfn.posterior.sum_prediction import SumPredictor, normal_mixture_quantile
from dtgfn.trees.leaf_models import DirichletLeaf, NormalLeaf
from dtgfn.trees.score import Rows
from dtgfn.trees.summed_trees import SummedTrees, stack_draws

N_CODES = 5


def random_draws(
    rng: np.random.Generator, n_draws: int, n_sums: int, n_summed: int, n_features: int
) -> dict[str, np.ndarray]:
    """Arrays [K, S, M, N] of random trees, with garbage where no node is."""
    width = 9
    shape = n_draws, n_sums, n_summed, width
    arrays = {
        "size": np.ones(shape[:3], dtype=np.int32),
        "feature": rng.integers(-1, 3, size=shape).astype(np.int32),
        "cut": rng.integers(0, 9, size=shape).astype(np.int32),
        "left": rng.integers(-1, 9, size=shape).astype(np.int32),
        "value": rng.normal(size=shape),
    }
    for place in np.ndindex(*shape[:3]):
        feature, cut, left = (arrays[name][place] for name in ("feature", "cut", "left"))
        open_nodes, size = [0], 1
        while open_nodes:
            node = open_nodes.pop(rng.integers(len(open_nodes)))
            feature[node] = -1
            if size + 2 <= width and rng.random() < 0.6:
                feature[node] = rng.integers(n_features)
                cut[node], left[node] = rng.integers(N_CODES), size
                open_nodes += [size, size + 1]
                size += 2
        arrays["size"][place] = size
    return arrays


def slow_sum(arrays: dict[str, np.ndarray], k: int, s: int, row: np.ndarray) -> float:
    """Sum s of draw k at a row of codes."""
    total = 0.0
    for m in range(arrays["size"].shape[2]):
        feature, cut, left, value = (
            arrays[name][k, s, m] for name in ("feature", "cut", "left", "value")
        )
        node = 0
        while feature[node] >= 0:
            node = left[node] + int(row[feature[node]] > cut[node])
        total += value[node]
    return total


def make_posterior(
    summed: SummedTrees, leaf: DirichletLeaf | NormalLeaf, rng: np.random.Generator, n_features: int
) -> SumPosterior:
    of_numbers = isinstance(leaf, NormalLeaf)
    codes = rng.integers(0, N_CODES, size=(6, n_features)).astype(np.uint16)
    return SumPosterior(
        summed=summed,
        chain=np.zeros(summed.n_draws, dtype=np.int32),
        noise=rng.gamma(2.0, size=summed.n_draws) if of_numbers else np.empty(0),
        leaf_scale=np.ones(summed.n_draws),
        offset=np.zeros(1) if of_numbers else rng.normal(size=summed.n_sums),
        leaf=leaf,
        rows=Rows(codes, rng.normal(size=6), np.ones(6)),
        column=np.arange(n_features, dtype=np.int32),
        n_columns=n_features,
    )


LEAVES = {
    "numbers": (NormalLeaf(location=3.0, scale=2.5), 1),
    "two classes": (DirichletLeaf(2), 1),
    "three classes": (DirichletLeaf(3), 3),
}
KINDS = list(LEAVES)


def slow_draws(
    posterior: SumPosterior, arrays: dict[str, np.ndarray], codes: np.ndarray
) -> np.ndarray:
    """What each draw says of each row: [n, K, C], or [n, K] of numbers."""
    said = []
    for row in codes:
        for k in range(posterior.n_draws):
            sums = [slow_sum(arrays, k, s, row) for s in range(posterior.summed.n_sums)]
            if isinstance(posterior.leaf, NormalLeaf):
                said.append([posterior.leaf.location + posterior.leaf.scale * sums[0]])
                continue
            odds = [math.exp(f + o) for f, o in zip(sums, posterior.offset, strict=True)]
            odds = [1.0, *odds] if len(odds) == 1 else odds
            said.append([each / sum(odds) for each in odds])
    shape = len(codes), posterior.n_draws
    found = np.array(said).reshape(*shape, -1)
    return found[:, :, 0] if isinstance(posterior.leaf, NormalLeaf) else found


@given(
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 2**32 - 1),
    n_draws=st.integers(1, 5),
    n_summed=st.integers(1, 4),
    n_rows=st.integers(1, 7),
    n_features=st.integers(1, 3),
)
@examples(50)
def test_each_draw_says_what_its_trees_add_up_to(kind, seed, n_draws, n_summed, n_rows, n_features):
    rng = np.random.default_rng(seed)
    leaf, n_sums = LEAVES[kind]
    arrays = random_draws(rng, n_draws, n_sums, n_summed, n_features)
    posterior = make_posterior(stack_draws(**arrays), leaf, rng, n_features)
    codes = rng.integers(0, N_CODES + 1, size=(n_rows, n_features)).astype(np.uint16)
    wanted = slow_draws(posterior, arrays, codes)
    predictor = SumPredictor(posterior, n_jobs=1)
    np.testing.assert_allclose(predictor.draws(codes), wanted, atol=1e-12)
    np.testing.assert_allclose(predictor.average(codes), wanted.mean(axis=1), atol=1e-12)
    both = SumPredictor(posterior, n_jobs=2).draws(codes)
    np.testing.assert_array_equal(both, predictor.draws(codes))


def ready(
    kind: str, seed: int = 0, n_draws: int = 7
) -> tuple[SumPredictor, np.ndarray, np.ndarray]:
    """A predictor, codes, and what its draws say of them by hand."""
    rng = np.random.default_rng(seed)
    leaf, n_sums = LEAVES[kind]
    arrays = random_draws(rng, n_draws, n_sums, 3, 2)
    posterior = make_posterior(stack_draws(**arrays), leaf, rng, 2)
    codes = rng.integers(0, N_CODES, size=(9, 2)).astype(np.uint16)
    return SumPredictor(posterior, n_jobs=1), codes, slow_draws(posterior, arrays, codes)


def mixture(predictor: SumPredictor, centers: np.ndarray) -> list:
    """One normal distribution for each draw."""
    posterior = predictor.posterior
    widths = posterior.leaf.scale * np.sqrt(posterior.noise)
    return [norm(center, width) for center, width in zip(centers, widths, strict=True)]


def test_density_moments_and_intervals_of_numbers_are_those_of_the_mixture():
    predictor, codes, said = ready("numbers")
    number = np.linspace(-4.0, 9.0, len(codes))
    density, bounds = predictor.log_density(codes, number), predictor.interval(codes, 0.8)
    mean, variance = predictor.moments(codes)
    for i, centers in enumerate(said):
        parts = mixture(predictor, centers)
        wanted = math.log(np.mean([part.pdf(number[i]) for part in parts]))
        assert density[i] == pytest.approx(wanted, rel=1e-10)
        for bound, level in zip(bounds[i], (0.1, 0.9), strict=True):
            assert np.mean([part.cdf(bound) for part in parts]) == pytest.approx(level, abs=1e-9)
        second = np.mean([part.var() + part.mean() ** 2 for part in parts])
        assert mean[i] == pytest.approx(centers.mean())
        assert variance.total[i] == pytest.approx(second - centers.mean() ** 2)
        assert variance.model[i] == pytest.approx(centers.var())


@pytest.mark.parametrize("kind", ["two classes", "three classes"])
def test_intervals_ratios_and_entropy_of_classes_are_those_of_the_draws(kind):
    predictor, codes, said = ready(kind)
    ratios = np.arange(1.0, said.shape[2] + 1)
    shifted = said * ratios / (said * ratios).sum(axis=2, keepdims=True)
    np.testing.assert_allclose(predictor.average(codes, ratios), shifted.mean(axis=1))
    bounds = predictor.interval(codes, 0.5)
    np.testing.assert_allclose(bounds[..., 0], np.quantile(said, 0.25, axis=1))
    np.testing.assert_allclose(bounds[..., 1], np.quantile(said, 0.75, axis=1))
    found = predictor.class_uncertainty(codes)
    average = said.mean(axis=1)
    np.testing.assert_allclose(found.total, -(average * np.log(average)).sum(axis=1))
    np.testing.assert_allclose(found.noise, -(said * np.log(said)).sum(axis=2).mean(axis=1))


def test_what_is_of_numbers_is_refused_for_classes():
    predictor, codes, _ = ready("two classes")
    with pytest.raises(TypeError, match="predicts classes, not numbers"):
        predictor.quantiles(codes, np.array([0.5]))


def test_codes_of_other_columns_are_refused():
    predictor, codes, _ = ready("numbers")
    with pytest.raises(ValueError, match="2 columns or more are needed"):
        predictor.average(codes[:, :1])
    with pytest.raises(ValueError, match="codes have 3 columns, but the training rows have 2"):
        predictor.average(np.hstack([codes, codes[:, :1]]))


def test_blocks_of_rows_say_what_all_rows_at_once_say(monkeypatch):
    predictor, codes, said = ready("three classes")
    monkeypatch.setattr("dtgfn.posterior.sum_prediction.BLOCK", 50)
    np.testing.assert_allclose(predictor.average(codes), said.mean(axis=1))


@given(
    seed=st.integers(0, 2**32 - 1),
    n_draws=st.integers(1, 6),
    level=st.floats(1e-4, 1 - 1e-4),
    spread=st.sampled_from([0.0, 1.0, 100.0]),
)
@examples(50)
def test_quantiles_of_a_mixture_solve_its_distribution_function(seed, n_draws, level, spread):
    rng = np.random.default_rng(seed)
    center = spread * rng.normal(size=(3, n_draws))
    width = np.exp(rng.normal(size=n_draws))
    found = normal_mixture_quantile(center, width, level)
    for each, centers in zip(found, center, strict=True):

        def above(x: float, centers: np.ndarray = centers) -> float:
            return float(norm.cdf((x - centers) / width).mean() - level)

        far = 60 * (1 + abs(centers).max()) * width.max()
        exact = brentq(above, -far, far, xtol=1e-12)
        # Between draws far apart the function is flat, and many numbers solve it.
        assert each == pytest.approx(exact, abs=1e-6) or abs(above(each)) < 1e-12
