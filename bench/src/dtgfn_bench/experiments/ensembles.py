"""Ensembles of 1000 trees, and deep models, on the paper's four tables (its second table)."""

from __future__ import annotations

from collections.abc import Sequence

from dtgfn_bench.cells import PAPER_SEEDS, PAPER_TABLES, method_cells, method_labels
from dtgfn_bench.comparison import (
    also_beside,
    comparison_block,
    paired_block,
    rank_block,
    seconds_block,
)
from dtgfn_bench.experiment import Block, Cell, Experiment, Record
from dtgfn_bench.experiments.single_trees import measure_holdout
from dtgfn_bench.paper import ENSEMBLES

OURS = (
    "dtgfn",
    "dtgfn-auto",
    "dtgfn-sum",
    "dtgfn-bagged",
    "dtgfn-bagged-deep",
    "dtgfn-exact",
    "dtgfn-paper",
    "dtgfn-paper-text",
    "dtgfn-paper-release",
)
# Which of two readings the paper ran is not known: its figure stands beside both.
VARIANTS = {
    "xgboost-100": "xgboost",
    "lightgbm-100": "lightgbm",
    "mlp-raw": "mlp",
    "tab-transformer-numeric": "tab-transformer",
}
RIVALS = (
    "forest",
    "xgboost",
    "xgboost-100",
    "catboost",
    "lightgbm",
    "lightgbm-100",
    "mlp",
    "mlp-raw",
    "tab-transformer",
    "tab-transformer-numeric",
    "ft-transformer",
)
# Not in the paper: what a user would also consider.
OTHERS = (
    "extra-trees",
    "hist-gradient-boosting",
    "ebm",
    "bart",
    "tabm",
    "tabpfn",
    "smc-ensemble",
    "mcmc-ensemble",
)


def cells(quick: bool) -> list[Cell]:
    """Every method on seeds 1-5 of the four tables; quick: Iris, seed 1."""
    tables, seeds = (("iris",), (1,)) if quick else (PAPER_TABLES, PAPER_SEEDS)
    return method_cells("ensembles", tables, (*OURS, *RIVALS, *OTHERS), seeds, quick)


def render(records: Sequence[Record]) -> list[Block]:
    """Accuracy, log loss, ours against the best rival, ranks."""
    rivals, ours = method_labels((*RIVALS, *OTHERS)), method_labels(OURS)
    everyone = rivals | method_labels(("dt-gfn",)) | ours
    printed = also_beside(ENSEMBLES, VARIANTS)
    return [
        comparison_block(
            records, "accuracy", PAPER_TABLES, everyone, printed, ours=OURS, heading="Accuracy"
        ),
        comparison_block(
            records,
            "log_loss",
            PAPER_TABLES,
            rivals | ours,
            {},
            size=False,
            higher_is_better=False,
            ours=OURS,
            heading="Log loss",
        ),
        *(
            paired_block(records, "accuracy", name, rivals, label=label, heading=f"Paired: {label}")
            for name, label in ours.items()
        ),
        rank_block(records, "accuracy", PAPER_TABLES, methods=rivals | ours, ours=OURS),
        seconds_block(records, PAPER_TABLES, rivals | ours, OURS),
    ]


EXPERIMENT = Experiment(
    name="ensembles",
    title="Ensembles and deep models",
    cells=cells,
    measure=measure_holdout,
    render=render,
)
