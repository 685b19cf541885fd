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
N_SCALED = 5  # splits for the smaller ensembles, which only the question of scaling needs
SIDES = {"out": "out of distribution", "in": "in distribution"}
# By the size of an ensemble the paper also means the trees in each training step: "scaled".
OURS = (
    "dtgfn",
    "dtgfn-bagged",
    "dtgfn-paper",
    "dtgfn-paper-text",
    "dtgfn-paper-release",
    "dtgfn-paper-scaled",
    "dtgfn-warm",
    "dtgfn-even",
)
SCALING_NOTE = (
    "Every size is a fit of its own. Of all methods but one only the number of trees in the end "
    "changes; the paper's policy *trained on as many trees* has that number in each of its 100 "
    "training steps too (90 % drawn, 10 % replayed), which is what the paper scales. With 100 it "
    "is the paper's policy itself. The last columns are the differences split by split."
)
# Methods with a number of trees are fitted anew for each size.
FORESTS = ("forest", "extra-trees", "xgboost", "catboost", "lightgbm")
# The class shares shift too, so rivals that weigh classes evenly stand beside those that do not.
OTHERS = (
    "dtgfn-sum",
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
    for side, words in SIDES.items():
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
    return [*blocks, *_scaling_blocks(records)]


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


def _scaling_blocks(records: Sequence[Record]) -> list[Block]:
    """Accuracy by ensemble size, on the splits that have all sizes."""
    seeds = ", ".join(map(str, SEEDS[:N_SCALED]))
    heading = f"Ensemble size: mean over {N_SCALED} splits (seeds {seeds})"
    tables = [
        Block(heading=f"{label}, accuracy {words}", rows=_scaling_rows(records, table, side))
        for table, label in LABELS.items()
        for side, words in SIDES.items()
    ]
    figures = [Block(figure=_scaling(records, table, side)) for table in LABELS for side in SIDES]
    return [Block(heading=heading, text=SCALING_NOTE), *tables, *figures]


def _scaling_rows(records: Sequence[Record], table: str, side: str) -> list[list[str]]:
    """A row for each method: its accuracy at each size, and what the largest adds."""
    first, last = ENSEMBLE_SIZES[0], ENSEMBLE_SIZES[-1]
    sizes = [f"{n} trees" for n in ENSEMBLE_SIZES]
    rows = [["Method", *sizes, f"{last} less {first}", "up / down"]]
    for method, label in method_labels((*FORESTS, *OURS)).items():
        by_size = {n: scaled_scores(records, method, table, side, n) for n in ENSEMBLE_SIZES}
        if not any(by_size.values()):
            continue  # the tables above say why
        shared = sorted(by_size[first].keys() & by_size[last].keys())
        gains = [by_size[last][seed] - by_size[first][seed] for seed in shared]
        ups, downs = sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)
        row = [label, *(_mean(list(scores.values())) for scores in by_size.values())]
        rows.append([*row, _mean(gains, "+"), f"{ups} / {downs}" if gains else "–"])
    return rows


def scaled_scores(
    records: Sequence[Record], method: str, table: str, side: str, n_trees: int
) -> dict[int, float]:
    """Accuracy by seed of a method's ensembles of one size, on the splits that have all sizes."""
    return {
        r.cell.seed: accuracy
        for r in of_size(records, n_trees)
        if (r.cell.method, r.cell.table, r.status) == (method, table, "done")
        and r.cell.seed in SEEDS[:N_SCALED]
        and (accuracy := r.metrics[f"{side}_accuracy"]) is not None
    }


def _mean(values: Sequence[float], sign: str = "") -> str:
    found = summary(list(values))
    if not found.n:
        return "–"
    spread = f" ± {found.spread:.3f}" if found.n > 1 else ""
    return f"{found.mean:{sign}.3f}{spread}"


def _scaling(records: Sequence[Record], table: str, side: str) -> Figure:
    """Accuracy against the number of trees."""

    def draw(figure: object) -> None:
        series = []
        for method, label in method_labels((*FORESTS, *OURS)).items():
            means = {
                float(n): summary(list(scores.values())).mean
                for n in ENSEMBLE_SIZES
                if (scores := scaled_scores(records, method, table, side, n))
            }
            if means:
                ours = method in OURS
                series.append(Series(label, list(means), list(means.values()), ours=ours))
        lines(figure, series, "trees", f"accuracy {SIDES[side]} ({LABELS[table]})")

    name = f"scaling-{table}" if side == "out" else f"scaling-{table}-{side}"
    return Figure(name, f"Accuracy {SIDES[side]} ({table}) by ensemble size", draw)


EXPERIMENT = Experiment(
    name="shift",
    title="Distribution shift",
    cells=cells,
    measure=measure,
    render=render,
)
