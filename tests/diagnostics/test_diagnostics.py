"""Diagnostics against the enumeration of all trees: right samplers pass, wrong ones are seen."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import warnings
from dataclasses import fields, replace
from functools import cache

import numpy as np
import pytest
from enumeration import Case, Enumeration, from_batch, n_splits, to_batch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from keyword_engines import infer_exact
from scipy.stats import genpareto
from sklearn.datasets import load_wine
from thoroughness import examples

import dtgfn
from dtgfn.diagnostics import (
    UntrustworthyFit,
    compare,
    distinct_share,
    effective_sample_size,
    evidence_estimate,
    pareto_shape,
    trust,
    warn_if_untrustworthy,
)
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.posterior.weighted_trees import sampled_posterior
from dtgfn.trees.batch import TreeBatch, canonical_keys


class TableSampler:
    """A sampler over enumerated trees whose probability of every tree is written down."""

    def __init__(self, truth: Enumeration, probability: np.ndarray) -> None:
        self.truth, self.probability = truth, probability / probability.sum()
        self.trees = to_batch(truth.trees)
        with np.errstate(divide="ignore"):
            self.log_probs = np.log(self.probability)
        self.table = dict(zip(canonical_keys(self.trees), self.log_probs, strict=True))

    def log_prob(self, trees: TreeBatch) -> np.ndarray:
        return np.array([self.table[key] for key in canonical_keys(trees)])

    def posterior(self, chosen: np.ndarray, weighted: bool = True) -> TreePosterior:
        """Return what an engine that had drawn these trees would."""
        case = self.truth.case
        reward = self.truth.log_rewards[chosen]
        weight = reward / case.temperature - self.log_probs[chosen]
        log_z, error = evidence_estimate(weight)
        posterior = sampled_posterior(
            self.trees[chosen],
            log_reward=reward,
            log_prob=self.log_probs[chosen],
            log_weight=weight if weighted else np.zeros(len(chosen)),
            log_evidence=log_z,
            log_evidence_error=error,
            rows=case.rows,
            score=case.score,
            column=case.columns,
            n_columns=case.n_columns,
            engine="table",
        )
        return replace(posterior, solution=self)

    def draw(self, n_trees: int, seed: int = 0, weighted: bool = True) -> TreePosterior:
        rng = np.random.default_rng(seed)
        chosen = rng.choice(len(self.probability), size=n_trees, p=self.probability)
        return self.posterior(chosen, weighted)


def infer(case: Case, n_trees: int = 1000, random_state: int = 0) -> TreePosterior:
    return infer_exact(
        case.rows,
        case.score,
        column=case.columns,
        n_columns=case.n_columns,
        n_trees=n_trees,
        random_state=random_state,
    )


def example(seed: int = 3, **changes) -> Case:
    """Return a table with some hundreds of trees, a few of them probable."""
    rng = np.random.default_rng(seed)
    codes = rng.choice([0, 1, 2, 4], size=(12, 2))
    labels = np.where(rng.random(12) < 0.2, rng.integers(0, 2, 12), codes[:, 0] > 1).astype(int)
    return Case(codes, labels, 2, max_depth=2, split_penalty=1.0).but(**changes)


CASES = {
    "plain": example(),
    "tempered": example(temperature=3.0),
    "branching": example(split_penalty="bcart"),
    "weighted": example(weight=np.random.default_rng(0).uniform(0.3, 2.0, 12)),
    "one column": example(column=(1, 1), n_columns=3),
    "deep": example(seed=5, max_depth=3, split_penalty=2.0),
}


@cache
def solved(name: str) -> tuple[Enumeration, TreePosterior]:
    """Return a case's enumeration and its exact posterior."""
    return Enumeration(CASES[name]), infer(CASES[name])


@pytest.fixture(scope="module", params=CASES)
def twins(request) -> tuple[Enumeration, TreePosterior]:
    return solved(request.param)


# A tiny example by hand: two rows of two classes, so a leaf (R = 1/6) and a stump (R = 1/12).
TINY = Case(
    np.array([[0], [1]]),
    np.array([0, 1]),
    2,
    max_depth=1,
    leaf_concentration=1.0,
    split_penalty=math.log(3),
)


def test_a_tiny_example_by_hand():
    truth = Enumeration(TINY)
    assert truth.probability == pytest.approx([2 / 3, 1 / 3])
    # Leaf and stump equally likely; one leaf and three stumps were drawn.
    posterior = TableSampler(truth, np.ones(2)).posterior(np.array([0, 1, 1, 1]))
    found = compare(posterior, infer(TINY), n_exact=20_000)
    assert found.n_trees == 4
    # The weights say 5/24, but the two trees add up to 1/4: less cannot be.
    assert posterior.diagnostics["evidence_lifted"] == pytest.approx(math.log(24 / 5 / 4))
    assert found.log_z_error == pytest.approx(0)
    assert found.elbo == pytest.approx((math.log(1 / 3) + 3 * math.log(1 / 6)) / 4)
    assert found.elbo_gap == pytest.approx(math.log(1 / 4) - found.elbo)
    assert found.elbo_error == pytest.approx(math.log(2) * math.sqrt(3 / 4 / 3) / 2)
    gap = 2 / 3 * math.log(4 / 3) + 1 / 3 * math.log(2 / 3)
    assert found.eubo_gap == pytest.approx(gap, abs=5 * found.eubo_error)
    assert found.eubo == pytest.approx(math.log(1 / 4) + found.eubo_gap)
    error = math.log(2) * math.sqrt(2 / 9) / math.sqrt(20_000)
    assert found.eubo_error == pytest.approx(error, rel=0.02)
    assert found.unreachable_mass == 0
    assert found.ess == pytest.approx(25 / 28)
    assert found.n_effective == pytest.approx(25 / 7)
    assert found.tree_variation == pytest.approx(2 / 3 - 0.4)
    assert found.prediction_variation == pytest.approx(0.6 - 5 / 9)
    assert found.prediction_variation_max == pytest.approx(0.6 - 5 / 9)
    assert (found.mass_covered, found.top_mass) == pytest.approx((1, 1))
    assert (found.top_trees, found.top_found) == (2, 2)
    assert found.column_inclusion_error == pytest.approx(0.6 - 1 / 3)
    assert found.mean_splits_error == pytest.approx(0.6 - 1 / 3)
    # Four exact draws, k of them leaves, are |k / 4 - 2 / 3| away: 0.2 on average.
    chance = [math.comb(4, k) * 2**k / 81 for k in range(5)]
    mean = sum(p * abs(k / 4 - 2 / 3) for k, p in enumerate(chance))
    assert found.tree_variation_floor == pytest.approx(mean, abs=5 * 0.15 / math.sqrt(10))
    assert found.tree_variation_floor_high >= found.tree_variation_floor


def test_every_distance_is_that_of_the_enumeration(twins):
    truth, exact = twins
    rng = np.random.default_rng(0)
    sampler = TableSampler(truth, truth.probability * rng.uniform(0.1, 1.0, len(truth.trees)))
    for weighted in (True, False):
        posterior = sampler.draw(60, weighted=weighted)
        keys = canonical_keys(sampler.trees)
        frequency = np.zeros(len(keys))
        for key, weight in zip(canonical_keys(posterior.trees), posterior.weights, strict=True):
            frequency[keys.index(key)] += weight
        codes = rng.integers(0, 6, size=(15, 2)).astype(np.uint16)
        predicted = sum(
            f * truth.predict(truth.trees[i], codes) for i, f in enumerate(frequency) if f
        )
        distance = np.abs(predicted - truth.average(codes)).sum(axis=1) / 2
        found = compare(posterior, exact, codes=codes)
        assert found.tree_variation == pytest.approx(
            np.abs(frequency - truth.probability).sum() / 2
        )
        assert found.prediction_variation == pytest.approx(distance.mean())
        assert found.prediction_variation_max == pytest.approx(distance.max())
        assert found.mass_covered == pytest.approx(truth.probability[frequency > 0].sum())
        masses = np.exp(np.array(list(truth.log_masses.values())) - truth.log_z)
        last = np.sort(masses)[-min(100, found.top_trees)]
        drawn = {truth.parting(truth.trees[i]) for i in np.flatnonzero(frequency)}
        seen = [np.exp(truth.log_masses[parting] - truth.log_z) for parting in drawn]
        assert found.top_found == min((np.array(seen) >= last * (1 - 1e-9)).sum(), 100)
        sizes = np.array([n_splits(tree) for tree in truth.trees])
        wrong_by = (frequency - truth.probability) @ sizes
        assert found.mean_splits_error == pytest.approx(wrong_by, abs=1e-9)
        drawn = np.log(posterior.weights)
        assert found.n_effective == pytest.approx(60 * effective_sample_size(drawn))


def test_training_rows_count_by_their_weight():
    case = example(weight=np.arange(1.0, 13.0))
    truth = Enumeration(case)
    posterior = TableSampler(truth, np.ones(len(truth.trees))).draw(50, weighted=False)
    drawn = [from_batch(posterior.trees, b) for b in range(50)]
    predicted = sum(truth.predict(tree, case.codes) for tree in drawn) / 50
    distance = np.abs(predicted - truth.average(case.codes)).sum(axis=1) / 2
    found = compare(posterior, infer(case))
    assert found.prediction_variation == pytest.approx(distance @ case.weight / case.weight.sum())


def test_bounds_are_the_divergences_of_the_enumeration(twins):
    truth, exact = twins
    q = np.random.default_rng(1).uniform(0.2, 1.0, len(truth.trees)) * np.sqrt(truth.probability)
    sampler = TableSampler(truth, q)
    found = compare(sampler.draw(1500), exact, n_exact=3000)
    log_ratio = np.log(truth.probability) - sampler.log_probs
    assert found.elbo_gap == pytest.approx(
        -sampler.probability @ log_ratio, abs=5 * found.elbo_error
    )
    assert found.eubo_gap == pytest.approx(truth.probability @ log_ratio, abs=5 * found.eubo_error)
    assert found.elbo <= exact.log_evidence <= found.eubo
    ess = 1 / (sampler.probability @ np.exp(2 * log_ratio))
    assert found.ess == pytest.approx(ess, abs=0.1)


@pytest.mark.parametrize("seed", range(2))
def test_exact_draws_are_as_far_as_exact_draws(twins, seed):
    truth, exact = twins
    found = compare(TableSampler(truth, truth.probability).draw(500, seed), exact)
    assert found.elbo_gap == pytest.approx(0, abs=1e-9)
    assert found.eubo_gap == pytest.approx(0, abs=1e-9)
    assert found.log_z_error == pytest.approx(0, abs=1e-9)
    assert found.ess == pytest.approx(1)
    assert found.unreachable_mass == 0
    # The largest of ten replicates is exceeded now and then, never by much.
    assert found.tree_variation < 1.25 * found.tree_variation_floor_high
    assert found.prediction_variation < 2 * found.prediction_variation_floor_high
    assert found.mass_covered > 0.9 * found.mass_covered_ceiling
    assert found.top_found > found.top_found_ceiling - 15


def test_the_exact_engine_is_at_no_distance_from_itself():
    _, exact = solved("plain")
    found = compare(exact, exact)
    zeros = ("log_z_error", "elbo_gap", "elbo_error", "prediction_variation", "mean_splits_error")
    assert [getattr(found, name) for name in zeros] == [0.0] * len(zeros)
    assert found.ess == 1
    assert math.isnan(found.eubo_gap)  # it does not say how probable given trees are
    assert found.tree_variation < 1.25 * found.tree_variation_floor_high
    assert trust(exact) == []


def test_a_uniform_sampler_is_seen_by_everything():
    truth, exact = solved("deep")
    uniform = TableSampler(truth, np.ones(len(truth.trees)))
    posterior = uniform.draw(1000, weighted=False)
    found = compare(posterior, exact)
    assert found.elbo_gap > 1
    assert found.eubo_gap > 1
    assert found.tree_variation > found.tree_variation_floor + 0.2
    assert found.prediction_variation > 3 * found.prediction_variation_floor_high
    assert found.column_inclusion_error > 0.1
    assert found.mass_covered < found.mass_covered_ceiling - 0.1
    assert found.top_found < found.top_found_ceiling - 10
    weighted = uniform.draw(1000)
    assert any("effective sample size of 0.0" in doubt for doubt in trust(weighted))


def test_weights_mend_a_sampler_that_is_not_too_far_off():
    truth, exact = solved("deep")
    sampler = TableSampler(truth, np.sqrt(truth.probability))
    plain, weighted = (compare(sampler.draw(1500, weighted=w), exact) for w in (False, True))
    assert abs(weighted.mean_splits_error) < plain.mean_splits_error / 2
    assert weighted.tree_variation < plain.tree_variation
    assert weighted.column_inclusion_error < plain.column_inclusion_error / 2
    # Fewer independent trees are further from the truth.
    assert weighted.n_effective < plain.n_effective
    assert weighted.tree_variation_floor > plain.tree_variation_floor
    assert weighted.mass_covered == plain.mass_covered


def test_a_missed_mode_is_seen_by_the_exact_answer_only():
    truth, exact = solved("plain")
    missed = np.array([tree != () and tree[0] == 1 for tree in truth.trees])
    mass = truth.probability[missed].sum()
    assert 0.01 < mass < 0.9
    posterior = TableSampler(truth, np.where(missed, 0.0, truth.probability)).draw(1000)
    found = compare(posterior, exact)
    assert trust(posterior) == []
    assert found.ess == pytest.approx(1)
    assert found.elbo_gap == pytest.approx(-math.log1p(-mass))
    assert found.log_z_error == pytest.approx(math.log1p(-mass))
    assert found.eubo_gap == found.eubo == math.inf
    assert math.isnan(found.eubo_error)
    assert found.unreachable_mass == pytest.approx(mass, abs=5 * 0.5 / math.sqrt(2000))
    assert found.tree_variation > max(mass, found.tree_variation_floor_high)
    assert "inf" in str(found)
    assert found.to_dict()["eubo_gap"] == "inf"


def test_a_sampler_that_does_not_know_its_probabilities_is_compared_as_far_as_possible():
    truth, exact = solved("plain")
    posterior = TableSampler(truth, truth.probability).draw(300)
    chain = replace(
        posterior,
        solution=None,
        log_prob=np.full(300, math.nan),
        log_weight=np.zeros(300),
        log_evidence=math.nan,
        log_evidence_error=math.nan,
    )
    found = compare(chain, exact)
    unknown = {name for name, value in found.to_dict().items() if value is None}
    bounds = {f"{kind}{part}" for kind in ("elbo", "eubo") for part in ("", "_gap", "_error")}
    assert unknown == {"log_z_error", "unreachable_mass", "ess"} | bounds
    assert found.n_effective == pytest.approx(300)
    assert "not known" in str(found)
    assert trust(chain) == []


def test_a_comparison_is_plain_json_and_readable():
    truth, exact = solved("plain")
    found = compare(TableSampler(truth, truth.probability).draw(100), exact)
    again = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert list(again) == [field.name for field in fields(found)]
    assert again == found.to_dict()
    assert str(found) == found.summary()
    assert f"top {found.top_trees} trees sampled" in found.summary()
    assert max(map(len, found.summary().splitlines())) <= 100


def test_the_same_random_state_gives_the_same_comparison():
    truth, exact = solved("plain")
    posterior = TableSampler(truth, np.sqrt(truth.probability)).draw(100)
    assert compare(posterior, exact) == compare(posterior, exact)
    assert compare(posterior, exact) != compare(posterior, exact, random_state=1)


def test_a_loaded_exact_posterior_will_do(tmp_path):
    X, y = load_wine(return_X_y=True)
    model = dtgfn.DTGFNClassifier(max_depth=2, n_thresholds=5, inference="exact").fit(X, y)
    dtgfn.save(model, tmp_path / "model.dtgfn")
    loaded = dtgfn.load(tmp_path / "model.dtgfn")
    found = compare(model.posterior_, loaded.posterior_)
    assert found.prediction_variation == pytest.approx(0, abs=1e-12)
    assert found.elbo_gap == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"codes": example(seed=4).codes}, "different training rows"),
        ({"labels": 1 - example().labels}, "different training rows"),
        ({"weight": np.full(12, 2.0)}, "different training rows"),
        ({"column": (0, 2), "n_columns": 3}, "different training rows"),
        ({"split_penalty": 1.1}, "different scores"),
        ({"temperature": 2.0}, "different scores"),
        ({"max_depth": 1}, "different scores"),
    ],
)
def test_posteriors_of_different_questions_are_not_compared(change, sentence):
    with pytest.raises(ValueError, match=sentence):
        compare(infer(example(**change), 10), infer(example(), 10))


def test_rows_may_be_merged_and_in_any_order():
    case = example(codes=np.repeat(example().codes[:6], 2, axis=0))
    order = np.random.default_rng(0).permutation(12)
    shuffled = case.but(codes=case.codes[order], labels=case.labels[order])
    assert compare(infer(case), infer(shuffled)).elbo_gap == pytest.approx(0, abs=1e-9)


def test_what_cannot_be_compared_is_refused_in_a_sentence():
    truth, exact = solved("plain")
    sampled = TableSampler(truth, truth.probability).draw(20)
    with pytest.raises(ValueError, match="engine 'table' is not the exact one"):
        compare(exact, sampled)
    with pytest.raises(ValueError, match="no sampled trees"):
        compare(infer(CASES["plain"], 0), exact)
    with pytest.raises(ValueError, match=r"log_reward of tree 0 is .* but its score gives"):
        compare(replace(sampled, log_reward=sampled.log_reward + 0.01), exact)
    with pytest.raises(ValueError, match=r"codes has shape \(4, 3\); give rows of 2 codes"):
        compare(sampled, exact, codes=np.zeros((4, 3), np.uint16))
    with pytest.raises(ValueError, match="n_exact=0"):
        compare(sampled, exact, n_exact=0)


# Importance weights.

quickly = examples(60)
log_weights = arrays(float, st.integers(1, 60), elements=st.floats(-500, 500))


@quickly
@given(log_weights)
def test_the_effective_share_is_between_one_draw_and_all(log_weight):
    share = effective_sample_size(log_weight)
    assert 1 / log_weight.size * (1 - 1e-12) <= share <= 1 + 1e-12


@quickly
@given(log_weights, st.floats(-1e5, 1e5))
def test_a_constant_moves_the_evidence_and_nothing_else(log_weight, constant):
    share, (log_z, error) = effective_sample_size(log_weight), evidence_estimate(log_weight)
    moved = log_weight + constant
    moved_log_z, moved_error = evidence_estimate(moved)
    assert effective_sample_size(moved) == pytest.approx(share, rel=1e-8)
    assert moved_log_z == pytest.approx(log_z + constant, rel=1e-12, abs=1e-8)
    assert moved_error == pytest.approx(error, rel=1e-6, abs=1e-6, nan_ok=True)


@quickly
@given(log_weights, st.integers(2, 5), st.randoms(use_true_random=False))
def test_order_and_copies_change_neither_share_nor_evidence(log_weight, times, random):
    copies = np.tile(log_weight, times)
    random.shuffle(copies)
    share = effective_sample_size(log_weight)
    assert effective_sample_size(copies) == pytest.approx(share, rel=1e-9)
    assert evidence_estimate(copies)[0] == pytest.approx(evidence_estimate(log_weight)[0])


@quickly
@given(log_weights)
def test_the_evidence_is_a_mean_and_its_error_follows_from_the_share(log_weight):
    log_z, error = evidence_estimate(log_weight)
    assert log_weight.min() - 1e-9 <= log_z <= log_weight.max() + 1e-9
    if log_weight.size == 1:
        assert math.isnan(error)
        return
    share = effective_sample_size(log_weight)
    expected = math.sqrt(max(1 / share - 1, 0) / (log_weight.size - 1))
    assert error == pytest.approx(expected, rel=1e-5, abs=1e-6)


@quickly
@given(arrays(float, st.integers(30, 200), elements=st.floats(-30, 30)), st.integers(-1000, 1000))
def test_the_shape_does_not_see_a_constant(log_weight, constant):
    # Whole numbers, so that a constant does not change which weights are equal.
    log_weight = np.rint(log_weight)
    shape = pareto_shape(log_weight)
    assert pareto_shape(log_weight + constant) == pytest.approx(shape, nan_ok=True)
    assert math.isnan(shape) or math.isfinite(shape)


def test_odd_weights_have_the_numbers_that_make_sense():
    nothing, zero = np.zeros(0), np.full(4, -math.inf)
    assert math.isnan(effective_sample_size(nothing))
    assert effective_sample_size(zero) == 0
    assert effective_sample_size(np.array([0.0, -math.inf])) == 0.5
    assert math.isnan(effective_sample_size(np.array([0.0, math.nan])))
    assert math.isnan(effective_sample_size(np.array([0.0, math.inf])))
    assert evidence_estimate(zero)[0] == -math.inf
    assert evidence_estimate(np.array([0.0, -math.inf]))[0] == pytest.approx(-math.log(2))
    assert all(math.isnan(value) for value in evidence_estimate(nothing))
    for weights in (nothing, zero, np.zeros(1), np.zeros(1000), 1e-13 * np.arange(1000.0)):
        assert math.isnan(pareto_shape(weights))


def test_the_evidence_is_unbiased_and_its_error_is_its_spread():
    truth, _ = solved("plain")
    sampler = TableSampler(truth, np.sqrt(truth.probability))
    fits = [sampler.draw(200, seed) for seed in range(300)]
    estimate = np.array([fit.log_evidence for fit in fits])
    z = np.exp(estimate - truth.log_z)
    assert abs(z.mean() - 1) < 4 * z.std() / math.sqrt(300)
    assert np.mean([fit.log_evidence_error for fit in fits]) == pytest.approx(
        estimate.std(), rel=0.2
    )


@pytest.mark.parametrize("shape", [-0.3, 0.0, 0.3, 0.6, 1.0, 1.5])
def test_the_shape_of_a_pareto_tail_is_found(shape):
    rng = np.random.default_rng(0)
    found = [
        pareto_shape(np.log(1 + genpareto.rvs(shape, size=4000, random_state=rng)))
        for _ in range(20)
    ]
    # The prior pulls ten draws' worth to 0.5.
    n_tail = math.ceil(3 * math.sqrt(4000))
    expected = (n_tail * shape + 5) / (n_tail + 10)
    assert np.mean(found) == pytest.approx(expected, abs=0.08)


# What a fit knows without the exact answer.


def healthy(n_trees: int = 1000) -> TreePosterior:
    truth, _ = solved("plain")
    return TableSampler(truth, truth.probability).draw(n_trees)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"log_weight": np.r_[np.full(10, 9.0), np.zeros(990)]}, "effective sample size of 0.01"),
        (
            {"log_weight": np.log(genpareto.rvs(1.2, size=1000, random_state=0))},
            "Pareto shape of 1.",
        ),
        ({"log_evidence_error": 0.25}, "standard error of 0.25"),
        ({"log_evidence_error": math.inf}, "standard error of inf"),
        ({"diagnostics": {"r_hat": 1.3}}, "R-hat of 1.30"),
        ({"diagnostics": {"r_hat_log_reward": 1.01, "r_hat_splits": 1.2}}, "R-hat of 1.20"),
        ({"diagnostics": {"r_hat_splits": None, "r_hat_log_reward": 1.1}}, "R-hat of 1.10"),
        ({"diagnostics": {"ess_log_reward": 41.0}}, "worth only 41 independent draws"),
        (
            {
                "diagnostics": {"settled": False},
                "history": [{"elbo": -9.5}, {"elbo": -9.0}, {"elbo": -8.75}],
            },
            "still rising when training ended (0.25 nats in its last half)",
        ),
        ({"diagnostics": {"settled": False}}, "(unknown)"),
        ({"diagnostics": {"open": 0.25}}, "25% of the trees"),
    ],
)
def test_each_doubt_is_said_with_its_number(change, words):
    assert trust(healthy()) == []
    assert any(words in doubt for doubt in trust(replace(healthy(), **change)))


@pytest.mark.parametrize(
    "diagnostics",
    [
        {},
        {"r_hat": None, "ess_log_reward": None},
        {"r_hat": math.nan, "ess_log_reward": math.nan},
        {"r_hat": 1.01, "ess_log_reward": 500.0},
        {"settled": True, "open": 0.01},
    ],
)
def test_what_is_not_known_is_no_doubt(diagnostics):
    fit = replace(healthy(), log_evidence_error=math.nan, diagnostics=diagnostics)
    assert trust(fit) == []
    assert trust(infer(CASES["plain"], 0)) == []


def test_few_trees_are_doubtful_only_against_their_scores():
    truth, _ = solved("plain")
    best = np.argsort(-truth.probability)[:4]
    p = truth.probability[best] / truth.probability[best].sum()
    rng = np.random.default_rng(0)
    sampler = TableSampler(truth, np.ones(len(truth.trees)))
    for share, doubtful in ((p, False), (p[::-1], True)):
        fit = sampler.posterior(rng.choice(best, size=2000, p=share), weighted=False)
        fit = replace(fit, log_prob=np.full(2000, math.nan), log_evidence_error=math.nan)
        assert distinct_share(fit.trees) == 4 / 2000
        assert bool(trust(fit)) == doubtful, trust(fit)


def test_the_share_of_distinct_trees():
    trees = to_batch(Enumeration(TINY).trees)
    assert distinct_share(trees[[0, 1, 1, 0]]) == 0.5
    assert math.isnan(distinct_share(trees[:0]))


def test_a_doubtful_fit_warns_once_with_all_numbers_and_the_way_out():
    fit = replace(healthy(), log_evidence_error=0.3, diagnostics={"r_hat": 1.2})
    with pytest.warns(UntrustworthyFit) as caught:
        warn_if_untrustworthy(fit)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    text = str(caught[0].message)
    for words in ("table", "0.30", "1.20", "time_budget", "n_thresholds", "max_depth"):
        assert words in text
    assert text.count(". ") == 0
    assert text.endswith(".")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_untrustworthy(healthy())


def test_diagnostics_do_not_import_torch():
    code = "import sys, dtgfn.diagnostics\nassert 'torch' not in sys.modules\n"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_fitted_models_are_compared_as_their_posteriors():
    X, y = [[1.0], [2.0], [8.0], [9.0]] * 5, [0, 0, 1, 1] * 5
    model = dtgfn.DTGFNClassifier(inference="exact", max_depth=1, n_jobs=1, random_state=0)
    model.fit(X, y)
    of_posteriors = compare(model.posterior_, model.posterior_)
    assert compare(model, model).to_dict() == of_posteriors.to_dict()
    with pytest.raises(TypeError, match="A list has no trees"):
        compare([1], model)
