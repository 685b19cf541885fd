"""Further Bayesian trees (the paper's auxiliary table), by both readings of its splits.

"released" are the splits that the cited authors published, "stated" a plain 70/30 split of all rows
with the seed that the paper states.  The rows are fixed; seeds are the samplers' own.
"""

from __future__ import annotations

from collections.abc import Sequence

from dtgfn.datasets import load_dataset
from dtgfn_bench.cells import method_cells, method_labels
from dtgfn_bench.comparison import comparison_block, seconds_block
from dtgfn_bench.contract import TrainingRows
from dtgfn_bench.experiment import Block, Cell, Experiment, Record
from dtgfn_bench.measure import Metrics, measure_classifier
from dtgfn_bench.paper import AUXILIARY
from dtgfn_bench.splits import auxiliary_rows

TABLES = ("iris", "wine", "breast-cancer-original", "raisin")
READINGS = ("released", "stated")
SEEDS = (1, 2)
OURS = ("dtgfn", "dtgfn-bagged", "dtgfn-paper")
PRINTED_AS = {"bcart": "bcart-ensemble", "smc": "smc-ensemble", "wu": "wu-ensemble"}
RIVALS = ("bcart-ensemble", "smc-ensemble", "wu-ensemble", "hmc-df", "hmc-dfi", "dcc-tree")


def measure(cell: Cell) -> Metrics:
    """Fit on the reading's training rows, missing cells filled with their medians."""
    data = load_dataset(cell.table)
    train, test, X = auxiliary_rows(data, cell.variant["reading"])
    rows = TrainingRows(X[train], data.y[train], len(data.class_names), cell.table)
    tests = {"": (X[test], data.y[test])}
    return measure_classifier(cell.method, cell.settings, rows, cell.seed, tests)


def cells(quick: bool) -> list[Cell]:
    """Every sampler with two seeds on both readings; quick: Iris as released, one seed."""
    tables, seeds = (TABLES[:1], SEEDS[:1]) if quick else (TABLES, SEEDS)
    found = []
    for reading in READINGS[:1] if quick else READINGS:
        variant = {"reading": reading}
        found += method_cells("bayesian-trees", tables, (*OURS, *RIVALS), seeds, quick, variant)
    return found


def render(records: Sequence[Record]) -> list[Block]:
    """Accuracy by reading beside the paper's, and seconds per fit."""
    rivals, ours = method_labels(RIVALS), method_labels(OURS)
    everyone = rivals | method_labels(("dt-gfn",)) | ours
    printed = {
        (PRINTED_AS.get(method, method), table): p for (method, table), p in AUXILIARY.items()
    }
    blocks = []
    for reading in READINGS:
        chosen = [r for r in records if r.cell.variant["reading"] == reading]
        if not chosen:
            continue
        heading = f"Accuracy, splits as {reading}"
        blocks.append(
            comparison_block(
                chosen, "accuracy", TABLES, everyone, printed, ours=OURS, heading=heading
            )
        )
        blocks.append(seconds_block(chosen, TABLES, rivals | ours, OURS))
    return blocks


EXPERIMENT = Experiment(
    name="bayesian-trees",
    title="Further Bayesian trees",
    cells=cells,
    measure=measure,
    render=render,
)
