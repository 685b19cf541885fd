"""Impossible answers cannot happen: what a posterior must be, wherever it is made or shown."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from thoroughness import examples

from dtgfn import DTGFNClassifier, DTGFNRegressor, infer
from dtgfn.cli.summary import summarise, summary_text
from dtgfn.diagnostics import trust, verdict
from dtgfn.posterior.weighted_trees import check_possible, sampled_posterior
from dtgfn.trees.batch import from_splits
from dtgfn.trees.leaf_models import DirichletLeaf, NormalLeaf
from dtgfn.trees.score import Rows, log_reward, make_score

ROWS = Rows(np.array([[0], [1], [2], [3]], np.uint16), np.array([0, 0, 1, 1], np.int32), np.ones(4))
SCORE = make_score(DirichletLeaf(2), n_features=1, n_thresholds=3, max_depth=2, split_penalty=0.5)


def drawn(log_evidence: float, **changes):
    """Three trees, two of them equal, with an evidence that somebody has estimated."""
    trees = from_splits([{(): (0, 1)}, {}, {(): (0, 1)}])
    given_ = {
        "log_reward": log_reward(trees, ROWS, SCORE),
        "log_prob": np.full(3, np.nan),
        "log_weight": np.zeros(3),
        "log_evidence": log_evidence,
        "log_evidence_error": 0.01,
        "rows": ROWS,
        "score": SCORE,
        "column": np.zeros(1, np.int32),
        "n_columns": 1,
        "engine": "smc",
    }
    return sampled_posterior(trees, **(given_ | changes))


def test_an_evidence_below_known_trees_is_lifted_to_their_sum_and_told():
    reward = log_reward(from_splits([{(): (0, 1)}, {}]), ROWS, SCORE)  # no cuts are equivalent
    known = float(np.logaddexp(*reward))
    posterior = drawn(known - 2)
    assert posterior.log_evidence == pytest.approx(known)
    assert posterior.log_evidence_error == pytest.approx(2)
    assert posterior.diagnostics["evidence_lifted"] == pytest.approx(2)
    assert posterior.best_probability < 1
    assert any("nats more than the evidence" in doubt for doubt in trust(posterior))
    assert verdict(posterior)["level"] == "poor"
    # What may be true is left alone, and so is what nobody has estimated.
    assert drawn(known + 1).log_evidence == known + 1
    assert "evidence_lifted" not in drawn(known + 1).diagnostics
    assert math.isnan(drawn(math.nan).log_evidence)
    # What is proven elsewhere counts as well.
    assert drawn(known, log_z_floor=known + 3).log_evidence == pytest.approx(known + 3)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"best_log_reward": 5.0}, "the best tree outweighs all trees"),
        ({"diagnostics": {"elbo": 5.0}}, "the ELBO is above the evidence"),
        ({"column_inclusion": np.array([1.2])}, "a share is no probability"),
        ({"size_probability": np.array([0.5, 0.2])}, "the sizes do not add up"),
        ({"log_weight": np.array([0.0, np.nan, 0.0])}, "a weight is not finite"),
    ],
)
def test_what_cannot_be_is_refused(changes, said):
    posterior = replace(drawn(0.0), **changes)
    with pytest.raises(ArithmeticError, match=said):
        check_possible(posterior)


def test_weights_that_leave_too_few_digits_are_named():
    rng = np.random.default_rng(100)
    n = int(rng.integers(8, 40))
    X, y = rng.integers(0, 5, size=(n, 3)), rng.normal(size=n) * 10.0 ** rng.integers(-3, 4)
    weight = np.exp(rng.normal(size=n) * 3)
    settings = {"engine": "exact", "leaf": NormalLeaf(), "max_depth": 3, "n_thresholds": 9}
    with pytest.raises(ArithmeticError, match=r"sums to 9e\+08 rows' worth.*divide it by a"):
        infer(X, y, sample_weight=weight * 9e8 / weight.sum(), **settings)
    infer(X, y, sample_weight=weight * 9e2 / weight.sum(), **settings)


@pytest.mark.filterwarnings("ignore::dtgfn.diagnostics.UntrustworthyFit")
@examples(25)
@given(st.integers(0, 10**6), st.sampled_from(["gfn", "mcmc", "smc"]))
def test_every_engine_keeps_to_what_is_possible(seed, engine):
    rng = np.random.default_rng(seed)
    n_rows, n_columns = int(rng.integers(1, 40)), int(rng.integers(1, 4))
    X = rng.normal(size=(n_rows, n_columns)).round(1)
    y = rng.integers(0, int(rng.integers(1, 4)), n_rows)
    if seed % 2:
        X[:, 0] = y + 2  # gives the label away
    few = {"gfn": {"n_steps": 2}, "mcmc": {"n_steps": 300}, "smc": {"n_particles": 20}}[engine]
    posterior = infer(
        X,
        y,
        engine=engine,
        max_depth=int(rng.integers(0, 4)),
        n_thresholds=9,
        temperature=float(rng.choice([0.5, 1.0, 3.0])),
        time_budget=None,
        n_trees=30,
        random_state=seed % 1000,
        **few,
    )
    check_possible(posterior)
    best = posterior.best_log_mass
    if engine != "mcmc":
        assert posterior.log_evidence >= best - 1e-9 * max(1, abs(best))
        assert posterior.best_probability <= 1
    highest = log_reward(posterior.paper_tree, posterior.rows, posterior.score)[0]
    assert highest >= posterior.log_reward.max() - 1e-6
    assert (posterior.column_inclusion <= 1).all()


@pytest.mark.filterwarnings("ignore::dtgfn.diagnostics.UntrustworthyFit")
def test_a_doubtful_fit_says_so_first_and_never_that_no_gap_is_left():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 6))
    y = ((X[:, 0] > 0) ^ (X[:, 1] > 0)).astype(int)
    model = DTGFNClassifier(n_thresholds=31, time_budget=None, options={"n_steps": 1}).fit(X, y)
    summary = summarise(model)
    text = summary_text(summary)
    assert summary["verdict"]["level"] == "poor"
    assert "fit: poor" in text.splitlines()[0]
    assert "too early to tell" in text or "only guessed" in text
    assert "no gap left" not in text
    exact = DTGFNClassifier(inference="exact", max_depth=1).fit(X, y)
    assert "fit: good" in summary_text(summarise(exact)).splitlines()[0]


@pytest.mark.parametrize("seed", range(8))
def test_rows_that_weigh_millions_are_no_contradiction(seed):
    """Sums near 1e9 nats round by more than 1e-9, and a share of all trees may seem to pass one."""
    X = np.tile([[1.0, 0.0], [0.0, 1.0]], (6, 1))
    y = np.random.default_rng(seed).normal(size=12)
    model = DTGFNRegressor(inference="exact", max_depth=2, n_thresholds=1, temperature=0.1)
    sizes = model.fit(X, y, sample_weight=1e6 * np.arange(1, 13)).posterior_.size_probability
    assert sizes.max() <= 1.0
    assert sizes.sum() == pytest.approx(1.0, abs=1e-6)
