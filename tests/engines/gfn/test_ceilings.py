"""Bounds of log Z, optimism that is dropped in time, and trees drawn by the clock."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from keyword_engines import infer_exact
from scipy.special import gammaln, logsumexp
from thoroughness import examples

from dtgfn import infer
from dtgfn.diagnostics import trust, verdict
from dtgfn.engines.gfn.fixed.drawing import draw_in_time
from dtgfn.engines.gfn.fixed.fixed_sampler import FixedSampler
from dtgfn.engines.rowsets.partial.levels import known_nodes
from dtgfn.engines.rowsets.problem import make_problem
from dtgfn.trees.batch import canonical_keys
from dtgfn.trees.leaf_models import DirichletLeaf, NormalLeaf, log_marginal, log_partition_bound
from dtgfn.trees.score import Rows, Score, log_reward, make_score, merge_rows

PENALTIES = ("mdl", "paper", 0.0, 1.5, "bcart")


def random_problem(seed: int) -> tuple[Rows, Score]:
    """Return an odd little table with an odd score: any leaf, prior, temperature, weights."""
    rng = np.random.default_rng(seed)
    n_rows, n_features, n_thresholds = (int(rng.integers(1, most)) for most in (40, 4, 8))
    codes = rng.integers(0, n_thresholds + 1, (n_rows, n_features)).astype(np.uint16)
    weight = np.ones(n_rows) if rng.random() < 0.6 else rng.choice([0.3, 1.0, 2.5], n_rows)
    if rng.random() < 0.7:
        leaf: DirichletLeaf | NormalLeaf = DirichletLeaf(3, float(rng.choice([0.01, 0.1, 2.0])))
        clear = (codes[:, 0] > n_thresholds / 2).astype(np.int32)
        noisy = rng.random(n_rows) < rng.choice([0.0, 0.1, 0.6])
        target = np.where(noisy, rng.integers(0, 3, n_rows), clear).astype(np.int32)
    else:
        leaf = NormalLeaf(
            strength=float(rng.choice([0.01, 1.0])), spread=float(rng.choice([0.01, 0.25]))
        )
        target = codes[:, 0] * rng.choice([0.0, 2.0]) + rng.normal(size=n_rows)
    score = make_score(
        leaf,
        n_features=n_features,
        n_thresholds=n_thresholds,
        max_depth=int(rng.integers(1, 5)),
        split_penalty=PENALTIES[seed % len(PENALTIES)],
        temperature=float(rng.choice([0.5, 1.0, 1.0, 4.0])),
    )
    return Rows(codes, target, weight), score


def make_sampler(rows: Rows, score: Score, **options) -> FixedSampler:
    merged, column = merge_rows(rows), np.arange(rows.codes.shape[1], dtype=np.int32)
    problem = make_problem(merged, score, column, column.size)
    return FixedSampler(problem, merged, **({"hidden": (8,), "n_scouts": 1} | options))


def log_z(rows: Rows, score: Score) -> float:
    column = np.arange(rows.codes.shape[1], dtype=np.int32)
    given_ = {"column": column, "n_columns": column.size, "n_trees": 1, "random_state": 0}
    return infer_exact(rows, score, time_budget=None, n_jobs=1, **given_).log_evidence


def make_wild(sampler: FixedSampler) -> None:
    """Let the network promise as much as it can, everywhere."""
    with torch.no_grad():
        sampler.network.layers[-1].bias.fill_(5.0)
    sampler.flows.step = 100


def slack(value: float) -> float:
    return 1e-5 * max(1.0, abs(value))  # look-aheads are single precision


@examples(60)
@given(st.integers(0, 10**6), st.sampled_from([1, 2]), st.booleans())
def test_log_z_is_between_its_bounds_at_any_time(seed, tails, remember):
    rows, score = random_problem(seed)
    truth = log_z(rows, score)
    sampler = make_sampler(rows, score, exact_tails=tails, remember=remember)
    rng = np.random.default_rng(seed)
    for _ in range(3):
        floor, ceiling = sampler.bounds()
        assert floor <= truth + slack(truth)
        assert ceiling >= truth - slack(truth)
        sampler.learn([sampler.rollout(2, 0.1, rng)])


@examples(60)
@given(st.integers(0, 10**6), st.sampled_from([1, 2]))
def test_wild_promises_never_cost_what_is_known(seed, tails):
    rows, score = random_problem(seed)
    sampler = make_sampler(rows, score, exact_tails=tails)
    rng = np.random.default_rng(seed)
    sampler.learn([sampler.rollout(2, 0.1, rng)])
    make_wild(sampler)
    sampler.flows.optimism.restore(stale=-100)
    for level in sampler.graph.levels[:-1]:
        sampler.flows.refresh(level, np.flatnonzero(~np.isnan(level.flow[: len(level)])))
    sampler.graph.update_all(True)
    known, _ = sampler.bounds()
    log_weight = sampler.draw(20, rng).log_weight(score.temperature)
    assert log_weight.mean() >= known - slack(known)
    assert logsumexp(log_weight) - math.log(20) >= log_weight.mean() - 1e-9
    assert sampler.bounds()[0] >= sampler.best_log_mass - slack(known)


@examples(40)
@given(st.integers(0, 10**6), st.sampled_from([1, 2]))
def test_trees_drawn_without_optimism_or_expansion_weigh_all_that_is_known(seed, tails):
    rows, score = random_problem(seed)
    sampler = make_sampler(rows, score, exact_tails=tails)
    rng = np.random.default_rng(seed)
    sampler.learn([sampler.rollout(2, 0.1, rng)])
    sampler.flows.optimism.drop()
    known, _ = sampler.bounds()
    draws = draw_in_time(sampler.flows, sampler.rows, 20, rng, 0, math.inf)
    assert draws.log_weight(score.temperature).min() >= known - slack(known)
    np.testing.assert_allclose(draws.log_reward, log_reward(draws.trees, rows, score), rtol=1e-9)


@pytest.mark.parametrize("leaf", [DirichletLeaf(3, 0.1), DirichletLeaf(2, 4.0), NormalLeaf()])
def test_no_partition_beats_its_bound(leaf):
    rng = np.random.default_rng(0)
    terms = leaf.terms()
    for _ in range(300):
        n_rows = int(rng.integers(1, 9))
        if isinstance(leaf, NormalLeaf):
            y, weight = rng.normal(scale=rng.choice([0.01, 1, 9]), size=n_rows), np.ones(n_rows)
            sums = np.stack([weight, y, y * y], axis=1)
        else:
            weight = rng.choice([0.2, 1.0, 3.0], n_rows)
            sums = np.eye(leaf.n_classes)[rng.integers(0, leaf.n_classes, n_rows)] * weight[:, None]
        part = rng.integers(0, int(rng.integers(1, n_rows + 1)), n_rows)
        value = sum(log_marginal(sums[part == p].sum(axis=0), terms) for p in np.unique(part))
        assert value <= log_partition_bound(sums.sum(axis=0), terms) + 1e-9


def test_the_bound_of_classes_is_the_formula_with_and_without_tables():
    counts, a = np.array([3.0, 0.0, 5.0]), 0.1
    expected = sum(
        gammaln(n + a) - gammaln(a) + gammaln(3 * a) - gammaln(n + 3 * a) for n in counts
    )
    for weight in (None, np.ones(8)):
        bound = log_partition_bound(counts, DirichletLeaf(3, a).terms(weight))
        assert bound == pytest.approx(expected)


@pytest.mark.parametrize("tails", [1, 2])
def test_trees_cut_short_are_as_frequent_as_their_probability(tails):
    rng = np.random.default_rng(5)
    codes = rng.integers(0, 4, (12, 2)).astype(np.uint16)
    rows = Rows(codes, rng.integers(0, 2, 12).astype(np.int32), np.ones(12))
    score = make_score(
        DirichletLeaf(2, 1.0), n_features=2, n_thresholds=4, max_depth=4, split_penalty=0.3
    )
    sampler = make_sampler(rows, score, exact_tails=tails)
    sampler.learn([sampler.rollout(1, 0.1, rng)])
    draws = draw_in_time(sampler.flows, sampler.rows, 20_000, rng, 0, math.inf)
    assert 0 < draws.cut_short.mean() < 1
    _, first, count = np.unique(canonical_keys(draws.trees), return_index=True, return_counts=True)
    expected = 20_000 * np.exp(draws.log_pf[first])
    often = expected > 100
    assert often.sum() > 10
    assert (np.abs(count - expected)[often] < 5 * np.sqrt(expected[often])).all()


@pytest.mark.parametrize("tails", [1, 2])
def test_when_time_is_up_fewer_trees_are_drawn_but_one_always_is(tails):
    rng = np.random.default_rng(0)
    rows = Rows(
        rng.integers(0, 9, (60, 4)).astype(np.uint16),
        rng.integers(0, 2, 60).astype(np.int32),
        np.ones(60),
    )
    score = make_score(
        DirichletLeaf(2), n_features=4, n_thresholds=9, max_depth=4, split_penalty=0.1
    )
    sampler = make_sampler(rows, score, exact_tails=tails, n_scouts=20)
    for _ in range(20):
        sampler.learn([sampler.rollout(20, 0.1, rng)])
    n_known = sum(known_nodes(level).size for level in sampler.graph.levels)
    sampler.deadline = 0.0  # of a clock that has passed it long ago
    draws = sampler.draw(500, rng)
    assert 1 <= len(draws.trees) < 500
    assert np.isfinite(draws.log_weight(1.0)).all()
    # Nobody has looked at anything new.
    assert sum(known_nodes(level).size for level in sampler.graph.levels) == n_known


@pytest.mark.parametrize("tails", [1, 2])
def test_a_deadline_that_is_far_away_changes_nothing(tails):
    rows, score = random_problem(10)
    found = []
    for deadline in (math.inf, time.monotonic() + 1e6):
        sampler = make_sampler(rows, score, exact_tails=tails)
        sampler.deadline = deadline
        draws = sampler.draw(100, np.random.default_rng(0))
        found.append((canonical_keys(draws.trees), draws.log_pf.tolist()))
    assert found[0] == found[1]


# The whole engine, on the tables where it went wrong.


def leaking_table(seed: int, n_rows: int = 400) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = (rng.random(n_rows) < 0.2).astype(int)
    return np.column_stack([rng.normal(size=(n_rows, 4)), y + 2.0]), y


@pytest.mark.filterwarnings("ignore::dtgfn.diagnostics.UntrustworthyFit")
@pytest.mark.parametrize("n_steps", [1, 25, 61])
def test_a_column_that_gives_the_label_away_is_found(n_steps):
    X, y = leaking_table(n_steps)
    given_ = {"max_depth": 3, "n_thresholds": 31, "time_budget": None, "random_state": 0}
    exact = infer(X, y, engine="exact", **given_)
    sampled = infer(X, y, engine="gfn", n_steps=n_steps, **given_)
    assert sampled.log_evidence == pytest.approx(exact.log_evidence, abs=0.02)
    assert sampled.column_inclusion == pytest.approx(exact.column_inclusion, abs=0.05)
    assert sampled.best_probability <= 1
    told = sampled.diagnostics
    assert told["log_z_floor"] - 1e-6 <= exact.log_evidence <= told["log_z_ceiling"] + 1e-6


@pytest.mark.filterwarnings("ignore::dtgfn.diagnostics.UntrustworthyFit")
def test_a_few_steps_are_never_enough_to_be_believed():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 5))
    y = ((X[:, 0] > 0) ^ (X[:, 1] > 0)).astype(int)
    posterior = infer(
        X, y, max_depth=5, n_thresholds=19, n_steps=5, time_budget=None, random_state=1
    )
    assert not posterior.diagnostics["exact"]
    assert verdict(posterior)["level"] == "poor"
    assert trust(posterior)
