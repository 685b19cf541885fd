"""The verdict on sums of trees: by what their chains predict."""

from dataclasses import replace

import numpy as np
import pytest

from dtgfn import infer
from dtgfn.diagnostics import UntrustworthyFit, trust, verdict
from dtgfn.diagnostics.sum_checks import chain_distance, clearly_disagree
from dtgfn.inference.sums import warn_of_chains

rng = np.random.default_rng(0)
X = rng.normal(size=(200, 3))
NUMBERS = X[:, 0] + rng.normal(size=200)


@pytest.fixture(scope="module")
def posterior():
    """A fit that says nothing against itself, without a warning."""
    return infer(X, (NUMBERS > 0).astype(int), ensemble="sum", random_state=0, n_sweeps=300)


def with_numbers(posterior, **changes):
    return replace(posterior, diagnostics={**posterior.diagnostics, **changes})


def apart(posterior, distance):
    """Let one chain say something else of every row."""
    value = posterior.summed.value.copy()
    per_draw = posterior.summed.n_sums * posterior.summed.n_summed
    odd = np.repeat(posterior.chain == 0, per_draw) & (np.arange(len(value)) % per_draw == 0)
    leaves = posterior.summed.batch.feature < 0
    value[odd[:, None] & leaves] += distance
    return replace(posterior, summed=replace(posterior.summed, value=value))


def test_chains_that_agree_are_good(posterior):
    settled = with_numbers(posterior, r_hat_mean=1.02, ess_mean=150.0)
    found = verdict(settled)
    assert found["level"] == "good"
    assert found["doubts"] == trust(settled) == []
    assert [item["key"] for item in found["items"]] == [
        "r_hat", "apart", "draws", "sweeps", "acceptance",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("numbers", "level", "doubt"),
    [
        ({"r_hat_mean": 1.2}, "fair", "R-hat of 1.20 on average .should be below 1.1"),
        ({"ess_mean": 60.0}, "fair", "worth only 60 independent draws"),
        ({"sweeps_per_chain": [300, 12]}, "poor", "made only 12 sweeps"),
        ({"r_hat_mean": None, "ess_mean": None}, "unknown", ""),
        ({"r_hat_mean": 1.8}, "fair", "R-hat of 1.80"),  # but they predict the same
    ],
)
def test_a_doubt_is_told_in_a_clause(posterior, numbers, level, doubt):
    settled = with_numbers(posterior, **{"r_hat_mean": 1.02, "ess_mean": 150.0, **numbers})
    found = verdict(settled)
    assert found["level"] == level
    assert len(found["doubts"]) == bool(doubt)
    if doubt:
        with pytest.raises(AssertionError, match=doubt):
            raise AssertionError(found["doubts"][0])


def test_only_chains_that_are_far_apart_warn(posterior):
    wandering = with_numbers(posterior, r_hat_mean=1.8)
    warn_of_chains(wandering, None)
    assert not clearly_disagree(wandering)
    odd = apart(wandering, 3.0)
    assert chain_distance(odd) > 0.1 > chain_distance(wandering)
    with pytest.warns(UntrustworthyFit, match=r"disagree on what they predict, with an R-hat of 1"):
        warn_of_chains(odd, None)
    assert verdict(odd)["level"] == "poor"
    assert verdict(odd)["items"][0]["level"] == "poor"


def test_too_few_sweeps_warn():
    with pytest.warns(UntrustworthyFit, match=r"was enough for \d+ sweeps of a chain only"):
        infer(X, NUMBERS > 0, ensemble="sum", random_state=0, n_summed=200, time_budget=1e-3)


def test_the_distance_of_numbers_is_in_units_of_the_noise():
    import dtgfn

    leaf = dtgfn.leaves.NormalLeaf()
    few = {"ensemble": "sum", "leaf": leaf, "random_state": 0, "n_sweeps": 60}
    one, other = (infer(X, unit * NUMBERS, **few) for unit in (1.0, 1000.0))
    assert chain_distance(one) == pytest.approx(chain_distance(other))
    assert "of the noise" in verdict(one)["items"][1]["text"]
