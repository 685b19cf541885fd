"""Rows in any partitions: the same thresholds, trees and predictions as rows in one place."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from clusters import Here
from hypothesis import given, settings
from hypothesis import strategies as st

from dtgfn import DTGFNClassifier, DTGFNRegressor, leave_one_out
from dtgfn.dask import DaskDTGFNClassifier, DaskDTGFNRegressor, fitting
from dtgfn.dask import estimators as dask_estimators
from dtgfn.dask.learning import learn
from dtgfn.dask.partitions import read_partitions
from dtgfn.dask.whole_numbers import exact_sum
from dtgfn.data.binning import fit_binner
from dtgfn.data.tables import as_table
from dtgfn.diagnostics import UntrustworthyFit
from dtgfn.trees.batch import node_sums
from dtgfn.trees.leaf_models import DirichletLeaf, NormalLeaf
from dtgfn.trees.score import log_reward

pytestmark = pytest.mark.filterwarnings("ignore::dtgfn.diagnostics.UntrustworthyFit")

N = 300
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "size": np.where(RNG.random(N) < 0.1, np.nan, RNG.normal(size=N)),
        "count": RNG.integers(0, 5, N),
        "colour": RNG.choice(["red", "green", "blue", None], N),
        "open": RNG.random(N) < 0.4,
    }
)
LABELS = pd.Series(
    np.where(FRAME["colour"] == "red", "yes", np.where(FRAME["count"] > 2, "no", "?"))
)
NUMBERS = pd.Series(FRAME["size"].fillna(1.0) * FRAME["count"] + RNG.normal(size=N))
COPIES = pd.Series(RNG.integers(0, 4, N).astype(float))
SMALL = {"n_trees": 60, "max_depth": 3, "n_thresholds": 15, "random_state": 1}
OPTIONS = {"n_particles": 60, "n_sweeps": 3}


@pytest.fixture
def here(monkeypatch):
    """Estimators work in this process."""
    monkeypatch.setattr(dask_estimators, "find_client", lambda given: given)
    monkeypatch.setattr(dask_estimators, "Cluster", lambda client: Here())


def parts_of(collection, ends):
    """A collection cut at some rows; a partition may have none."""
    pieces = [collection.iloc[i:j] for i, j in zip([0, *ends], [*ends, N], strict=True)]
    return dd.from_map(lambda k: pieces[k], range(len(pieces)), meta=collection.iloc[:0])


def local(kind, y, weight=None, **changes):
    options = {**OPTIONS, "by_level": True}
    given = {"inference": "smc", "options": options, "time_budget": None, **SMALL, **changes}
    return kind(**given).fit(FRAME, y, weight)


def spread(kind, y, ends, weight=None, **changes):
    given = {"options": OPTIONS, **SMALL, **changes}
    weights = None if weight is None else parts_of(weight, ends)
    return kind(**given).fit(parts_of(FRAME, ends), parts_of(y, ends), weights)


def assert_same_trees(one, two):
    for name in ("feature", "cut", "left", "n_nodes"):
        np.testing.assert_array_equal(getattr(one.trees, name), getattr(two.trees, name))


CUTS = ([], [100, 200], [1, 7, 7, 250, 299])


@pytest.mark.parametrize("binning", ["uniform", "quantile"])
@pytest.mark.parametrize("weight", [None, COPIES], ids=["plain", "weighted"])
def test_classes_have_the_trees_of_one_machine_to_the_last_bit(here, binning, weight):
    alone = local(DTGFNClassifier, LABELS, weight, binning=binning)
    for ends in CUTS:
        model = spread(DaskDTGFNClassifier, LABELS, ends, weight, binning=binning)
        assert_same_trees(alone.posterior_, model.posterior_)
        np.testing.assert_array_equal(alone.posterior_.log_reward, model.posterior_.log_reward)
        assert model.log_evidence_ == alone.log_evidence_
        found = model.to_local().predict_proba(FRAME)
        np.testing.assert_allclose(found, alone.predict_proba(FRAME), rtol=1e-12)


def test_numbers_do_not_depend_on_the_partitions_to_the_last_bit(here):
    alone = local(DTGFNRegressor, NUMBERS)
    models = [spread(DaskDTGFNRegressor, NUMBERS, ends) for ends in CUTS]
    for model in models:
        assert_same_trees(models[0].posterior_, model.posterior_)
        assert model.log_evidence_ == models[0].log_evidence_
        found, wanted = (m.to_local().predict(FRAME) for m in (model, models[0]))
        np.testing.assert_array_equal(found, wanted)
    # One machine rounds its sums in the order of its rows, so it agrees up to that.
    assert_same_trees(alone.posterior_, models[0].posterior_)
    np.testing.assert_allclose(wanted, alone.predict(FRAME), rtol=1e-9)
    assert models[0].log_evidence_ == pytest.approx(alone.log_evidence_, rel=1e-9)


@pytest.mark.parametrize("kind", [DaskDTGFNClassifier, DaskDTGFNRegressor])
def test_weights_that_are_no_whole_numbers_do_not_depend_on_the_partitions(here, kind):
    weight = pd.Series(RNG.random(N) * 3)
    y = LABELS if kind is DaskDTGFNClassifier else NUMBERS
    one, two = (spread(kind, y, ends, weight).posterior_ for ends in CUTS[1:])
    assert_same_trees(one, two)
    assert one.log_evidence == two.log_evidence


def test_grouped_rows_tell_of_every_tree_what_all_rows_do(here):
    model, alone = spread(DaskDTGFNClassifier, LABELS, CUTS[1]), local(DTGFNClassifier, LABELS)
    few, every = model.posterior_, alone.posterior_.rows
    assert len(few.rows.target) < len(every.target)
    assert few.rows.weight.sum() == every.weight.sum()
    np.testing.assert_allclose(log_reward(few.trees, few.rows, few.score), few.log_reward)
    counts = (
        node_sums(few.trees, rows.codes, rows.target, rows.weight, few.score.leaf)[0]
        for rows in (few.rows, every)
    )
    np.testing.assert_array_equal(*counts)


def test_what_needs_single_rows_says_that_they_are_elsewhere(here):
    model = spread(DaskDTGFNClassifier, LABELS, CUTS[1])
    with pytest.raises(ValueError, match=r"Leaving one row out needs every training row"):
        leave_one_out(model.posterior_)
    with pytest.raises(ValueError, match=r"To let more rows join needs every training row"):
        model.to_local().partial_fit(FRAME, LABELS)


def test_one_round_trip_for_each_level_of_all_trees(here):
    for depth in (1, 2, 3):
        told = spread(DaskDTGFNClassifier, LABELS, CUTS[1], max_depth=depth).posterior_.diagnostics
        assert len(told["level_bytes"]) == depth
        assert told["round_trips"] == depth + 2  # one to learn, one to bring the rows back


def test_time_that_is_over_ends_the_trees_at_a_level(here):
    with pytest.warns(UntrustworthyFit, match=r"was over after 1 of max_depth=3 levels"):
        model = spread(DaskDTGFNClassifier, LABELS, CUTS[1], time_budget=1e-6)
    shallow = local(DTGFNClassifier, LABELS, max_depth=1)
    assert model.posterior_.score.max_depth == 1
    assert model.posterior_.trees.n_splits.max() == 1
    assert model.log_evidence_ == pytest.approx(shallow.log_evidence_, abs=0.5)


def test_trees_that_tell_too_many_groups_apart_are_fewer(here, monkeypatch):
    monkeypatch.setattr(fitting, "MOST_GROUPS", 25)
    monkeypatch.setattr(fitting.gather_rows, "__defaults__", (25,))
    with pytest.warns(UntrustworthyFit, match=r"n_trees=60 tell more than 25 groups"):
        posterior = spread(DaskDTGFNClassifier, LABELS, CUTS[1], temperature=2.0).posterior_
    assert len(posterior.rows.target) <= 2 * 25
    assert len(posterior.trees) < 60
    kept = log_reward(posterior.trees, posterior.rows, posterior.score)
    np.testing.assert_allclose(kept, posterior.log_reward)


@given(
    st.lists(st.integers(-3, 3) | st.floats(-1e300, 1e300), min_size=1, max_size=40),
    st.integers(0, 40),
    st.integers(1, 9),
    st.sampled_from(["uniform", "quantile"]),
    st.booleans(),
)
@settings(deadline=None, max_examples=25)
def test_thresholds_are_those_of_sorting_all_rows(values, cut, n_thresholds, binning, weighted):
    frame = pd.DataFrame({"x": np.array(values, dtype=float)})
    weight = pd.Series(np.arange(len(frame)) % 3 + 1.0) if weighted else None
    wanted = fit_binner(
        as_table(frame), binning=binning, n_thresholds=n_thresholds, sample_weight=weight
    )
    cut = min(cut, len(frame))
    columns = [frame, pd.Series(np.zeros(len(frame), int))] + ([weight] if weighted else [])
    spread_out = [
        dd.from_map(lambda k, c=c: (c.iloc[:cut], c.iloc[cut:])[k], [0, 1], meta=c.iloc[:0])
        for c in columns
    ]
    parts = read_partitions(*spread_out, *([] if weighted else [None]))
    learned = learn(Here(), parts, DirichletLeaf(1), binning, n_thresholds)
    found, sought = learned.binner.columns[0], wanted.columns[0]
    np.testing.assert_array_equal(found.thresholds, sought.thresholds)


def test_columns_are_learned_as_from_one_table(here):
    many = pd.Series(RNG.choice([f"town {k}" for k in range(280)], N))
    frame = FRAME.assign(town=many, nothing=np.nan)
    wanted = fit_binner(as_table(frame), n_thresholds=9)
    parts = read_partitions(parts_of(frame, [50]), parts_of(NUMBERS, [50]), None)
    found = learn(Here(), parts, NormalLeaf(), "uniform", 9).binner
    for ours, theirs in zip(found.columns, wanted.columns, strict=True):
        assert (ours.name, ours.kind, ours.categories) == (
            theirs.name,
            theirs.kind,
            theirs.categories,
        )
        assert ours.has_missing == theirs.has_missing
        np.testing.assert_array_equal(ours.thresholds, theirs.thresholds)


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=30), st.randoms())
@settings(max_examples=50)
def test_exact_sums_do_not_depend_on_the_order(values, random):
    shuffled = list(values)
    random.shuffle(shuffled)
    half = len(values) // 2
    parts = exact_sum(np.array(shuffled[:half])) + exact_sum(np.array(shuffled[half:]))
    assert exact_sum(np.array(values)) == parts
    assert abs(float(parts) - float(np.sum(values))) <= 1e-9 * float(np.abs(values).sum()) + 1e-300


# What cannot be used


def fit_parts(x_parts, y_parts):
    """Fit partitions as they are, whatever dask has been told of them."""
    meta_x, meta_y = x_parts[0].iloc[:0], y_parts[0].iloc[:0]
    X = dd.from_map(lambda k: x_parts[k], range(len(x_parts)), meta=meta_x)
    y = dd.from_map(lambda k: y_parts[k], range(len(y_parts)), meta=meta_y)
    return DaskDTGFNClassifier(options=OPTIONS, **SMALL).fit(X, y)


def test_partitions_that_do_not_fit_together_are_refused_in_one_sentence(here):
    one, two, y = FRAME[:150], FRAME[150:], [LABELS[:150], LABELS[150:]]
    for other, why in {
        "columns": (two[["count", "size", "colour", "open"]], r"Partition 1 has the columns"),
        "dtype": (two.assign(size="large"), r"'size' is a number in partition 0, but a category"),
        "rows": (two[:-1], r"Partition 1 has 149 rows in X but 150 in y; give both the same"),
        "infinity": (two.assign(size=np.inf), r"In partition 1: Column 'size' contains infinity"),
    }.values():
        with pytest.raises(ValueError, match=why):
            fit_parts([one, other], y)
    with pytest.raises(ValueError, match=r"y holds text in partition 0, but numbers in partition"):
        fit_parts([one, two], [y[0], pd.Series(np.arange(150) % 2)])


def test_an_empty_partition_and_a_category_of_one_partition_only_are_no_trouble(here):
    only = FRAME.assign(colour=np.where(np.arange(N) < 20, "violet", "red"))
    parts = [only[:20], only[:0], only[20:]]
    model = fit_parts(parts, [LABELS[:20], LABELS[:0], LABELS[20:]])
    assert "violet" in model.posterior_.binner.columns[2].categories
    assert len(model.predict_proba(parts_of(only, [0, 20])).compute(scheduler="sync")) == N


def test_a_table_without_rows_is_refused(here):
    with pytest.raises(ValueError, match=r"No partition of X has a row that counts"):
        fit_parts([FRAME[:0]], [LABELS[:0]])


def test_a_target_in_other_partitions_is_refused(here):
    X = dd.from_pandas(FRAME, npartitions=3)
    for y, why in (
        (dd.from_pandas(LABELS, npartitions=2), r"y has 2 partitions, but X has 3; give it those"),
        (dd.from_pandas(LABELS, npartitions=3).repartition(divisions=(0, 9, 99, 299)),
         r"y has the divisions 0, 9, 99, 299, but X has 0, 100, 200, 299"),
        (LABELS, r"y is a Series, not a dask Series or array"),
    ):  # fmt: skip
        with pytest.raises((TypeError, ValueError), match=why):
            DaskDTGFNClassifier().fit(X, y)
    with pytest.raises(
        ValueError, match=r"y has chunks of 30, 20 rows, but X of 25, 25; .*rechunk"
    ):
        DaskDTGFNClassifier().fit(da.ones((50, 2), chunks=(25, 2)), da.ones(50, chunks=30))


@pytest.mark.parametrize(
    ("parameters", "why"),
    [
        ({"binning": "midpoint"}, r"binning='midpoint' needs every distinct number"),
        ({"split_penalty": "bcart"}, r"split_penalty='bcart' asks whether both sides"),
        ({"split_penalty": "auto"}, r"split_penalty='auto' fits several times"),
        ({"options": {"n_bags": 3}}, r"n_bags"),
        ({"options": {"n_sweeps": None}}, r"n_sweeps=None runs until time_budget ends"),
        ({"max_depth": -1}, r"max_depth=-1 is out of range"),
    ],
)
def test_what_a_cluster_cannot_do_is_refused_in_one_sentence(here, parameters, why):
    with pytest.raises(ValueError, match=why):
        spread(DaskDTGFNClassifier, LABELS, [], **parameters)


def test_rows_in_memory_are_told_where_to_go():
    with pytest.raises(TypeError, match=r"X is a pandas DataFrame, not a dask DataFrame or array"):
        DaskDTGFNClassifier().fit(FRAME, LABELS)


def test_without_a_client_there_is_one_sentence():
    with pytest.raises(ValueError, match=r"There is no Dask client; start one"):
        DaskDTGFNClassifier().fit(parts_of(FRAME, []), parts_of(LABELS, []))
