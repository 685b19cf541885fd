"""Promises of binning.py: thresholds, codes, rules, and the dict a binner becomes."""

import copy
import itertools
import json
import math
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from thoroughness import examples, long_but

from dtgfn.data.binner_dict import binner_from_dict, binner_to_dict
from dtgfn.data.binning import (
    Binner,
    Feature,
    encode,
    fit_binner,
    rule,
)
from dtgfn.data.categories import MOST_INDICATORS
from dtgfn.data.tables import Column, Table, as_table, take
from dtgfn.data.thresholds import place_evenly

BINNINGS = ("uniform", "quantile", "midpoint")
HUGE = 1.7976931348623157e308
TINY = 5e-324

binnings = st.sampled_from(BINNINGS)
counts = st.sampled_from([1, 2, 3, 9, 99])
any_float = st.floats(allow_nan=False, allow_infinity=False)
small = st.integers(-4, 4).map(float)
adjacent = st.integers(0, 5).map(lambda steps: math.ldexp(2**52 + steps, -52))
floats = st.one_of(any_float, small, adjacent, st.sampled_from([HUGE, -HUGE, TINY, -TINY, -0.0]))
missing = st.just(math.nan)
number_lists = st.lists(st.one_of(floats, floats, missing), min_size=1, max_size=30)
category_lists = st.lists(st.one_of(st.sampled_from("abcd"), st.none()), min_size=1, max_size=20)


def numbers(values, name="x") -> Column:
    return Column(name, "number", np.array(values, dtype=np.float64))


def texts(values, name="c") -> Column:
    return Column(name, "category", np.array([*values, None], dtype=object)[:-1])


def table_of(*columns: Column) -> Table:
    return Table(tuple(columns), len(columns[0].values), named=True)


def fitted(values, **settings) -> Feature:
    (feature,) = fit_binner(table_of(numbers(values)), **settings).features
    return feature


def codes_of(binner: Binner, *columns: Column) -> list[list[int]]:
    return encode(binner, table_of(*columns)).tolist()


mixed_tables = st.integers(1, 20).flatmap(
    lambda n: st.tuples(
        st.lists(st.one_of(floats, missing), min_size=n, max_size=n),
        st.lists(st.sampled_from([0.0, 1.0, math.nan]), min_size=n, max_size=n),
        st.lists(st.one_of(st.sampled_from("abcd"), st.none()), min_size=n, max_size=n),
        st.lists(st.integers(0, 3), min_size=n, max_size=n).filter(any),
    )
)


def mixed(rows) -> Table:
    return table_of(
        numbers(rows[0]), Column("b", "boolean", np.array(rows[1], dtype=float)), texts(rows[2])
    )


# ---------------------------------------------------------------- numbers


@examples(60)
@given(number_lists, st.lists(floats, max_size=10), binnings, counts)
def test_code_at_most_j_is_x_at_most_threshold_j(train, more, binning, n_thresholds):
    binner = fit_binner(table_of(numbers(train)), binning=binning, n_thresholds=n_thresholds)
    thresholds = binner.features[0].thresholds
    rows = [*train, *more, *thresholds, *np.nextafter(thresholds, np.inf)]
    codes = encode(binner, table_of(numbers(rows)))[:, 0]
    for x, code in zip(rows, codes, strict=True):
        if math.isnan(x):
            assert code == len(thresholds) + 1
        else:
            assert code == (thresholds < x).sum()
            assert all((code <= j) == (x <= thresholds[j]) for j in range(len(thresholds)))


@examples(60)
@given(number_lists, binnings, counts)
def test_thresholds_ascend_and_each_splits_the_training_rows(train, binning, n_thresholds):
    feature = fitted(train, binning=binning, n_thresholds=n_thresholds)
    present = [x for x in train if not math.isnan(x)]
    assert len(feature.thresholds) <= n_thresholds
    assert np.isfinite(feature.thresholds).all()
    assert (feature.thresholds[1:] > feature.thresholds[:-1]).all()
    if len(feature.thresholds):
        assert min(present) <= feature.thresholds[0]
        assert feature.thresholds[-1] < max(present)


@examples(60)
@given(mixed_tables, binnings, counts)
def test_training_codes_never_exceed_the_number_of_cuts(rows, binning, n_thresholds):
    table = mixed(rows)
    binner = fit_binner(table, binning=binning, n_thresholds=n_thresholds)
    codes = encode(binner, table)
    assert codes.dtype == np.uint16
    assert codes.flags.c_contiguous
    assert codes.shape == (table.n_rows, len(binner.features))
    assert (codes <= binner.n_cuts).all()


@examples(60)
@given(st.lists(st.integers(-1000, 1000), min_size=2, max_size=9), counts)
def test_uniform_thresholds_follow_the_formula(train, t):
    low, high = min(train), max(train)
    assume(low < high)
    grid = low + (high - low) * (np.arange(1, t + 1) / (t + 1))
    thresholds = fitted([float(x) for x in train], n_thresholds=t).thresholds
    np.testing.assert_allclose(thresholds, grid, rtol=0, atol=1e-12 * (abs(low) + abs(high)))


@examples(60)
@given(st.lists(st.integers(-30, 30), min_size=2, max_size=30), st.sampled_from([4, 9, 19]))
def test_uniform_puts_ties_where_min_max_scaling_puts_them(tenths, t):
    train = np.array(tenths) / 10  # few decimals: many values stand exactly on a threshold
    assume(train.min() < train.max())
    scaled = (train - train.min()) / (train.max() - train.min())
    expected = np.searchsorted(np.linspace(0, 1, t + 2)[1:-1], scaled)
    binner = fit_binner(table_of(numbers(train)), n_thresholds=t)
    assert encode(binner, table_of(numbers(train))).ravel().tolist() == expected.tolist()
    # and so do the ties of rows that come later
    new = np.arange(-30, 31) / 10
    scaled = (new - train.min()) / (train.max() - train.min())
    expected = np.searchsorted(np.linspace(0, 1, t + 2)[1:-1], scaled)
    assert encode(binner, table_of(numbers(new))).ravel().tolist() == expected.tolist()


def test_uniform_over_a_range_that_overflows():
    thresholds = fitted([-HUGE, HUGE], n_thresholds=3).thresholds.tolist()
    assert thresholds == pytest.approx([-HUGE / 2, 0, HUGE / 2], abs=HUGE * 1e-15)


def test_columns_laid_together_are_as_each_alone():
    rng = np.random.default_rng(0)
    ends = np.sort(rng.normal(size=(40, 2)) * 10.0 ** rng.integers(-200, 200, (40, 1)), axis=1)
    ends[:3] = [[0.0, 5e-324], [-1.0, -1.0], [-1e308, 1.7e308]]
    for together, pair in zip(place_evenly(ends, 9), ends, strict=True):
        (alone,) = place_evenly(pair[None], 9)
        assert together.tolist() == alone.tolist()


def test_uniform_on_iris_like_numbers():
    assert fitted([0.0, 10.0], n_thresholds=9).thresholds.tolist() == pytest.approx(range(1, 10))


@pytest.mark.parametrize("binning", ["quantile", "midpoint"])
@pytest.mark.parametrize(
    ("low", "high"),
    [
        (1.0, math.nextafter(1.0, 2)),
        (math.nextafter(1.0, 2), math.nextafter(math.nextafter(1.0, 2), 2)),
        (0.0, TINY),
        (-TINY, 0.0),
        (TINY, 2 * TINY),
        (-HUGE, HUGE),
        (math.nextafter(HUGE, 0), HUGE),
        (-HUGE, math.nextafter(-HUGE, 0)),
    ],
)
def test_midpoints_of_adjacent_and_extreme_floats_still_split(binning, low, high):
    (threshold,) = fitted([low, high], binning=binning).thresholds
    assert low <= threshold < high


@examples(60)
@given(st.lists(floats, min_size=1, max_size=30), counts)
def test_midpoints_lie_between_consecutive_values(train, t):
    values = sorted(set(train))
    thresholds = fitted(train, binning="midpoint", n_thresholds=t).thresholds
    assert len(thresholds) == min(t, len(values) - 1)
    gaps = np.searchsorted(values, thresholds, side="right")  # one value apart at least
    assert len(set(gaps.tolist())) == len(thresholds)
    if len(values) - 1 <= t:
        pairs = itertools.pairwise(values)
        assert all(a <= x < b for (a, b), x in zip(pairs, thresholds, strict=True))


def test_midpoints_are_thinned_evenly():
    thresholds = fitted(range(101), binning="midpoint", n_thresholds=4).thresholds
    assert thresholds.tolist() == [12.5, 37.5, 62.5, 87.5]


@examples(60)
@given(st.lists(small, min_size=1, max_size=40), counts)
def test_quantiles_are_the_inverse_empirical_distribution(train, t):
    values, n = sorted(set(train)), len(train)
    expected = set()
    for j in range(1, t + 1):
        at = next(v for v in values if sum(x <= v for x in train) * (t + 1) >= j * n)
        if at < values[-1]:
            expected.add((at + values[values.index(at) + 1]) / 2)
    assert fitted(train, binning="quantile", n_thresholds=t).thresholds.tolist() == sorted(expected)


def test_quantile_weights_need_not_be_whole_numbers():
    train = np.arange(10.0)
    plain = fitted(train, binning="quantile", n_thresholds=9)
    for weight in (0.1, 1 / 3, 1e-5, 7e11, HUGE, 1e-300):
        scaled = fitted(
            train, binning="quantile", n_thresholds=9, sample_weight=np.full(10, weight)
        )
        assert scaled.thresholds.tolist() == plain.thresholds.tolist()


@pytest.mark.parametrize("binning", BINNINGS)
@pytest.mark.parametrize("train", [[3.0, 3.0], [math.nan], [3.0, math.nan], [0.0, -0.0]])
def test_constant_columns_have_no_thresholds_and_ignore_what_comes(binning, train):
    binner = fit_binner(table_of(numbers(train)), binning=binning)
    assert len(binner.features[0].thresholds) == 0
    assert codes_of(binner, numbers([-7, 3, 1e9, math.nan])) == [[0], [0], [0], [1]]
    assert codes_of(binner, texts(["what", None], "x")) == [[0], [1]]


def test_missing_in_training_adds_a_cut_and_new_missing_goes_right_everywhere():
    with_missing = fitted([0, 4, math.nan], n_thresholds=3)
    assert (with_missing.has_missing, with_missing.n_cuts) == (True, 4)
    binner = fit_binner(table_of(numbers([0, 4])), n_thresholds=3)
    assert (binner.features[0].has_missing, binner.features[0].n_cuts) == (False, 3)
    assert codes_of(binner, numbers([math.nan, 9, 4, -1])) == [[4], [3], [3], [0]]


# ---------------------------------------------------------------- weights and rows


@examples(60)
@given(mixed_tables, binnings, counts)
def test_whole_weights_equal_repeated_rows(rows, binning, n_thresholds):
    table, weights = mixed(rows), np.array(rows[3])
    repeated = take(table, np.repeat(np.arange(table.n_rows), weights))
    settings = {"binning": binning, "n_thresholds": n_thresholds}
    weighted = fit_binner(table, sample_weight=weights, **settings)
    assert binner_to_dict(weighted) == binner_to_dict(fit_binner(repeated, **settings))


@examples(60)
@given(mixed_tables, binnings, counts, st.randoms(use_true_random=False))
def test_the_order_of_the_rows_does_not_matter(rows, binning, n_thresholds, random):
    table = mixed(rows)
    weights = np.array([random.choice([0.1, 0.7, 1 / 3, 2.0]) for _ in range(table.n_rows)])
    order = np.array(random.sample(range(table.n_rows), table.n_rows))
    settings = {"binning": binning, "n_thresholds": n_thresholds}
    one = fit_binner(table, sample_weight=weights, **settings)
    other = fit_binner(take(table, order), sample_weight=weights[order], **settings)
    assert binner_to_dict(one) == binner_to_dict(other)
    assert (encode(one, table)[order] == encode(other, take(table, order))).all()


@examples(60)
@given(mixed_tables, mixed_tables, binnings)
def test_the_code_of_a_row_does_not_depend_on_the_rows_around_it(rows, others, binning):
    binner = fit_binner(mixed(rows), binning=binning, n_thresholds=5)
    before = json.dumps(binner_to_dict(binner))
    table = mixed(others)
    together = encode(binner, table)
    alone = [encode(binner, take(table, [row]))[0] for row in range(table.n_rows)]
    assert (together == np.array(alone)).all()
    assert json.dumps(binner_to_dict(binner)) == before


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        ([1, 2], r"sample_weight has shape \(2,\).*shape \(3,\)"),
        ([[1], [2], [3]], r"sample_weight has shape \(3, 1\)"),
        ([1, -1, 1], r"sample_weight is -1\.0 in row 1"),
        ([1, 1, math.nan], "sample_weight is nan in row 2"),
        ([math.inf, 1, 1], "sample_weight is inf in row 0"),
        ([0, 0, 0], "sample_weight is zero in every row"),
    ],
)
def test_bad_weights_are_refused(weights, sentence):
    with pytest.raises(ValueError, match=sentence):
        fit_binner(as_table(np.eye(3)), sample_weight=weights)


@pytest.mark.parametrize("n_thresholds", [0, -1, 65_001, 2.0, "9", None, True])
def test_bad_n_thresholds_is_refused(n_thresholds):
    with pytest.raises(ValueError, match=r"n_thresholds=.* give a whole number from 1 to 65000"):
        fit_binner(as_table(np.eye(3)), n_thresholds=n_thresholds)


@pytest.mark.parametrize("binning", ["Uniform", "", None, 3, ["uniform"]])
def test_bad_binning_is_refused(binning):
    with pytest.raises(ValueError, match=r"binning is .* one of 'uniform', 'quantile', 'midpoint'"):
        fit_binner(as_table(np.eye(3)), binning=binning)


@pytest.mark.parametrize("binning", BINNINGS)
def test_the_largest_number_of_thresholds_fits_the_codes(binning):
    values = np.arange(70_000.0)
    binner = fit_binner(table_of(numbers(values)), binning=binning, n_thresholds=np.int64(65_000))
    codes = encode(binner, table_of(numbers([*values, math.nan])))[:, 0]
    assert len(binner.features[0].thresholds) == codes.max() - 1 == codes[-1] - 1
    assert (np.diff(codes.astype(int)) >= 0).all()


# ---------------------------------------------------------------- categories and booleans


def test_three_categories_have_an_indicator_each():
    binner = fit_binner(table_of(texts(["red", "blue", "green", "red"])))
    assert [f.category for f in binner.features] == ["blue", "green", "red"]
    assert binner.n_cuts.tolist() == [1, 1, 1]
    assert binner.feature_column.tolist() == [0, 0, 0]
    assert codes_of(binner, texts(["red", "blue", "pink", None])) == [
        [0, 0, 1],
        [1, 0, 0],
        [0, 0, 0],
        [0, 0, 0],
    ]


def test_two_categories_are_one_feature():
    binner = fit_binner(table_of(texts(["no", "yes"])))
    assert [(f.kind, f.category, f.n_cuts) for f in binner.features] == [("category", "yes", 1)]
    assert codes_of(binner, texts(["yes", "no", "maybe", None])) == [[1], [0], [0], [0]]


def test_one_category_is_a_constant_feature():
    binner = fit_binner(table_of(texts(["yes", "yes"])))
    assert [(f.category, f.n_cuts) for f in binner.features] == [("yes", 0)]
    assert codes_of(binner, texts(["yes", "no", None])) == [[0], [0], [0]]


def test_missing_categories_have_their_own_indicator():
    binner = fit_binner(table_of(texts(["yes", "no", None])))
    assert [(f.kind, f.category) for f in binner.features] == [
        ("category", "no"),
        ("category", "yes"),
        ("missing", None),
    ]
    assert codes_of(binner, texts(["yes", None, "new"])) == [[0, 1, 0], [0, 0, 1], [0, 0, 0]]


def test_a_category_column_without_categories():
    binner = fit_binner(table_of(texts([None, None])))
    assert [(f.kind, f.n_cuts) for f in binner.features] == [("missing", 1)]
    assert codes_of(binner, texts([None, "x"])) == [[1], [0]]


@examples(60)
@given(category_lists, category_lists)
def test_indicators_mean_what_they_say(train, test):
    binner = fit_binner(table_of(texts(train)))
    codes = encode(binner, table_of(texts(test)))
    for place, feature in enumerate(binner.features):
        expected = [int(cell == feature.category) for cell in test]
        assert codes[:, place].tolist() == (expected if feature.n_cuts else [0] * len(test))


def test_identifiers_of_a_large_table_are_not_categories():
    names = [f"row {k}" for k in range(5000)]
    names[10:13] = ["common"] * 3  # three of 5000 are more than one in 2000
    binner = fit_binner(as_table([[name] for name in names]))
    assert binner.columns[0].categories == ("common",)
    only_rare = fit_binner(as_table([[f"row {k}"] for k in range(5000)]))
    assert only_rare.columns[0].categories == ("row 0",)


def test_only_the_most_frequent_categories_count():
    names = [f"{i:03d}" for i in range(MOST_INDICATORS + 30)]
    twice = names[MOST_INDICATORS + 10 :]
    binner = fit_binner(table_of(texts(names + twice)))
    kept = names[: MOST_INDICATORS - 20]
    assert [f.category for f in binner.features] == kept + twice
    assert not any(codes_of(binner, texts([names[MOST_INDICATORS]]))[0])
    weights = np.where(np.arange(len(names)) < MOST_INDICATORS + 10, 0.5, 0.25)
    weighted = fit_binner(table_of(texts(names)), sample_weight=weights)
    assert [f.category for f in weighted.features] == names[:MOST_INDICATORS]


def test_as_many_categories_as_count_all_count():
    names = [f"{i:03d}" for i in range(MOST_INDICATORS)]
    binner = fit_binner(table_of(texts(names + names[:1] * 100_000)))
    assert [f.category for f in binner.features] == names


def test_booleans():
    binner = fit_binner(as_table([[True, True, True], [False, None, True]]))
    assert [(f.kind, f.has_missing, f.n_cuts) for f in binner.features] == [
        ("boolean", False, 1),
        ("boolean", True, 1),
        ("boolean", False, 0),
    ]
    rows = [[True, False, False], [False, True, None], [None, None, True], [1, 0.0, 1]]
    assert encode(binner, as_table(rows)).tolist() == [[1, 0, 0], [0, 0, 1], [2, 1, 0], [1, 0, 0]]
    full = fit_binner(as_table([[True], [False], [None]]))
    assert full.n_cuts.tolist() == [2]


# ---------------------------------------------------------------- tables at prediction


FRAME = pd.DataFrame({"a": [1.0, 2.0, 4.0], "b": [True, False, True], "c": ["x", "y", "z"]})


def test_named_columns_are_matched_by_name():
    binner = fit_binner(as_table(FRAME))
    expected = encode(binner, as_table(FRAME))
    assert (encode(binner, as_table(FRAME[["c", "a", "b"]])) == expected).all()
    assert (encode(binner, as_table(FRAME.to_numpy())) == expected).all()
    wider = as_table(FRAME.assign(z=1))
    with pytest.raises(ValueError, match=r"training did not have: 'z'.*allow_extra"):
        encode(binner, wider)
    assert (encode(binner, wider, allow_extra=True) == expected).all()
    with pytest.raises(ValueError, match="lacks columns that training had: 'a', 'c'"):
        encode(binner, as_table(FRAME[["b"]]))


def test_at_most_five_columns_are_listed():
    binner = fit_binner(as_table(pd.DataFrame(np.eye(9), columns=list("abcdefghi"))))
    with pytest.raises(ValueError, match="'b', 'c', 'd', 'e', 'f' and 3 more"):
        encode(binner, as_table(pd.DataFrame({"a": [1]})))


@pytest.mark.parametrize("n_columns", [3, 5])
def test_unnamed_columns_are_counted(n_columns):
    binner = fit_binner(as_table(np.eye(4)))
    with pytest.raises(
        ValueError, match=f"X has {n_columns} features, but Binner is expecting 4 features as input"
    ):
        encode(binner, as_table(np.ones((2, n_columns))))


def test_numbers_that_come_as_text_are_read():
    binner = fit_binner(table_of(numbers([0, 4])), n_thresholds=3)
    assert codes_of(binner, texts(["1", " 2.5", None, ""], "x")) == [[0], [2], [4], [4]]
    with pytest.raises(ValueError, match=r"Column 'x' was a number in training.* holds 'old'"):
        encode(binner, table_of(texts(["1", "old", "new"], "x")))


def test_booleans_that_come_as_text_or_numbers_are_read():
    binner = fit_binner(as_table([[True], [False]]))
    assert encode(binner, as_table([["True"], ["false"], ["1"], [None]])).tolist() == [
        [1],
        [0],
        [1],
        [2],
    ]
    for bad in (2.0, "yes"):
        with pytest.raises(ValueError, match=f"'x0' was a boolean in training.* {bad!r}.*true or"):
            encode(binner, as_table([[1], [bad]]))


def test_categories_that_come_as_numbers_or_booleans_are_spelled_as_in_training():
    binner = fit_binner(table_of(texts(["1", "2.5", "030", "1.0", "x", "true"])))
    names = [feature.category for feature in binner.features]

    def found(column: Column) -> list[str | None]:
        rows = encode(binner, table_of(column))
        return [names[row.argmax()] if row.any() else None for row in rows]

    assert found(numbers([1.0, 2.5, 30, 7, math.nan], "c")) == ["1", "2.5", "030", None, None]
    assert found(Column("c", "boolean", np.array([1.0, 0.0]))) == ["true", None]


def test_pandas_categories_of_integers_match_plain_integers():
    frame = pd.DataFrame({"c": pd.Series([10, 20, 30], dtype="category")})
    binner = fit_binner(as_table(frame))
    expected = np.eye(3, dtype=int).tolist()
    assert encode(binner, as_table(frame)).tolist() == expected
    assert encode(binner, as_table(frame.astype("int64"))).tolist() == expected
    assert encode(binner, as_table(frame.astype("float64"))).tolist() == expected


@pytest.mark.parametrize("binning", BINNINGS)
def test_numpy_pandas_and_polars_give_the_same_codes(binning):
    polars = pytest.importorskip("polars")
    data = {
        "a": [0.5, None, 3.0, 7.25],
        "b": [True, False, None, True],
        "c": ["x", None, "y", "z"],
        "i": [1, 2, 3, 4],
    }
    rows = [list(row) for row in zip(*data.values(), strict=True)]
    sources = [rows, np.array(rows, dtype=object), pd.DataFrame(data), polars.DataFrame(data)]
    fits = [fit_binner(as_table(X), binning=binning, n_thresholds=5) for X in sources]
    reference = encode(fits[0], as_table(rows))
    for binner, X in itertools.product(fits, sources):
        assert (encode(binner, as_table(X)) == reference).all()


# ---------------------------------------------------------------- rules


def test_rules_in_words():
    plain = Feature(0, "petal length (cm)", "number", np.array([2.45]), None, False)
    assert rule(plain, 0) == ("petal length (cm) <= 2.45", "petal length (cm) > 2.45")
    bmi = Feature(0, "bmi", "number", np.array([3.0, 20.0]), None, True)
    assert rule(bmi, 0) == ("bmi <= 3", "bmi > 3 or missing")
    assert rule(bmi, 2) == ("bmi is present", "bmi is missing")
    table = as_table(pd.DataFrame({"ill": [True, False, None], "colour": ["red", "blue", None]}))
    ill, blue, _, unknown = fit_binner(table).features
    assert rule(ill, 0) == ("ill is false", "ill is true or missing")
    assert rule(ill, 1) == ("ill is present", "ill is missing")
    assert rule(blue, 0) == ("colour is not blue", "colour is blue")
    assert rule(unknown, 0) == ("colour is present", "colour is missing")
    for cut in (-1, 3):
        with pytest.raises(ValueError, match=f"'bmi' has 3 cuts; there is no cut {cut}"):
            rule(bmi, cut)


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (1 / 3, "0.333333"),
        (1234567.8, "1234570"),
        (-2.0, "-2"),
        (1e-7, "1e-07"),
        (1e300, "1e+300"),
        (-0.0, "0"),
    ],
)
def test_numbers_are_shown_with_six_digits(number, shown):
    assert rule(Feature(0, "x", "number", np.array([number]), None, False), 0)[0] == f"x <= {shown}"


@examples(60)
@given(st.lists(floats, min_size=1, max_size=20, unique_by=lambda x: x + 0.0))
def test_shown_thresholds_stay_apart(thresholds):
    ascending = np.sort(np.array(thresholds))
    feature = Feature(0, "x", "number", ascending, None, False)
    shown = [float(rule(feature, j)[0].removeprefix("x <= ")) for j in range(len(ascending))]
    assert all(one < next_one for one, next_one in itertools.pairwise(shown))


# ---------------------------------------------------------------- dict and back


@examples(60)
@given(mixed_tables, mixed_tables, binnings, counts)
def test_round_trip_through_json(rows, others, binning, n_thresholds):
    binner = fit_binner(mixed(rows), binning=binning, n_thresholds=n_thresholds)
    saved = json.loads(json.dumps(binner_to_dict(binner), allow_nan=False))
    again = binner_from_dict(saved)
    assert binner_to_dict(again) == binner_to_dict(binner)
    assert again.column_names == ("x", "b", "c")
    assert (encode(again, mixed(others)) == encode(binner, mixed(others))).all()


def test_round_trip_of_extreme_thresholds():
    binner = fit_binner(table_of(numbers([-HUGE, TINY, HUGE])), n_thresholds=5)
    binner_from_dict(binner_to_dict(binner))
    ends = {**binner_to_dict(binner)["columns"][0], "thresholds": [-HUGE, HUGE]}
    again = binner_from_dict({**binner_to_dict(binner), "columns": [ends]})
    assert again.features[0].thresholds.tolist() == [-HUGE, HUGE]


def test_a_binner_can_be_pickled_and_cannot_be_changed():
    binner = fit_binner(as_table(FRAME))
    again = pickle.loads(pickle.dumps(binner))
    assert binner_to_dict(again) == binner_to_dict(binner)
    with pytest.raises(AttributeError):
        binner.named = False


GOOD = binner_to_dict(fit_binner(as_table(FRAME.assign(d=1.0)), n_thresholds=3))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ((), None),
        ((), []),
        (("named",), 1),
        (("binning",), "other"),
        (("binning",), ["uniform"]),
        (("n_thresholds",), 0),
        (("n_thresholds",), 70_000),
        (("n_thresholds",), 3.0),
        (("n_thresholds",), True),
        (("n_thresholds",), 2),  # fewer than column a has
        (("columns",), []),
        (("columns",), {}),
        (("columns", 0), "a"),
        (("columns", 0, "name"), 3),
        (("columns", 0, "name"), "b"),
        (("columns", 0, "kind"), "datetime"),
        (("columns", 0, "kind"), "boolean"),
        (("columns", 0, "kind"), "category"),
        (("columns", 0, "thresholds"), [1.0, 1.0]),
        (("columns", 0, "thresholds"), [2.0, 1.0]),
        (("columns", 0, "thresholds"), [1.0, math.nan]),
        (("columns", 0, "thresholds"), [math.inf]),
        (("columns", 0, "thresholds"), [10**400]),
        (("columns", 0, "thresholds"), [2**60, 2**60 + 1]),
        (("columns", 0, "thresholds"), ["1"]),
        (("columns", 0, "thresholds"), [True]),
        (("columns", 0, "thresholds"), [[1.0]]),
        (("columns", 0, "thresholds"), "123"),
        (("columns", 0, "categories"), ["x"]),
        (("columns", 0, "has_missing"), 0),
        (("columns", 1, "thresholds"), [0.4]),
        (("columns", 2, "thresholds"), [0.5]),
        (("columns", 2, "categories"), []),
        (("columns", 2, "categories"), ["y", "x"]),
        (("columns", 2, "categories"), ["x", "x"]),
        (("columns", 2, "categories"), ["x", None]),
        (("columns", 2, "categories"), [["x"]]),
        (("columns", 2, "categories"), [f"{i:03d}" for i in range(255)]),
        (("columns", 2, "extra"), 1),
        (("extra",), 1),
    ],
)
def test_a_binner_from_a_bad_dict_is_refused(path, value):
    data = {"": copy.deepcopy(GOOD)}
    assert binner_from_dict(data[""]).n_thresholds == 3
    *way, last = ("", *path)
    place = data
    for step in way:
        place = place[step]
    place[last] = value
    with pytest.raises(
        ValueError, match=r"not a valid binner|must be|n_thresholds=\S+ is out of range"
    ):
        binner_from_dict(data[""])


@pytest.mark.parametrize("key", ["named", "binning", "n_thresholds", "columns"])
def test_a_binner_needs_all_its_fields(key):
    with pytest.raises(ValueError, match="not a valid binner"):
        binner_from_dict({name: value for name, value in GOOD.items() if name != key})


# ---------------------------------------------------------------- size


@pytest.mark.parametrize("n_columns", long_but([1000], [1000, 10_000]))
def test_thousands_of_columns_are_coded_as_each_alone(n_columns):
    X = np.random.default_rng(0).normal(size=(100, n_columns))
    table = as_table(X)
    codes = encode(fit_binner(table), table)
    assert codes.shape == (100, n_columns)
    for column in (0, 777, n_columns - 1):
        alone = as_table(X[:, [column]])
        np.testing.assert_array_equal(codes[:, [column]], encode(fit_binner(alone), alone))


def test_a_table_like_flights_has_few_features():
    rng, n = np.random.default_rng(0), 20_000
    levels = {"carrier": 16, "origin": 3, "dest": 105, "tailnum": 4000}
    table = as_table(
        pd.DataFrame(
            {
                name: np.array([f"{name} {k}" for k in range(n_levels)])[
                    rng.choice(n_levels, n, p=shares(n_levels))
                ]
                for name, n_levels in levels.items()
            }
        )
    )
    binner = fit_binner(table)
    count = np.bincount(binner.feature_column).tolist()
    assert count == [16, 3, MOST_INDICATORS, MOST_INDICATORS]
    assert encode(binner, table).shape == (n, sum(count))


def shares(n_levels):
    frequency = 1 / np.arange(1, n_levels + 1)
    return frequency / frequency.sum()
