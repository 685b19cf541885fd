"""The referee against enumeration, and on trees that were drawn from the wrong place."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from enumeration import Case, Enumeration, to_batch
from hypothesis import given
from hypothesis import strategies as st
from thoroughness import examples

from dtgfn import DTGFNAnomalyDetector, infer
from dtgfn.diagnostics import trust, verdict
from dtgfn.diagnostics.judgement import referee_doubts
from dtgfn.engines import referee as referee_module
from dtgfn.engines.contract import Run
from dtgfn.engines.gfn.drawn_posterior import hold_against_sums
from dtgfn.engines.gfn.draws import Draws
from dtgfn.engines.mcmc import engine as mcmc_engine
from dtgfn.engines.referee import (
    beyond_chance,
    bound_posterior,
    cumulated,
    held_share,
    judge_draws,
    seeming_share,
)
from dtgfn.trees.batch import from_splits, uses_columns
from dtgfn.trees.score import log_reward


def some_case(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 4, (int(rng.integers(2, 9)), int(rng.integers(1, 3))))
    labels = rng.integers(0, 3, len(codes))
    return Case(
        codes,
        labels,
        3,
        max_depth=int(rng.integers(2, 4)),
        leaf_concentration=float(rng.choice([0.1, 1.0])),
        split_penalty=("mdl", 0.5, "bcart")[seed % 3],
        temperature=float(rng.choice([1.0, 2.0])),
    )


def first_columns(truth: Enumeration, case: Case) -> np.ndarray:
    """Share of each column among the first splits, the last one for none."""
    share = np.zeros(case.n_columns + 1)
    for tree, probability in zip(truth.trees, truth.probability, strict=True):
        share[case.column[tree[0]] if tree else case.n_columns] += probability
    return share


@examples(60)
@given(st.integers(0, 10**6), st.sampled_from(["lazy", "bounds", "complete"]))
def test_what_is_proven_is_true_however_little_work_was_done(seed, how):
    case = some_case(seed)
    truth = Enumeration(case)
    with pytest.MonkeyPatch.context() as patch:
        if how == "lazy":
            patch.setattr(referee_module, "WORK", 0.0)
        if how == "bounds":  # as on larger problems, but looking at all there is
            patch.setattr(referee_module, "sum_all", lambda *_: None)
        ruling = bound_posterior(case.rows, case.score, case.columns, case.n_columns, 1)
    expected = first_columns(truth, case)
    assert ruling.floor <= truth.log_z + 1e-5
    assert ruling.ceiling >= truth.log_z - 1e-5
    assert (ruling.first_split <= expected + 1e-5).all()
    if how != "lazy":
        np.testing.assert_allclose(ruling.floor, truth.log_z, atol=1e-5)
        np.testing.assert_allclose(ruling.first_split, expected, atol=1e-5)
    assert (ruling.inclusion is None) == (ruling.size is None) == (how != "complete")
    if how == "complete":
        np.testing.assert_allclose(ruling.inclusion, truth.column_inclusion, atol=1e-9)
        size = np.pad(truth.size_probability, (0, ruling.size.size))[: ruling.size.size]
        np.testing.assert_allclose(ruling.size, size, atol=1e-9)


@examples(30)
@given(st.integers(0, 10**6))
def test_fair_draws_miss_nothing(seed):
    case = some_case(seed)
    truth = Enumeration(case)
    rng = np.random.default_rng(seed)
    drawn = rng.choice(len(truth.trees), 400, p=truth.probability / truth.probability.sum())
    trees = to_batch([truth.trees[i] for i in drawn])
    reward = log_reward(trees, case.rows, case.score)
    run = Run(column=case.columns, n_columns=case.n_columns, n_jobs=1)
    given_ = (case.rows, case.score, run)
    assert judge_draws(trees, reward, *given_, n_effective=400)["missed"] <= 0.02


@examples(20)
@given(st.integers(0, 10**6))
def test_weighted_draws_are_judged_by_their_weights(seed):
    """Trees drawn alike, which importance weights make the posterior, and which alone are not."""
    case = some_case(seed)
    truth = Enumeration(case)
    trees = to_batch(truth.trees)
    reward = log_reward(trees, case.rows, case.score)
    run = Run(column=case.columns, n_columns=case.n_columns, n_jobs=1)
    given_ = (trees, reward, case.rows, case.score, run, 10**6)
    weight = truth.probability / truth.probability.sum()
    told = judge_draws(*given_, weight=weight)
    assert told["missed"] <= 1e-5
    assert told["marginal_gap"] <= 1e-5


def test_a_network_that_hopes_wrongly_is_told_so():
    """Training of a few steps, and an evidence that its guess of open mass has put too low."""
    X, y = three_way()
    sure = infer(X, y, engine="exact", max_depth=3, n_thresholds=9, n_trees=2, random_state=0)
    column = np.arange(5, dtype=np.int32)
    stumps = from_splits([{(): (0, 4)}] * 100)
    reward = log_reward(stumps, sure.rows, sure.score)
    draws = Draws(stumps, reward, np.zeros(100), np.zeros(100), np.zeros(100, bool))
    run = Run(column=column, n_columns=5, n_jobs=1)
    told = hold_against_sums(
        draws, np.zeros(100), sure.rows, sure.score, run, has_bounds=False, seconds=math.inf
    )
    low = replace(sure, engine="gfn", solution=None, diagnostics=told, log_evidence=reward[0])
    assert any("below what sums prove" in doubt for doubt in trust(low))
    assert any("no drawn tree is" in doubt for doubt in trust(low))


def test_shares_by_hand():
    trees = from_splits([{}, {}, {(): (0, 1)}, {(): (0, 2)}])
    assert seeming_share(trees) == 0  # half of them were drawn once
    assert seeming_share(from_splits([{}, {}, {(): (0, 1)}, {(): (0, 1)}])) == 1
    assert seeming_share(from_splits([*[{}] * 999, {(): (0, 1)}])) == pytest.approx(0.999)
    log_target = np.log([0.2, 0.2, 0.1, 0.3])
    assert held_share(trees, log_target, floor=0.0) == pytest.approx(0.6)
    assert held_share(trees, log_target, floor=-math.inf) == 1


def test_sizes_and_columns_are_held_against_exact_ones_where_the_sum_is_complete():
    """Trees as frequent as the posterior says but for one more split where there could be one."""
    case = Case(np.repeat([[0], [1], [2]], 8, axis=0), np.repeat([0, 1, 0], 8), 2)
    fair, stumps = (
        from_splits([{(): (0, 0), (1,): (0, 1)}] * 300),
        from_splits([{(): (0, 0)}] * 300),
    )
    exact = bound_posterior(case.rows, case.score, case.columns, case.n_columns, 1)
    given_ = (case.rows, case.score, Run(column=case.columns, n_columns=case.n_columns))
    assert exact.size[2] > 0.9
    found = {
        name: judge_draws(trees, log_reward(trees, case.rows, case.score), *given_, n_effective=300)
        for name, trees in (("fair", fair), ("stumps", stumps))
    }
    assert found["fair"]["marginal_gap"] < 0.05
    assert found["stumps"]["marginal_gap"] > 0.8


def test_beyond_chance_by_hand():
    exact = np.array([0.5, 0.0, 1.0])
    assert beyond_chance(np.array([0.69, 0.0, 1.0]), exact, 100) == 0  # four errors are 0.2
    assert beyond_chance(np.array([0.75, 0.0, 1.0]), exact, 100) == pytest.approx(0.05)
    assert beyond_chance(np.array([0.5, 0.0, 0.9]), exact, 100) == pytest.approx(0.1)
    n_splits = np.array([0, 2, 2, 3])
    drawn, truth = cumulated(n_splits, np.full(4, 0.25), np.array([0.25, 0.75]))
    np.testing.assert_allclose(drawn, [0.25, 0.25, 0.75, 1.0])
    np.testing.assert_allclose(truth, [0.25, 1.0, 1.0, 1.0])
    weighted, _ = cumulated(n_splits, np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.25, 0.75]))
    np.testing.assert_allclose(weighted, [0.1, 0.1, 0.6, 1.0])
    trees = from_splits([{}, {(): (0, 1)}, {(): (1, 1), (0,): (1, 0)}, {(): (2, 0)}])
    column = np.array([0, 1, 1], dtype=np.int32)
    np.testing.assert_allclose(uses_columns(trees.feature, column, 2).mean(axis=0), [0.25, 0.5])


def three_way(n_rows: int = 240) -> tuple[np.ndarray, np.ndarray]:
    """A table that chains and sweeps do not find the tree of."""
    rng = np.random.default_rng(3)
    X = rng.integers(0, 2, (n_rows, 3)).astype(float)
    return np.hstack([X, rng.normal(size=(n_rows, 2))]), X.sum(axis=1).astype(int) % 2


@pytest.mark.filterwarnings("ignore::dtgfn.diagnostics.UntrustworthyFit")
def test_sweeps_that_miss_the_tree_are_told_so():
    X, y = three_way()
    given_ = {"max_depth": 3, "n_thresholds": 9, "n_trees": 200, "random_state": 0}
    exact = infer(X, y, engine="exact", **given_)
    sampled = infer(X, y, engine="smc", n_sweeps=4, **given_)
    assert sampled.best_log_mass < exact.best_log_mass - 1
    assert verdict(sampled)["level"] == "poor"
    assert any("sums prove" in doubt or "proven" in doubt for doubt in trust(sampled))
    told = sampled.diagnostics
    assert told["referee_floor"] - 1e-6 <= exact.log_evidence <= told["referee_ceiling"] + 1e-6


@pytest.mark.parametrize("stuck", [{}, {(): (0, 4)}], ids=["leaf", "stump"])
def test_chains_that_stand_still_in_the_wrong_place_are_told_so(stuck):
    X, y = three_way()
    exact = infer(X, y, engine="exact", max_depth=3, n_thresholds=9, n_trees=2, random_state=0)
    trees = from_splits([stuck] * 200)
    reward = log_reward(trees, exact.rows, exact.score)
    column = np.arange(5, dtype=np.int32)
    run = Run(column=column, n_columns=5, n_jobs=1)
    told = judge_draws(trees, reward, exact.rows, exact.score, run, n_effective=100)
    assert told["missed"] > 0.5
    chains = replace(exact, engine="mcmc", solution=None, diagnostics=told)
    assert any("no drawn tree is" in doubt for doubt in referee_doubts(chains))


def test_chains_that_never_left_a_tree_claim_all_their_draws(monkeypatch):
    claimed = []
    monkeypatch.setattr(
        mcmc_engine, "judge_draws", lambda *given_, seconds: claimed.append(given_[-1]) or {}
    )
    options = {"n_steps": 200, "n_trees": 40, "time_budget": None}
    still = infer([[1.0]] * 9, [0, 1, 0] * 3, engine="mcmc", max_depth=2, **options)
    assert still.diagnostics["ess_log_reward"] is None
    assert claimed == [40]


def test_a_second_mode_is_missed_beyond_chance_by_a_thousand_equal_draws():
    """Two stumps part nearly the same rows: nine tenths of the posterior, and the rest."""
    codes = np.repeat([[0, 0], [1, 1], [0, 1]], [20, 20, 1], axis=0)
    case = Case(codes, np.repeat([0, 1, 0], [20, 20, 1]), 2, max_depth=1, leaf_concentration=3.0)
    exact = bound_posterior(case.rows, case.score, case.columns, case.n_columns, 1)
    top = int(np.argmax(exact.inclusion))
    trees = from_splits([{(): (top, 0)}] * 1000)
    reward = log_reward(trees, case.rows, case.score)
    run = Run(column=case.columns, n_columns=case.n_columns, n_jobs=1)
    given_ = (trees, reward, case.rows, case.score, run, 20)
    assert 0.05 < 1 - exact.inclusion[top] < 0.2
    assert judge_draws(*given_)["marginal_gap"] < 1e-9  # twenty draws may well miss it
    assert judge_draws(*given_, n_claimed=1000)["marginal_gap"] > 0.02


def test_an_engine_with_bounds_of_its_own_is_held_against_complete_sums_only(monkeypatch):
    case = some_case(0)
    trees = from_splits([{}])
    run = Run(column=case.columns, n_columns=case.n_columns, n_jobs=1)
    given_ = (trees, np.zeros(1), case.rows, case.score, run, 1)
    assert "marginal_gap" in judge_draws(*given_, partial_sums=False)
    monkeypatch.setattr(referee_module, "WORK", 0.0)
    assert judge_draws(*given_, partial_sums=False) == {}
    assert "referee_floor" in judge_draws(*given_)


def test_large_tables_get_no_ruling(monkeypatch):
    monkeypatch.setattr(referee_module, "MOST_CELLS", 3)
    case = some_case(0)
    trees = from_splits([{}])
    run = Run(column=case.columns, n_columns=case.n_columns, n_jobs=1)
    given_ = (case.rows, case.score, run)
    assert judge_draws(trees, np.zeros(1), *given_, n_effective=1) == {}


def test_one_of_many_bags_or_views_is_not_judged(monkeypatch):
    """Hundreds of them are averaged, and nobody reads what each one says of itself."""
    judged = []
    monkeypatch.setattr(referee_module, "bound_posterior", lambda *_: judged.append(1))
    monkeypatch.setattr(referee_module, "bound_sums", lambda *_: judged.append(1))
    X, y = three_way(30)
    options = {"n_particles": 20, "n_sweeps": 2}
    infer(
        X,
        y,
        engine="smc",
        ensemble="bags",
        n_bags=3,
        n_trees=9,
        max_depth=2,
        time_budget=None,
        **options,
    )
    DTGFNAnomalyDetector(n_trees=3, random_state=0, n_jobs=1, options=options).fit(X)
    assert not judged
