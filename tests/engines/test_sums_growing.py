"""Chains on long tables: parts of the rows first, all of them if there is time, and said so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from clocks import second_per_piece

from dtgfn import DTGFNRegressor
from dtgfn.diagnostics.judgement import UntrustworthyFit
from dtgfn.engines.contract import Run
from dtgfn.engines.sums import engine, growing
from dtgfn.engines.sums.chain import make_workspace, put_on, start_chain
from dtgfn.engines.sums.engine import infer_sums
from dtgfn.engines.sums.growing import part_sizes, take_rows
from dtgfn.engines.sums.settings import SumOptions
from dtgfn.engines.sums.setup import make_setup
from dtgfn.posterior.sum_posterior import SumPosterior
from dtgfn.posterior.sum_prediction import SumPredictor
from dtgfn.trees.leaf_models import DirichletLeaf, NormalLeaf
from dtgfn.trees.score import Rows

N_ROWS = 4000
LEAVES: dict[str, DirichletLeaf | NormalLeaf] = {
    "numbers": NormalLeaf(location=0.0, scale=1.0),
    "three classes": DirichletLeaf(3),
}


@pytest.fixture(autouse=True)
def tables_are_long_early(monkeypatch):
    monkeypatch.setattr(growing, "FEWEST_ROWS", 100)


def make_rows(kind: str) -> Rows:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 30, size=(N_ROWS, 3)).astype(np.uint16)
    number = np.sin(codes[:, 0] / 5) + 0.05 * codes[:, 1] + 0.3 * rng.normal(size=N_ROWS)
    number = (number - number.mean()) / number.std()
    if kind == "numbers":
        return Rows(codes, number, np.ones(N_ROWS))
    return Rows(codes, np.digitize(number, [-0.5, 0.5]).astype(np.int32), np.ones(N_ROWS))


def infer(kind: str, run: dict[str, Any] | None = None, **options: Any) -> SumPosterior:
    told = Run(column=np.arange(3, dtype=np.int32), n_columns=3, random_state=0, **(run or {}))
    settings = SumOptions(**{"n_summed": 5, "n_chains": 2, "n_sweeps": 9, "n_draws": 12} | options)
    return infer_sums(make_rows(kind), LEAVES[kind], 3, told, settings)


@pytest.mark.parametrize("kind", LEAVES)
def test_a_chain_that_gets_other_rows_says_of_them_what_its_trees_say(kind):
    rows = make_rows(kind)
    setup = make_setup(rows, LEAVES[kind], 3, np.arange(3, dtype=np.int32), SumOptions(n_summed=5))
    some = take_rows(setup, np.arange(0, N_ROWS, 7))
    chain = start_chain(some, 0)
    for _ in range(5):
        chain.sweep(make_workspace(some))
    before = chain.forest
    put_on(chain, setup)
    assert chain.forest.fit.shape[1] == N_ROWS
    np.testing.assert_allclose(chain.forest.fit[:, ::7], before.fit, atol=1e-9)
    assert chain.sweeps == 0


@pytest.mark.parametrize("kind", LEAVES)
def test_draws_are_of_all_rows_and_the_same_on_any_number_of_threads(kind):
    one, two = (infer(kind, {"n_jobs": n_jobs}) for n_jobs in (1, 2))
    np.testing.assert_array_equal(one.summed.value, two.summed.value)
    told = one.diagnostics
    assert told["rows_of_draws"] == N_ROWS
    assert told["sweeps_per_chain"] == [9, 9]
    assert [part["n_rows"] for part in told["sweeps_on_parts"]] == [250, 1000]
    assert all(part["sweeps"] == [30, 30] for part in told["sweeps_on_parts"])
    assert told["chains_left_out"] == 0
    assert one.n_draws == 12


def test_few_sweeps_after_parts_are_worth_many_from_nothing(monkeypatch):
    """Three sweeps predict nearly as well as sixty without parts do, and three of those do not."""

    def error(posterior: SumPosterior) -> float:
        rows = posterior.rows
        return float(np.mean((SumPredictor(posterior).average(rows.codes) - rows.target) ** 2))

    alone = {"lines": False}  # lines find most of this target in a sweep
    warmed = error(infer("numbers", n_sweeps=3, **alone))
    monkeypatch.setattr(growing, "FEWEST_ROWS", 10**9)
    assert part_sizes(N_ROWS) == []
    settled, begun = (error(infer("numbers", n_sweeps=n, **alone)) for n in (60, 3))
    assert begun > 1.1 * settled
    assert warmed < (begun + settled) / 2


@pytest.mark.parametrize(("seconds", "n_chains"), [(40.0, 1), (1500.0, 1), (10_000.0, 4)])
def test_where_time_is_short_fewer_chains_go_on(monkeypatch, seconds, n_chains):
    second_per_piece(monkeypatch, engine)
    monkeypatch.setattr("dtgfn.engines.sums.chain.ChunkSize.adapt", lambda *_: None)  # a tree each
    run = {"time_budget": seconds, "n_jobs": 1}
    told = infer("numbers", run, n_chains=4, n_sweeps=20).diagnostics
    assert len(told["sweeps_per_chain"]) == n_chains
    assert told["chains_left_out"] == 4 - n_chains
    assert told["seconds"] <= seconds + 2


def test_a_fit_that_had_no_time_for_all_rows_says_so(monkeypatch):
    second_per_piece(monkeypatch, engine)
    monkeypatch.setattr("dtgfn.engines.sums.chain.ChunkSize.adapt", lambda *_: None)
    rows = make_rows("numbers")
    model = DTGFNRegressor(ensemble="sum", time_budget=120.0, n_jobs=1, random_state=0)
    with pytest.warns(UntrustworthyFit, match=r"was enough for [\d,]+ of [\d,]+ rows only"):
        model.fit(rows.codes, rows.target)
    told = model.posterior_.diagnostics
    assert told["rows_of_draws"] < len(model.posterior_.rows.codes)
    assert model.predict(rows.codes[:3]).shape == (3,)


def test_chains_stay_on_a_part_that_time_did_not_allow_a_sweep_on(monkeypatch):
    """What a sweep costs is not known there, so nobody can tell that more rows are affordable."""
    second_per_piece(monkeypatch, engine)
    monkeypatch.setattr("dtgfn.engines.sums.chain.ChunkSize.adapt", lambda *_: None)  # a tree each
    told = infer("numbers", {"time_budget": 12.0, "n_jobs": 1}, n_chains=1, n_summed=20)
    assert told.diagnostics["rows_of_draws"] == 250
    assert told.diagnostics["sweeps_on_parts"] == [{"n_rows": 250, "sweeps": [0]}]
    assert told.n_draws >= 1


def test_many_classes_begin_on_fewer_rows(monkeypatch):
    monkeypatch.setattr(growing, "FEWEST_OF_MANY", 100)
    monkeypatch.setattr(growing, "MANY_SUMS", 3)
    monkeypatch.setattr(growing, "FEWEST_ROWS", 10**9)
    assert part_sizes(N_ROWS) == []
    told = infer("three classes", n_sweeps=2, n_chains=1).diagnostics
    assert [part["n_rows"] for part in told["sweeps_on_parts"]] == [250, 1000]
