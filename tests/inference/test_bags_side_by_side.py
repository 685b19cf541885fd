"""Bags on several threads: the same trees, an end in time, and Ctrl-C is heard."""

import os
import signal
import threading
import time

import numpy as np
import pytest

from dtgfn import BudgetExceeded, DTGFNClassifier, DTGFNRegressor
from dtgfn.engines import Run, find_engine
from dtgfn.engines.smc.engine import SmcEngine, SmcOptions
from dtgfn.inference import bagging, resampling
from dtgfn.inference.bagging import infer_bagged, out_of_bag
from dtgfn.inference.resampling import BagOptions
from dtgfn.trees.leaf_models import DirichletLeaf
from dtgfn.trees.score import Rows, make_score

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 4))
Y = X[:, 0] + 0.5 * RNG.normal(size=80)
SMALL = {"n_trees": 33, "n_thresholds": 7, "max_depth": 3, "random_state": 0}
OPTIONS = {
    "smc": {"n_particles": 20, "n_sweeps": 1},
    "mcmc": {"n_chains": 1, "n_steps": 300},
    "exact": {},
}


def test_bags_of_a_long_table_draw_their_rows_when_they_begin(monkeypatch):
    monkeypatch.setattr(resampling, "MOST_AHEAD", 0)
    given = {"inference": "exact", "ensemble": "bags", "options": {"n_bags": 7}}
    one, four = (
        DTGFNClassifier(n_jobs=n, time_budget=None, **given, **SMALL).fit(X, Y > 0).posterior_
        for n in (1, 4)
    )
    copies = one.solution.copies
    np.testing.assert_array_equal(copies, four.solution.copies)
    np.testing.assert_array_equal(one.trees.feature, four.trees.feature)
    assert copies.dtype == np.uint8
    assert (copies.sum(axis=1) == len(Y)).all()
    assert len({bag.tobytes() for bag in copies}) == 7
    assert out_of_bag(one).score == pytest.approx(one.diagnostics["out_of_bag_log_score"])


@pytest.mark.parametrize("engine", OPTIONS)
@pytest.mark.parametrize("kind", [DTGFNClassifier, DTGFNRegressor])
def test_the_number_of_threads_changes_nothing(engine, kind):
    y = (Y > 0).astype(int) if kind is DTGFNClassifier else Y
    options = {"n_bags": 7, **OPTIONS[engine]}
    given = {"inference": engine, "ensemble": "bags", "options": options, "time_budget": None}
    one, four = (kind(n_jobs=n, **given, **SMALL).fit(X, y).posterior_ for n in (1, 4))
    for name in ("feature", "cut", "left", "n_nodes"):
        np.testing.assert_array_equal(getattr(one.trees, name), getattr(four.trees, name))
    np.testing.assert_array_equal(one.log_reward, four.log_reward)
    np.testing.assert_array_equal(one.solution.copies, four.solution.copies)
    assert one.sharpness == four.sharpness
    score = "out_of_bag_log_score"
    assert one.diagnostics[score] == four.diagnostics[score]


class Watched(SmcEngine):
    """Particles, after something else is done for each bag."""

    def __init__(self, before) -> None:
        super().__init__()
        object.__setattr__(self, "before", before)

    def infer(self, rows, score, run, options):
        self.before(run)
        return super().infer(rows, score, run, options)


def bag(before, n_bags=8, n_jobs=2, time_budget=None):
    codes = RNG.integers(0, 5, (40, 4)).astype(np.uint16)
    rows = Rows(codes, (codes[:, 0] > 2).astype(np.int32), np.ones(40))
    score = make_score(DirichletLeaf(2), n_features=4, n_thresholds=4, max_depth=2)
    run = Run(
        column=np.arange(4, dtype=np.int32),
        n_columns=4,
        n_trees=16,
        random_state=0,
        n_jobs=n_jobs,
        time_budget=time_budget,
    )
    return infer_bagged(Watched(before), rows, score, run, SmcOptions(9, 1), BagOptions(n_bags))


def test_bags_run_side_by_side_on_one_thread_each():
    both = threading.Barrier(2, timeout=60)  # passed only by two at once
    jobs = []

    def meet(run):
        jobs.append(run.n_jobs)
        both.wait()

    assert bag(meet).n_bags == 8
    assert jobs == [1] * 8


def test_engines_that_need_the_process_run_one_by_one():
    assert not find_engine("gfn").side_by_side
    assert not find_engine("exact").side_by_side


def test_an_interrupt_ends_all_bags():
    begun = []

    def wait(run):
        begun.append(run.random_state)
        if len(begun) == 2:
            os.kill(os.getpid(), signal.SIGINT)  # as Ctrl-C does
        for _ in range(6000):
            time.sleep(0.01)
            run.progress("waiting", None)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background
    try:
        with pytest.raises(KeyboardInterrupt):
            bag(wait)
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(begun) == 2


def test_a_bag_that_gives_up_is_left_out_and_the_others_stay():
    lock, calls = threading.Lock(), []

    def fail_third(run):
        with lock:
            calls.append(run.random_state)
            third = len(calls) == 3
        if third:
            raise BudgetExceeded("There was no time.")

    found = bag(fail_third)
    told = found.diagnostics
    assert 2 <= told["bags"] < 8
    assert told["bags"] + told["bags_left_out"] == 8
    assert len(found.trees) == 16
    assert told["out_of_bag_log_score"] == pytest.approx(out_of_bag(found).score)


@pytest.mark.parametrize("n_done", [2, 3, 5, 7])
def test_trees_repeated_for_bags_left_out_are_heard_once(n_done):
    begun = []

    def fail_then(run):
        begun.append(run.random_state)
        if len(begun) > n_done:
            raise BudgetExceeded("There was no time.")

    found = bag(fail_then, n_jobs=1)
    assert found.diagnostics["bags"] == n_done
    assert found.diagnostics["out_of_bag_log_score"] == pytest.approx(out_of_bag(found).score)


def test_if_a_share_is_too_short_for_the_first_bag_it_gets_all_of_the_time():
    asked = []

    def only_with_time(run):
        asked.append(run.time_budget)
        if run.time_budget < 10:
            raise BudgetExceeded("There was no time.")

    found = bag(only_with_time, time_budget=40.0, n_jobs=1)
    assert found.diagnostics["bags"] >= 1
    assert asked[0] < 10 <= asked[1] <= 40


def test_no_bag_at_all_is_the_engines_own_sentence():
    def fail(run):
        raise BudgetExceeded("There was no time.")

    with pytest.raises(BudgetExceeded, match="There was no time"):
        bag(fail)


def test_any_other_error_is_told():
    def fail(run):
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        bag(fail)


class Clock:
    """A clock that only tests move."""

    now = 0.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(bagging, "clock", made)
    return made


def test_bags_get_the_time_that_their_threads_have(clock):
    """Two threads, eight bags, eight seconds: two for each while they share, and not one."""
    sharing = bagging.Sharing(8.0, 8, 2)
    assert sharing.seconds(0) == 2.0
    clock.now = 6.0
    assert sharing.seconds(6) == sharing.seconds(7) == 2.0
    sharing.overhead = 0.5
    assert sharing.seconds(6) == 1.5
    assert not sharing.is_over
    clock.now = 7.6
    assert sharing.is_over
    assert bagging.Sharing(None, 8, 2).seconds(0) is None


def test_time_that_is_over_leaves_bags_out(clock):
    def slow(run):
        clock.now += 50.0

    found = bag(slow, n_bags=16, n_jobs=1, time_budget=120.0)
    # After two, 20 seconds are left, and a bag has taken 50 beside its engine.
    assert found.diagnostics["bags"] == found.n_bags == 2
    assert found.diagnostics["bags_left_out"] == 14
