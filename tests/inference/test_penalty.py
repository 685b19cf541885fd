"""The penalty of one posterior by its evidence: against every tree of tiny tables, and doors."""

import json
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from enumeration import Case, Enumeration, n_splits
from scipy.special import logsumexp

from dtgfn import BudgetExceeded, DTGFNClassifier, DTGFNRegressor, infer, load, save
from dtgfn.diagnostics import UntrustworthyFit
from dtgfn.engines import Run
from dtgfn.inference import penalty as of_penalty
from dtgfn.inference.method import read_method
from dtgfn.inference.penalty import PENALTIES, infer_at_best_penalty, penalty_grid
from dtgfn.inference.prior_mass import evidence_error

RNG = np.random.default_rng(0)
CODES = RNG.integers(0, 4, (12, 2)).astype(np.uint16)
SWEEPS = {"n_particles": 2000, "n_sweeps": 8}


def chosen(case, engine="exact", time_budget=None, **options):
    run = Run(
        column=case.columns,
        n_columns=case.n_columns,
        n_trees=50,
        random_state=0,
        n_jobs=1,
        time_budget=time_budget,
    )
    return infer_at_best_penalty(read_method(engine, options), case.rows, case.score, run)


def listed_evidence(case):
    """Log P(y | X) by every valid tree, under the prior that sums to one over them."""
    listed = Enumeration(case)
    mass = logsumexp([-case.split_penalty * n_splits(tree) for tree in listed.trees])
    return listed.log_z - mass


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize(("engine", "options"), [("exact", {}), ("smc", SWEEPS)])
def test_evidences_are_those_of_every_tree(engine, options, noisy):
    labels = RNG.integers(0, 2, 12) if noisy else (CODES[:, 0] > 1).astype(np.int64)
    case = Case(CODES, labels, 2, max_depth=2, split_penalty=3.0)
    found = chosen(case, engine, **options)
    lines = found.diagnostics["penalties"]
    expected = np.array([listed_evidence(case.but(split_penalty=3.0 * p)) for p in PENALTIES])
    for line, wanted in zip(lines, expected, strict=True):
        assert line["log_evidence"] == pytest.approx(wanted, abs=1e-9 + 5 * line["error"])
    share = np.exp(expected - logsumexp(expected))
    near = 1e-9 if engine == "exact" else 0.1
    np.testing.assert_allclose([line["probability"] for line in lines], share, atol=near)
    if engine == "exact":
        best = PENALTIES[int(np.argmax(expected))]
        assert found.score.prior.penalty == pytest.approx(3.0 * best)
    json.dumps(lines, allow_nan=False)


def test_noise_asks_for_the_dearest_split_and_a_pattern_for_a_cheaper_one():
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 4, (60, 2)).astype(np.uint16)
    pattern = ((codes[:, 0] > 1) ^ (codes[:, 1] > 1)).astype(np.int64)
    noise = rng.integers(0, 2, 60)
    dear, cheap = (
        chosen(Case(codes, labels, 2, max_depth=2, split_penalty=4.0)).score.prior.penalty
        for labels in (noise, pattern)
    )
    assert dear == 4.0
    assert cheap < dear


def test_the_posterior_is_that_of_the_chosen_penalty(tmp_path):
    X = RNG.normal(size=(60, 2))
    y = (X[:, 0] > 0).astype(int)
    given = {"inference": "exact", "max_depth": 2, "n_thresholds": 5, "random_state": 0}
    model = DTGFNClassifier(split_penalty="auto", **given).fit(X, y)
    penalty = model.posterior_.score.prior.penalty
    same = DTGFNClassifier(split_penalty=penalty, **given).fit(X, y)
    assert model.log_evidence_ == same.log_evidence_
    np.testing.assert_array_equal(model.predict_proba(X), same.predict_proba(X))
    save(model, tmp_path / "auto.dtgfn")
    again = load(tmp_path / "auto.dtgfn")
    assert again.split_penalty == "auto"
    assert again.posterior_.score.prior.penalty == penalty
    assert again.posterior_.diagnostics["penalties"] == model.posterior_.diagnostics["penalties"]


def test_numbers_have_evidences_too():
    X = RNG.normal(size=(60, 2))
    model = DTGFNRegressor(
        inference="exact", max_depth=1, n_thresholds=5, split_penalty="auto", random_state=0
    ).fit(X, X[:, 0])
    grid = penalty_grid(model.posterior_.score)
    assert len(model.posterior_.diagnostics["penalties"]) == len(grid)
    mdl = math.log(4) + math.log(2) + math.log(5)
    assert model.posterior_.diagnostics["penalties"][0]["split_penalty"] == pytest.approx(mdl)


def test_evidences_that_are_not_known_to_a_nat_choose_nothing():
    case = Case(CODES, (CODES[:, 0] > 1).astype(np.int64), 2, max_depth=2, split_penalty=3.0)
    with pytest.warns(UntrustworthyFit, match="no penalty is known to a nat, so split_penalty="):
        found = chosen(case, "smc", n_particles=10, n_sweeps=1)  # one sweep knows no error
    assert found.score.prior.penalty == 3.0
    assert [line["probability"] for line in found.diagnostics["penalties"]] == [0.0] * 4


def test_an_evidence_is_as_wrong_as_it_is_proven_to_be():
    case = Case(CODES, (CODES[:, 0] > 1).astype(np.int64), 2, max_depth=2, split_penalty=3.0)
    found = chosen(case)
    assert evidence_error(found) == 0.0
    floor = {"referee_floor": found.log_evidence + 4.0}
    assert evidence_error(replace(found, diagnostics=floor)) == pytest.approx(4.0)
    unknown = replace(found, diagnostics=floor, log_evidence_error=math.nan)
    assert math.isnan(evidence_error(unknown))
    above = {"referee_floor": found.log_evidence - 4.0}
    assert evidence_error(replace(found, diagnostics=above)) == 0.0


def test_penalties_that_time_does_not_reach_are_told(monkeypatch):
    case = Case(CODES, (CODES[:, 0] > 1).astype(np.int64), 2, max_depth=2, split_penalty=3.0)
    clock = iter(np.arange(0.0, 1e6, 40.0))  # every look at it is 40 seconds later
    monkeypatch.setattr(of_penalty, "clock", SimpleNamespace(monotonic=lambda: next(clock)))
    lines = chosen(case, time_budget=100.0).diagnostics["penalties"]
    assert lines[0]["comparable"]
    assert lines[-1]["note"] == "time_budget was over before its turn."


def test_no_posterior_at_all_is_the_engines_own_sentence(monkeypatch):
    def refuse(*given, **named):
        raise BudgetExceeded("There was no time.")

    monkeypatch.setattr("dtgfn.engines.exact.engine.infer_exact", refuse)
    case = Case(CODES, (CODES[:, 0] > 1).astype(np.int64), 2, max_depth=2, split_penalty=3.0)
    with pytest.raises(BudgetExceeded, match="There was no time"):
        chosen(case)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"engine": "mcmc"}, "compares evidences, which engine 'mcmc' does not estimate; give a"),
        ({"temperature": 2.0}, "temperature=2.0 has no evidence to choose split_penalty='auto'"),
        ({"temperature": "auto"}, "temperature='auto' has no evidence to choose split_penalty="),
    ],
)
def test_what_has_no_evidence_is_refused(changes, said):
    given = {"engine": "exact", "split_penalty": "auto", **changes}
    with pytest.raises(ValueError, match=said):
        infer([[1.0], [2.0]] * 5, [0, 1] * 5, **given)
