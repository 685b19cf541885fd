"""Distribution shift on Pima: learn from the young (or the lean), predict the others."""

from __future__ import annotations

from collections.abc import Sequence

from dtgfn.bench.cells import method_cells
from dtgfn.bench.comparison import comparison_block, label_of, paired_block
from dtgfn.bench.contract import TrainingRows
from dtgfn.bench.experiment import Block, Cell, Experiment, Figure, Record
from dtgfn.bench.measure import Metrics, measure_classifier
from dtgfn.bench.methods import find_method
from dtgfn.bench.paper import SHIFT
from dtgfn.bench.plots import lines
from dtgfn.bench.splits import shift
from dtgfn.datasets import load_dataset

SHIFTS = ("bmi", "age")
PAPER_SEED = 42
SEEDS = (PAPER_SEED, *range(1, 11))  # one split says little
ENSEMBLE_SIZES = (100, 500, 1000)
OURS = ("dtgfn", "dtgfn-bagged", "dtgfn-paper")
# Methods with a number of trees are fitted anew for each size.
FORESTS = ("forest", "extra-trees", "xgboost", "catboost", "lightgbm")
OTHERS = (
    "hist-gradient-boosting",
    "mlp",
    "tab-transformer",
    "tab-transformer-numeric",
    "ft-transformer",
    "bart",
    "ebm",
    "tabm",
)
RIVALS = (*FORESTS, *OTHERS)


def measure(cell: Cell) -> Metrics:
    """Fit on 80 % of the rows in distribution; test on the other 20 % and on the shifted rows."""
    data = load_dataset("pima")
    train, inside, outside = shift(data, cell.table, cell.seed)
    rows = TrainingRows(data.X[train], data.y[train], len(data.class_names), cell.table)
    tests = {
        "in_": (data.X[inside], data.y[inside]),
        "out_": (data.X[outside], data.y[outside]),
    }
    return measure_classifier(cell.method, cell.settings, rows, cell.seed, tests)


def cells(quick: bool) -> list[Cell]:
    """Ensembles of each size, and the other methods once; quick: the paper's seed, BMI, 100."""
    shifts, seeds = (SHIFTS[:1], SEEDS[:1]) if quick else (SHIFTS, SEEDS)
    found = []
    for n_trees in ENSEMBLE_SIZES[:1] if quick else ENSEMBLE_SIZES:
        variant, changes = {"n_trees": n_trees}, {} if quick else {"n_trees": n_trees}
        methods = (*OURS, *FORESTS)
        found += method_cells("shift", shifts, methods, seeds, quick, variant, **changes)
    return found + method_cells("shift", shifts, OTHERS, seeds, quick)


def of_size(records: Sequence[Record], n_trees: int) -> list[Record]:
    """Records of ensembles of one size, and of all that have no size."""
    return [r for r in records if r.cell.variant.get("n_trees", n_trees) == n_trees]


def render(records: Sequence[Record]) -> list[Block]:
    """Accuracy inside and outside, for the paper's seed and over all, and against size."""
    largest = max((r.cell.variant.get("n_trees", 0) for r in records), default=0)
    full = of_size(records, largest)
    papers_split = [r for r in full if r.cell.seed == PAPER_SEED]
    everyone = (*RIVALS, *OURS)
    blocks = []
    for metric, where in (
        ("out_accuracy", "out of distribution"),
        ("in_accuracy", "in distribution"),
    ):
        blocks += [
            comparison_block(
                papers_split, metric, SHIFTS, everyone, SHIFT[metric], size=False,
                heading=f"Accuracy {where}, seed {PAPER_SEED}, {largest} trees",
            ),
            comparison_block(
                full, metric, SHIFTS, everyone, size=False,
                heading=f"Accuracy {where}, all seeds, {largest} trees",
            ),
        ]  # fmt: skip
    blocks.append(
        comparison_block(
            full, "out_log_loss", SHIFTS, everyone, size=False, higher_is_better=False,
            heading=f"Log loss out of distribution, all seeds, {largest} trees",
        )
    )  # fmt: skip
    blocks.append(paired_block(full, "out_accuracy", OURS, RIVALS))
    return [*blocks, *(Block(figure=_scaling(records, table)) for table in SHIFTS)]


def _scaling(records: Sequence[Record], table: str) -> Figure:
    """Out-of-distribution accuracy against the number of trees."""

    def draw(figure: object) -> None:
        series = {}
        for method in (*FORESTS, *OURS):
            points = []
            for n_trees in ENSEMBLE_SIZES:
                values = [
                    float(r.metrics["out_accuracy"] or 0)
                    for r in of_size(records, n_trees)
                    if r.cell.method == method and r.cell.table == table and r.status == "done"
                ]
                if values:
                    points.append((float(n_trees), values))
            if points:
                series[label_of(method)] = points
        ours = [find_method(name).label for name in OURS]
        lines(figure, series, "trees", "accuracy out of distribution", highlight=ours)

    return Figure(f"scaling-{table}", f"Accuracy on shifted rows ({table}) by ensemble size", draw)


EXPERIMENT = Experiment(
    name="shift",
    title="Distribution shift",
    cells=cells,
    measure=measure,
    render=render,
)
