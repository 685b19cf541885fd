"""Further Bayesian trees (the paper's auxiliary table), by both readings of its splits.

"released" are the splits that the cited authors published, "stated" a plain 70/30 split of all rows
with the seed that the paper states.  The rows are fixed; seeds are the samplers' own.  A sample of
trees is read in three ways: its best tree, one drawn tree (the mean of their accuracies, which is
what the cited authors report of all samplers but DCC-Tree), and the average of all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dtgfn.datasets import load_dataset
from dtgfn.evaluation import class_scores
from dtgfn_bench.cells import PAPER_SEEDS, method_cells, method_labels
from dtgfn_bench.comparison import comparison_block, seconds_block
from dtgfn_bench.contract import TrainingRows
from dtgfn_bench.drawn_trees import draw_accuracy
from dtgfn_bench.experiment import Block, Cell, Experiment, Record
from dtgfn_bench.measure import Metrics, fit_and_time
from dtgfn_bench.paper import AUXILIARY
from dtgfn_bench.splits import auxiliary_rows

TABLES = ("iris", "wine", "breast-cancer-original", "raisin")
READINGS = ("released", "stated")
OUR_TREES = ("dtgfn-tree", "dtgfn-tree-paper")
OUR_SAMPLES = ("dtgfn", "dtgfn-paper")
OURS = (*OUR_TREES, *OUR_SAMPLES, "dtgfn-bagged", "dtgfn-sum")
SAMPLERS = ("bcart-ensemble", "smc-ensemble", "wu-ensemble", "hmc-df", "hmc-dfi")
RIVALS = (*SAMPLERS, "dcc-tree")
DRAWN = "{}, one drawn tree"  # the name of a sampler's row when its trees answer alone
PRINTED_AS = {"bcart": "bcart-ensemble", "smc": "smc-ensemble", "wu": "wu-ensemble"}
TEXT = (
    "One drawn tree: the mean accuracy of the trees of a sample, each alone. By the scripts that "
    "the cited authors released, theirs are such means for BCART, SMC, Wu et al. and HMC, and the "
    "mixture's accuracy for DCC-Tree; the paper says that its own row is a single tree."
)


def measure(cell: Cell) -> Metrics:
    """Fit on the reading's training rows, missing cells filled with their medians."""
    data = load_dataset(cell.table)
    train, test, X = auxiliary_rows(data, cell.variant["reading"])
    rows = TrainingRows(X[train], data.y[train], len(data.class_names), cell.table)
    fitted, seconds = fit_and_time(cell.method, cell.settings, rows, cell.seed)
    return {
        "fit_cpu_seconds": seconds,
        "size": fitted.size(),
        "draw_accuracy": draw_accuracy(fitted, X[test], data.y[test]),
        **class_scores(fitted.predict_proba(X[test]), data.y[test]),
    }


def cells(quick: bool) -> list[Cell]:
    """Every sampler with five seeds on both readings; quick: Iris as released, one seed."""
    tables, seeds = (TABLES[:1], PAPER_SEEDS[:1]) if quick else (TABLES, PAPER_SEEDS)
    found = []
    for reading in READINGS[:1] if quick else READINGS:
        variant = {"reading": reading}
        found += method_cells("bayesian-trees", tables, (*OURS, *RIVALS), seeds, quick, variant)
    return found


def render(records: Sequence[Record]) -> list[Block]:
    """Accuracy by reading beside the paper's, and seconds per fit."""
    fitted = method_labels((*RIVALS, *OURS))
    printed = {(PRINTED_AS.get(name, name), table): p for (name, table), p in AUXILIARY.items()}
    printed = {
        (DRAWN.format(name) if name in SAMPLERS else name, table): p
        for (name, table), p in printed.items()
    }
    blocks = []
    for reading in READINGS:
        chosen = [r for r in records if r.cell.variant["reading"] == reading]
        if not chosen:
            continue
        blocks.append(
            comparison_block(
                [*chosen, *drawn(chosen)],
                "accuracy",
                TABLES,
                _rows(),
                printed,
                ours=[*OURS, *(DRAWN.format(name) for name in OUR_SAMPLES)],
                heading=f"Accuracy, splits as {reading}",
            )
        )
        blocks.append(seconds_block(chosen, TABLES, fitted, OURS))
    return [Block(text=TEXT), *blocks]


def drawn(records: Sequence[Record]) -> list[Record]:
    """Records of samplers read anew: their trees alone instead of the average."""
    found = []
    for record in records:
        if record.cell.method in (*SAMPLERS, *OUR_SAMPLES):
            metrics: Mapping[str, float | None] = {
                "accuracy": record.metrics.get("draw_accuracy"),
                "size": record.metrics.get("size"),
            }
            cell = replace(record.cell, method=DRAWN.format(record.cell.method))
            found.append(replace(record, cell=cell, metrics=metrics))
    return found


def _rows() -> dict[str, str]:
    """Names and labels of the table's rows: single trees, then averages."""
    labels = method_labels((*RIVALS, *OURS))
    alone = {name: label.removesuffix(", average") for name, label in labels.items()}
    return {
        **{DRAWN.format(name): DRAWN.format(alone[name]) for name in SAMPLERS},
        **method_labels(("dt-gfn", *OUR_TREES)),
        **{DRAWN.format(name): DRAWN.format(alone[name]) for name in OUR_SAMPLES},
        **{name: f"{alone[name]}, average" for name in SAMPLERS},
        "dcc-tree": labels["dcc-tree"],
        **{name: f"{labels[name]}, average" for name in OUR_SAMPLES},
        **{name: labels[name] for name in ("dtgfn-bagged", "dtgfn-sum")},
    }


EXPERIMENT = Experiment(
    name="bayesian-trees",
    title="Further Bayesian trees",
    cells=cells,
    measure=measure,
    render=render,
    revision=2,  # drawn trees are measured too
)
