"""Every engine against the exact posterior, at equal time on one core."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dtgfn_bench.experiment import Block, Cell, Experiment, Record
from dtgfn_bench.measure import Metrics
from dtgfn_bench.problems import FIDELITY, Problem, training_rows

PENALTIES = ("paper", "mdl")
SECONDS = (10,)
# Steps and sweeps without limit: time is what ends a run.
ENGINES: dict[str, dict[str, Any]] = {
    "dtgfn": {"engine": "gfn"},
    "dtgfn-paper": {"engine": "gfn", "preset": "paper", "n_steps": None},
    "mcmc": {"engine": "mcmc", "n_steps": None},
    "smc": {"engine": "smc", "n_sweeps": None},
}
LABELS = {
    "dtgfn": "GFlowNet, ours",
    "dtgfn-paper": "GFlowNet, the paper's",
    "mcmc": "MCMC",
    "smc": "SMC",
}
# What is shown: metric, heading, and whether exact draws have a figure of their own.
SHOWN = (
    ("prediction_variation", "Error of P(y | x): mean total variation over training rows"),
    ("mass_covered", "Posterior mass on the distinct trees drawn"),
    ("elbo_gap", "ELBO gap, nats: KL divergence of the sampler from the posterior"),
    ("log_z_error", "Error of the log evidence, nats"),
    ("ess", "Effective sample size of 1000 trees, as a share"),
)
NOTE = (
    "Every engine has one core, the same score (also MCMC and SMC: not their authors' priors) and "
    "the seconds of its row, and returns 1000 trees; a GFlowNet that has nothing left to learn "
    "ends before its time. The rows are 80 % of a table (random_state 1). Exact draws show what "
    "1000 independent trees of the true posterior would reach."
)


def measure(cell: Cell) -> Metrics:
    """Run an engine for some seconds and compare its 1000 trees with the exact posterior."""
    from dtgfn.diagnostics import compare
    from dtgfn.inference.infer import infer

    X, y = training_rows(cell.table)
    given = {name: cell.variant[name] for name in ("n_thresholds", "max_depth", "split_penalty")}
    exact = infer(X, y, engine="exact", n_trees=10, time_budget=None, n_jobs=1, **given)
    found = infer(
        X,
        y,
        time_budget=float(cell.variant["seconds"]),
        random_state=cell.seed,
        n_jobs=1,
        **given,
        **cell.settings,
    )
    distances = compare(found, exact).to_dict()
    metrics: Metrics = {
        k: v for k, v in distances.items() if v is None or isinstance(v, int | float)
    }
    metrics["best_gap"] = float(exact.best_log_reward - found.best_log_reward)
    return metrics


def cells(quick: bool) -> list[Cell]:
    """Every engine on every problem, penalty and time; quick: the first, one second."""
    return [
        Cell(
            "fidelity",
            problem.table,
            engine,
            0,
            settings,
            {
                "n_thresholds": problem.n_thresholds,
                "max_depth": problem.max_depth,
                "split_penalty": penalty,
                "seconds": seconds,
            },
        )
        for problem in (FIDELITY[:1] if quick else FIDELITY)
        for penalty in (PENALTIES[:1] if quick else PENALTIES)
        for seconds in ((1,) if quick else SECONDS)
        for engine, settings in ENGINES.items()
    ]


def render(records: Sequence[Record]) -> list[Block]:
    """One table per measure; a row is a problem, a penalty and a time."""
    failed = [
        f"{LABELS[r.cell.method]} on {_row_name(r.cell)}: {r.status}, {r.reason}."
        for r in records
        if r.status != "done"
    ]
    blocks = [Block(text=" ".join([NOTE, *failed]))]
    for metric, heading in SHOWN:
        floor = {"prediction_variation": "_floor", "mass_covered": "_ceiling"}.get(metric)
        header = ["problem", *LABELS.values(), *(["1000 exact draws"] if floor else [])]
        rows = [header]
        for name in dict.fromkeys(_row_name(r.cell) for r in sorted(records, key=_order)):
            chosen = {r.cell.method: r for r in records if _row_name(r.cell) == name}
            row = [name, *(_shown(chosen.get(engine), metric) for engine in ENGINES)]
            if floor:
                row.append(_shown(chosen.get("dtgfn"), metric + floor))
            rows.append(row)
        blocks.append(Block(heading=heading, rows=rows))
    return blocks


def _row_name(cell: Cell) -> str:
    v = cell.variant
    return (
        f"{cell.table}, t={v['n_thresholds']}, depth {v['max_depth']}, {v['split_penalty']}, "
        f"{v['seconds']} s"
    )


def _order(record: Record) -> tuple[int, ...]:
    v = record.cell.variant
    problem = Problem(record.cell.table, v["n_thresholds"], v["max_depth"])
    penalty = PENALTIES.index(v["split_penalty"])
    return (FIDELITY.index(problem), penalty, v["seconds"])


def _shown(record: Record | None, metric: str) -> str:
    if record is None or record.status != "done":
        return "-" if record is None else record.status
    value = record.metrics.get(metric)
    return "not known" if value is None else f"{value:.4f}"


EXPERIMENT = Experiment(
    name="fidelity",
    title="Engines against the exact posterior",
    cells=cells,
    measure=measure,
    render=render,
    runs_methods=False,
    revision=2,  # engines that spend their seconds otherwise
)
