"""Particles against the enumeration of all trees and against the exact engine."""

from __future__ import annotations

import math
import threading
from functools import cache

import numpy as np
import pytest
from clocks import endless_grace, second_per_piece
from enumeration import Case, Enumeration, to_batch
from keyword_engines import infer_smc
from scipy.stats import chi2

from dtgfn.engines.smc import engine
from dtgfn.engines.smc.sweep import log_mean_exp, systematic
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.trees.batch import canonical_keys, check_trees
from dtgfn.trees.score import log_reward


def infer(case: Case, **options) -> TreePosterior:
    options = {"n_trees": 50, "random_state": 0, "n_particles": 50, "n_sweeps": 6} | options
    return infer_smc(
        case.rows, case.score, column=case.columns, n_columns=case.n_columns, **options
    )


CODES = np.array(
    [[0, 0, 2], [1, 0, 0], [2, 0, 5], [3, 0, 2], [0, 1, 5], [1, 1, 2], [2, 1, 0], [3, 1, 0]]
)
LABELS = np.array([0, 1, 0, 1, 1, 0, 2, 0])
FRACTIONS = np.array([0.5, 1.5, 1.0, 0.3, 2.0, 0.7, 1.1, 0.9])
COPIES = np.array([1.0, 2.0, 1.0, 3.0, 1.0, 1.0, 2.0, 1.0])

CASES = {
    "depth 1": {"max_depth": 1, "split_penalty": 1.0},
    "penalty": {"max_depth": 2, "split_penalty": 2.0, "weight": COPIES},
    "hot": {"max_depth": 2, "split_penalty": 4.0, "temperature": 2.0, "weight": FRACTIONS},
    # Cold targets are far from uniform: particles are resampled on the way.
    "cold": {"max_depth": 2, "split_penalty": 0.3, "temperature": 0.25},
    "bcart": {"max_depth": 2, "split_penalty": "bcart"},
    "hot bcart": {"max_depth": 2, "split_penalty": ("bcart", 0.2, 0.0), "temperature": 2.0},
    "weighted bcart": {"max_depth": 2, "split_penalty": ("bcart", 0.5, 0.1), "weight": FRACTIONS},
    "deep": {"max_depth": 3, "split_penalty": 0.5, "rows": 6, "temperature": 0.3},
    "deep bcart": {"max_depth": 3, "split_penalty": "bcart", "rows": 6, "temperature": 0.5},
}
RESAMPLED = ("cold", "deep", "deep bcart")


def make_case(name: str) -> Case:
    settings = dict(CASES[name])
    rows = settings.pop("rows", len(CODES))
    weight = settings.pop("weight", np.ones(len(CODES)))[:rows]
    return Case(CODES[:rows], LABELS[:rows], 3, weight, leaf_concentration=0.7, **settings)


@cache
def truth_of(name: str) -> Enumeration:
    return Enumeration(make_case(name))


def misfit(truth: Enumeration, posterior: TreePosterior) -> float:
    """Pearson's chi-square of the tree frequencies, in units of its 1e-4 quantile."""
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


@pytest.mark.parametrize("name", CASES)
def test_evidence_and_trees_are_those_of_the_posterior(name):
    truth = truth_of(name)
    posterior = infer(truth.case, n_trees=4000, n_particles=400, n_sweeps=100)
    assert posterior.diagnostics["sweeps"] == 100
    assert (posterior.diagnostics["resampled_per_sweep"] > 0.5) == (name in RESAMPLED)
    assert 0 < posterior.log_evidence_error < 0.04
    assert abs(posterior.log_evidence - truth.log_z) < 4 * posterior.log_evidence_error
    assert misfit(truth, posterior) < 1.2
    size = np.zeros(len(truth.size_probability))
    size[: len(posterior.size_probability)] = posterior.size_probability
    np.testing.assert_allclose(size, truth.size_probability, atol=0.04)
    np.testing.assert_allclose(posterior.column_inclusion, truth.column_inclusion, atol=0.04)
    assert posterior.best_log_mass == pytest.approx(truth.best_log_mass, rel=1e-10)


@pytest.mark.parametrize("name", ["penalty", "deep"])
def test_few_particles_bias_neither_the_evidence_nor_the_pooled_trees(name):
    """Two particles estimate Z badly but without bias: many sweeps together are right."""
    truth = truth_of(name)
    posterior = infer(truth.case, n_particles=2, n_sweeps=2000, n_trees=2000)
    assert posterior.log_evidence_error < 0.15
    assert abs(posterior.log_evidence - truth.log_z) < 4 * posterior.log_evidence_error
    # Sweeps differ widely in their evidence here, so the trees must be weighted by it.
    size = np.zeros(len(truth.size_probability))
    size[: len(posterior.size_probability)] = posterior.size_probability
    np.testing.assert_allclose(size, truth.size_probability, atol=0.07)


def test_the_error_covers_the_spread_of_repeated_runs():
    truth = truth_of("cold")
    runs = [infer(truth.case, n_sweeps=30, random_state=seed) for seed in range(20)]
    scores = [(run.log_evidence - truth.log_z) / run.log_evidence_error for run in runs]
    assert abs(np.mean(scores)) < 0.7
    assert 0.6 < np.std(scores) < 1.6


def deep_case(prior) -> Case:
    rng = np.random.default_rng(5)
    codes = rng.integers(0, 9, size=(60, 3))
    weight = rng.uniform(0.2, 3.0, 60)
    return Case(
        codes, rng.integers(0, 4, 60), 4, weight, max_depth=30, split_penalty=prior, temperature=9.0
    )


@pytest.mark.parametrize("prior", [0.3, ("bcart", 0.9, 0.0), "mdl"])
def test_returned_trees_have_the_score_of_their_trees(prior):
    case = deep_case(prior)
    posterior = infer(case, n_trees=101, n_sweeps=2)
    assert len(posterior.trees) == 101
    check_trees(posterior.trees, np.full(3, 9))
    reward = log_reward(posterior.trees, case.rows, case.score)
    assert np.isfinite(reward).all()
    np.testing.assert_allclose(posterior.log_reward, reward, rtol=1e-12)
    best = log_reward(posterior.best_tree, case.rows, case.score)
    assert posterior.best_log_reward == pytest.approx(best[0], rel=1e-12)
    highest = log_reward(posterior.paper_tree, case.rows, case.score)[0]
    assert highest >= posterior.log_reward.max() - 1e-9
    # The particles' own running score, which the weights are made of, agrees.
    assert posterior.history[-1]["best_log_reward"] == pytest.approx(highest, rel=1e-9)
    assert np.isnan(posterior.log_prob).all()
    assert (posterior.log_weight == 0).all()
    assert posterior.engine == "smc"


def test_one_sweep_does_not_know_its_error():
    posterior = infer(make_case("penalty"), n_sweeps=1)
    assert posterior.log_evidence == pytest.approx(truth_of("penalty").log_z, abs=0.5)
    assert math.isnan(posterior.log_evidence_error)


def test_history_tells_how_the_evidence_settled():
    posterior = infer(make_case("penalty"), n_sweeps=100)
    assert 10 <= len(posterior.history) <= 60
    assert posterior.history[-1]["sweep"] == 100
    assert posterior.history[-1]["log_evidence"] == pytest.approx(posterior.log_evidence)
    best = [entry["best_log_reward"] for entry in posterior.history]
    assert best == sorted(best)


def test_the_same_seed_gives_the_same_trees_on_any_number_of_threads():
    case = make_case("bcart")
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    one, two = infer(case, n_jobs=1), infer(case, n_jobs=3)
    np.testing.assert_array_equal(one.trees.feature, two.trees.feature)
    np.testing.assert_array_equal(one.trees.cut, two.trees.cut)
    assert one.log_evidence == two.log_evidence
    assert one.history == two.history
    assert infer(case, random_state=1).log_evidence != one.log_evidence
    assert infer(case, random_state=np.random.default_rng(0)).log_evidence == one.log_evidence
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002


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
    truth, posterior = Enumeration(case), infer(case, n_trees=1000, n_particles=500)
    error = max(5 * posterior.log_evidence_error, 1e-9)
    assert posterior.log_evidence == pytest.approx(truth.log_z, abs=error)
    assert posterior.best_log_mass == pytest.approx(truth.best_log_mass, rel=1e-10)
    assert set(canonical_keys(posterior.trees)) <= set(canonical_keys(to_batch(truth.trees)))
    if len(truth.trees) == 1:
        assert posterior.log_evidence == pytest.approx(truth.log_z, rel=1e-12)
        assert posterior.log_evidence_error == 0


def test_many_sweeps_stay_in_bounded_memory_and_keep_their_weights():
    truth = truth_of("penalty")
    posterior = infer(truth.case, n_trees=2000, n_particles=30, n_sweeps=600)
    assert posterior.diagnostics["sweeps"] == 600
    assert misfit(truth, posterior) < 1.2


def test_without_a_number_of_sweeps_they_go_on_until_the_time_is_up(monkeypatch):
    second_per_piece(monkeypatch, engine)
    endless = {"n_sweeps": None, "n_particles": 20}
    posterior = infer(make_case("penalty"), **endless, time_budget=500.0, n_jobs=1)
    assert posterior.diagnostics["seconds"] == 501  # the piece that was begun in time is finished
    assert 4 < posterior.diagnostics["sweeps"] < 501


def test_one_sweep_is_finished_whatever_the_time(monkeypatch):
    endless_grace(monkeypatch, engine)
    case = deep_case(0.3)
    posterior = infer(case, n_particles=2000, n_sweeps=None, time_budget=1e-9)
    assert posterior.diagnostics["sweeps"] == 1
    np.testing.assert_allclose(
        posterior.log_reward, log_reward(posterior.trees, case.rows, case.score), rtol=1e-9
    )


def test_an_interrupt_ends_all_threads():
    def interrupt(stage: str, share: float) -> None:
        if stage == "sweeping":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        infer(make_case("penalty"), n_sweeps=None, time_budget=600, progress=interrupt)
    assert not any("ThreadPool" in thread.name for thread in threading.enumerate())


@pytest.mark.parametrize("options", [{"n_particles": 0}, {"n_sweeps": 0}, {"n_trees": 0}])
def test_nothing_to_do_is_refused(options):
    (name,) = options
    with pytest.raises(ValueError, match=f"{name}=0 is out of range"):
        infer(make_case("penalty"), **options)


def test_sweeps_need_an_end():
    with pytest.raises(ValueError, match="give one of them"):
        infer(make_case("penalty"), n_sweeps=None, time_budget=None)


def test_systematic_resampling_gives_every_place_its_share():
    rng = np.random.default_rng(0)
    weight = np.array([0.0, 1.0, 2.5, 0.5, 0.0])
    draws = np.stack([np.bincount(systematic(weight, 8, rng), minlength=5) for _ in range(4000)])
    expected = 8 * weight / weight.sum()
    np.testing.assert_allclose(draws.mean(axis=0), expected, atol=0.05)
    assert (np.abs(draws - expected) < 1).all()


def test_the_log_of_a_mean_does_not_overflow():
    assert log_mean_exp(np.array([-1000.0, -1000.0])) == -1000.0
    assert log_mean_exp(np.log([1.0, 3.0]) + 900) == pytest.approx(900 + math.log(2))
