"""The study of seeds: what it sums up, that it can be broken off, that turn 0 is the page's fit."""

import numpy as np
from dtgfn_bench.cells import method_cells
from dtgfn_bench.experiments.single_trees import measure_holdout
from dtgfn_bench.studies import seed_spread
from dtgfn_bench.studies.reporting import Report
from dtgfn_bench.studies.seed_spread import all_fits, measure, run_missing, spread_row


def test_there_are_twenty_fits_of_a_method_on_a_table():
    fits = all_fits(("iris", "wine"), ("mcmc",), True)
    assert len(set(fits)) == 40
    assert {fit.split + seed_spread.STEP * fit.turn for fit in fits if fit.split == 2} == {
        2,
        1002,
        2002,
        3002,
    }


def test_a_row_tells_luck_of_splits_from_that_of_seeds():
    of_splits = np.array([0.8, 0.9, 1.0, 0.9, 0.9])[:, None]
    assert spread_row(of_splits + np.zeros(4)) == ("0.900", "0.063", "0.900 to 0.900", "0.000")
    moved = of_splits + np.array([-0.01, 0.0, 0.0, 0.01])
    assert spread_row(moved)[2:] == ("0.890 to 0.910", "0.008")


def test_the_first_turn_is_the_fit_of_the_page():
    (cell,) = method_cells("single-trees", ("iris",), ("bcart",), (3,), True)
    (fit,) = [f for f in all_fits(("iris",), ("bcart",), True) if (f.split, f.turn) == (3, 0)]
    assert measure(fit)[0] == measure_holdout(cell)["accuracy"]


def test_what_is_done_is_not_done_again(tmp_path, monkeypatch):
    monkeypatch.setattr(seed_spread, "measure", lambda fit: (0.5 + 0.1 * fit.turn, 1.0))
    fits, path = all_fits(("iris",), ("bcart",), True), tmp_path / "kept.jsonl"
    run_missing(fits[:3], path, 1)
    with path.open("a") as file:
        file.write('\n["iris", "bca')  # broken off
    monkeypatch.setattr(seed_spread, "measure", lambda fit: (1.0, 1.0))
    found = run_missing(fits, path, 1)
    assert [round(found[fit][0], 1) for fit in fits[:4]] == [0.5, 0.6, 0.7, 1.0]
    report = Report("kept", "Title", "command", tmp_path)
    seed_spread.run(report, jobs=1, tables="iris", methods="bcart", quick=True)
    assert report.lines[2].startswith("| Iris | BCART | 0.940 |")
