"""The certified interval: it holds log Z, shrinks with work, closes, and is told where refused."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from enumeration import Case, Enumeration
from hypothesis import example, given
from hypothesis import strategies as st
from keyword_engines import infer_exact
from sklearn.datasets import load_breast_cancer
from thoroughness import examples

import dtgfn
from dtgfn.engines.exact.interval import bound_problem, evidence_interval
from dtgfn.engines.rowsets.problem import make_problem
from dtgfn.trees.leaf_models import DirichletLeaf, NormalLeaf, fit_normal
from dtgfn.trees.score import Rows, Score, make_score

PENALTIES = (0.0, 1.3, "mdl", "paper", "bcart")


def random_problem(seed: int) -> tuple[Rows, Score]:
    """Return an odd little table with an odd score: classes or numbers, weights, temperature."""
    rng = np.random.default_rng(seed)
    n_rows, n_features, n_thresholds = (int(rng.integers(2, most)) for most in (40, 5, 7))
    codes = rng.integers(0, n_thresholds + 1, (n_rows, n_features)).astype(np.uint16)
    n_classes = int(rng.integers(1, 4))
    clear = np.minimum(codes[:, 0], n_classes - 1)
    noisy = rng.random(n_rows) < rng.choice([0.0, 0.2, 1.0])
    target = np.where(noisy, rng.integers(0, n_classes, n_rows), clear)
    leaf: DirichletLeaf | NormalLeaf = DirichletLeaf(
        n_classes, float(rng.choice([0.02, 0.1, 0.5, 2.0]))
    )
    if rng.random() < 0.2:
        leaf, target = NormalLeaf(), target + rng.normal(size=n_rows)
    else:
        target = target.astype(np.int32)
    choices = (
        np.ones(n_rows),
        rng.integers(1, 5, n_rows).astype(float),
        rng.uniform(0.1, 3.0, n_rows),
    )
    score = make_score(
        leaf,
        n_features=n_features,
        n_thresholds=n_thresholds,
        max_depth=int(rng.integers(0, 5)),
        split_penalty=PENALTIES[seed % len(PENALTIES)],
        temperature=float(rng.choice([0.5, 1.0, 1.0, 4.0])),
    )
    rows = Rows(codes, target, choices[int(rng.integers(3))])
    return rows, score


def true_log_z(rows: Rows, score: Score) -> float:
    column = np.arange(rows.codes.shape[1], dtype=np.int32)
    run = {"column": column, "n_columns": column.size, "n_trees": 1, "n_jobs": 1}
    return infer_exact(rows, score, **run).log_evidence


@examples(30)
@given(st.integers(0, 10**6))
def test_log_z_is_in_the_interval_which_shrinks_with_work_and_closes(seed):
    rows, score = random_problem(seed)
    truth = true_log_z(rows, score)
    before = (-math.inf, math.inf)
    for most in (1, 3, 10, 30, None):
        found = evidence_interval(rows, score, time_budget=None, most_sub_problems=most, n_jobs=1)
        assert found.lower <= truth <= found.upper
        assert before[0] <= found.lower + 1e-9
        assert found.upper - 1e-9 <= before[1]
        before = found.lower, found.upper
    assert before[0] == pytest.approx(before[1], rel=1e-8, abs=1e-8)


ODD_WEIGHTS = ((1e-9, 1000.0), (1e-9, 1.0, 1e5), (1e-300, 1.0), (1e-12,), (3e4,))


def odd_problem(seed: int) -> tuple[Rows, Score]:
    """Return a table whose weights, numbers or penalty are far from one."""
    rng = np.random.default_rng(seed)
    n_rows, n_features, n_thresholds = int(rng.choice([2, 5, 30, 200])), 3, 6
    codes = rng.integers(0, n_thresholds + 1, (n_rows, n_features)).astype(np.uint16)
    clear = codes[:, -1] > 2
    weight = rng.choice(ODD_WEIGHTS[int(rng.integers(len(ODD_WEIGHTS)))], n_rows)
    if seed % 2:
        target = clear + 1e9 + rng.normal(size=n_rows) * rng.choice([0.0, 0.1])
        target[0] += rng.choice([0.0, 1e6])
        leaf = fit_normal(NormalLeaf(), target, weight)
        target = (target - leaf.location) / leaf.scale
    else:
        noisy = rng.random(n_rows) < rng.choice([0.0, 0.3])
        target = np.where(noisy, rng.integers(0, 3, n_rows), clear).astype(np.int32)
        leaf = DirichletLeaf(3, float(rng.choice([0.02, 0.1, 2.0])))
    score = make_score(
        leaf,
        n_features=n_features,
        n_thresholds=n_thresholds,
        max_depth=int(rng.integers(0, 5 if n_rows < 100 else 4)),
        split_penalty=(0.0, "mdl", "bcart", 50.0, 800.0, 1e6)[int(rng.integers(6))],
        temperature=float(rng.choice([0.05, 1.0, 1.0, 100.0])),
    )
    return Rows(codes, target, weight), score


@examples(60)
@given(st.integers(0, 10**6))
# Shares of the gap that underflow; a row too light for the count of those like it; 1e-300 of one;
# a million rows' worth whose terms nearly cancel.
@example(36)
@example(54)
@example(74)
@example(21994)
def test_log_z_is_in_the_interval_where_numbers_are_odd(seed):
    rows, score = odd_problem(seed)
    truth = true_log_z(rows, score)
    for most in (1, 5, 25, None):
        found = evidence_interval(rows, score, time_budget=None, most_sub_problems=most, n_jobs=1)
        assert found.lower <= truth <= found.upper
    assert found.width <= 1e-6 * max(1.0, abs(truth))


@pytest.mark.parametrize("penalty", [0.0, 0.7, "mdl", "paper"])
@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_rows_more_or_less_change_log_z_by_no_more_than_is_said(penalty, temperature):
    """The two inequalities of ``bounds.py``, against the enumeration of all trees."""
    rng = np.random.default_rng([int(10 * temperature), len(str(penalty))])
    for _ in range(30):
        n_classes, max_depth = int(rng.integers(1, 4)), int(rng.integers(0, 4))
        codes, labels = rng.integers(0, 3, (7, 2)), rng.integers(0, n_classes, 7)
        weight = rng.integers(1, 3, 7).astype(float)
        # Equal codes make one row, which comes and goes as a whole.
        _, first = np.unique(codes, axis=0, return_index=True)
        codes, labels, weight = codes[first], labels[first], weight[first]
        case = Case(
            codes, labels, n_classes, weight,
            max_depth=max_depth, split_penalty=penalty, temperature=temperature, n_thresholds=2,
        )  # fmt: skip
        whole = Enumeration(case)
        fewer = int(rng.integers(1, len(codes)))
        part = case.but(codes=codes[:fewer], labels=labels[:fewer], weight=weight[:fewer])
        x = len(whole.valid_splits(tuple(range(len(codes)))))
        x *= math.exp(-case.score.prior.penalty / temperature) / n_classes ** (1 / temperature)
        more = (len(codes) - fewer) * math.log1p(max_depth * x)
        a = case.leaf_concentration
        less = weight[fewer:].sum() * math.log((n_classes * a + weight.sum()) / a) / temperature
        added = whole.log_z - Enumeration(part).log_z
        assert -less - 1e-9 <= added <= more + 1e-9


def test_threads_do_not_change_the_interval():
    X, y = load_breast_cancer(return_X_y=True)
    shallow = dtgfn.infer(X[:, :8], y, engine="exact", max_depth=1, n_thresholds=5, n_trees=1)
    score = make_score(shallow.score.leaf, n_features=8, n_thresholds=5, max_depth=4)
    how = {"time_budget": None, "most_sub_problems": 60}
    one, two = (evidence_interval(shallow.rows, score, n_jobs=n, **how) for n in (1, 2))
    assert (one.lower, one.upper, one.sub_problems) == (two.lower, two.upper, two.sub_problems)
    assert one.sub_problems <= 60


def test_what_is_refused_says_what_is_certain():
    X, y = load_breast_cancer(return_X_y=True)
    settings = {"max_depth": 4, "n_thresholds": 99, "n_trees": 1}
    with pytest.raises(dtgfn.BudgetExceeded, match="For certain, log Z lies between") as refusal:
        dtgfn.infer(X, y, engine="exact", time_budget=0.5, **settings)
    interval = refusal.value.interval
    assert interval.lower < interval.upper < 0
    assert str(interval) in str(refusal.value)
    assert pickle.loads(pickle.dumps(refusal.value)).interval == interval
    # A sampler's evidence is of the same Z.
    sampled = dtgfn.infer(X, y, engine="smc", n_particles=200, random_state=0, **settings)
    found = evidence_interval(sampled.rows, sampled.score, time_budget=None, most_sub_problems=2)
    assert found.lower <= sampled.log_evidence <= found.upper


def test_no_memory_is_one_look():
    rows, score = random_problem(3)
    column = np.arange(rows.codes.shape[1], dtype=np.int32)
    problem = make_problem(rows, score, column, column.size)
    found = bound_problem(problem, None, 1000.0, 1)
    assert found.sub_problems == 1
    assert found.lower <= true_log_z(rows, score) <= found.upper


@pytest.mark.parametrize("given", [{"time_budget": -1}, {"memory_budget": "much"}])
def test_what_cannot_be_a_budget_is_refused(given):
    with pytest.raises(ValueError, match="budget"):
        evidence_interval(*random_problem(1), **given)
