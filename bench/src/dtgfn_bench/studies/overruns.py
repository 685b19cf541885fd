"""Is `time_budget` the whole call, of every way to fit? Shapes by ways, each in its own process.

"used" is what reading, binning, fitting and judging took by the clock that budgets are read
from, which stands still while loops are compiled; "over" what is beyond 1.1 x budget + 1 second.
That clock counts here the seconds of processor that the process uses, on one thread: so a busy
machine tells what an idle one would, as long as nothing waits (``--clock wall`` for what a watch
shows, on all cores). "peak" is the process's largest memory meanwhile, "grown" how much of it was
not there before. A way may say in one sentence that the time is too short. ``--shape`` and
``--way`` measure single rows again; the page is made of all that ``overruns.jsonl`` holds.
"""

from __future__ import annotations

import json
import warnings
from contextlib import suppress
from typing import Any

from dtgfn_bench.studies.gauges import budget_clock, forget_peak, peak_memory
from dtgfn_bench.studies.isolated import run_isolated
from dtgfn_bench.studies.overrun_tables import SHAPES, make_shape
from dtgfn_bench.studies.overrun_ways import WAYS, fits_shape
from dtgfn_bench.studies.reporting import Report

SMALL = 4000  # rows to compile with
HEAD = ("shape", "way", "budget s", "used s", "over s", "grown MB", "peak MB", "what came out")
LONGEST = 160  # letters of a sentence that are shown


def allowed(budget: float) -> float:
    """Seconds that a call with a budget may take.

    >>> allowed(10.0)
    12.0
    """
    return 1.1 * budget + 1.0


def measure(shape: str, way: str, budget: float, by_processor: bool) -> dict[str, Any]:
    """Fit once; run in a process of its own."""
    clock = budget_clock(by_processor)
    n_jobs = 1 if by_processor else -1
    warnings.simplefilter("ignore")
    table = make_shape(shape)
    found: dict[str, Any] = {"shape": shape, "way": way, "budget": budget}
    with suppress(Exception):  # what is wrong is told by the fit that counts
        WAYS[way](table.part(SMALL), 1.0, n_jobs)
    before, began = forget_peak(), clock.monotonic()
    try:
        found["told"] = WAYS[way](table, budget, n_jobs)
    except Exception as error:
        found["told"] = f"{type(error).__name__}: {error}"
    used, peak = clock.monotonic() - began, peak_memory()
    return found | {"used": used, "grown": peak - before, "peak": peak}


def run(report: Report, *, shape: str = "", way: str = "", clock: str = "processor") -> None:
    """Measure ways to fit a shape, of all if none is named (lists have commas); keep the others."""
    kept = report.folder / "overruns.jsonl"
    known: dict[tuple[str, str], dict[str, Any]] = {}
    if kept.exists():
        lines = map(json.loads, kept.read_text().splitlines())
        known = {(line["shape"], line["way"]): line for line in lines}
    for name in shape.split(",") if shape else SHAPES:
        for how in way.split(",") if way else WAYS:
            if not fits_shape(how, SHAPES[name]):
                continue
            budget = SHAPES[name].budget
            try:
                known[name, how] = run_isolated(measure, name, how, budget, clock == "processor")
            except Exception as error:  # the process died
                known[name, how] = {
                    "shape": name,
                    "way": how,
                    "budget": budget,
                    "error": str(error),
                }
            report.folder.mkdir(parents=True, exist_ok=True)
            kept.write_text("".join(json.dumps(line) + "\n" for line in known.values()))
            print(*cells(known[name, how]), sep=" | ", flush=True)
    report.head(*HEAD)
    for name in SHAPES:
        for how in WAYS:
            if (name, how) in known:
                report.row(*cells(known[name, how]))


def cells(line: dict[str, Any]) -> list[str]:
    """A row of the table."""
    start = [line["shape"], line["way"], f"{line['budget']:g}"]
    if "error" in line:
        return [*start, "-", "-", "-", "-", line["error"][:LONGEST]]
    over = line["used"] - allowed(line["budget"])
    told = " ".join(line["told"].split())
    return [
        *start,
        f"{line['used']:.1f}",
        f"**{over:.1f}**" if over > 0 else "0",
        f"{line['grown']:.0f}",
        f"{line['peak']:.0f}",
        told if len(told) <= LONGEST else told[:LONGEST] + " ...",
    ]
