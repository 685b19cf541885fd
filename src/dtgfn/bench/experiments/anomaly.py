"""Anomaly detection by the protocol of Shenkar & Wolf: half of the normal rows to learn from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dtgfn.bench.cells import method_cells
from dtgfn.bench.comparison import comparison_block, paired_block, rank_figure
from dtgfn.bench.contract import TrainingRows
from dtgfn.bench.experiment import Block, Cell, Experiment, Record
from dtgfn.bench.measure import Metrics, detection_metrics, fit_and_time
from dtgfn.bench.paper import ANOMALY
from dtgfn.bench.splits import anomaly_halves
from dtgfn.datasets import load_dataset

TABLES = ("thyroid", "ecoli", "vertebral", "glass")
N_SPLITS = 20
OURS = ("dtgfn-detector", "dtgfn-detector-tree")
RIVALS = (
    "drocc",
    "goad",
    "icl",
    "copod",
    "copod-transductive",
    "isolation-forest",
    "knn",
    "knn-raw",
    "pidforest",
    "rrcf",
)


def measure(cell: Cell) -> Metrics:
    """Learn from half of the normal rows; test on the others and all anomalies."""
    data = load_dataset(cell.table)
    train, test = anomaly_halves(data.y, cell.seed)
    rows = TrainingRows(data.X[train], np.zeros(len(train), dtype=np.int64), 1, cell.table)
    fitted, seconds = fit_and_time(cell.method, cell.settings, rows, cell.seed)
    found = detection_metrics(fitted.score(data.X[test]), fitted.training_scores(), data.y[test])
    return {**found, "fit_seconds": seconds, "size": fitted.size()}


def cells(quick: bool) -> list[Cell]:
    """Every detector on twenty splits of the four tables; quick: one split of ecoli."""
    tables, seeds = (("ecoli",), (1,)) if quick else (TABLES, range(1, N_SPLITS + 1))
    return method_cells("anomaly", tables, (*OURS, *RIVALS), tuple(seeds), quick)


def render(records: Sequence[Record]) -> list[Block]:
    """F1 by both rules beside the paper's, AUROC, average precision, paired tests, ranks."""
    everyone = (*RIVALS, *OURS)
    blocks = [
        comparison_block(records, metric, TABLES, everyone, ANOMALY.get(metric, {}), size=False)
        for metric in ("f1_two_std", "f1_known", "auroc", "average_precision")
    ]
    blocks.append(paired_block(records, "f1_known", OURS, RIVALS))
    blocks.append(Block(figure=rank_figure(records, "f1_known", TABLES)))
    return blocks


EXPERIMENT = Experiment(
    name="anomaly",
    title="Anomaly detection",
    cells=cells,
    measure=measure,
    render=render,
)
