"""The experiment on readings of the paper: its cells, and that the nearest figure is marked."""

from __future__ import annotations

import pytest
from dtgfn_bench.cells import PAPER_TABLES
from dtgfn_bench.experiment import Record
from dtgfn_bench.experiments import readings
from dtgfn_bench.experiments.readings import EXPERIMENT, READINGS, Reading, printed


def record(cell, **metrics):
    filled = {metric: printed(metric, cell.table).value for metric, *_ in readings.SHOWN}
    return Record(cell, "key", {}, "done", {**filled, **metrics})


def test_every_reading_is_measured_on_every_split():
    cells = EXPERIMENT.cells(False)
    assert len(READINGS) == 8
    assert len(cells) == len({str(cell) for cell in cells}) == 8 * 4 * 5
    assert {cell.table for cell in cells} == set(PAPER_TABLES)


def test_a_reading_as_printed_is_nearest_and_at_no_distance():
    true = Reading(4, "paper", 99)
    records = [
        record(cell) if Reading(**cell.variant) == true else record(cell, size=1000.0)
        for cell in EXPERIMENT.cells(False)
    ]
    blocks = EXPERIMENT.render(records)
    (sizes,) = [block for block in blocks if block.heading == "Ensemble, nodes"]
    by_reading = {tuple(row[:3]): row[3:] for row in sizes.rows[2:]}
    assert by_reading["4", "log 4 + log d", "99"][-1] == "0.00"
    assert all(cell.startswith("**") for cell in by_reading["4", "log 4 + log d", "99"][:-1])
    assert not any("**" in cell for cell in by_reading["5", "log 4 + log d", "99"])
    overall = {tuple(row[:3]): row[3:] for row in blocks[-1].rows[1:]}
    assert overall["4", "log 4 + log d", "99"] == ["0.00", "0.00", "0.00"]
    assert float(overall["5", "log 4 + log d", "99"][2]) > 10


@pytest.mark.parametrize("metric", ["size", "tree_size", "accuracy", "tree_accuracy"])
def test_printed_figures_are_the_papers(metric):
    expected = {"size": 26.31, "tree_size": 27.0, "accuracy": 0.883, "tree_accuracy": 0.9}
    assert printed(metric, "raisin").value == expected[metric]


def test_one_fit_gives_a_tree_and_an_ensemble():
    (cell, _) = EXPERIMENT.cells(True)
    found = EXPERIMENT.measure(cell)
    assert found["elbo"] <= found["log_evidence"] + 1e-9
    assert 1 <= found["tree_size"] <= 2 ** (cell.variant["depth"] + 1) - 1
    assert 1 <= found["weighted_size"] <= 2 ** (cell.variant["depth"] + 1) - 1
    assert found["best_log_reward"] <= found["log_evidence"] + 1e-9
