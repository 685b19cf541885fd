"""Seconds per training step and per ensemble drawn, against depth and ensemble size."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dtgfn.datasets import load_dataset
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn_bench.cells import PAPER_TABLES
from dtgfn_bench.experiment import Block, Cell, Experiment, Record
from dtgfn_bench.measure import Metrics
from dtgfn_bench.paper import COST
from dtgfn_bench.splits import holdout

DEPTHS = (2, 4, 5)
ENSEMBLE_SIZES = (1, 100, 1000)
# Trees in a training step: by the policy, and replayed where the paper's tenth is at least one.
TRAINED = {1: {"n_forward": 1, "n_replay": 0}, 100: {"n_forward": 90, "n_replay": 10}}
N_STEPS = 30
POLICIES = {"dtgfn-paper": {"preset": "paper"}, "dtgfn": {}}
LABELS = {"dtgfn-paper": "the paper's policy", "dtgfn": "ours"}
NOTE = (
    "Seconds of one process on one core, 99 thresholds, penalty of the paper: a training step on 1 "
    "tree (none is replayed) and on 100 (90 drawn, 10 replayed), ours with the last two levels "
    "summed exactly; and drawing ensembles from the policy after 30 steps of 100 trees. The "
    "paper's are seconds per epoch on an RTX 8000, by the number of trees that the policy is "
    "trained on; whether its epoch is one step is our reading."
)


def measure(cell: Cell) -> Metrics:
    """Train a few steps on 1 tree and on 100; draw ensembles of each size from the latter."""
    metrics: Metrics = {}
    for n_trained, batch in TRAINED.items():
        found, metrics[f"step_seconds_{n_trained}"] = timed_training(cell, batch)
    for size in ENSEMBLE_SIZES:
        begun = time.perf_counter()
        found.solution.sample(size, np.random.default_rng(cell.seed))  # type: ignore[union-attr]
        metrics[f"draw_seconds_{size}"] = time.perf_counter() - begun
    return metrics


def timed_training(cell: Cell, batch: Mapping[str, Any]) -> tuple[TreePosterior, float | None]:
    """Train with so many trees in a step, after two steps that compile; mean seconds of a step.

    None where exact tails leave nothing to learn.
    """
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
            **batch,
        )
    n_timed = len(marks) - 1
    return found, (marks[-1] - marks[0]) / n_timed if n_timed > 0 else None


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
    header = ["table", "depth", "policy"]
    header += [text for n in TRAINED for text in (f"step on {n}, s", f"paper's train ({n}), s")]
    header += [f"draw {size}, s" for size in ENSEMBLE_SIZES]
    rows = [[*header, "paper draws 1 / 100, s"]]
    for record in sorted(records, key=_order):
        table, depth = record.cell.table, record.cell.variant["depth"]
        row = [table, str(depth), LABELS[record.cell.method]]
        if record.status != "done":
            rows.append([*row, f"{record.status}: {record.reason}"])
            continue
        paper = COST.get((table, depth))
        printed = {1: paper.train_1, 100: paper.train_100} if paper else {}
        for n_trained in TRAINED:
            row.append(_seconds(record.metrics[f"step_seconds_{n_trained}"]))
            row.append(f"{printed[n_trained]:g}" if printed else "")
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
    revision=3,  # steps on 1 tree and on 100
)
