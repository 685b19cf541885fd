"""One tree each: accuracy and size on the paper's four tables (its table of single trees)."""

from __future__ import annotations

from collections.abc import Sequence

from dtgfn.bench.cells import PAPER_SEEDS, PAPER_TABLES, method_cells
from dtgfn.bench.comparison import comparison_block, paired_block, rank_figure
from dtgfn.bench.contract import TrainingRows
from dtgfn.bench.experiment import Block, Cell, Experiment, Record
from dtgfn.bench.measure import Metrics, measure_classifier
from dtgfn.bench.paper import SINGLE_TREES
from dtgfn.bench.splits import holdout
from dtgfn.datasets import load_dataset

OURS = ("dtgfn-tree", "dtgfn-tree-paper")
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
    """Accuracy and nodes beside the paper's, ours against the best rival, ranks."""
    return [
        comparison_block(records, "accuracy", PAPER_TABLES, (*RIVALS, *OURS), SINGLE_TREES),
        paired_block(records, "accuracy", OURS, RIVALS),
        Block(figure=rank_figure(records, "accuracy", PAPER_TABLES)),
    ]


EXPERIMENT = Experiment(
    name="single-trees",
    title="Single trees",
    cells=cells,
    measure=measure_holdout,
    render=render,
)
