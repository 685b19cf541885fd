"""Seconds per training step and per ensemble drawn, against depth and ensemble size."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from dtgfn.datasets import load_dataset
from dtgfn_bench.cells import PAPER_TABLES
from dtgfn_bench.experiment import Block, Cell, Experiment, Record
from dtgfn_bench.measure import Metrics
from dtgfn_bench.paper import COST
from dtgfn_bench.splits import holdout

DEPTHS = (2, 4, 5)
ENSEMBLE_SIZES = (1, 100, 1000)
N_STEPS = 30
POLICIES = {"dtgfn-paper": {"preset": "paper"}, "dtgfn": {}}
LABELS = {"dtgfn-paper": "the paper's policy", "dtgfn": "ours"}
NOTE = (
    "Seconds of one process on one core: a training step of each policy's own batch (the paper's "
    "100 trees; ours 90 drawn and 10 replayed, with two levels summed exactly), 99 thresholds, "
    "penalty of the paper, and drawing ensembles from the policy after 30 steps. The paper's epoch "
    "is on an RTX 8000, its draws are of 1 and 100 trees."
)


def measure(cell: Cell) -> Metrics:
    """Train a few steps after others that compile; then draw ensembles of each size."""
    from dtgfn.inference.infer import infer

    data = load_dataset(cell.table)
    train, _ = holdout(len(data.y), cell.seed)
    marks: list[float] = []
    for n_steps in (2, cell.variant["n_steps"]):
        marks.clear()
        found = infer(
            data.X[train],
            data.y[train],
            engine="gfn",
            max_depth=cell.variant["depth"],
            split_penalty="paper",
            n_steps=n_steps,
            evaluate_every=10**6,
            patience=None,
            time_budget=None,
            n_trees=1,
            random_state=cell.seed,
            n_jobs=1,
            callbacks=[lambda _: marks.append(time.perf_counter())],
            **cell.settings,
        )
    # Where exact tails leave nothing to learn there is no step.
    n_timed = len(marks) - 1
    step = (marks[-1] - marks[0]) / n_timed if n_timed > 0 else None
    metrics: Metrics = {"step_seconds": step}
    for size in ENSEMBLE_SIZES:
        begun = time.perf_counter()
        found.solution.sample(size, np.random.default_rng(cell.seed))  # type: ignore[union-attr]
        metrics[f"draw_seconds_{size}"] = time.perf_counter() - begun
    return metrics


def cells(quick: bool) -> list[Cell]:
    """Both policies, four tables, three depths; quick: Iris, depth 2, few steps."""
    n_steps = 4 if quick else N_STEPS
    return [
        Cell("cost", table, policy, 1, settings, {"depth": depth, "n_steps": n_steps})
        for policy, settings in POLICIES.items()
        for table in (PAPER_TABLES[:1] if quick else PAPER_TABLES)
        for depth in (DEPTHS[:1] if quick else DEPTHS)
    ]


def render(records: Sequence[Record]) -> list[Block]:
    """One row for each table, depth and policy, with the paper's seconds beside them."""
    header = ["table", "depth", "policy", "step, s", "paper's epoch, s"]
    header += [f"draw {size}, s" for size in ENSEMBLE_SIZES]
    rows = [[*header, "paper draws 1 / 100, s"]]
    for record in sorted(records, key=_order):
        table, depth = record.cell.table, record.cell.variant["depth"]
        row = [table, str(depth), LABELS[record.cell.method]]
        if record.status != "done":
            rows.append([*row, f"{record.status}: {record.reason}"])
            continue
        paper = COST.get((table, depth))
        row += [_seconds(record.metrics["step_seconds"]), f"{paper.train_1:g}" if paper else ""]
        row += [_seconds(record.metrics[f"draw_seconds_{size}"]) for size in ENSEMBLE_SIZES]
        rows.append([*row, f"{paper.draw_1:g} / {paper.draw_100:g}" if paper else ""])
    return [Block(rows=rows, text=NOTE)]


def _order(record: Record) -> tuple[int, int, int]:
    cell = record.cell
    return (
        PAPER_TABLES.index(cell.table),
        cell.variant["depth"],
        list(POLICIES).index(cell.method),
    )


def _seconds(value: float | None) -> str:
    return "nothing to learn" if value is None else f"{value:.4f}"


EXPERIMENT = Experiment(
    name="cost",
    title="Cost of training and drawing",
    cells=cells,
    measure=measure,
    render=render,
    runs_methods=False,
    revision=2,  # engines that spend their seconds otherwise
)
