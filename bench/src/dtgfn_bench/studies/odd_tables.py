"""Is any engine ever wrong without saying so? Thousands of odd tables with exact answers.

Every table (``odd_tables_data.py``) is given to the exact engine and then to each engine with its
defaults and ``--budget`` seconds. An engine is *within* if four things are as near to the exact
answer as what it says of itself allows: its log evidence (four standard errors, at least 0.1), the
probability of each column to be used, that of each number of splits (cumulated) and its predictions
of training rows (four standard errors of so many independent trees as its own are worth, and 0.02).
It is *flagged* if ``dtgfn.diagnostics.trust`` doubts it. WRONG is neither. A *false alarm* is
flagged though it is as near as an engine must be that claims no error and independent trees: large
errors that it admits are no excuse there. The exact engine's rows hold its draws against its sums.
*Broken* are tables with a number that can never be right, or a crash, flagged or not. Exit code 1
if any table is wrong or broken.
"""

from __future__ import annotations

import math
import sys
import time
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import joblib
import numpy as np

from dtgfn._support.arrays import Floats
from dtgfn.diagnostics import effective_sample_size, trust
from dtgfn.engines.contract import BudgetExceeded
from dtgfn.inference.infer import infer
from dtgfn.posterior.prediction import average_outputs, weigh_trees
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.posterior.weighted_trees import sampled_posterior
from dtgfn.trees.flat_trees import WeightedTrees, average
from dtgfn.trees.leaf_models import DirichletLeaf
from dtgfn.trees.score import log_reward, merge_rows
from dtgfn_bench.studies.odd_tables_data import KINDS, OddTable, make_table
from dtgfn_bench.studies.reporting import Report

EXACT_SECONDS = 60.0
MOST_PREDICTED = 300  # rows
SIGMAS = 4.0
LEAST_EVIDENCE_GAP = 0.1  # nats: nearer than this is always near enough
LEAST_GAP = 0.02  # of a probability, likewise
GAPS = ("log evidence", "column inclusion", "size", "prediction")


class Gap(NamedTuple):
    """A distance from the exact answer (nan where the engine cannot tell) and how large it may be.

    ``near``: it is no larger than that of an engine without error may be.
    """

    distance: float
    allowed: float
    near: bool


@dataclass(frozen=True)
class Verdict:
    """How one engine did on one table."""

    index: int
    kind: str
    engine: str
    seconds: float = 0.0
    doubts: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    skipped: str = ""
    gaps: dict[str, Gap] = field(default_factory=dict)

    @property
    def too_far(self) -> list[str]:
        """Which distances are larger than they may be."""
        return [
            f"{name} off by {gap.distance:.3g} (may be {gap.allowed:.2g})"
            for name, gap in self.gaps.items()
            if gap.distance > gap.allowed
        ]

    @property
    def wrong(self) -> bool:
        """Whether it is too far off and does not doubt itself."""
        return bool(self.too_far) and not self.doubts

    @property
    def false_alarm(self) -> bool:
        """Whether it doubts itself without need."""
        return bool(self.doubts) and all(gap.near for gap in self.gaps.values())


@dataclass(frozen=True)
class Truth:
    """The exact answer on some rows, and how much one tree's answer varies."""

    posterior: TreePosterior
    codes: Any  # [n, d]
    prediction: Floats  # [n, J]
    spread: Floats  # [n, J] standard deviation over trees


def make_truth(exact: TreePosterior) -> Truth:
    """The exact answer on the first of the distinct rows."""
    codes = merge_rows(exact.rows).codes[:MOST_PREDICTED]
    prediction = shown_outputs(exact, average_outputs(exact, codes))
    forest = weigh_trees(exact.trees, exact.weights, exact.rows, exact.score, n_jobs=1)
    squares = WeightedTrees(forest.trees, forest.values**2, forest.weights)
    variance = average(squares, codes, 1) - average(forest, codes, 1) ** 2
    spread = shown_outputs(exact, np.sqrt(np.maximum(variance, 0.0)))
    return Truth(exact, codes, prediction, spread)


def shown_outputs(posterior: TreePosterior, outputs: Floats) -> Floats:
    """Class probabilities, halved so that differences add up to a total variation; or means."""
    if isinstance(posterior.score.leaf, DirichletLeaf):
        return outputs / 2
    return outputs[:, 1:2]


def worth(posterior: TreePosterior) -> float:
    """How many independent trees the engine says that its trees are worth."""
    n_trees = len(posterior.trees)
    if posterior.engine == "mcmc":
        return min(posterior.diagnostics["ess_log_reward"] or n_trees, n_trees)
    if posterior.engine == "smc":
        error = posterior.log_evidence_error  # of one sweep nothing is said
        return n_trees if math.isnan(error) else 1 / (1 / n_trees + error**2)
    return n_trees * effective_sample_size(posterior.log_weight)


def measure(posterior: TreePosterior, truth: Truth) -> dict[str, Gap]:
    """Distances from the exact answer, and how large they may be."""
    exact, n_worth = truth.posterior, max(worth(posterior), 1.0)
    # Also where the engine would know the exact average.
    forest = weigh_trees(
        posterior.trees, posterior.weights, posterior.rows, posterior.score, n_jobs=1
    )
    predicted = shown_outputs(posterior, average(forest, truth.codes, 1))
    prediction = np.abs(predicted - truth.prediction).sum(axis=1).mean(keepdims=True)
    spread = truth.spread.sum(axis=1).mean(keepdims=True)
    n_sizes = max(exact.size_probability.size, posterior.size_probability.size)
    p, used = np.clip(exact.column_inclusion, 0.0, 1.0), posterior.column_inclusion
    q, size = (np.clip(cumulated(x, n_sizes), 0.0, 1.0) for x in (exact, posterior))
    found = {
        "column inclusion": (np.abs(used - p), np.sqrt(p * (1 - p))),
        "size": (np.abs(size - q), np.sqrt(q * (1 - q))),
        "prediction": (prediction, spread),
    }
    n_trees = len(posterior.trees)
    return {
        "log evidence": evidence_gap(posterior, exact),
        **{name: worst_gap(*pair, n_worth, n_trees) for name, pair in found.items()},
    }


def evidence_gap(posterior: TreePosterior, exact: TreePosterior) -> Gap:
    """Distance of the log evidences, and what the engine's own error allows."""
    gap, error = abs(posterior.log_evidence - exact.log_evidence), posterior.log_evidence_error
    allowed = max(SIGMAS * (0.0 if math.isnan(error) else error), LEAST_EVIDENCE_GAP)
    return Gap(gap, allowed, not gap > LEAST_EVIDENCE_GAP)


def worst_gap(gap: Floats, spread: Floats, n_worth: float, n_trees: int) -> Gap:
    """The one of many distances that is furthest beyond what chance allows, else the largest."""
    allowed = SIGMAS * spread / math.sqrt(n_worth) + LEAST_GAP
    least = SIGMAS * spread / math.sqrt(n_trees) + LEAST_GAP
    worst = int(np.argmax(gap - allowed if (gap > allowed).any() else gap))
    return Gap(float(gap[worst]), float(allowed[worst]), bool((gap <= least).all()))


def cumulated(posterior: TreePosterior, n_sizes: int) -> Floats:
    """P(at most s splits), s = 0..n_sizes-1."""
    size = posterior.size_probability
    return np.cumsum(np.pad(size, (0, n_sizes - size.size)))


def broken_invariants(posterior: TreePosterior, truth: Truth) -> Iterator[str]:
    """Say which numbers can never be right, whatever was drawn."""
    exact, temperature = truth.posterior, posterior.score.temperature
    log_z, best, state = posterior.log_evidence, posterior.best_log_reward, posterior.diagnostics
    rounding = 1e-9 * max(1.0, abs(exact.log_evidence), abs(exact.best_log_reward))
    known = posterior.engine != "mcmc"
    if known and not math.isfinite(log_z):
        yield f"log evidence {log_z}"
    if known and log_z < best / temperature - rounding:
        yield f"log evidence {log_z:.6f} below the best tree's {best / temperature:.6f}"
    if known and posterior.best_probability > 1 + 1e-6:
        yield f"the best tree has probability {posterior.best_probability:.6f}"
    if state.get("elbo") is not None and log_z < state["elbo"] - rounding:
        yield f"log evidence {log_z:.6f} below the ELBO {state['elbo']:.6f}"
    if state.get("exact") and abs(log_z - exact.log_evidence) > 1e3 * rounding:
        yield f"called exact, but off by {log_z - exact.log_evidence:+.2g}"
    if best > exact.best_log_reward + rounding:
        yield f"best log R {best:.6f} above the exact one {exact.best_log_reward:.6f}"
    again = float(log_reward(posterior.best_tree, posterior.rows, posterior.score)[0])
    if abs(best - again) > 1e2 * rounding:
        yield f"best log R {best:.6f} is not that of the best tree, {again:.6f}"
    inclusion, size = posterior.column_inclusion, posterior.size_probability
    if not ((inclusion >= -1e-9) & (inclusion <= 1 + 1e-9)).all():
        yield f"column inclusion from {inclusion.min()} to {inclusion.max()}"
    if not (size >= -1e-9).all() or not abs(size.sum() - 1) <= 1e-6:
        yield f"probabilities of sizes sum to {size.sum()}"
    if not np.isfinite(posterior.weights).all() or not abs(posterior.weights.sum() - 1) <= 1e-6:
        yield "weights that are no weights"
    outputs = average_outputs(posterior, truth.codes, n_jobs=1)
    if not np.isfinite(outputs).all():
        yield "predictions that are no numbers"
    elif isinstance(posterior.score.leaf, DirichletLeaf):
        if not np.allclose(outputs.sum(axis=1), 1.0, rtol=0, atol=1e-9):
            yield "predictions that do not sum to one"
        if not ((outputs >= 0) & (outputs <= 1 + 1e-9)).all():
            yield f"predictions from {outputs.min()} to {outputs.max()}"


def of_draws(exact: TreePosterior) -> TreePosterior:
    """The exact posterior as if only its draws were known, with its evidence."""
    assert exact.binner is not None
    return sampled_posterior(
        exact.trees,
        log_reward=exact.log_reward,
        log_prob=exact.log_prob,
        log_weight=exact.log_weight,
        log_evidence=exact.log_evidence,
        log_evidence_error=exact.log_evidence_error,
        rows=exact.rows,
        score=exact.score,
        column=np.asarray(exact.binner.feature_column, dtype=np.int32),
        n_columns=len(exact.column_inclusion),
        engine="exact",
    )


def judge(table: OddTable, engines: list[str], budget: float) -> list[Verdict]:
    """Give a table to the exact engine, then to the others."""
    warnings.simplefilter("ignore")
    found: list[Verdict] = []
    truth: Truth | None = None
    for engine in ("exact", *engines):
        who: dict[str, Any] = {"index": table.index, "kind": table.kind, "engine": engine}
        seconds = EXACT_SECONDS if engine == "exact" else budget
        begun = time.perf_counter()
        try:
            posterior = infer(
                table.X,
                table.y,
                engine=engine,
                time_budget=seconds,
                n_jobs=1,
                random_state=table.index,
                **table.settings,
            )
            taken = time.perf_counter() - begun
            truth = make_truth(posterior) if truth is None else truth
            broken = list(broken_invariants(posterior, truth))
            gaps = measure(of_draws(posterior) if engine == "exact" else posterior, truth)
            found.append(
                Verdict(**who, seconds=taken, doubts=trust(posterior), broken=broken, gaps=gaps)
            )
        except BudgetExceeded as refusal:
            return [Verdict(**who, skipped=str(refusal))]
        except Exception:
            print(traceback.format_exc(), file=sys.stderr)
            last = traceback.format_exc().strip().splitlines()[-1]
            found.append(Verdict(**who, broken=[f"crash: {last}"]))
            if truth is None:
                return found
    return found


def judge_index(seed: int, index: int, engines: list[str], budget: float) -> list[Verdict]:
    """Make a table in the process that judges it."""
    return judge(make_table(seed, index), engines, budget)


@dataclass(frozen=True)
class Sweep:
    """Which tables to judge, and how."""

    seed: int
    indices: range
    engines: list[str]
    budget: float
    jobs: int


def judge_all(sweep: Sweep) -> list[Verdict]:
    """Judge tables in processes, telling on standard error how far it is."""
    calls = (
        joblib.delayed(judge_index)(sweep.seed, i, sweep.engines, sweep.budget)
        for i in sweep.indices
    )
    found: list[Verdict] = []
    with joblib.parallel_config("loky", inner_max_num_threads=1):
        parallel = joblib.Parallel(n_jobs=sweep.jobs, return_as="generator_unordered")
        for done, verdicts in enumerate(parallel(calls), 1):
            found += verdicts
            n_wrong = sum(v.wrong for v in found)
            n_broken = sum(bool(v.broken) for v in found)
            if done % len(KINDS) == 0 or done == len(sweep.indices):
                line = f"{done}/{len(sweep.indices)} tables, {n_wrong} wrong, {n_broken} broken"
                print(line, file=sys.stderr, flush=True)
    return sorted(found, key=lambda v: v.index)


def worst(gaps: list[float]) -> str:
    """The largest distance that is known."""
    known = [gap for gap in gaps if not math.isnan(gap)]
    return f"{max(known):.2g}" if known else ""


def report_rows(report: Report, kind: str, engine: str, some: list[Verdict]) -> None:
    """Add the row of a kind of table and an engine."""
    report.row(
        kind,
        engine,
        len(some),
        sum(not v.too_far for v in some),
        sum(bool(v.doubts) for v in some),
        sum(v.false_alarm for v in some),
        sum(v.wrong for v in some),
        sum(bool(v.broken) for v in some),
        *(worst([v.gaps[name].distance for v in some if v.gaps]) for name in GAPS),
        f"{sum(v.seconds for v in some) / max(len(some), 1):.2f}",
    )


def report_verdicts(report: Report, found: list[Verdict], sweep: Sweep) -> None:
    """A row for each kind and engine, then what was wrong or broken."""
    judged = [v for v in found if not v.skipped]
    report.head(
        *("kind", "engine", "tables", "within", "flagged", "false alarms", "WRONG", "broken"),
        *(f"worst {name}" for name in GAPS),
        "s per table",
    )
    for kind in ("all", *KINDS):
        for engine in ("exact", *sweep.engines):
            some = [v for v in judged if v.engine == engine and kind in ("all", v.kind)]
            if some:
                report_rows(report, kind, engine, some)
    skipped = [v for v in found if v.skipped]
    report.say(f"{len(skipped)} tables were too large for the exact engine.")
    bad = [v for v in judged if v.wrong or v.broken]
    report.say(f"{len(bad)} answers were wrong or broken" + (":" if bad else "."))
    if bad:
        report.head("seed", "index", "kind", "engine", "what")
    for v in bad:
        words = [*v.broken, *(v.too_far if v.wrong else []), *(["flagged"] if v.doubts else [])]
        report.row(sweep.seed, v.index, v.kind, v.engine, "; ".join(words))
    if len(sweep.indices) == 1:
        report.say(str(make_table(sweep.seed, sweep.indices[0])))
        for v in judged:
            report.say(f"{v.engine}: {'; '.join([*v.too_far, *v.doubts]) or 'nothing'}")


def run(
    report: Report,
    *,
    tables: int = 2000,
    seed: int = 0,
    first: int = 0,
    jobs: int = 2,
    engines: str = "gfn,mcmc,smc",
    budget: float = 1.0,
) -> None:
    """Judge engines, named with commas between them, on so many tables from the first on."""
    sweep = Sweep(seed, range(first, first + tables), engines.split(","), budget, jobs)
    found = judge_all(sweep)
    report_verdicts(report, found, sweep)
    report.failed = any(v.wrong or v.broken for v in found)
