"""Statistics over seeds: pairs, ranks and groups."""

import math
from itertools import product

import numpy as np
import pytest
from dtgfn_bench.statistics import compare, rank_methods, signed_rank_p_value, summary
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import friedmanchisquare, rankdata, wilcoxon


def p_value_by_all_signs(difference):
    """Wilcoxon's p-value from every assignment of signs to the ranks."""
    difference = difference[difference != 0]
    ranks = rankdata(np.abs(difference))
    observed = ranks[difference > 0].sum()
    sums = np.array([np.dot(signs, ranks) for signs in product([0, 1], repeat=len(ranks))])
    return min(1.0, 2 * min((sums <= observed).mean(), (sums >= observed).mean()))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-4, 4), min_size=1, max_size=9))
def test_signed_ranks_are_exact_with_ties_and_zeros(values):
    difference = np.array(values, dtype=float)
    assert signed_rank_p_value(difference) == pytest.approx(p_value_by_all_signs(difference))


def test_signed_ranks_agree_with_scipy_without_ties():
    difference = np.random.default_rng(0).normal(0.3, 1.0, 40)
    expected = wilcoxon(difference, method="exact").pvalue
    assert signed_rank_p_value(difference) == pytest.approx(expected)


def test_many_pairs_do_not_overflow():
    difference = np.random.default_rng(1).normal(0.0, 1.0, 400)
    expected = wilcoxon(difference, method="approx").pvalue
    assert signed_rank_p_value(difference) == pytest.approx(expected, abs=0.005)


def test_five_wins_of_five_are_not_enough_for_five_per_cent():
    assert compare([1, 2, 3, 4, 5], [0, 0, 0, 0, 0]).p_value == pytest.approx(2 / 32)


def test_comparing_is_deterministic_and_the_interval_holds_the_mean():
    rng = np.random.default_rng(0)
    ours, other = rng.normal(0.1, 1, 12).tolist(), rng.normal(0, 1, 12).tolist()
    first = compare(ours, other)
    assert first == compare(ours, other)
    assert first.low < first.difference < first.high
    back = compare(other, ours)
    assert back.difference == pytest.approx(-first.difference)
    assert back.p_value == first.p_value


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(3)
    covered = 0
    for _ in range(100):
        found = compare(rng.normal(0.5, 1, 30).tolist(), [0.0] * 30)
        covered += found.low <= 0.5 <= found.high
    assert 85 <= covered <= 100


def test_one_pair_no_pair_and_equal_pairs():
    one = compare([0.9], [0.8])
    assert (one.n, one.p_value) == (1, 1.0)
    assert one.difference == pytest.approx(0.1)
    assert math.isnan(one.low)
    none = compare([math.nan, None], [0.5, 0.5])
    assert none.n == 0
    assert math.isnan(none.difference)
    assert math.isnan(none.p_value)
    equal = compare([0.9, 0.8, 0.7], [0.9, 0.8, 0.7])
    assert (equal.difference, equal.low, equal.high, equal.p_value) == (0, 0, 0, 1)


def test_pairs_with_a_gap_are_left_out():
    assert compare([0.9, None, 0.7], [0.8, 0.1, math.nan]).n == 1
    with pytest.raises(ValueError, match="pair 1 values with 2"):
        compare([1.0], [1.0, 2.0])


def test_fractions_of_the_same_rows_tie_in_spite_of_rounding():
    # 0.1 and 0.1 as fractions, but 0.3 - 0.2 != 0.2 - 0.1 as floats
    assert compare([0.3, 0.1], [0.2, 0.2]).p_value == 1.0
    assert compare([0.1 + 0.2], [0.3]).difference == 0


def test_summary_is_of_the_population_and_skips_gaps():
    found = summary([1.0, 3.0, None, math.nan])
    assert (found.mean, found.spread, found.n) == (2.0, 1.0, 2)
    assert summary([]).n == 0


def test_ranks_share_ties_and_follow_the_direction():
    scores = np.array([[0.9, 0.9, 0.1], [0.8, 0.7, 0.1]])
    found = rank_methods(["a", "b", "c"], scores)
    assert found.names == ("a", "b", "c")
    assert found.mean_rank == (1.25, 1.75, 3.0)
    low = rank_methods(["a", "b", "c"], scores, higher_is_better=False)
    assert low.names == ("c", "b", "a")


def test_critical_difference_is_that_of_demsars_table():
    # Demšar (2006): q = 2.569 for four methods at 5 %, so CD = 1.25 over 14 tables
    found = rank_methods(list("abcd"), np.random.default_rng(0).random((14, 4)))
    assert found.critical_difference == pytest.approx(1.25, abs=0.005)


def test_friedman_is_scipys_and_blocks_with_gaps_are_left_out():
    scores = np.random.default_rng(0).random((10, 3))
    expected = friedmanchisquare(*scores.T).pvalue
    with_gap = np.vstack([scores, [0.1, math.nan, 0.2]])
    found = rank_methods(["a", "b", "c"], with_gap)
    assert found.p_value == pytest.approx(expected)
    assert found.n_blocks == 10


def test_groups_are_the_maximal_runs_within_the_critical_difference():
    rng = np.random.default_rng(0)
    names = [f"m{at}" for at in range(8)]
    scores = rng.normal(size=(40, 8)) + 0.6 * np.arange(8)
    found = rank_methods(names, scores)
    rank = dict(zip(found.names, found.mean_rank, strict=True))
    together = {(a, b) for group in found.groups for a in group for b in group if a != b}
    close = {
        (a, b)
        for a in names
        for b in names
        if a != b and abs(rank[a] - rank[b]) < found.critical_difference
    }
    assert together == close
    assert len(found.groups) > 1
    assert not any(set(a) < set(b) for a in found.groups for b in found.groups)


def test_methods_without_a_difference_are_one_group():
    equal = rank_methods(["a", "b", "c"], np.ones((6, 3)))
    assert (equal.p_value, equal.groups) == (1.0, (("a", "b", "c"),))
    apart = rank_methods(["a", "b"], np.array([[1.0, 0.0]] * 20))
    assert apart.groups == ()
    assert apart.p_value == pytest.approx(2 / 2**20)


def test_ranks_refuse_what_cannot_be_ranked():
    with pytest.raises(ValueError, match="two methods"):
        rank_methods(["a"], np.ones((3, 1)))
    with pytest.raises(ValueError, match="one block"):
        rank_methods(["a", "b"], np.full((3, 2), math.nan))
