"""The exact engine refuses politely, stops in time and leaves nothing running."""

from __future__ import annotations

import re
import threading
import time

import numpy as np
import pytest
from clocks import Ticking, tick
from keyword_engines import infer_exact
from sklearn import datasets

from dtgfn.data.binning import encode, fit_binner
from dtgfn.data.tables import as_table
from dtgfn.engines.contract import BudgetExceeded
from dtgfn.engines.exact import budget as cost
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.trees.leaf_models import DirichletLeaf
from dtgfn.trees.score import Rows, make_score


def infer(name: str, n_thresholds: int, max_depth: int, prior="paper", **options) -> TreePosterior:
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    table = as_table(X)
    codes = encode(fit_binner(table, binning="uniform", n_thresholds=n_thresholds), table)
    n_features = codes.shape[1]
    return infer_exact(
        Rows(codes, y.astype(np.int32), np.ones(len(y))),
        make_score(
            DirichletLeaf(int(y.max()) + 1),
            n_features=n_features,
            n_thresholds=n_thresholds,
            max_depth=max_depth,
            split_penalty=prior,
        ),
        column=np.arange(n_features, dtype=np.int32),
        n_columns=n_features,
        n_trees=5,
        random_state=0,
        **options,
    )


@pytest.fixture(scope="module", autouse=True)
def _compiled():
    """Compile before anything is timed: both ways of summing, with a graph above them."""
    infer("iris", 3, 3)
    infer("iris", 3, 3, prior="bcart")


def wait_for_threads(at_most: int) -> int:
    deadline = time.monotonic() + 60.0
    while threading.active_count() > at_most and time.monotonic() < deadline:
        time.sleep(0.01)
    return threading.active_count()


@pytest.mark.parametrize("seconds", [0.001, 0.05])
def test_what_clearly_needs_more_time_is_refused_before_it_starts(seconds, monkeypatch):
    monkeypatch.setattr(time, "thread_time", Ticking(1.0))  # which times a sample of the work
    stages = []
    with pytest.raises(BudgetExceeded) as refusal:
        infer("iris", 99, 5, time_budget=seconds, progress=lambda stage, _: stages.append(stage))
    assert f"time_budget={seconds:g} s" in str(refusal.value)
    assert "GFlowNet" in str(refusal.value)
    assert "summing over trees" not in stages


@pytest.mark.parametrize(
    ("name", "n_thresholds", "max_depth", "prior"),
    [("breast_cancer", 99, 4, "paper"), ("wine", 99, 3, "bcart")],
)
def test_what_runs_out_of_time_is_stopped(name, n_thresholds, max_depth, prior, monkeypatch):
    monkeypatch.setattr(cost, "CLEAR_EXCESS", np.inf)
    before = threading.active_count()
    with pytest.raises(BudgetExceeded) as stop:
        infer(name, n_thresholds, max_depth, prior=prior, time_budget=0.3)
    ended = r"did not finish within time_budget=0.3 s \(\d+% of '[a-z ]+'"
    foreseen = r"would need about .*, as \d+% of '[a-z ]+' have shown, more than time_budget=0.3 s"
    assert re.search(f"{ended}|{foreseen}", str(stop.value))
    assert "GFlowNet" in str(stop.value)
    assert "\n" not in str(stop.value)
    assert wait_for_threads(before) <= before


@pytest.mark.parametrize("prior", ["paper", "bcart"])
def test_what_needs_more_memory_is_refused_before_it_is_taken(prior):
    with pytest.raises(BudgetExceeded) as refusal:
        infer("iris", 99, 4, prior=prior, memory_budget=1000)
    assert re.search(r"need.* [MG]B.*, but only 0 MB may be used", str(refusal.value))
    assert "GFlowNet" in str(refusal.value)


def test_the_scratch_of_the_two_level_sum_counts_as_memory():
    n_rows = 3000  # distinct codes: the joint histogram of two features alone takes 36 MB
    rng = np.random.default_rng(0)
    codes = np.stack([rng.permutation(n_rows), rng.permutation(n_rows)], axis=1)
    rows = Rows(codes.astype(np.uint16), np.zeros(n_rows, np.int32), np.ones(n_rows))
    score = make_score(DirichletLeaf(1), n_features=2, n_thresholds=n_rows, max_depth=2)
    columns = np.arange(2, dtype=np.int32)
    with pytest.raises(BudgetExceeded):
        infer_exact(rows, score, column=columns, n_columns=2, memory_budget=5_000_000)


@pytest.mark.parametrize("prior", ["paper", "bcart"])
def test_a_hopeless_problem_is_refused_before_it_starts(prior):
    stages = []
    with pytest.raises(BudgetExceeded, match="GFlowNet") as refusal:
        infer("breast_cancer", 99, 5, prior=prior, progress=lambda stage, _: stages.append(stage))
    assert set(stages) == {"preparing (the first run compiles)"}
    assert re.search(r"about \S+ sub-problems, .* and .* GB", str(refusal.value))


def test_no_time_budget_is_no_limit(monkeypatch):
    expected = infer("iris", 9, 4, time_budget=300.0).log_evidence
    tick(monkeypatch, 1e6)
    assert infer("iris", 9, 4, time_budget=None).log_evidence == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("prior", ["paper", "bcart"])
def test_progress_goes_from_nothing_to_all_of_every_stage(prior):
    seen: dict[str, list[float]] = {}

    def note(stage: str, share: float) -> None:
        seen.setdefault(stage, []).append(share)

    infer("iris", 19, 4, prior=prior, progress=note)
    assert {"finding row sets", "summing over trees"} <= set(seen)
    for shares in seen.values():
        assert all(0 <= share <= 1 for share in shares)
        assert shares[-1] == 1


@pytest.mark.parametrize("stage", ["finding row sets", "summing over trees"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_an_interrupt_gets_out_and_no_thread_works_on(stage, error):
    def interrupt(name: str, share: float) -> None:
        if name == stage:
            raise error

    before = threading.active_count()
    with pytest.raises(error):
        infer("wine", 99, 3, progress=interrupt)
    assert wait_for_threads(before) <= before


def test_the_budget_holds_where_the_root_is_all_there_is():
    rng = np.random.default_rng(0)
    n_features = 600
    codes = rng.integers(0, 30, (100, n_features)).astype(np.uint16)
    rows = Rows(codes, rng.integers(0, 2, 100).astype(np.int32), np.ones(100))
    score = make_score(DirichletLeaf(2), n_features=n_features, n_thresholds=30, max_depth=2)
    columns = np.arange(n_features, dtype=np.int32)
    with pytest.raises(BudgetExceeded, match=r"far more than time_budget=0\.05 s"):
        infer_exact(rows, score, column=columns, n_columns=n_features, time_budget=0.05)


def test_deep_problems_with_few_sets_are_not_refused():
    deep, shallow = infer("iris", 9, 8, time_budget=None), infer("iris", 9, 4)
    assert deep.log_evidence > shallow.log_evidence  # a sum over more trees
    assert deep.best_log_mass >= shallow.best_log_mass
    assert infer("iris", 9, 8).log_evidence == pytest.approx(deep.log_evidence, rel=1e-12)
