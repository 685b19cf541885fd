"""Chains against the enumeration of all trees."""

from __future__ import annotations

import math
import threading
from functools import cache

import numpy as np
import pytest
from clocks import second_per_piece
from enumeration import Case, Enumeration, to_batch
from keyword_engines import infer_mcmc
from numba import njit
from scipy.signal import lfilter
from scipy.stats import chi2
from thoroughness import diagonal, long_but

from dtgfn._support.parallel import Deadline
from dtgfn.engines.convergence import MAX_R_HAT, effective_draws, split_r_hat
from dtgfn.engines.mcmc import engine
from dtgfn.engines.mcmc.chain import INTERVAL, RECORDED, start_walk
from dtgfn.engines.mcmc.moves import change, swap
from dtgfn.engines.mcmc.tree_state import SPLIT, write_tree
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.trees.batch import canonical_keys, check_trees
from dtgfn.trees.level_order import as_batch
from dtgfn.trees.node_terms import make_node_table
from dtgfn.trees.score import log_reward


def infer(case: Case, **options) -> TreePosterior:
    options = {"n_trees": 50, "random_state": 0, "n_steps": 2000} | options
    return infer_mcmc(
        case.rows, case.score, column=case.columns, n_columns=case.n_columns, **options
    )


# Features with different numbers of cuts, so that a wrong count of rules shows.
CODES = np.array(
    [[0, 0, 2], [1, 0, 0], [2, 0, 5], [3, 0, 2], [0, 1, 5], [1, 1, 2], [2, 1, 0], [3, 1, 0]]
)
LABELS = np.array([0, 1, 0, 1, 1, 0, 2, 0])
FRACTIONS = np.array([0.5, 1.5, 1.0, 0.3, 2.0, 0.7, 1.1, 0.9])
COPIES = np.array([1.0, 2.0, 1.0, 3.0, 1.0, 1.0, 2.0, 1.0])

# Priors that make all sizes about as probable: where growing is always right, no ratio shows.
CASES = {
    "depth 1": {"max_depth": 1, "split_penalty": 1.0},
    "penalty": {"max_depth": 2, "split_penalty": 2.0},
    "copies": {"max_depth": 2, "split_penalty": 2.5, "weight": COPIES},
    "hot": {"max_depth": 2, "split_penalty": 4.0, "temperature": 2.0, "weight": FRACTIONS},
    "cold": {"max_depth": 2, "split_penalty": 1.3, "temperature": 0.7},
    "bcart": {"max_depth": 2, "split_penalty": ("bcart", 0.5, 0.5)},
    "hot bcart": {"max_depth": 2, "split_penalty": ("bcart", 0.2, 0.0), "temperature": 2.0},
    "weighted bcart": {"max_depth": 2, "split_penalty": ("bcart", 0.5, 0.1), "weight": FRACTIONS},
    "deep": {"max_depth": 3, "split_penalty": 1.8, "rows": 6},
    "deep bcart": {"max_depth": 3, "split_penalty": ("bcart", 0.7, 0.3), "rows": 6},
}


def make_case(name: str) -> Case:
    settings = dict(CASES[name])
    rows = settings.pop("rows", len(CODES))
    weight = settings.pop("weight", np.ones(len(CODES)))[:rows]
    return Case(CODES[:rows], LABELS[:rows], 3, weight, leaf_concentration=0.7, **settings)


@cache
def truth_of(name: str) -> Enumeration:
    return Enumeration(make_case(name))


def misfit(truth: Enumeration, posterior: TreePosterior) -> float:
    """Pearson's chi-square of the tree frequencies, in units of its 1e-4 quantile.

    Trees that are expected fewer than 10 times count as one.
    """
    keys = {key: i for i, key in enumerate(canonical_keys(to_batch(truth.trees)))}
    seen = [keys[key] for key in canonical_keys(posterior.trees)]
    observed = np.bincount(seen, minlength=len(keys))
    expected = truth.probability * len(posterior.trees)
    common = expected >= 10
    observed = np.append(observed[common], observed[~common].sum())
    expected = np.append(expected[common], expected[~common].sum())
    observed, expected = observed[expected > 1], expected[expected > 1]
    statistic = ((observed - expected) ** 2 / expected).sum()
    return float(statistic / chi2.isf(1e-4, len(expected) - 1))


@pytest.mark.parametrize("name", long_but(["copies", "hot bcart"], CASES))
def test_tree_frequencies_are_the_posterior(name):
    truth = truth_of(name)
    posterior = infer(truth.case, n_trees=8000, n_steps=120_000)
    assert misfit(truth, posterior) < 1.1  # thinned draws are nearly independent
    size = np.zeros(len(truth.size_probability))
    size[: len(posterior.size_probability)] = posterior.size_probability
    np.testing.assert_allclose(size, truth.size_probability, atol=0.03)
    np.testing.assert_allclose(posterior.column_inclusion, truth.column_inclusion, atol=0.03)
    highest = log_reward(posterior.paper_tree, truth.case.rows, truth.case.score)[0]
    assert highest == pytest.approx(truth.best_log_reward, rel=1e-10)
    assert posterior.best_log_mass <= truth.best_log_mass + 1e-9
    assert posterior.diagnostics["r_hat_log_reward"] < 1.02
    assert posterior.diagnostics["r_hat_splits"] < 1.02


@njit
def follow(chain, table, swaps, every, feature, cut):
    """Make swaps only, or changes only, and write every so many-th tree."""
    for k in range(len(feature)):
        for _ in range(every):
            if swaps:
                swap(chain, table)
            else:
                change(chain, table)
        write_tree(chain, feature[k], cut[k])


@pytest.mark.parametrize(("name", "swaps"), diagonal(["copies", "hot", "bcart"], [True, False]))
def test_moves_that_keep_the_shape_keep_the_posterior_on_what_they_reach(name, swaps):
    """Alone these moves do not reach every tree; where they go, frequencies are as R says."""
    case = make_case(name)
    table = make_node_table(case.rows, case.score)
    n_draws, most = 2500, 0
    for seed in range(6):
        walk = start_walk(table, np.uint64(seed), 4)
        for _ in walk.chunks(20, Deadline(None).halted):
            pass
        feature = np.zeros((n_draws, len(walk.chain.nodes)), dtype=np.int32)
        cut = np.zeros_like(feature)
        follow(walk.chain, table, swaps, 20, feature, cut)
        trees = as_batch(feature, cut, table.feature)
        _, first, count = np.unique(canonical_keys(trees), return_index=True, return_counts=True)
        log_r = log_reward(trees[first], case.rows, case.score) / case.temperature
        expected = np.exp(log_r - np.logaddexp.reduce(log_r)) * n_draws
        statistic = ((count - expected) ** 2 / expected)[expected >= 10].sum()
        assert statistic < 1.2 * chi2.isf(1e-4, max((expected >= 10).sum() - 1, 1))
        most = max(most, len(first))
    assert most >= (2 if swaps else 30)


def test_a_swap_with_two_equal_children_swaps_both():
    """Rule A over twice rule B becomes B over twice A; one child alone would leave a side empty."""
    case = Case(np.array([[0, 0], [0, 1], [1, 0], [1, 1]]), np.array([0, 1, 1, 0]), 2)
    table = make_node_table(case.rows, case.score)
    walk = start_walk(table, np.uint64(0), 4)
    while walk.chain.size[SPLIT] < 3:
        next(walk.chunks(walk.steps + 1, Deadline(None).halted))
    feature = np.zeros((500, 7), dtype=np.int32)
    follow(walk.chain, table, True, 1, feature, np.zeros_like(feature))
    assert np.unique(feature, axis=0)[:, :3].tolist() == [[0, 1, 1], [1, 0, 0]]


def deep_case(prior) -> Case:
    rng = np.random.default_rng(5)
    codes = rng.integers(0, 9, size=(150, 3))
    return Case(
        codes,
        rng.integers(0, 4, 150),
        4,
        rng.uniform(0.2, 3.0, 150),
        max_depth=30,
        split_penalty=prior,
        temperature=20.0,
    )


@pytest.mark.parametrize("prior", [0.3, ("bcart", 0.99, 0.0)])
def test_a_chain_knows_its_log_reward_whatever_it_did_and_however_large_it_grew(prior):
    """Running sums, kept rows and cached terms agree with the definition after 30 000 moves."""
    case = deep_case(prior)
    table = make_node_table(case.rows, case.score)
    walk = start_walk(table, np.uint64(3), 200)
    for _ in walk.chunks(30_000, Deadline(None).halted):
        pass
    record, used = walk.record, int(walk.record.at[RECORDED])
    assert 100 <= used <= 200
    assert record.at[INTERVAL] == 256
    assert record.feature.shape[1] > 100  # it needed more room than it began with
    trees = as_batch(record.feature[:used], record.cut[:used], table.feature)
    check_trees(trees, np.full(3, 9))
    reward = log_reward(trees, case.rows, case.score)
    np.testing.assert_allclose(record.log_reward[:used], reward, rtol=1e-9)
    np.testing.assert_array_equal(record.n_splits[:used], trees.n_splits)
    assert (record.tally[:, 1] > 0).all()


def test_returned_trees_have_the_score_of_their_trees():
    case = deep_case("mdl").but(max_depth=4, temperature=1.0)
    posterior = infer(case, n_trees=101)
    assert len(posterior.trees) == 101
    check_trees(posterior.trees, np.full(3, 9))
    reward = log_reward(posterior.trees, case.rows, case.score)
    np.testing.assert_allclose(posterior.log_reward, reward, rtol=1e-12)
    best = log_reward(posterior.best_tree, case.rows, case.score)
    assert posterior.best_log_reward == pytest.approx(best[0], rel=1e-12)
    highest = log_reward(posterior.paper_tree, case.rows, case.score)[0]
    assert highest >= posterior.log_reward.max() - 1e-9
    assert np.isnan(posterior.log_prob).all()
    assert (posterior.log_weight == 0).all()
    assert math.isnan(posterior.log_evidence)
    assert math.isnan(posterior.log_evidence_error)
    assert posterior.engine == "mcmc"


def test_diagnostics_and_history_tell_what_happened():
    posterior = infer(make_case("penalty"), n_chains=3, n_steps=5000)
    assert posterior.diagnostics["steps_per_chain"] == [5000] * 3
    assert list(posterior.diagnostics["acceptance"]) == ["grow", "prune", "change", "swap"]
    assert all(0 < rate < 1 for rate in posterior.diagnostics["acceptance"].values())
    assert 100 < posterior.diagnostics["ess_log_reward"] < posterior.diagnostics["recorded_draws"]
    assert 12 <= len(posterior.history) <= 60
    assert posterior.history[-1]["step"] == 5000
    best = [entry["best_log_reward"] for entry in posterior.history]
    assert best == sorted(best)
    highest = log_reward(posterior.paper_tree, posterior.rows, posterior.score)[0]
    assert best[-1] == pytest.approx(highest)
    assert all(e["mean_log_reward"] <= e["best_log_reward"] for e in posterior.history)


def test_the_same_seed_gives_the_same_trees_on_any_number_of_threads():
    case = make_case("bcart")
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    one, two = infer(case, n_jobs=1), infer(case, n_jobs=3)
    np.testing.assert_array_equal(one.trees.feature, two.trees.feature)
    np.testing.assert_array_equal(one.trees.cut, two.trees.cut)
    assert one.history == two.history
    other = infer(case, random_state=1)
    assert canonical_keys(other.trees) != canonical_keys(one.trees)
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002
    generator = infer(case, random_state=np.random.default_rng(0))
    np.testing.assert_array_equal(one.log_reward, generator.log_reward)


SMALL = {
    "one class": Case(CODES, np.zeros(8, int), 1),
    "one class of three": Case(CODES, np.full(8, 1), 3, split_penalty="bcart"),
    "constant columns": Case(np.full((6, 2), 3), np.array([0, 1, 0, 1, 1, 1]), 2),
    "forced stop": Case(np.full((3, 2), 3), np.array([0, 1, 0]), 2, split_penalty="bcart"),
    "one constant column": Case(CODES * [1, 0, 1], LABELS, 3, split_penalty="bcart"),
    "depth 0": Case(CODES, LABELS, 3, max_depth=0, split_penalty="bcart"),
    "depth 1": Case(CODES, LABELS, 3, max_depth=1, split_penalty="bcart"),
    "single row": Case(CODES[:1], LABELS[:1], 3, max_depth=30),
    "two rows": Case(CODES[:2], LABELS[:2], 3, max_depth=30, split_penalty=0.0),
    "no columns": Case(np.zeros((4, 0), int), np.array([0, 1, 0, 1]), 2),
}


@pytest.mark.parametrize("name", SMALL)
def test_tables_with_next_to_nothing_in_them(name):
    case = SMALL[name]
    truth, posterior = Enumeration(case), infer(case, n_trees=1000, n_steps=20_000)
    highest = log_reward(posterior.paper_tree, truth.case.rows, truth.case.score)[0]
    assert highest == pytest.approx(truth.best_log_reward, rel=1e-10)
    assert posterior.best_log_mass <= truth.best_log_mass + 1e-9
    assert set(canonical_keys(posterior.trees)) <= set(canonical_keys(to_batch(truth.trees)))
    assert posterior.mean_splits == pytest.approx(
        truth.size_probability @ np.arange(len(truth.size_probability)), abs=0.15
    )
    assert posterior.column_inclusion.shape == (case.n_columns,)
    if len(truth.trees) == 1:
        assert posterior.diagnostics["r_hat_log_reward"] == 1.0
        assert posterior.diagnostics["ess_log_reward"] is None


@pytest.mark.parametrize("n_steps", [1, 2, 5])
def test_a_chain_may_be_very_short(n_steps):
    posterior = infer(make_case("penalty"), n_steps=n_steps, n_trees=7)
    assert len(posterior.trees) == 7
    assert posterior.diagnostics["steps_per_chain"] == [n_steps] * 4


@pytest.mark.parametrize("n_steps", [None, 10**9])
def test_chains_run_until_the_time_is_up(monkeypatch, n_steps):
    second_per_piece(monkeypatch, engine)
    posterior = infer(make_case("penalty"), n_steps=n_steps, time_budget=20.0, n_jobs=1)
    assert posterior.diagnostics["seconds"] == 21  # the piece that was begun in time is finished
    steps = posterior.diagnostics["steps_per_chain"]
    assert len(steps) == 4
    assert all(5 <= n < 10**9 for n in steps)  # pieces go round the chains, and are steps each


def test_an_interrupt_ends_all_threads():
    def interrupt(stage: str, share: float) -> None:
        if stage == "running chains":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        infer(make_case("penalty"), n_steps=None, time_budget=600, progress=interrupt)
    assert not any("ThreadPool" in thread.name for thread in threading.enumerate())


@pytest.mark.parametrize("options", [{"n_chains": 0}, {"n_steps": 0}, {"n_trees": 0}])
def test_nothing_to_do_is_refused(options):
    (name,) = options
    with pytest.raises(ValueError, match=f"{name}=0 is out of range"):
        infer(make_case("penalty"), **options)


def test_a_chain_needs_an_end():
    with pytest.raises(ValueError, match="give one of them"):
        infer(make_case("penalty"), n_steps=None, time_budget=None)


def test_chains_that_agree_have_an_r_hat_of_one_and_others_do_not():
    draws = np.random.default_rng(0).normal(size=(4, 2000))
    assert split_r_hat(draws) == pytest.approx(1.0, abs=0.005)
    assert split_r_hat(draws + np.array([[0], [0], [0], [2]])) > 1.2
    assert split_r_hat(draws + np.linspace(0, 3, 2000)) > 1.2  # chains that still drift
    assert split_r_hat(np.zeros((4, 10))) == 1.0
    assert split_r_hat(np.arange(4.0)[:, None] * np.ones((4, 10))) == MAX_R_HAT
    assert math.isnan(split_r_hat(draws[:, :3]))


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_effective_draws_of_an_autoregression(rho):
    noise = np.random.default_rng(0).normal(size=(4, 20_000))
    draws = lfilter([1.0], [1.0, -rho], noise, axis=1)
    expected = draws.size * (1 - rho) / (1 + rho)
    assert effective_draws(draws) == pytest.approx(expected, rel=0.2)
    assert math.isnan(effective_draws(np.ones((2, 50))))
