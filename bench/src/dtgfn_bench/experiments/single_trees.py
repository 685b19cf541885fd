"""One tree each: accuracy and size on the paper's four tables (its table of single trees)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dtgfn.datasets import load_dataset
from dtgfn_bench.cells import PAPER_SEEDS, PAPER_TABLES, method_cells, method_labels
from dtgfn_bench.comparison import comparison_block, paired_block, rank_block, seconds_block
from dtgfn_bench.contract import TrainingRows
from dtgfn_bench.experiment import Block, Cell, Experiment, Figure, Record
from dtgfn_bench.measure import Metrics, measure_classifier
from dtgfn_bench.paper import SINGLE_TREES
from dtgfn_bench.plots import Point, scatter_sizes
from dtgfn_bench.splits import holdout
from dtgfn_bench.statistics import summary

OURS = (
    "dtgfn-tree",
    "dtgfn-tree-quantile",
    "dtgfn-tree-prediction",
    "dtgfn-tree-paper",
    "dtgfn-tree-paper-text",
    "dtgfn-tree-paper-release",
)
RIVALS = (
    "smc",
    "mcmc",
    "bcart",
    "maptree",
    "tsallis",
    "cart-gini",
    "cart-entropy",
    "dpdt",
    "quant-bnb",
    "wu",
)


def measure_holdout(cell: Cell) -> Metrics:
    """Fit on 80 % of a table's rows and test on the others; the seed splits and fits."""
    data = load_dataset(cell.table)
    train, test = holdout(len(data.y), cell.seed)
    rows = TrainingRows(data.X[train], data.y[train], len(data.class_names), cell.table)
    tests = {"": (data.X[test], data.y[test])}
    return measure_classifier(cell.method, cell.settings, rows, cell.seed, tests)


def cells(quick: bool) -> list[Cell]:
    """Every method on seeds 1-5 of the four tables; quick: Iris, seed 1."""
    tables, seeds = (("iris",), (1,)) if quick else (PAPER_TABLES, PAPER_SEEDS)
    return method_cells("single-trees", tables, (*OURS, *RIVALS), seeds, quick)


def render(records: Sequence[Record]) -> list[Block]:
    """Accuracy and nodes beside the paper's, ours against the best rival, ranks, sizes."""
    rivals, ours = method_labels(RIVALS), method_labels(OURS)
    everyone = rivals | method_labels(("dt-gfn",)) | ours
    return [
        comparison_block(records, "accuracy", PAPER_TABLES, everyone, SINGLE_TREES, ours=OURS),
        *(
            paired_block(records, "accuracy", name, rivals, label=label, heading=f"Paired: {label}")
            for name, label in ours.items()
        ),
        rank_block(records, "accuracy", PAPER_TABLES, methods=rivals | ours, ours=OURS),
        seconds_block(records, PAPER_TABLES, rivals | ours, OURS),
        Block(heading="Accuracy against size", figure=_sizes(records, rivals | ours)),
    ]


def _sizes(records: Sequence[Record], labels: Mapping[str, str]) -> Figure:
    """Accuracy over nodes, each the mean over all tables and seeds."""

    def draw(figure: object) -> None:
        points = []
        for name, label in labels.items():
            done = [r for r in records if r.cell.method == name and r.status == "done"]
            score = summary([r.metrics["accuracy"] for r in done])
            if score.n:
                size = summary([r.metrics["size"] for r in done])
                points.append(Point(label, size.mean, score.mean, ours=name in OURS))
        scatter_sizes(figure, points)

    return Figure("sizes", "Mean accuracy of single trees against their mean number of nodes", draw)


EXPERIMENT = Experiment(
    name="single-trees",
    title="Single trees",
    cells=cells,
    measure=measure_holdout,
    render=render,
)
