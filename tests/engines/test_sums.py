"""Chains over sums of trees: weights, seeds, threads, time, and what they tell of themselves."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from clocks import second_per_piece
from scipy.stats import t
from thoroughness import long_but

from dtgfn.engines.contract import BudgetExceeded, Run
from dtgfn.engines.sums import engine
from dtgfn.engines.sums.chain import bytes_of_draw, memory_of
from dtgfn.engines.sums.engine import infer_sums
from dtgfn.engines.sums.scales import Prior
from dtgfn.engines.sums.settings import SumOptions
from dtgfn.engines.sums.setup import linear_noise, make_setup
from dtgfn.posterior.sum_posterior import SumPosterior
from dtgfn.posterior.sum_prediction import SumPredictor
from dtgfn.trees.leaf_models import DirichletLeaf, NormalLeaf
from dtgfn.trees.score import Rows, merge_rows

KINDS: dict[str, DirichletLeaf | NormalLeaf] = {
    "numbers": NormalLeaf(location=0.0, scale=1.0),
    "two classes": DirichletLeaf(2),
    "three classes": DirichletLeaf(3),
}
COLUMN = np.array([0, 1, 1], dtype=np.int32)


def make_rows(kind: str, n_rows: int = 30, seed: int = 0) -> Rows:
    """Rows of three features, the last two of one column; of weight 1."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 5, size=(n_rows, 3)).astype(np.uint16)
    number = 0.7 * (codes[:, 0] > 2) - 0.5 * (codes[:, 1] < 2) + 0.6 * rng.normal(size=n_rows)
    if kind == "numbers":
        return Rows(codes, number, np.ones(n_rows))
    cuts = [0.0] if kind == "two classes" else [-0.3, 0.5]
    label = np.digitize(number, cuts).astype(np.int32)
    return Rows(codes, label, np.ones(n_rows))


def infer(kind: str, rows: Rows, *, run: dict[str, Any] | None = None, **options) -> SumPosterior:
    settings = {"n_summed": 4, "n_chains": 2, "n_sweeps": 30, "n_draws": 40} | options
    how = {"random_state": 0, "n_jobs": 1} | (run or {})
    return infer_sums(
        rows, KINDS[kind], 3, Run(column=COLUMN, n_columns=2, **how), SumOptions(**settings)
    )


def slopes(posterior: SumPosterior) -> np.ndarray:
    """Slopes of all lines, of the posterior that has some."""
    assert posterior.summed.lines is not None
    return posterior.summed.lines.slope


def same_draws(one: SumPosterior, other: SumPosterior) -> bool:
    """Whether two posteriors are equal bit by bit."""
    return (
        np.array_equal(one.summed.batch.feature, other.summed.batch.feature)
        and np.array_equal(one.summed.batch.cut, other.summed.batch.cut)
        and np.array_equal(one.summed.value, other.summed.value)
        and np.array_equal(slopes(one), slopes(other))
        and np.array_equal(one.leaf_scale, other.leaf_scale)
        and np.array_equal(one.noise, other.noise)
        and np.array_equal(one.chain, other.chain)
    )


def weighted_and_copied(kind: str) -> tuple[Rows, Rows]:
    """Rows of different weights, and as many copies of each."""
    rows = make_rows(kind)
    copies = np.random.default_rng(1).integers(1, 5, size=len(rows.weight))
    index = np.repeat(np.arange(len(copies)), copies)
    return (
        Rows(rows.codes, rows.target, copies.astype(float)),
        Rows(rows.codes[index], rows.target[index], np.ones(len(index))),
    )


def looks(posterior: SumPosterior, codes: np.ndarray) -> np.ndarray:
    """What each draw says of rows, of the noise and of the scale [chains, draws, K]."""
    said = SumPredictor(posterior, n_jobs=1).draws(codes)
    seen = [
        *np.moveaxis(said.reshape(len(codes), posterior.n_draws, -1), 1, 2).reshape(
            -1, posterior.n_draws
        )
    ]
    seen.append(np.log(posterior.leaf_scale))
    if posterior.noise.size:
        seen.append(np.log(posterior.noise))
    return np.array(seen).T.reshape(posterior.chain.max() + 1, -1, len(seen))


@pytest.mark.parametrize("kind", KINDS)
def test_a_weight_is_as_many_rows_to_the_prior(kind):
    """The priors that are set from data are the same, and so is what the sums are added to."""
    weighted, copied = (
        make_setup(rows, KINDS[kind], 3, COLUMN, SumOptions()) for rows in weighted_and_copied(kind)
    )
    np.testing.assert_allclose(weighted.prior, copied.prior, rtol=1e-3)
    np.testing.assert_allclose(weighted.target.offset, copied.target.offset)


@pytest.mark.parametrize("n_sweeps", long_but([150], [150, 6000]))
@pytest.mark.parametrize("kind", KINDS)
def test_a_weight_is_as_many_rows_to_the_posterior(kind, n_sweeps):
    """Chains of few trees move slowly, so that errors are those of chains, not of draws."""
    both, n_chains = weighted_and_copied(kind), 12
    means = []
    for k, rows in enumerate(both):
        posterior = infer(
            kind,
            rows,
            n_chains=n_chains,
            n_sweeps=n_sweeps,
            n_draws=n_chains * 300,
            run={"random_state": k},
        )
        means.append(looks(posterior, both[0].codes[:12]).mean(axis=1))
    error = np.sqrt(sum(each.var(axis=0, ddof=1) / n_chains for each in means))
    score = (means[0].mean(axis=0) - means[1].mean(axis=0)) / error
    assert abs(score).max() < t.isf(1e-5, 2 * (n_chains - 1))


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_gives_the_same_draws_on_any_number_of_threads(kind):
    rows = make_rows(kind)
    first = infer(kind, rows)
    assert same_draws(first, infer(kind, rows))
    assert same_draws(first, infer(kind, rows, run={"n_jobs": 2}))
    assert not same_draws(first, infer(kind, rows, run={"random_state": 1}))


def test_draws_do_not_depend_on_how_often_chains_are_looked_at(monkeypatch):
    """Chunks of one tree, or of many: the machine's speed changes nothing."""
    rows = make_rows("three classes")
    first = infer("three classes", rows)
    monkeypatch.setattr("dtgfn.engines.sums.chain.ChunkSize.adapt", lambda *_: None)
    assert same_draws(first, infer("three classes", rows))


def test_chains_are_drawn_apart():
    posterior = infer("numbers", make_rows("numbers"))
    said = SumPredictor(posterior, n_jobs=1).draws(posterior.rows.codes)
    one, other = said[:, posterior.chain == 0], said[:, posterior.chain == 1]
    assert one.shape == other.shape
    assert not np.isclose(one, other).any(axis=0).all()


@pytest.mark.parametrize("n_sweeps", [None, 10**6])
def test_chains_run_until_the_time_is_up(monkeypatch, n_sweeps):
    second_per_piece(monkeypatch, engine)
    posterior = infer("numbers", make_rows("numbers"), n_sweeps=n_sweeps, run={"time_budget": 20.0})
    assert posterior.diagnostics["stopped_because"] == "time_budget"
    assert posterior.diagnostics["seconds"] == 21  # the piece that was begun in time is finished
    assert all(0 < n < 10**6 for n in posterior.diagnostics["sweeps_per_chain"])


def test_endless_chains_want_a_time():
    with pytest.raises(ValueError, match="n_sweeps=None runs until time_budget ends"):
        infer("numbers", make_rows("numbers"), n_sweeps=None)


def test_chains_that_do_not_fit_are_refused():
    with pytest.raises(BudgetExceeded, match="more than memory_budget allows"):
        infer("numbers", make_rows("numbers"), memory_budget=1000.0)


def test_chains_that_do_not_all_fit_are_fewer_and_keep_fewer_draws():
    """Of four chains as many as there is memory for; draws get half of it at most."""
    rows = make_rows("numbers", n_rows=200)
    setup = make_setup(rows, KINDS["numbers"], 3, COLUMN, SumOptions(n_summed=4))
    one = memory_of(setup, 1) + engine.FEWEST_RECORDED * bytes_of_draw(setup)
    budget = {"memory_budget": 2.5 * one}
    posterior = infer("numbers", rows, n_chains=4, n_sweeps=100, **budget)
    assert posterior.diagnostics["chains_left_out"] == 2
    assert posterior.diagnostics["sweeps_per_chain"] == [100, 100]
    n_chains, most_recorded = engine.plan_memory(setup, SumOptions(**budget))
    assert n_chains * (memory_of(setup, 1) + most_recorded * bytes_of_draw(setup)) <= 2.5 * one


def test_chains_tell_of_themselves():
    posterior = infer("two classes", make_rows("two classes"), n_chains=3, n_draws=30)
    told = posterior.diagnostics
    assert told["stopped_because"] == "all sweeps were made"
    assert told["sweeps_per_chain"] == [30, 30, 30]
    assert told["recorded_draws"] == 3 * 20  # a third is warm-up
    assert posterior.n_draws == 30
    assert np.bincount(posterior.chain).tolist() == [10, 10, 10]
    assert 0.2 < told["acceptance"]["tree"] <= 1
    assert told["r_hat_mean"] <= told["r_hat_largest"]
    assert 0 < told["ess_smallest"] <= told["ess_mean"]
    assert [line["sweep"] for line in posterior.history] == list(range(1, 31))


def test_a_long_chain_keeps_fewer_draws_of_all_of_it(monkeypatch):
    monkeypatch.setattr(engine, "MOST_RECORDED", 20)
    posterior = infer("numbers", make_rows("numbers"), n_chains=1, n_sweeps=100)
    assert [line["sweep"] for line in posterior.history][-1] > 90
    assert len(posterior.history) < 20


@pytest.mark.parametrize("kind", KINDS)
def test_one_row_and_a_target_that_does_not_vary_are_no_error(kind):
    rows = make_rows(kind)
    one = Rows(rows.codes[:1], rows.target[:1], rows.weight[:1])
    same = Rows(rows.codes, np.zeros_like(rows.target), rows.weight)
    for few in (one, same):
        posterior = infer(kind, few)
        assert np.isfinite(SumPredictor(posterior, n_jobs=1).average(rows.codes)).all()


def test_features_that_do_not_vary_are_never_split_on():
    rows = make_rows("numbers")
    codes = rows.codes.copy()
    codes[:, 2] = 3
    posterior = infer("numbers", Rows(codes, rows.target, rows.weight))
    used = posterior.summed.batch.feature
    assert not (used == 2).any()
    assert (used == 1).any()


def test_a_fixed_leaf_scale_stays_as_it_is():
    posterior = infer("numbers", make_rows("numbers"), leaf_scale=0.3)
    np.testing.assert_allclose(posterior.leaf_scale, 0.3)


def test_the_noise_prior_knows_how_well_a_line_fits():
    """A target that a line explains has less noise than one of chance."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 50, size=(200, 3)).astype(np.uint16)
    chance = rng.normal(size=200)
    line = (codes[:, 0] - codes[:, 0].mean()) / codes[:, 0].std() + 0.1 * chance
    rates = []
    for target in (line, chance):
        rows = Rows(codes, (target - target.mean()) / target.std(), np.ones(200))
        prior: Prior = make_setup(rows, KINDS["numbers"], 3, COLUMN, SumOptions()).prior
        rates.append(prior.noise_rate)
    assert math.isclose(rates[0] / rates[1], 0.01, rel_tol=0.3)


def test_the_noise_of_a_linear_fit_does_not_depend_on_the_order_of_rows():
    """Merged rows are sorted: of a long table the first ones are no sample."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 100, (20_000, 2)).astype(np.uint16)
    target = np.where(codes[:, 0] < 30, 0.0, rng.normal(size=20_000))
    rows = Rows(codes, target / target.std(), np.ones(20_000))
    assert linear_noise(merge_rows(rows)) == pytest.approx(linear_noise(rows), rel=0.1)
