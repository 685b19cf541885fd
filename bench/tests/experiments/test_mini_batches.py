"""Mini-batch rewards: the cells, what is measured of a policy, and the page."""

import dataclasses

import numpy as np
import pytest
from dtgfn_bench.batch_target import SCALINGS
from dtgfn_bench.experiment import Record
from dtgfn_bench.experiments.mini_batches import (
    EXPERIMENT,
    LABELS,
    LEARNED,
    PROBLEMS,
    SEEDS,
    SHARES,
    TARGET,
    Truth,
    infer_learned,
    learned_metrics,
    log_flow_share,
)
from dtgfn_bench.problems import infer_problem


def test_cells_have_every_scaling_of_true_batches_and_one_of_all_rows():
    cells = EXPERIMENT.cells(False)
    per_problem = (1 + len(SCALINGS) * (len(SHARES) - 1)) * len(SEEDS)
    assert len(cells) == len(PROBLEMS) * per_problem
    assert set(LABELS) == set(SCALINGS)
    whole = {cell.variant["scaling"] for cell in cells if cell.variant["share"] == 1}
    assert whole == {"likelihood"}


@pytest.fixture(scope="module")
def quick():
    cell = dataclasses.replace(
        EXPERIMENT.cells(True)[0], settings={"preset": "paper", "n_steps": 3}
    )
    return Record(cell, "key", {"experiment": 1}, "done", EXPERIMENT.measure(cell))


def test_a_cell_measures_all_that_is_shown(quick):
    assert {*TARGET, *LEARNED, "n_batch"} <= quick.metrics.keys()
    assert all(np.isfinite(value) for value in quick.metrics.values())
    assert quick.metrics["n_batch"] == 60
    assert quick.metrics["target_elbo_gap"] > 0  # divergences
    assert quick.metrics["target_eubo_gap"] > 0
    assert quick.metrics["elbo_gap"] > 0


def test_the_page_has_both_tables_and_says_what_failed(quick):
    lost = dataclasses.replace(quick, status="failed", metrics={}, reason="no reason")
    blocks = EXPERIMENT.render([quick, lost])
    rows = [block.rows for block in blocks if block.rows]
    assert [len(table) for table in rows] == [2, 2]
    assert [len(set(map(len, table))) for table in rows] == [1, 1]
    assert any("no reason" in block.text for block in blocks)
    assert EXPERIMENT.render([])


def train(problem, share, cell):
    exact = infer_problem(problem, "paper", "exact", n_trees=10, time_budget=None, n_jobs=1)
    n_batch = round(share * len(exact.rows.target))
    trees = exact.solution.sample(200, np.random.default_rng(0))
    truth = Truth(exact, n_batch, trees, exact.solution.average(exact.rows.codes))
    return truth, infer_learned(problem, truth, "likelihood", cell)


def test_given_trees_have_the_probability_that_they_are_drawn_with(quick):
    """Of one split there is one trajectory: what is retraced is what was drawn."""
    _, learned = train(PROBLEMS[0]._replace(max_depth=1), 0.5, quick.cell)
    drawn = learned.log_reward - learned.log_weight
    np.testing.assert_allclose(log_flow_share(learned, learned.trees), drawn, atol=1e-3)


def test_with_all_rows_the_policys_own_target_is_the_posterior(quick):
    truth, learned = train(PROBLEMS[0], 1.0, quick.cell)
    found = learned_metrics(learned, truth.exact, truth)
    assert found["own_elbo_gap"] == pytest.approx(found["elbo_gap"])
    assert found["elbo_gap"] == pytest.approx(
        truth.exact.log_evidence - learned.log_weight.mean(), abs=1e-6
    )
