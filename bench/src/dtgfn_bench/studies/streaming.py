"""A stream of batches: partial fits at a tenth of the time against cold starts on all rows.

A table (80 % of it, shuffled by the seed) comes in batches. After each batch the posterior of all
rows so far is had in three ways: "stream" extends the one before with a tenth of the time (a tenth
of the steps for the paper's system), "cold" starts anew with all of it, "tenth" starts anew with a
tenth. All three have the thresholds of the first batch, one thread, and draw 1000 trees. Log loss
is that of the other 20 % of the rows. A miss is an ELBO, or a log evidence, of the stream more than
0.1 nats below that of the cold start. Raisin is fetched if need be.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dtgfn._support.arrays import Floats, Int64s
from dtgfn_bench.names import find
from dtgfn_bench.problems import all_rows
from dtgfn_bench.studies.reporting import Report

TOLERANCE = 0.1  # nats
COMPARED = ("elbo", "log_evidence")


@dataclass(frozen=True)
class Stream:
    """A table in batches and how to fit it; ``exact`` where the exact engine can be asked too."""

    table: str
    n_thresholds: int
    max_depth: int
    split_penalty: str
    n_batches: int
    exact: bool = False
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        order = ", paper's system" if self.options else ""
        return f"{self.table}, t={self.n_thresholds}, depth {self.max_depth}{order}"


PAPER = {"preset": "paper", "time_budget": None, "n_steps": 100}
STREAMS = {
    "breast": Stream("breast-cancer", 9, 3, "mdl", 5, True),
    "raisin": Stream("raisin", 19, 4, "mdl", 5),
    "large": Stream("raisin", 99, 5, "mdl", 5),
    "generated": Stream("generated", 19, 4, "mdl", 5),
    "free": Stream("iris-sklearn", 9, 3, "paper", 5, True, PAPER),
}


def load(table: str) -> tuple[Floats, Int64s]:
    """All rows of a table."""
    if table != "generated":
        return all_rows(table)
    rng = np.random.default_rng(0)  # two rules that interact, noise in the labels, 6 columns
    X = rng.normal(size=(25_000, 6)).round(2)
    rule = (X[:, 0] > 0.3) ^ (X[:, 1] + 0.5 * X[:, 2] > 0)
    return X, (rule ^ (rng.random(len(X)) < 0.15)).astype(np.int64)


def log_loss(posterior: Any, X: Floats, y: Int64s) -> float:
    """Mean negative log probability of the rows' classes."""
    from dtgfn.data.targets import encode_labels
    from dtgfn.posterior.prediction import average_outputs

    probability = average_outputs(posterior, posterior.encode(X))
    return float(
        -np.log(probability[np.arange(len(y)), encode_labels(y, posterior.classes)]).mean()
    )


def state(posterior: Any, seconds: float, X: Floats, y: Int64s) -> dict[str, float]:
    """What is compared of a posterior."""
    return {
        "elbo": posterior.diagnostics["elbo"],
        "log_evidence": posterior.log_evidence,
        "loss": log_loss(posterior, X, y),
        "seconds": seconds,
    }


def follow(stream: Stream, seconds: float, seed: int) -> list[dict[str, Any]]:
    """What each way says after each batch but the first."""
    from dtgfn.engines import Run, find_engine
    from dtgfn.inference.extend import extend_posterior
    from dtgfn.inference.infer import infer

    X, y = load(stream.table)
    shuffled = np.random.default_rng(seed).permutation(len(y))
    n_train = int(0.8 * len(y))
    test = X[shuffled[n_train:]], y[shuffled[n_train:]]
    batches = np.array_split(shuffled[:n_train], stream.n_batches)
    options = {"random_state": seed, "n_jobs": 1, "time_budget": seconds, **stream.options}
    posterior: Any = infer(
        X[batches[0]],
        y[batches[0]],
        max_depth=stream.max_depth,
        n_thresholds=stream.n_thresholds,
        split_penalty=stream.split_penalty,
        **options,
    )
    results = []
    for batch in batches[1:]:
        started = time.monotonic()
        posterior = extend_posterior(posterior, X[batch], y[batch], **options)
        found: dict[str, Any] = {"stream": state(posterior, time.monotonic() - started, *test)}
        found["instant"] = posterior.diagnostics["instant"]
        given = {
            "column": posterior.binner.feature_column.astype(np.int32),
            "n_columns": len(posterior.binner.columns),
        }

        def anew(
            engine: str, given: Any = given, now: Any = posterior, **changes: Any
        ) -> tuple[Any, float]:
            begun = time.monotonic()
            method = find_engine(engine)
            own = {name: changes.pop(name) for name in method.option_names if name in changes}
            run = Run(**given, **changes)
            cold: Any = method.infer(now.rows, now.score, run, method.read_options(own))
            return replace(cold, binner=now.binner, classes=now.classes), time.monotonic() - begun

        found["cold"] = state(*anew("gfn", **options), *test)
        found["tenth"] = state(*anew("gfn", **{**options, **a_tenth(options)}), *test)
        if stream.exact:
            found["exact"] = anew("exact", n_trees=1, time_budget=60.0)[0].log_evidence
        found["rows"] = int(posterior.rows.weight.sum())
        results.append(found)
    return results


def a_tenth(options: dict[str, Any]) -> dict[str, Any]:
    """The steps or seconds of a tenth of a fit."""
    if options.get("n_steps"):
        return {"n_steps": options["n_steps"] // 10}
    return {"time_budget": options["time_budget"] / 10}


def run(
    report: Report, *, seconds: float = 10.0, seeds: int = 2, streams: str = ",".join(STREAMS)
) -> None:
    """Follow streams, named with commas between them."""
    report.head(
        *("stream", "rows", "exact", "ELBO cold", "ELBO stream", "ELBO tenth"),
        *("log evidence cold", "log evidence stream", "instant log evidence (ESS)"),
        *("log loss cold", "log loss stream", "seconds cold", "seconds stream"),
        "misses ELBO, evidence",
    )
    total, missed = 0, dict.fromkeys(COMPARED, 0)
    for stream in (find(STREAMS, name, "stream") for name in streams.split(",")):
        by_seed = [follow(stream, seconds, seed) for seed in range(seeds)]
        for found in zip(*by_seed, strict=True):
            misses = {
                name: sum(r["stream"][name] < r["cold"][name] - TOLERANCE for r in found)
                for name in COMPARED
            }
            total += len(found)
            missed = {name: missed[name] + misses[name] for name in missed}
            report.row(stream, found[0]["rows"], *_cells(stream, found, misses))
    report.say(
        f"Of {total} comparisons the stream misses the cold start's ELBO by more than "
        f"{TOLERANCE} nats in {missed['elbo']}, its log evidence in {missed['log_evidence']}."
    )


def _cells(stream: Stream, found: tuple[Any, ...], misses: dict[str, int]) -> list[str]:
    def each(way: str, name: str, digits: int = 2) -> str:
        return ", ".join(f"{result[way][name]:.{digits}f}" for result in found)

    exact = ", ".join(f"{r['exact']:.2f}" for r in found) if stream.exact else "-"
    instant = [(r["instant"]["log_evidence"], r["instant"]["ess"]) for r in found]
    return [
        exact,
        each("cold", "elbo"),
        each("stream", "elbo"),
        each("tenth", "elbo"),
        each("cold", "log_evidence"),
        each("stream", "log_evidence"),
        ", ".join(f"{z:.1f} ({e:.3f})" for z, e in instant),
        each("cold", "loss", 4),
        each("stream", "loss", 4),
        each("cold", "seconds", 1),
        each("stream", "seconds", 1),
        f"{misses['elbo']}, {misses['log_evidence']}",
    ]
