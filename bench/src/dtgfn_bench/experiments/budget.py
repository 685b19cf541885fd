"""Accuracy against seconds of training and size of the ensemble, on Iris."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dtgfn.datasets import load_dataset
from dtgfn.evaluation import class_scores
from dtgfn_bench.experiment import Block, Cell, Experiment, Figure, Record
from dtgfn_bench.measure import Metrics
from dtgfn_bench.plots import Series, lines
from dtgfn_bench.splits import holdout
from dtgfn_bench.statistics import summary

BUDGETS = (0, 10, 20)
ENSEMBLE_SIZES = (10, 100, 200, 500, 1000)
SEEDS = (1, 2, 3, 4, 5)
# The paper's own policy with its settings of this figure, and ours.
POLICIES = {
    "dtgfn-paper": {"preset": "paper", "n_replay": 10, "epsilon": 0.05, "epsilon_end": 0.05},
    "dtgfn": {},
}
# Each averages its trees as it does elsewhere.
WEIGHTING = {"dtgfn-paper": "posterior", "dtgfn": "importance"}
LABELS = {"dtgfn-paper": "the paper's policy", "dtgfn": "ours"}
NOTE = (
    "Iris, depth 3, 9 thresholds, penalty of the paper. The paper's policy has 10 replayed trees a "
    "step and 5 % uniform actions, and averages distinct trees by their posterior (Algorithm 1); "
    "ours has its defaults and importance weights. 0 seconds is the untrained policy. One process "
    "per core; of one fit, the sizes are the first of its 1000 trees in random order."
)


def measure(cell: Cell) -> Metrics:
    """Train for some seconds, then average the first trees drawn: 10 of them, 100, ..."""
    from dtgfn.data.binning import encode
    from dtgfn.data.tables import as_table
    from dtgfn.inference.infer import infer
    from dtgfn.posterior.prediction import average_outputs

    data = load_dataset(cell.table)
    train, test = holdout(len(data.y), cell.seed)
    seconds = float(cell.variant["seconds"])
    found = infer(
        data.X[train],
        data.y[train],
        engine="gfn",
        max_depth=3,
        n_thresholds=9,
        split_penalty="paper",
        n_trees=max(ENSEMBLE_SIZES),
        random_state=cell.seed,
        n_jobs=1,
        **cell.settings,
        **({"n_steps": None, "time_budget": seconds} if seconds else {"n_steps": 0}),
    )
    codes = encode(found.binner, as_table(data.X[test]))  # type: ignore[arg-type]
    order = np.random.default_rng(cell.seed).permutation(len(found.trees))
    metrics: Metrics = {"log_evidence": found.log_evidence, "size": 2 * found.mean_splits + 1}
    for size in ENSEMBLE_SIZES:
        part = order[:size]
        few = replace(
            found,
            trees=found.trees[part],
            log_reward=found.log_reward[part],
            log_prob=found.log_prob[part],
            log_weight=found.log_weight[part],
        )
        probability = average_outputs(few, codes, weighting=WEIGHTING[cell.method], n_jobs=1)
        scores = class_scores(probability, data.y[test])
        metrics |= {f"accuracy_{size}": scores["accuracy"], f"log_loss_{size}": scores["log_loss"]}
    return metrics


def cells(quick: bool) -> list[Cell]:
    """Both policies with every budget and seed; quick: 0 and 1 second, one seed."""
    return [
        Cell("budget", "iris", policy, seed, settings, {"seconds": seconds})
        for policy, settings in POLICIES.items()
        for seconds in ((0, 1) if quick else BUDGETS)
        for seed in (SEEDS[:1] if quick else SEEDS)
    ]


def render(records: Sequence[Record]) -> list[Block]:
    """A table of accuracy and log loss by policy, budget and size, and a plot."""
    done = [r for r in records if r.status == "done"]
    blocks = []
    for metric, heading in (("accuracy", "Accuracy"), ("log_loss", "Log loss")):
        rows = [["policy", "seconds", *(f"{size} trees" for size in ENSEMBLE_SIZES)]]
        for policy, seconds in _runs(done):
            chosen = _of(done, policy, seconds)
            rows.append([LABELS[policy], f"{seconds:g}"])
            for size in ENSEMBLE_SIZES:
                found = summary([r.metrics[f"{metric}_{size}"] for r in chosen])
                rows[-1].append(f"{found.mean:.3f} ± {found.spread:.3f}")
        blocks.append(Block(heading=heading, rows=rows))
    failed = [f"{LABELS[r.cell.method]}: {r.reason}" for r in records if r.status != "done"]
    figures = [
        Block(figure=_figure(done, "accuracy", "accuracy of test rows")),
        Block(figure=_figure(done, "log_loss", "log loss of test rows")),
    ]
    return [Block(text=NOTE), *blocks, Block(text="; ".join(failed)), *figures]


def _runs(records: Sequence[Record]) -> list[tuple[str, float]]:
    found = {(r.cell.method, r.cell.variant["seconds"]) for r in records}
    return sorted(found, key=lambda run: (list(POLICIES).index(run[0]), run[1]))


def _of(records: Sequence[Record], policy: str, seconds: float) -> list[Record]:
    return [r for r in records if (r.cell.method, r.cell.variant["seconds"]) == (policy, seconds)]


def _figure(done: Sequence[Record], metric: str, label: str) -> Figure:
    def draw(figure: object) -> None:
        series = []
        for policy, seconds in _runs(done):
            chosen = _of(done, policy, seconds)
            found = [
                summary([r.metrics[f"{metric}_{size}"] for r in chosen]).mean
                for size in ENSEMBLE_SIZES
            ]
            name = f"{LABELS[policy]}, {seconds:g} s"
            series.append(Series(name, ENSEMBLE_SIZES, found, ours=policy == "dtgfn"))
        lines(figure, series, "trees", label, log_x=True)

    return Figure(metric.replace("_", "-"), f"{label} by training seconds and ensemble size", draw)


EXPERIMENT = Experiment(
    name="budget",
    title="Training seconds and ensemble size",
    cells=cells,
    measure=measure,
    render=render,
    runs_methods=False,
    revision=2,  # engines that spend their seconds otherwise
)
