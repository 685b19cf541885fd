"""Rewards on mini-batches of rows: what they do to the target, exactly, and to what is learned."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dtgfn._support.arrays import Floats
from dtgfn.diagnostics import UntrustworthyFit
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.trees.batch import TreeBatch
from dtgfn.trees.score import Score, log_reward
from dtgfn_bench.batch_target import SCALINGS, batch_target, scaled_score
from dtgfn_bench.experiment import Block, Cell, Experiment, Record
from dtgfn_bench.measure import Metrics
from dtgfn_bench.problems import Problem, infer_problem
from dtgfn_bench.statistics import summary

PROBLEMS = (Problem("iris-sklearn", 9, 3), Problem("wine", 9, 3))
SHARES = (1.0, 0.5, 0.1)  # of the rows
SEEDS = (1, 2, 3)
N_STEPS = 500
N_EXACT = 2000  # trees for means over a posterior
METHOD = "dtgfn-paper"
LABELS = {
    "likelihood": "the likelihood (ours)",
    "both": "likelihood and prior (the release)",
    "neither": "nothing (the text has no factor)",
}
TARGET = {
    "target_splits": "splits",
    "target_log_z_error": "log Z",
    "target_elbo_gap": "KL from the posterior",
    "target_eubo_gap": "KL of the posterior from it",
    "target_variation": "error of P(y given x)",
}
LEARNED = {
    "splits": "splits",
    "log_z_error": "learned log Z",
    "elbo_gap": "ELBO gap",
    "eubo_gap": "EUBO gap",
    "own_elbo_gap": "ELBO gap to its own target",
    "variation": "error of P(y given x)",
    "weighted_variation": "the same, weighted",
}
NOTE = (
    "The paper's appendix says that with rewards on mini-batches the minimum of the squared loss "
    "is the true posterior in expectation. For one tree the loss is (log Z + log P_F - log P_B - "
    "log R_b)^2, b being the batch. Its mean over batches is the same square with E[log R_b] in "
    "place of log R_b, plus the variance of log R_b, which no policy changes: **the minimum draws "
    "trees in proportion to exp(E[log R_b])**, which is R only if E[log R_b] is log R. A sum over "
    "rows times n / b has that mean, but log R is no sum over rows: in the marginal likelihood "
    "every leaf pays for learning its probabilities, about (C - 1) / 2 times the logarithm of its "
    "rows; a batch pays that too, and n / b multiplies it. So the target moves to smaller trees "
    "even where only the likelihood is multiplied. Multiplying the prior as well, as the release "
    "does, makes a split n / b times dearer; multiplying nothing leaves the geometric mean of the "
    "posteriors of b rows."
)
TARGET_NOTE = (
    "E[log R_b] is a sum over leaves too (a leaf's rows in the batch are hypergeometric), so this "
    "table has no noise of training: exact sums over all trees of the target that a perfect "
    "learner would have. Differences are to the posterior given all rows, in nats."
)
LEARNED_NOTE = (
    f"The paper's policy, {N_STEPS} steps; mean ± spread over seeds "
    f"{', '.join(map(str, SEEDS))}. Gaps are to the posterior given all rows but in the column "
    "that says otherwise; those of a policy are over trajectories, so they bound the KL "
    "divergences from above. Trees count evenly, as the policy draws them; the last column has "
    "importance weights, whose rewards are on all rows, so that they mend what they can."
)


@dataclass(frozen=True)
class Truth:
    """The posterior given all rows, the batch's size, and the trees that means are over."""

    exact: TreePosterior
    n_batch: int
    trees: TreeBatch
    average: Floats

    @property
    def n_rows(self) -> int:
        """Training rows."""
        return len(self.exact.rows.target)

    def log_prob(self, trees: TreeBatch, score: Score, log_z: float) -> Floats:
        """Log probability [B] of trees under a score whose evidence is known."""
        return np.asarray(log_reward(trees, self.exact.rows, score) / score.temperature - log_z)

    def exact_log_prob(self, trees: TreeBatch) -> Floats:
        """Log probability [B] of trees given all rows."""
        return self.log_prob(trees, self.exact.score, self.exact.log_evidence)

    def variation(self, average: Floats) -> float:
        """Total variation of P(y | x) [n, C] from the exact one, mean over training rows."""
        return float(np.abs(average - self.average).sum(axis=1).mean() / 2)


def measure(cell: Cell) -> Metrics:
    """What the target is, and what the paper's policy has learned of it."""
    variant = cell.variant
    problem = Problem(cell.table, variant["n_thresholds"], variant["max_depth"])
    exact = infer_problem(problem, "paper", "exact", n_trees=10, time_budget=None, n_jobs=1)
    truth = Truth(
        exact,
        max(round(variant["share"] * len(exact.rows.target)), 1),
        exact.solution.sample(N_EXACT, np.random.default_rng(0)),  # type: ignore[union-attr]
        exact.solution.average(exact.rows.codes),  # type: ignore[union-attr]
    )
    target = infer_target(truth, variant["scaling"])
    learned = infer_learned(problem, truth, variant["scaling"], cell)
    return {
        "n_batch": truth.n_batch,
        **target_metrics(target, truth),
        **learned_metrics(learned, target, truth),
    }


def infer_target(truth: Truth, scaling: str) -> TreePosterior:
    """Sum over all trees for the target of the batches."""
    from dtgfn.engines.contract import Run
    from dtgfn.engines.exact.engine import infer_exact

    exact = truth.exact
    run = Run(
        column=exact.binner.feature_column.astype(np.int32),  # type: ignore[union-attr]
        n_columns=len(exact.column_inclusion),
        n_trees=N_EXACT,
        random_state=0,
        n_jobs=1,
    )
    return infer_exact(
        exact.rows, batch_target(exact.score, truth.n_rows, truth.n_batch, scaling), run
    )


def infer_learned(problem: Problem, truth: Truth, scaling: str, cell: Cell) -> TreePosterior:
    """Train the policy on rewards of batches, without a word of what it thinks of itself."""
    score = scaled_score(truth.exact.score, truth.n_rows, truth.n_batch, scaling)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UntrustworthyFit)
        return infer_problem(
            problem,
            score.prior.penalty,  # type: ignore[union-attr, arg-type]
            "gfn",
            temperature=score.temperature,
            row_batch=truth.n_batch if truth.n_batch < truth.n_rows else None,
            time_budget=None,
            random_state=cell.seed,
            n_jobs=1,
            **cell.settings,
        )


def target_metrics(target: TreePosterior, truth: Truth) -> Metrics:
    """Distances of the batches' target from the posterior given all rows."""
    log_z = target.log_evidence

    def excess(trees: TreeBatch) -> float:
        own = truth.log_prob(trees, target.score, log_z)
        return float((own - truth.exact_log_prob(trees)).mean())

    return {
        "target_splits": target.mean_splits,
        "target_log_z_error": log_z - truth.exact.log_evidence,
        "target_elbo_gap": excess(target.trees),
        "target_eubo_gap": -excess(truth.trees),
        "target_variation": truth.variation(target.solution.average(truth.exact.rows.codes)),  # type: ignore[union-attr]
    }


def learned_metrics(learned: TreePosterior, target: TreePosterior, truth: Truth) -> Metrics:
    """Distances of the trained policy from the posterior, and from its own target."""
    exact, trees = truth.exact, learned.trees
    log_weight = learned.log_weight - learned.log_reward / learned.score.temperature
    to_exact = log_weight + truth.exact_log_prob(trees)  # log p(T) P_B / P_F
    to_target = log_weight + truth.log_prob(trees, target.score, target.log_evidence)
    missed = truth.exact_log_prob(truth.trees) - log_flow_share(learned, truth.trees)
    even = np.full(len(trees), 1 / len(trees))
    weight = np.exp(to_exact - to_exact.max())
    return {
        "splits": float((trees.feature >= 0).sum(axis=1).mean()),
        "log_z_error": learned.diagnostics["log_z"] - exact.log_evidence,
        "elbo_gap": -float(to_exact.mean()),
        "eubo_gap": float(missed.mean()),
        "own_elbo_gap": -float(to_target.mean()),
        "variation": truth.variation(_average(trees, even, exact)),
        "weighted_variation": truth.variation(_average(trees, weight / weight.sum(), exact)),
    }


def log_flow_share(learned: TreePosterior, trees: TreeBatch) -> Floats:
    """Log P_F - log P_B [B] of trajectories to given trees, drawn backwards."""
    import torch

    sampler: Any = learned.solution.sampler  # type: ignore[union-attr]
    trajectories = sampler.retrace(trees, np.random.default_rng(0))
    with torch.no_grad():
        residual = sampler.residuals([trajectories], False).delta.sum(dim=1).numpy()
    reward = trajectories.training_log_reward / learned.score.temperature
    return np.asarray(residual + reward - learned.diagnostics["log_z"])


def _average(trees: TreeBatch, weight: Floats, exact: TreePosterior) -> Floats:
    from dtgfn.posterior.prediction import average_trees

    return average_trees(trees, weight, exact.rows, exact.score, exact.rows.codes, n_jobs=1)


def cells(quick: bool) -> list[Cell]:
    """Every problem, batch and scaling with every seed; quick: one batch of Iris, few steps."""
    settings = {"preset": "paper", "n_steps": 10 if quick else N_STEPS}
    return [
        Cell(
            "mini-batches",
            problem.table,
            METHOD,
            seed,
            settings,
            {
                "n_thresholds": problem.n_thresholds,
                "max_depth": problem.max_depth,
                "share": share,
                "scaling": scaling,
            },
        )
        for problem in (PROBLEMS[:1] if quick else PROBLEMS)
        for share in (SHARES[1:2] if quick else SHARES)
        for scaling in (SCALINGS[:1] if share == 1 else SCALINGS)  # all rows need no factor
        for seed in (SEEDS[:1] if quick else SEEDS)
    ]


def render(records: Sequence[Record]) -> list[Block]:
    """What the target becomes, and what is learned."""
    done = [r for r in records if r.status == "done"]
    failed = [f"{r.cell.table}: {r.status}, {r.reason}." for r in records if r.status != "done"]
    return [
        Block(text=" ".join([NOTE, *failed])),
        Block(heading="The target, exactly", rows=_rows(done, TARGET), text=TARGET_NOTE),
        Block(heading="What is learned", rows=_rows(done, LEARNED), text=LEARNED_NOTE),
    ]


def _rows(done: Sequence[Record], shown: dict[str, str]) -> list[list[str]]:
    rows = [["problem", "rows in a batch", "multiplied by n / b", *shown.values()]]
    groups: dict[tuple[str, float, str], list[Record]] = {}
    for record in done:
        variant = record.cell.variant
        problem = Problem(record.cell.table, variant["n_thresholds"], variant["max_depth"])
        key = (str(problem), variant["share"], variant["scaling"])
        groups.setdefault(key, []).append(record)
    for (problem_name, share, scaling), group in groups.items():
        n_batch = group[0].metrics["n_batch"] or 0
        factor = "all rows" if share == 1 else LABELS[scaling]
        row = [problem_name, f"{n_batch:.0f}", factor]
        rows.append([*row, *(_shown(group, metric) for metric in shown)])
    return rows


def _shown(group: Sequence[Record], metric: str) -> str:
    found = summary([r.metrics[metric] for r in group])
    digits = 4 if "variation" in metric else 2
    spread = f" ± {found.spread:.{digits}f}" if metric in LEARNED and found.n > 1 else ""
    return f"{found.mean:.{digits}f}{spread}" if found.n else "undefined"


EXPERIMENT = Experiment(
    name="mini-batches",
    title="Rewards on mini-batches of rows",
    cells=cells,
    measure=measure,
    render=render,
    revision=2,  # what is trained on batches is not what it was in the first records
    runs_methods=False,
)
