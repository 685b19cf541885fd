"""Anomaly detection: the background in closed form, the score, and the scikit-learn face."""

import itertools
import time

import numpy as np
import pandas as pd
import polars as pl
import pytest
from clocks import endless_grace
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as student
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from thoroughness import examples

import dtgfn
from dtgfn import DTGFNAnomalyDetector
from dtgfn.anomaly.background import (
    BACKGROUND,
    MAX_CELLS,
    NORMAL,
    background_shares,
    choose_views,
    fit_background,
    locate_cells,
    view_rows,
)
from dtgfn.anomaly.density import spacing
from dtgfn.data.tables import as_table, take
from dtgfn.diagnostics import UntrustworthyFit
from dtgfn.engines.smc import engine as smc
from dtgfn.trees.batch import from_splits, route

QUICK = {
    "n_trees": 12,
    "n_thresholds": 7,
    "max_depth": 3,
    "random_state": 0,
    "n_jobs": 1,
    "options": {"n_particles": 30, "n_sweeps": 1},
}


def mixed_rows(n=60, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "size": np.where(rng.random(n) < 0.2, np.nan, rng.normal(5, 2, n)),
            "colour": rng.choice(["red", "green", "blue"], n),
            "shop": "north",
            "sold": rng.random(n) < 0.7,
            "year": 2024.0,
        }
    )


@parametrize_with_checks([DTGFNAnomalyDetector(**QUICK)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::dtgfn.diagnostics.UntrustworthyFit")
@parametrize_with_checks(
    [
        DTGFNAnomalyDetector(**{**QUICK, "inference": "exact", "max_depth": 2, "options": {}}),
        DTGFNAnomalyDetector(**{**QUICK, "inference": "mcmc", "options": {"n_steps": 500}}),
    ]
)
def test_scikit_learn_checks_of_every_engine(estimator, check):
    check(estimator)


def test_cells_of_a_number_have_equal_background_mass():
    rows = np.random.default_rng(1).normal(3, 5, size=(100, 1))
    background = fit_background(as_table(rows), 9, np.ones(100))
    thresholds = background.binner.features[0].thresholds
    mass = np.diff(student.cdf((thresholds - rows.mean()) / (2 * rows.std()), 3), append=1.0)
    assert np.allclose(mass, 0.1)
    assert background.n_cells[0] == 11  # ten, and one for missing


def test_every_row_falls_into_a_cell_of_each_column():
    table = as_table(mixed_rows())
    background = fit_background(table, 7, np.ones(60))
    odd = as_table(
        pd.DataFrame(
            {
                "size": [1e300, np.nan, -3.0],
                "colour": ["pink", None, "red"],
                "shop": ["south", None, "north"],
                "sold": [None, True, False],
                "year": [1999.0, np.nan, 2024.0],
            }
        )
    )
    for rows in (table, odd):
        cells, log_density = locate_cells(background, rows)
        assert np.isfinite(log_density).all()
        assert (cells < background.n_cells).all()
    known, unseen = locate_cells(background, table)[0], locate_cells(background, odd)[0]
    assert unseen[0, [1, 2]].tolist() == [0, 0]  # no category of training
    assert known[:, [1, 2]].min() > 0
    assert not np.isin(unseen[0, 4], known[:, 4])  # 1999 is not 2024


def test_frequent_categories_come_last():
    background = fit_background(
        as_table([["b"], ["b"], ["a"], [None], [None], [None]]), 3, np.ones(6)
    )
    cells, _ = locate_cells(background, as_table([["new"], ["a"], ["b"], [None]]))
    assert cells.ravel().tolist() == [0, 1, 2, 3]


def test_shares_of_the_background_are_those_of_all_cells():
    background = fit_background(as_table(mixed_rows()), 4, np.ones(60))
    view = (0, 1, 3)
    trees = from_splits(
        [
            {(): (0, 2), (0,): (1, 0), (1,): (2, 1), (1, 0): (0, 4), (1, 0, 1): (1, 2)},
            {(): (1, 3), (0,): (2, 0), (0, 0): (1, 1)},
        ]
    )
    every = itertools.product(*(range(background.n_cells[column]) for column in view))
    leaves = route(trees, np.array(list(every), dtype=np.uint16))
    counted = np.array([np.bincount(leaf, minlength=11) for leaf in leaves]) / leaves.shape[1]
    shares = background_shares(background, view, trees)
    reached = counted > 0
    assert np.allclose(shares[reached], counted[reached])
    assert shares[:, 0] == pytest.approx(1.0)


@pytest.mark.parametrize("n_thresholds", [7, 99])
def test_background_rows_weigh_as_much_as_normal_ones(n_thresholds):
    rows = np.random.default_rng(2).normal(size=(50, 3))
    weight = np.random.default_rng(3).uniform(0.5, 2, 50)
    background = fit_background(as_table(rows), n_thresholds, weight)
    codes, _ = locate_cells(background, as_table(rows))
    found = view_rows(background, (0, 2), codes, weight, np.random.default_rng(0))
    assert (found.codes[-50:] == codes[:, [0, 2]]).all()
    both = [found.weight[found.target == kind].sum() for kind in (BACKGROUND, NORMAL)]
    assert both[0] == pytest.approx(both[1])
    assert len(found.weight) - 50 == min((n_thresholds + 2) ** 2, MAX_CELLS)
    for column in range(2):  # every cell of a column has its share
        counts = np.bincount(found.codes[:-50, column], minlength=n_thresholds + 2)
        assert counts.max() - counts.min() <= 4


@examples(40)
@given(st.integers(1, 9), st.integers(1, 4), st.integers(1, 20), st.integers(0, 99))
def test_views_are_distinct_and_cover_columns_evenly(n_columns, per_view, n_views, seed):
    per_view = min(per_view, n_columns)
    views = choose_views(n_columns, per_view, n_views, np.random.default_rng(seed))
    assert len(set(views)) == len(views) <= n_views
    assert all(list(view) == sorted(set(view)) and len(view) == per_view for view in views)
    if n_columns * n_columns > 4 * n_views * per_view:  # no view has come twice, or hardly
        counts = np.bincount(np.concatenate(views), minlength=n_columns)
        assert counts.max() - counts.min() <= 2


def plain_spacing(model, row, rows, without=None):
    """Obvious twin: count rows and cells in each leaf, one row and one tree at a time."""
    background, total = model.background_, 0.0
    cells, _ = locate_cells(background, rows)
    own, log_density = locate_cells(background, row)
    for view in model.views_:
        columns = list(view.columns)
        every = itertools.product(*(range(background.n_cells[column]) for column in columns))
        grid = np.array(list(every), dtype=np.uint16)
        side = 0.0
        for weight, b in zip(view.weights, range(len(view.trees)), strict=True):
            tree = view.trees[b : b + 1]
            leaf = route(tree, own[:, columns])[0, 0]
            inside = route(tree, cells[:, columns])[0] == leaf
            n = inside.sum() if without is None else np.delete(inside, without).sum()
            mass = len(cells) * (route(tree, grid)[0] == leaf).mean()
            density = (n + 0.5) / (mass + 0.5) * np.exp(log_density[0, columns].sum())
            side += weight * density ** (-1 / len(columns))
        total += np.sqrt(side)
    return (total / len(model.views_)) ** 2


def test_scores_and_the_two_std_rule_are_what_they_are_said_to_be():
    frame = mixed_rows(40)
    table = as_table(frame)
    model = DTGFNAnomalyDetector(**QUICK).fit(frame)
    scores = model.score_samples(frame)
    rows = [take(table, [i]) for i in range(len(frame))]
    wanted = [-plain_spacing(model, row, table) for row in rows]
    assert np.allclose(scores, wanted)
    left_out = np.array([-plain_spacing(model, row, table, i) for i, row in enumerate(rows)])
    assert model.offset_ == pytest.approx(left_out.mean() - 2 * left_out.std())
    assert ((model.predict(frame) == -1) == (scores < model.offset_)).all()


def test_contamination_is_the_share_of_training_rows_called_anomalies():
    rows = np.random.default_rng(0).normal(size=(200, 3))
    for share in (0.05, 0.5):
        model = DTGFNAnomalyDetector(contamination=share, **QUICK)
        assert (model.fit_predict(rows) == -1).mean() == pytest.approx(share, abs=0.006)
        weighted = model.fit(rows, sample_weight=np.full(200, 2.0)).predict(rows)
        assert (weighted == -1).mean() == pytest.approx(share, abs=0.02)


def test_what_was_never_seen_is_an_anomaly():
    frame = mixed_rows(300)
    model = DTGFNAnomalyDetector(**{**QUICK, "n_trees": 40}).fit(frame)
    usual = frame.iloc[[0]].assign(size=5.0)
    changes = {
        "size": 60.0,
        "colour": "pink",
        "shop": "south",
        "year": 1999.0,
    }
    assert model.predict(usual) == [1]
    for name, value in changes.items():
        assert model.predict(usual.assign(**{name: value})) == [-1], name
    # Missing is usual in one column only.
    assert model.predict(usual.assign(size=np.nan)) == [1]
    assert model.predict(usual.assign(shop=None)) == [-1]


def test_the_farther_out_the_lower_the_score():
    rows = np.random.default_rng(0).normal(size=(150, 2))
    model = DTGFNAnomalyDetector(**QUICK).fit(rows)
    far = model.score_samples([[4.0, 0.0], [10.0, 0.0], [1e3, 0.0], [1e6, 0.0], [1e300, 0.0]])
    assert np.isfinite(far).all()
    assert (np.diff(far[:4]) < 0).all()


def test_a_broken_dependence_between_two_columns_is_seen():
    rng = np.random.default_rng(0)
    first = rng.normal(size=400)
    rows = np.column_stack([first, first + 0.1 * rng.normal(size=400), rng.normal(size=400)])
    model = DTGFNAnomalyDetector(n_trees=30, n_jobs=1, random_state=0).fit(rows)
    assert model.predict([[1.5, -1.5, 0.0], [1.5, 1.5, 0.0]]).tolist() == [-1, 1]


def test_weights_stand_for_repeated_rows():
    rows = np.random.default_rng(0).normal(size=(60, 3))
    weight = np.random.default_rng(1).integers(0, 3, 60)
    new = np.random.default_rng(2).normal(size=(20, 3)) * 2
    once = DTGFNAnomalyDetector(**QUICK).fit(rows, sample_weight=weight)
    often = DTGFNAnomalyDetector(**QUICK).fit(np.repeat(rows, weight, axis=0))
    assert np.allclose(once.score_samples(new), often.score_samples(new))
    assert once.offset_ == pytest.approx(often.offset_)


@pytest.mark.parametrize(
    ("inference", "options"),
    [("exact", {}), ("mcmc", {"n_chains": 1, "n_steps": 200}), ("gfn", {"n_steps": 2})],
)
def test_every_engine_serves(inference, options):
    rows = np.random.default_rng(0).normal(size=(80, 2))
    chosen = {**QUICK, "inference": inference, "options": options, "max_depth": 2}
    model = DTGFNAnomalyDetector(**chosen).fit(rows)
    assert model.predict([[0.0, 0.0], [9.0, 9.0]]).tolist() == [1, -1]


def test_one_tree_is_the_best_tree_over_all_columns():
    rows = np.random.default_rng(0).normal(size=(80, 3))
    model = DTGFNAnomalyDetector(**{**QUICK, "n_trees": 1}).fit(rows)
    assert [view.columns for view in model.views_] == [(0, 1, 2)]
    assert len(model.views_[0].trees) == 1
    two = DTGFNAnomalyDetector(**{**QUICK, "n_trees": 1, "columns_per_tree": 2}).fit(rows)
    assert len(two.views_[0].columns) == 2


def test_frames_are_welcome_and_names_are_kept():
    frame = mixed_rows()
    model = DTGFNAnomalyDetector(**QUICK).fit(frame)
    assert model.feature_names_in_.tolist() == list(frame.columns)
    same = DTGFNAnomalyDetector(**QUICK).fit(pl.from_pandas(frame, nan_to_null=True))
    assert np.allclose(model.score_samples(frame), same.score_samples(frame))
    swapped = frame[frame.columns[::-1]]
    with pytest.raises(ValueError, match="feature names"):
        model.predict(swapped)


def test_it_works_at_the_end_of_a_pipeline():
    rows = np.random.default_rng(0).normal(size=(80, 2)) * [1, 1000]
    model = make_pipeline(StandardScaler(), DTGFNAnomalyDetector(**QUICK)).fit(rows)
    alone = DTGFNAnomalyDetector(**QUICK).fit(rows)
    assert np.allclose(model.score_samples(rows), alone.score_samples(rows))


@pytest.mark.parametrize(
    ("rows", "other"),
    [([[1.0, "a"]], [[2.0, "b"]]), ([[np.nan], [np.nan]], [[5.0]]), ([[1e308], [-1e308]], [["x"]])],
)
def test_small_and_strange_tables_are_fitted(rows, other):
    model = DTGFNAnomalyDetector(**QUICK).fit(rows)
    codes, log_density = locate_cells(model.background_, as_table(rows))
    assert np.isfinite(spacing(model.views_, codes, log_density)).all()
    assert (model.predict(rows) == 1).all()
    if other != [["x"]]:
        assert model.score_samples(other)[0] < model.score_samples(rows).min()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"contamination": 0.6}, "contamination=0.6 is not a rule"),
        ({"contamination": "auto"}, "give 'two-std'"),
        ({"inference": "vi"}, "inference='vi' is not known"),
        ({"columns_per_tree": 0}, "columns_per_tree=0 is out of range"),
        ({"n_trees": 0}, "n_trees=0 is out of range"),
        ({"options": {"n_chains": 3}}, "'n_chains' is not an option of engine 'smc'"),
    ],
)
def test_bad_settings_are_named(settings, words):
    with pytest.raises(ValueError, match=words):
        DTGFNAnomalyDetector(**{**QUICK, **settings}).fit([[1.0], [2.0]])


def test_rows_without_any_weight_are_refused():
    with pytest.raises(ValueError, match="at least one"):
        DTGFNAnomalyDetector(**QUICK).fit([[1.0], [2.0]], sample_weight=[0, 0])


@pytest.mark.parametrize("n_trees", [1, 20])
def test_a_saved_detector_judges_the_same(tmp_path, n_trees):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "size": rng.normal(size=80),
            "colour": rng.choice(["red", "blue"], 80).astype(object),
            "same": np.ones(80),
            "kind": np.full(80, "only", dtype=object),
        }
    )
    X.loc[3, "size"] = np.nan
    model = DTGFNAnomalyDetector(n_trees=n_trees, n_thresholds=7, random_state=0).fit(X)
    dtgfn.save(model, tmp_path / "detector.dtgfn")
    back = dtgfn.load(tmp_path / "detector.dtgfn")
    np.testing.assert_array_equal(back.score_samples(X), model.score_samples(X))
    np.testing.assert_array_equal(back.predict(X), model.predict(X))
    assert back.feature_names_in_.tolist() == list(X.columns)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"leaf_concentration": 0}, "leaf_concentration=0"),
        ({"leaf_concentration": "a"}, "leaf_concentration='a'"),
        ({"time_budget": -1}, "time_budget=-1"),
        ({"time_budget": "a"}, "time_budget='a'"),
    ],
)
def test_parameters_out_of_range_are_refused(changes, said):
    with pytest.raises(ValueError, match=said):
        DTGFNAnomalyDetector(**changes).fit([[1.0], [2.0]])


def test_parameters_set_after_a_fit_do_not_change_its_scores():
    X = np.random.default_rng(0).normal(size=(50, 2))
    model = DTGFNAnomalyDetector(n_trees=5, random_state=0).fit(X)
    before = model.score_samples(X)
    model.set_params(leaf_concentration=50.0)
    np.testing.assert_array_equal(model.score_samples(X), before)


def test_views_that_time_left_out_are_told(monkeypatch):
    endless_grace(monkeypatch, smc)
    X = np.random.default_rng(0).normal(size=(50, 4))
    with pytest.warns(UntrustworthyFit, match=r"was over after 1 of 6 views"):
        model = DTGFNAnomalyDetector(n_trees=12, time_budget=1e-9, random_state=0).fit(X)
    assert len(model.views_) == 1


def test_compiling_does_not_count_against_the_budget(monkeypatch):
    """The first call of the engine takes longer than the whole budget, as on a first run."""
    budget, infer, called, clock = 1e6, smc.infer_smc, [], time.monotonic
    slept = 0.0

    def compiled_first(rows, score, run, options):
        nonlocal slept
        slept = budget  # from the first call on
        called.append(run.time_budget)
        return infer(rows, score, run, options)

    X = np.random.default_rng(0).normal(size=(30, 3))
    monkeypatch.setattr(smc, "infer_smc", compiled_first)
    monkeypatch.setattr(time, "monotonic", lambda: clock() + slept)
    model = DTGFNAnomalyDetector(n_trees=3, time_budget=budget, random_state=0, n_jobs=1).fit(X)
    assert len(model.views_) == 3
    called = called[1:]  # the first one, on two rows, compiles
    assert len(called) == 3
    # Had compiling been counted, nothing would have been left.
    assert all(0.01 * budget < seconds < budget for seconds in called)
