"""Shift, budget and cost: the axes that the paper scales, and the pages that show them."""

import dataclasses
import json

import pytest
from dtgfn_bench.experiment import Record
from dtgfn_bench.experiments import budget, cost, shift
from dtgfn_bench.method_lookup import find_method
from dtgfn_bench.ours import classifiers
from dtgfn_bench.paper import COST, ENSEMBLES
from dtgfn_bench.plots import new_figure


def record(cell, **metrics):
    return Record(cell, "key", {"experiment": 1}, "done", metrics)


def told(cells):
    return [json.dumps(dataclasses.asdict(cell), sort_keys=True) for cell in cells]


def shift_cells():
    return [cell for cell in shift.cells(False) if cell.method in (*shift.FORESTS, *shift.OURS)]


def test_the_scaled_policy_trains_on_as_many_trees_as_it_draws(monkeypatch):
    seen = {}
    monkeypatch.setattr(classifiers, "fit_paper", lambda rows, seed, **given: seen.update(given))
    for n_trees in shift.ENSEMBLE_SIZES:
        find_method("dtgfn-paper-scaled").fit(None, 1, n_trees=n_trees, n_steps=100)
        batch = seen["options"]
        assert batch["n_forward"] + batch["n_replay"] == n_trees == seen["n_trees"]
        assert batch["n_forward"] == 9 * batch["n_replay"]
        assert seen["n_steps"] == 100


def test_every_size_has_the_papers_split_and_more_of_both_policies():
    cells = shift_cells()
    assert len(set(told(cells))) == len(cells)
    for method in ("dtgfn-paper", "dtgfn-paper-scaled"):
        for n_trees in shift.ENSEMBLE_SIZES:
            found = [c for c in cells if c.method == method and c.settings["n_trees"] == n_trees]
            assert {c.table for c in found} == set(shift.LABELS)
            assert {shift.PAPER_SEED, 1, 2, 3, 4} <= {c.seed for c in found}


def test_gains_are_counted_split_by_split():
    def accuracy(cell):
        return 0.5 + 0.1 * (cell.variant["n_trees"] == 1000) * (1 if cell.seed != 1 else -1)

    cells = [c for c in shift_cells() if c.method == "dtgfn-paper-scaled"]
    names = ("in_accuracy", "out_accuracy", "out_log_loss", "fit_cpu_seconds")
    records = [record(cell, **dict.fromkeys(names, accuracy(cell))) for cell in cells]
    rows = shift._scaling_rows(records, "bmi", "out")
    assert len(rows) == 2
    assert rows[1][1:4] == ["0.500 ± 0.000", "0.500 ± 0.000", "0.560 ± 0.080"]
    assert rows[1][4:] == ["+0.060 ± 0.080", "4 / 1"]
    blocks = shift.render(records)
    figures = [block.figure for block in blocks if block.figure]
    assert len({one.name for one in figures}) == 4
    pytest.importorskip("matplotlib", reason="draws")
    for one in figures:
        figure = new_figure(one.inches)
        one.draw(figure)
        assert figure.axes[0].lines


def test_a_budget_has_a_fit_for_every_size():
    cells = budget.cells(False)
    assert len(set(told(cells))) == len(cells)
    for cell in cells:
        variant, settings = cell.variant, cell.settings
        assert settings["n_trees"] == variant["n_trees"]
        ends = settings["n_steps"], settings["time_budget"]
        assert ends == ((None, variant["seconds"]) if variant["seconds"] else (0, None))
    papers = next(cell.settings for cell in cells if cell.method == "dtgfn-paper")
    assert papers["options"]["replay_capacity"] == 10
    assert (papers["max_depth"], papers["n_thresholds"]) == (3, 9)


def test_the_budgets_page_has_gaps_where_nothing_was_measured_and_the_printed_baselines():
    records = [record(cell, accuracy=0.9, log_loss=0.3) for cell in budget.cells(False)]
    lost = dataclasses.replace(records[0], status="failed", metrics={}, reason="no reason")
    blocks = budget.render([lost, *records[1:]])
    accuracy = next(block.rows for block in blocks if block.heading == "Accuracy")
    fifty = next(row for row in accuracy if row[1] == "50")
    assert fifty[2:] == ["0.900 ± 0.000", "–", "–", "–", "0.900 ± 0.000"]
    text = " ".join(cell for block in blocks for row in block.rows for cell in row)
    assert str(ENSEMBLES["catboost", "iris"].score) in text
    assert any("no reason" in block.text for block in blocks)
    pytest.importorskip("matplotlib", reason="draws")
    for one in [block.figure for block in blocks if block.figure]:
        figure = new_figure(one.inches)
        one.draw(figure)
        assert len(figure.axes[0].lines) >= 8


def test_without_seconds_nothing_is_trained():
    """The untrained policy, by the fit that the experiment does: leaves drawn, no step."""
    cell = next(cell for cell in budget.cells(True) if cell.method == "dtgfn-paper")
    fitted = classifiers.fit_paper(_few_rows(), 1, **cell.settings)
    model = fitted.model
    assert model.options["leaf_draws"] is True
    assert model.weighting == "posterior"
    assert model.posterior_.diagnostics["n_steps"] == 0
    assert len(model.posterior_.trees) == cell.variant["n_trees"]


def _few_rows():
    import numpy as np
    from dtgfn_bench.contract import TrainingRows

    X = np.random.default_rng(0).random((30, 2))
    return TrainingRows(X, (X[:, 0] > 0.5).astype(np.int64), 2, "few")


def test_cost_shows_both_training_axes_beside_the_papers():
    names = [
        *(f"step_seconds_{n}" for n in (1, 100)),
        *(f"draw_seconds_{n}" for n in (1, 100, 1000)),
    ]
    cells = cost.cells(False)
    records = [record(cell, **dict.fromkeys(names, 0.25)) for cell in cells]
    (block,) = cost.render(records)
    assert len(block.rows) == 1 + len(cells)
    assert len({len(row) for row in block.rows}) == 1
    wine = next(row for row in block.rows if row[:2] == ["wine", "4"])
    printed = COST["wine", 4]
    assert wine[3:7] == ["0.2500", f"{printed.train_1:g}", "0.2500", f"{printed.train_100:g}"]
    deepest = next(row for row in block.rows if row[:2] == ["wine", "5"])
    assert deepest[4] == deepest[6] == ""


@pytest.mark.filterwarnings("ignore::dtgfn.diagnostics.UntrustworthyFit")  # three steps
def test_cost_times_steps_on_one_tree_and_on_a_hundred():
    cell = cost.cells(True)[0]
    found = cost.measure(dataclasses.replace(cell, variant={"depth": 1, "n_steps": 3}))
    assert 0 < found["step_seconds_1"] < 5
    assert 0 < found["step_seconds_100"] < 5
    assert {"draw_seconds_1", "draw_seconds_100", "draw_seconds_1000"} <= found.keys()
