"""Distribution shift on Pima: learn from the young (or the lean), predict the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from dtgfn.datasets import load_dataset
from dtgfn_bench.cells import method_cells, method_labels
from dtgfn_bench.comparison import comparison_block, paired_block, seconds_block
from dtgfn_bench.contract import TrainingRows
from dtgfn_bench.experiment import Block, Cell, Experiment, Figure, Record
from dtgfn_bench.measure import Metrics, measure_classifier
from dtgfn_bench.paper import SHIFT, Printed
from dtgfn_bench.plots import Series, lines
from dtgfn_bench.splits import shift
from dtgfn_bench.statistics import summary

LABELS = {"bmi": "BMI above 30", "age": "age above 29"}
SHIFTS = tuple(LABELS)
PAPER_SEED = 42
SEEDS = (PAPER_SEED, *range(1, 11))  # one split says little
ENSEMBLE_SIZES = (100, 500, 1000)
N_SCALED = 3  # splits for the smaller ensembles, which only the figure shows
OURS = ("dtgfn", "dtgfn-bagged", "dtgfn-paper", "dtgfn-warm", "dtgfn-even")
# Methods with a number of trees are fitted anew for each size.
FORESTS = ("forest", "extra-trees", "xgboost", "catboost", "lightgbm")
# The class shares shift too, so rivals that weigh classes evenly stand beside those that do not.
OTHERS = (
    "logistic",
    "logistic-balanced",
    "forest-balanced",
    "extra-trees-balanced",
    "catboost-balanced",
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
    train, inside, outside = shift(data, cast(Any, cell.table), cell.seed)
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
        chosen = seeds if n_trees == max(ENSEMBLE_SIZES) else seeds[:N_SCALED]
        found += method_cells("shift", shifts, methods, chosen, quick, variant, **changes)
    return found + method_cells("shift", shifts, OTHERS, seeds, quick)


def of_size(records: Sequence[Record], n_trees: int) -> list[Record]:
    """Records of ensembles of one size, and of all that have no size."""
    return [r for r in records if r.cell.variant.get("n_trees", n_trees) == n_trees]


def render(records: Sequence[Record]) -> list[Block]:
    """Accuracy outside and inside, on the paper's split and over all, and against size."""
    largest = max((r.cell.variant.get("n_trees", 0) for r in records), default=0)
    full = of_size(records, largest)
    blocks = []
    for side, words in (("out", "out of distribution"), ("in", "in distribution")):
        printed = {
            (method, shift): value
            for (method, column), value in SHIFT.items()
            for shift in SHIFTS
            if column == f"{shift}-{side}"
        }
        papers = [r for r in full if r.cell.seed == PAPER_SEED]
        blocks += [
            _block(papers, f"{side}_accuracy", f"Accuracy {words}, the paper's split", printed),
            _block(full, f"{side}_accuracy", f"Accuracy {words}, {len(SEEDS)} splits"),
        ]
    blocks.append(_block(full, "out_log_loss", "Log loss out of distribution"))
    rivals = method_labels(RIVALS)
    for name, label in method_labels(OURS).items():
        heading = f"Paired, out of distribution: {label}"
        blocks.append(
            paired_block(full, "out_accuracy", name, rivals, label=label, heading=heading)
        )
    blocks.append(seconds_block(full, LABELS, method_labels((*RIVALS, *OURS)), OURS))
    seeds = ", ".join(map(str, SEEDS[:N_SCALED]))
    caption = f"Mean over {N_SCALED} splits (seeds {seeds}); every size is a fit of its own."
    figures = [Block(figure=_scaling(records, table)) for table in SHIFTS]
    return [*blocks, Block(heading="Ensemble size", text=caption), *figures]


def _block(
    records: Sequence[Record],
    metric: str,
    heading: str,
    printed: Mapping[tuple[str, str], Printed] | None = None,
) -> Block:
    names = (*RIVALS, *(("dt-gfn",) if printed else ()), *OURS)
    return comparison_block(
        records,
        metric,
        LABELS,
        method_labels(names),
        printed or {},
        size=False,
        higher_is_better="loss" not in metric,
        ours=OURS,
        heading=heading,
    )


def _scaling(records: Sequence[Record], table: str) -> Figure:
    """Accuracy of shifted rows against the number of trees."""

    def draw(figure: object) -> None:
        series = []
        for method, label in method_labels((*FORESTS, *OURS)).items():
            sizes, means = [], []
            for n_trees in ENSEMBLE_SIZES:
                found = summary(
                    [
                        r.metrics["out_accuracy"]
                        for r in of_size(records, n_trees)
                        if (r.cell.method, r.cell.table, r.status) == (method, table, "done")
                        and r.cell.seed in SEEDS[:N_SCALED]
                    ]
                )
                if found.n:
                    sizes.append(float(n_trees))
                    means.append(found.mean)
            if sizes:
                series.append(Series(label, sizes, means, ours=method in OURS))
        lines(figure, series, "trees", f"accuracy of shifted rows ({LABELS[table]})")

    return Figure(f"scaling-{table}", f"Accuracy of shifted rows ({table}) by ensemble size", draw)


EXPERIMENT = Experiment(
    name="shift",
    title="Distribution shift",
    cells=cells,
    measure=measure,
    render=render,
)
