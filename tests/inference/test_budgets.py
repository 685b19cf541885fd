"""Budgets are kept and no loop is deaf: by clocks that jump, and by counting who looks up when."""

from __future__ import annotations

import functools
import math
import os
import signal
import threading
import time
import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from clocks import Ticking, endless_grace
from enumeration import Case, Enumeration
from hypothesis import given
from hypothesis import strategies as st
from keyword_engines import infer_exact, infer_mcmc, infer_smc
from thoroughness import examples

import dtgfn
from dtgfn import BudgetExceeded, DTGFNAnomalyDetector, DTGFNClassifier, DTGFNRegressor, infer
from dtgfn._support import clock as of_budgets
from dtgfn._support.checks import check_run
from dtgfn._support.parallel import (
    GRACE,
    ChunkSize,
    Deadline,
    Interruptible,
    run_parallel,
    run_round_robin,
    run_serial,
)
from dtgfn._support.progress import silent
from dtgfn.data.binning import distinct_codes
from dtgfn.diagnostics import UntrustworthyFit
from dtgfn.engines.exact.budget import Budget
from dtgfn.engines.mcmc import engine as mcmc
from dtgfn.engines.smc import engine as smc
from dtgfn.engines.smc.row_nodes import RowNodes, make_workspace
from dtgfn.engines.smc.sweep import start_sweep
from dtgfn.inference.temperature import choose_temperature
from dtgfn.trees.node_terms import make_node_table
from dtgfn.trees.score import log_reward, merge_rows

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(80, 3)), RNG.integers(0, 2, 80)
CASE = Case(
    np.array([[0, 0, 2], [1, 0, 0], [2, 0, 5], [3, 0, 2], [0, 1, 5], [1, 1, 2], [2, 1, 0]]),
    np.array([0, 1, 0, 1, 1, 0, 2]),
    3,
    max_depth=2,
    leaf_concentration=0.7,
    split_penalty=1.0,
)


@dataclass
class Late(Deadline):
    """A deadline that has room for fewer items from the fifth time on that it is asked."""

    wanted: int = 7
    calls: int = 0

    def room(self, n_items, reserve):
        self.calls += 1
        return self.wanted if self.calls > 4 else n_items


def run(engine, case=CASE, **options):
    given_ = {"column": case.columns, "n_columns": case.n_columns, "random_state": 0, "n_jobs": 1}
    return engine(case.rows, case.score, **given_, **options)


# Pieces


@given(n=st.integers(0, 200), n_jobs=st.integers(1, 4), halting=st.booleans())
@examples(25)
def test_pieces_do_every_item_once_and_tell_how_far_they_are(n, n_jobs, halting):
    done, told, flag = np.zeros(n, int), [], np.zeros(1, np.uint8)

    def plain(first, last):
        done[first:last] += 1

    run_parallel(Interruptible(plain, flag) if halting else plain, n, n_jobs, told.append)
    run_serial(plain, n, told.append)
    assert (done == 2).all()
    assert not flag[0]
    assert all(0 <= share <= 1 for share in told)


def test_a_long_loop_is_halted_when_the_caller_gives_up():
    flag, begun = np.zeros(1, np.uint8), threading.Event()

    def deaf_but_for_the_flag(first, last):
        begun.set()
        while not flag[0]:
            time.sleep(0.001)

    def interrupt(share):
        begun.wait()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_parallel(Interruptible(deaf_but_for_the_flag, flag), 1, 1, interrupt)
    assert flag[0] == 1


@given(
    rows=st.lists(st.lists(st.integers(0, 65535) | st.integers(0, 1), min_size=3, max_size=3)),
    repeat=st.integers(1, 40),
)
@examples(60)
def test_distinct_rows_are_those_of_numpy(rows, repeat):
    codes = np.tile(np.array(rows, np.uint16).reshape(len(rows), 3), (1, repeat))
    first, member = distinct_codes(codes)
    if len(rows):
        _, wanted, who = np.unique(codes, axis=0, return_index=True, return_inverse=True)
        np.testing.assert_array_equal(first, wanted)
        np.testing.assert_array_equal(member, who.ravel())
    else:
        assert first.size == member.size == 0


def test_counting_rows_at_nodes_lets_signals_through(monkeypatch):
    """Python sees a signal between two pieces: there are many of them, none of all rows."""
    from dtgfn.trees import batch as trees

    seen = []

    def watched(work, n_items):
        def noted(first, last):
            seen.append(last - first)
            work(first, last)
            time.sleep(0.01)

        run_serial(noted, n_items)

    monkeypatch.setattr(trees, "run_serial", watched)
    codes = RNG.integers(0, 3, (5000, 1)).astype(np.uint16)
    batch = trees.from_splits([{(): (0, 1)}])
    case = Case(codes, np.zeros(5000, int), 1)
    sums, n_rows = trees.node_sums(batch, codes, case.rows.target, np.ones(5000), case.score.leaf)
    assert n_rows[0].tolist() == [5000, (codes <= 1).sum(), (codes > 1).sum()]
    assert sums[0, :, 0].tolist() == n_rows[0].tolist()
    assert sum(seen) == 5000
    assert max(seen) < 5000


# Deadlines


@given(
    seconds=st.floats(0.6, 1e4),
    n=st.integers(1, 10_000),
    reserve=st.floats(0, 1e4),
    shares=st.lists(st.floats(0, 2), min_size=2, max_size=6),
)
@examples(60)
def test_there_is_room_for_all_at_first_and_for_ever_fewer_later(seconds, n, reserve, shares):
    clock = Ticking(0.0)
    deadline = Deadline(seconds, clock)
    rooms = []
    for share in sorted(shares):
        clock.time = share * seconds
        rooms.append(deadline.room(n, reserve))
    assert rooms == sorted(rooms, reverse=True)
    assert all(1 <= room <= n for room in rooms)
    clock.time = 0.0
    assert deadline.room(n, 0.0) == n
    clock.time = seconds
    assert deadline.room(n, reserve) == 1
    assert Deadline(None).room(n, reserve) == n


@pytest.mark.parametrize("enough_after", [3, math.inf])
def test_tasks_end_when_time_is_over_and_there_is_enough_to_show(enough_after):
    clock, done = Ticking(0.0), [0]
    deadline = Deadline(10.0, clock)

    def task():
        while not deadline.halted[0]:
            done[0] += 1
            clock.time += 11.0 if done[0] == 1 else 0.01
            yield True

    enough = lambda: done[0] >= enough_after  # noqa: E731
    run_round_robin([task()], n_jobs=1, deadline=deadline, enough=enough, on_progress=lambda: None)
    if enough_after == 3:
        assert done[0] == 3
    else:  # nothing to show: the grace is used up, and no more
        assert clock.time > 10.0 + GRACE
        assert done[0] < 100_000


def test_a_halted_sweep_decides_nothing():
    table = make_node_table(CASE.rows, CASE.score)
    deadline = Deadline(None)
    deadline.halted[0] = 1
    work, rng = make_workspace(table, deadline.halted), np.random.default_rng(0)
    sweep = start_sweep(RowNodes(table, work), 20, rng, ChunkSize(), deadline, lambda: False)
    next(sweep.chunks())
    assert (sweep.particles.n_nodes == 1).all()


# Particles that are thinned out


@pytest.mark.parametrize("wanted", [3, 12])
def test_thinning_at_any_moment_keeps_the_evidence_without_bias(wanted):
    """The mean of Z over sweeps that lose most of their particles in the middle of a decision."""
    table, truth = make_node_table(CASE.rows, CASE.score), Enumeration(CASE)
    rng = np.random.default_rng(1)
    ratio = []
    for _ in range(600):
        deadline = Late(None, wanted=wanted)
        work = make_workspace(table, deadline.halted)
        sweep = start_sweep(RowNodes(table, work), 40, rng, ChunkSize(), deadline, lambda: True)
        for _ in sweep.chunks():
            pass
        assert len(sweep.particles.next) == wanted
        ratio.append(math.exp(sweep.log_z - truth.log_z))
    error = np.std(ratio) / math.sqrt(len(ratio))
    assert np.mean(ratio) == pytest.approx(1.0, abs=4.5 * error)
    assert error < 0.1


def test_a_sweep_that_was_thinned_out_has_trees_and_rewards_and_says_so(monkeypatch):
    monkeypatch.setattr(smc, "Deadline", Late)
    posterior = run(infer_smc, n_particles=200, n_sweeps=5, n_trees=50, time_budget=3600.0)
    assert posterior.diagnostics["sweeps"] >= 1
    assert posterior.diagnostics["thinned_to"] == 7
    wanted = log_reward(posterior.trees, merge_rows(CASE.rows), CASE.score)
    np.testing.assert_allclose(posterior.log_reward, wanted, rtol=1e-12)


@pytest.mark.parametrize("engine", [infer_smc, infer_mcmc], ids=["smc", "mcmc"])
def test_where_nothing_was_done_in_time_that_is_said_in_one_sentence(engine, monkeypatch):
    for module in (smc, mcmc):
        monkeypatch.setattr(module, "Deadline", functools.partial(Deadline, now=Ticking(100.0)))
        monkeypatch.setattr(module, "run_round_robin", lambda *_, **__: None)
    with pytest.raises(BudgetExceeded, match=r"single .* within time_budget=2 s; allow more") as no:
        run(engine, n_trees=5, time_budget=2.0)
    assert str(no.value).count(". ") == 0


def test_thinned_particles_are_warned_of(monkeypatch):
    monkeypatch.setattr(smc, "Deadline", Late)
    with pytest.warns(UntrustworthyFit, match="too short for one sweep, so only 7 of 300 par"):
        infer(X, Y, engine="smc", n_sweeps=3, n_particles=300, n_thresholds=9, random_state=0)


@pytest.mark.parametrize("engine", [infer_smc, infer_mcmc], ids=["smc", "mcmc"])
@pytest.mark.parametrize("penalty", [0.2, "bcart"])
def test_rewards_that_samplers_carry_along_are_those_of_the_score(engine, penalty):
    case = CASE.but(split_penalty=penalty, temperature=3.0)
    posterior = run(engine, case, n_trees=300)
    wanted = log_reward(posterior.trees, merge_rows(case.rows), case.score)
    np.testing.assert_allclose(posterior.log_reward, wanted, rtol=1e-11)
    best = log_reward(posterior.best_tree, merge_rows(case.rows), case.score)
    assert posterior.best_log_reward == pytest.approx(best[0], rel=1e-11)


# Exact inference


def test_exact_stages_that_are_done_or_nearly_done_are_kept(monkeypatch):
    clock = Ticking(0.0)
    monkeypatch.setattr(of_budgets, "monotonic", clock)
    budget = Budget(10.0, 1, 1, silent, started=0.0)
    clock.time = 50.0
    budget.check_time("summing", 1.0, begun=0.0)  # what is done is done
    clock.time = 10.1
    budget.check_time("summing", 0.99, begun=0.0)  # ends within the grace
    with pytest.raises(BudgetExceeded, match=r"time_budget=10 s \(50% of 'summing' was done\)"):
        budget.check_time("summing", 0.5, begun=0.0)
    clock.time = 2.0
    budget.check_time("summing", 0.15, begun=0.0)  # 13 s: perhaps
    with pytest.raises(BudgetExceeded, match=r"would need about 1\.2 min, as 15% of 'summing'"):
        Budget(10.0, 1, 1, silent, 0.0, ahead=60.0).check_time("summing", 0.15, begun=0.0)
    Budget(None, 1, 1, silent, 0.0).check_time("summing", 0.01, begun=0.0)


def test_many_classes_are_summed_as_few_are():
    """Rows that hold one class of many add up by their spans, as a dense sum would."""
    rng = np.random.default_rng(3)
    codes, labels = rng.integers(0, 4, (30, 2)), rng.permutation(30)
    case = Case(codes, labels, 30, max_depth=1, split_penalty=0.5)
    truth = Enumeration(case)
    posterior = run(infer_exact, case, n_trees=3)
    assert posterior.log_evidence == pytest.approx(truth.log_z, abs=1e-9)


# Several runs that share the time


def test_bags_that_time_does_not_reach_are_left_out_and_told(monkeypatch):
    endless_grace(monkeypatch, smc)
    with pytest.warns(UntrustworthyFit, match=r"too short for more than \d+ of 30 bags; allow"):
        posterior = infer(
            X,
            Y,
            engine="smc",
            ensemble="bags",
            n_bags=30,
            n_trees=60,
            time_budget=1e-3,
            random_state=0,
        )
    told = posterior.diagnostics
    assert told["bags"] + told["bags_left_out"] == 30
    assert told["bags"] >= 1
    assert len(posterior.trees) == len(posterior.log_reward) == 60
    np.testing.assert_allclose(
        posterior.log_reward,
        log_reward(posterior.trees, merge_rows(posterior.rows), posterior.score),
    )


@pytest.mark.filterwarnings("ignore::dtgfn.diagnostics.UntrustworthyFit")
def test_a_temperature_that_does_not_fit_ends_the_search_with_those_before():
    found = infer(X, Y, engine="smc", n_particles=20, n_sweeps=1, n_trees=20, random_state=0)
    asked = []

    def infer_at(temperature, seconds):
        asked.append((temperature, seconds))
        if temperature > 1:
            raise BudgetExceeded("no")
        return found

    assert choose_temperature(infer_at, time_budget=9e6).temperature == 1.0
    assert [temperature for temperature, _ in asked] == [1.0, 1.5]


@pytest.mark.filterwarnings("ignore::dtgfn.diagnostics.UntrustworthyFit")
def test_the_first_temperature_gets_all_the_time_if_its_share_is_too_short():
    found = infer(X, Y, engine="smc", n_particles=20, n_sweeps=1, n_trees=20, random_state=0)
    asked = []

    def infer_at(temperature, seconds):
        asked.append(seconds)
        if seconds < 5e6:
            raise BudgetExceeded("no")
        return found

    assert choose_temperature(infer_at, time_budget=9e6).temperature == 1.0
    assert asked[0] < 2e6 < 8e6 < asked[1]


def test_settings_that_time_does_not_reach_say_so(monkeypatch):
    endless_grace(monkeypatch, smc)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = dtgfn.select(
            X, Y, max_depth=[1, 2, 3], n_thresholds=5, engine="smc", by="score", time_budget=1e-6,
            n_trees=10, random_state=0,
        )  # fmt: skip
    assert found.best["max_depth"] == 1
    notes = found.table.set_index("max_depth")["note"]
    assert notes[2] == notes[3] == "time_budget was over before its turn."


# Parameters

NAN = float("nan")
ODD = [0, -5, NAN, math.inf, True, "7", 2.5, np.float64(3.0)]


@pytest.mark.parametrize("value", ODD, ids=repr)
@pytest.mark.parametrize(
    ("engine", "name"),
    [
        ("exact", "memory_budget"),
        ("smc", "n_particles"),
        ("smc", "n_sweeps"),
        ("mcmc", "n_chains"),
        ("mcmc", "n_steps"),
    ],
)
def test_options_that_are_no_whole_numbers_from_one_are_refused_at_every_door(engine, name, value):
    kept = {"max_depth": 1, "n_thresholds": 3}
    given_ = {"inference": engine, "options": {name: value}, **kept}
    doors = [
        lambda: infer(X, Y, engine=engine, **kept, **{name: value}),
        lambda: DTGFNClassifier(**given_).fit(X, Y),
        lambda: DTGFNRegressor(**given_).fit(X, X[:, 0]),
        lambda: DTGFNAnomalyDetector(**given_).fit(X),
    ]
    if value == ODD[0]:  # it first rehearses, as the engine's own options are
        doors.append(lambda: dtgfn.select(X, Y, engine=engine, by="score", **kept, **{name: value}))
    for door in doors:
        with pytest.raises(ValueError, match=f"^{name}=.* is out of range; give .*number.* from 1"):
            door()


@pytest.mark.parametrize("value", [0, -1, NAN, True, "9", -math.inf, np.bool_(True)], ids=repr)
def test_budgets_that_are_no_seconds_are_refused(value):
    with pytest.raises(ValueError, match="is not usable; give seconds above 0, or None"):
        check_run(10, value, None)


def test_numbers_of_numpy_are_numbers_and_an_endless_budget_is_none():
    assert check_run(np.uint8(200), np.float32(2), np.int64(-1)) == (200, 2.0, None)
    assert check_run(5, math.inf, np.int8(2)) == (5, None, 2)
    small = {"n_trees": np.uint8(250), "n_chains": np.uint8(3), "n_steps": np.int64(50)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        posterior = infer(X, Y, engine="mcmc", max_depth=np.int8(2), random_state=0, **small)
    assert len(posterior.trees) == 250
    with pytest.raises(ValueError, match="runs until time_budget ends; give one of them"):
        infer(X, Y, engine="smc", n_sweeps=None, time_budget=math.inf)


@pytest.mark.filterwarnings("ignore::dtgfn.diagnostics.UntrustworthyFit")
def test_a_policy_may_be_left_untrained_but_not_less():
    posterior = infer(X, Y, max_depth=4, n_steps=0, n_trees=5, time_budget=None, random_state=0)
    assert posterior.diagnostics["n_steps"] == 0
    with pytest.raises(ValueError, match="n_steps=-1 is out of range; give a whole number from 0"):
        infer(X, Y, n_steps=-1)


@pytest.mark.parametrize("value", [-1, 1.5, "a", True, NAN], ids=repr)
def test_seeds_that_seed_nothing_are_refused(value):
    with pytest.raises(ValueError, match=r"random_state=.* is not usable; give a whole number"):
        infer(X, Y, engine="exact", max_depth=1, random_state=value)


# The real thing


@pytest.mark.parametrize("engine", ["smc", "mcmc"])
def test_a_real_budget_ends_what_would_go_on_for_ever(engine):
    endless = {"smc": {"n_sweeps": None}, "mcmc": {"n_steps": None}}[engine]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        posterior = infer(X, Y, engine=engine, time_budget=0.2, random_state=0, **endless)
    assert posterior.diagnostics["seconds"] >= 0.2
    wanted = log_reward(posterior.trees, merge_rows(posterior.rows), posterior.score)
    np.testing.assert_allclose(posterior.log_reward, wanted, rtol=1e-9)


@pytest.mark.parametrize(
    ("engine", "endless"),
    [(infer_smc, {"n_sweeps": None}), (infer_mcmc, {"n_steps": None})],
    ids=["smc", "mcmc"],
)
def test_a_real_interrupt_is_heard_between_two_pieces(engine, endless):
    rng = np.random.default_rng(0)
    case = Case(rng.integers(0, 50, (20_000, 5)), rng.integers(0, 2, 20_000), 2, max_depth=5)
    looks = []

    def interrupt_soon(stage, share, detail=""):
        if stage in ("sweeping", "running chains"):
            looks.append(share)
            if len(looks) == 3:  # while compiled loops are at work
                threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGINT)).start()

    with pytest.raises(KeyboardInterrupt):
        run(engine, case, time_budget=3600.0, progress=interrupt_soon, **endless)
    assert looks[-1] < 0.5  # long before the hour was over
    assert not any("ThreadPool" in thread.name for thread in threading.enumerate())
