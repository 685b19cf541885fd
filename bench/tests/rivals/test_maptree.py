"""MAPTree: the tree found is the most probable of all, and the bounds on the way hold."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from dtgfn_bench.rivals.maptree import fit_maptree, quantile_cuts
from dtgfn_bench.rivals.maptree_search import CgmPrior, MapTreeSearch
from hypothesis import given, settings
from hypothesis import strategies as st
from single_rows import small_rows


def binary_rows(seed: int, n_classes: int):
    draw = np.random.default_rng(seed)
    binary = draw.random((int(draw.integers(4, 30)), int(draw.integers(1, 6)))) < 0.5
    y = binary[:, 0].astype(np.int64) + binary[:, -1] + (draw.random(len(binary)) < 0.1)
    return binary, y % n_classes


def least_cost(binary, y, n_classes, prior, index, depth, seen):
    """Cost of the best of all trees, by going through them."""
    key = (index.tobytes(), depth)
    if key not in seen:
        counts = np.bincount(y[index], minlength=n_classes)[:, None].astype(float)
        part = binary[index]
        valid = [column for column in range(binary.shape[1]) if 0 < part[:, column].mean() < 1]
        best = float(prior.leaf_cost(counts)[0]) + (prior.stop_cost(depth) if valid else 0.0)
        for column in valid:
            sides = [
                least_cost(binary, y, n_classes, prior, side, depth + 1, seen)
                for side in (index[part[:, column]], index[~part[:, column]])
            ]
            best = min(best, prior.split_cost(depth) + np.log(len(valid)) + sum(sides))
        seen[key] = best
    return seen[key]


def cost_of(chosen, binary, y, n_classes, prior, index, depth=0):
    """Negative log of prior times likelihood of one tree."""
    valid = sum(0 < column.mean() < 1 for column in binary[index].T)
    if chosen is None:
        counts = np.bincount(y[index], minlength=n_classes)[:, None].astype(float)
        return float(prior.leaf_cost(counts)[0]) + (prior.stop_cost(depth) if valid else 0.0)
    inside = binary[index, chosen.column]
    return (
        prior.split_cost(depth)
        + np.log(valid)
        + cost_of(chosen.inside, binary, y, n_classes, prior, index[inside], depth + 1)
        + cost_of(chosen.outside, binary, y, n_classes, prior, index[~inside], depth + 1)
    )


@given(st.integers(0, 10_000), st.integers(1, 3), st.sampled_from([0.5, 2.5]))
@settings(max_examples=30, deadline=None)
def test_finds_the_most_probable_tree(seed, n_classes, mass):
    binary, y = binary_rows(seed, n_classes)
    prior = CgmPrior(mass=mass)
    search = MapTreeSearch(binary, y, n_classes, prior)
    search.run(10**6, 60.0)
    assert search.solved()
    everyone = np.arange(len(y))
    least = least_cost(binary, y, n_classes, prior, everyone, 0, {})
    assert search.root.upper == pytest.approx(least)
    assert cost_of(search.best(), binary, y, n_classes, prior, everyone) == pytest.approx(least)


def test_bounds_close_in_on_the_optimum():
    draw = np.random.default_rng(0)
    binary = draw.random((60, 5)) < 0.5
    y = (binary[:, :2].sum(axis=1) + (draw.random(60) < 0.1)) % 3
    prior = CgmPrior()
    everyone = np.arange(len(y))
    least = least_cost(binary, y, 3, prior, everyone, 0, {})
    search = MapTreeSearch(binary, y, 3, prior)
    bounds = []
    for limit in range(1, 200):
        search.run(limit, 60.0)
        bounds.append((search.root.lower, search.root.upper))
        # The best tree so far may stop for free where that was not known yet.
        assert cost_of(search.best(), binary, y, 3, prior, everyone) <= search.root.upper + 1e-9
    assert search.solved()
    assert search.expansions > 5
    for (lower, upper), (next_lower, next_upper) in pairwise(bounds):
        assert lower <= next_lower <= least + 1e-9
        assert least - 1e-9 <= next_upper <= upper


@given(st.lists(st.lists(st.integers(0, 6), min_size=3, max_size=3), min_size=1, max_size=5))
def test_no_leaves_beat_pure_ones(leaves):
    counts = np.array(leaves, float).T
    prior = CgmPrior(mass=1.5)
    pure = prior.pure_cost(counts.sum(axis=1, keepdims=True))[0]
    assert pure <= prior.leaf_cost(counts).sum() + 1e-9


def test_leaf_cost_is_the_probability_of_a_sequence_of_labels():
    # Beta(2.5, 2.5): labels 0, 1, 0 one after the other.
    sequence = 2.5 / 5 * 2.5 / 6 * 3.5 / 7
    assert CgmPrior().leaf_cost(np.array([[2.0], [1.0]]))[0] == pytest.approx(-np.log(sequence))


def test_quantile_cuts_part_the_rows():
    X = np.column_stack([np.arange(100.0), np.repeat([0.0, 1.0], [95, 5]), np.ones(100)])
    features, thresholds = quantile_cuts(X, 4)
    assert features.tolist() == [0, 0, 0, 0, 1]
    holds = (X[:, features] <= thresholds).sum(axis=0)
    assert holds.tolist() == [20, 40, 60, 80, 95]


def test_leaves_answer_with_posterior_means():
    rows = small_rows(0)
    fitted = fit_maptree(
        rows, 1, alpha=1e-9, beta=0.5, mass=2.5, n_cuts=3, max_expansions=50, seconds=60.0
    )
    assert fitted.size() == 1
    expected = (np.bincount(rows.y, minlength=2) + 2.5) / (len(rows.y) + 5)
    np.testing.assert_allclose(fitted.predict_proba(rows.X[:1])[0], expected)
