"""What a fit on a Dask cluster costs: CPU seconds per row of each pass, bytes and round trips.

Rows of 20 real columns and two classes, a noisy function of five of them, are made on the two
workers of a cluster on this machine, eight partitions, and kept there. Counted are the CPU seconds
of the workers while each pass runs, so that other work on the machine does not matter; their own
idling counts. From these follows what a billion rows take on a hundred workers of one core each.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from dtgfn._support.parallel import Deadline
from dtgfn.dask.cluster import Cluster
from dtgfn.dask.coding import code_counts, code_part
from dtgfn.dask.fitting import gather_rows
from dtgfn.dask.histograms import ClusterHistograms
from dtgfn.dask.learning import learn
from dtgfn.dask.partitions import Partitions, read_partitions
from dtgfn.engines.contract import Run
from dtgfn.engines.smc.engine import SmcOptions
from dtgfn.engines.smc.levels import infer_levels
from dtgfn.trees.leaf_models import DirichletLeaf
from dtgfn.trees.score import make_score
from dtgfn_bench.studies.reporting import Report

SIZES = (250_000, 500_000, 1_000_000)
N_COLUMNS, N_PARTITIONS, N_WORKERS = 20, 8, 2
BILLION, MACHINES = 10**9, 100
PASSES = ("learn", "code", "levels", "group")


def make_rows(n_rows: int) -> tuple[Any, Any]:
    """A dask array of rows and one of labels."""
    import dask.array as da

    X = da.random.default_rng(0).normal(
        size=(n_rows, N_COLUMNS), chunks=(n_rows // N_PARTITIONS, -1)
    )
    noise = da.random.default_rng(1).random(n_rows, chunks=n_rows // N_PARTITIONS)
    score = (X[:, 0] > 0) * 2.0 - (X[:, 1] > 0.5) * (X[:, 2] < 0) + X[:, 3] * 0.3 - X[:, 4] * 0.2
    return X, ((score + noise) > 1.0).astype(np.int64)


def fit_in_passes(client: Any, parts: Partitions) -> tuple[dict[str, float], dict[str, Any]]:
    """Workers' CPU seconds of each pass, and what the fit says of itself."""
    cluster, taken, told = Cluster(client), dict[str, float](), dict[str, Any]()

    def timed(name: str, work: Callable[[], Any]) -> Any:
        before, here = sum(client.run(time.process_time).values()), time.process_time()
        done = work()
        taken[name] = sum(client.run(time.process_time).values()) - before
        told["client"] = told.get("client", 0.0) + time.process_time() - here
        return done

    def code() -> Any:
        started = cluster.start(parts.tasks(code_part, learned))
        cluster._wait(started)
        return started

    learned = timed("learn", lambda: learn(cluster, parts, DirichletLeaf(1), "uniform", 99))
    coded = timed("code", code)
    counts = code_counts(learned.binner)
    source = ClusterHistograms(cluster, coded, counts, learned.unit, learned.weight)
    score = make_score(learned.leaf, n_features=N_COLUMNS, n_thresholds=99)
    column = np.arange(N_COLUMNS, dtype=np.int32)
    run = Run(column=column, n_columns=N_COLUMNS, random_state=0)
    options = SmcOptions(by_level=True)
    given = (source, score, run, options, Deadline(None))
    draws, _ = timed("levels", lambda: infer_levels(*given))
    rows, _ = timed("group", lambda: gather_rows(cluster, coded, learned, draws))
    told |= {
        "nodes": draws.diagnostics["nodes_counted"],
        "bytes": source.level_bytes,
        "trips": cluster.round_trips,
        "groups": len(rows.target) // 2,
    }
    return taken, told


def run(report: Report) -> None:
    """Fit tables of growing size, and say what follows for a billion rows."""
    from distributed import Client, LocalCluster

    settings = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "silence_logs": 50}
    with (
        LocalCluster(n_workers=N_WORKERS, threads_per_worker=1, **settings) as made,
        Client(made) as client,
    ):
        fit_in_passes(client, read_partitions(*make_rows(8000), None))  # compiles
        report.head(
            "rows", *(f"{name}, CPU us per row" for name in PASSES), "nodes counted",
            "largest level, MB", "round trips", "groups of rows", "client, CPU s",
        )  # fmt: skip
        for n_rows in SIZES:
            X, y = client.persist(make_rows(n_rows))
            taken, told = fit_in_passes(client, read_partitions(X, y, None))
            report.row(
                f"{n_rows:,}",
                *(f"{1e6 * taken[name] / n_rows:.2f}" for name in PASSES),
                str(told["nodes"]),
                f"{max(told['bytes']) / 1e6:.1f}",
                str(told["trips"]),
                f"{told['groups']:,}",
                f"{told['client']:.1f}",
            )
    per_row = sum(taken.values()) / n_rows
    minutes = per_row * BILLION / MACHINES / 60
    report.say(
        f"At {1e6 * per_row:.2f} microseconds a row, a billion rows on {MACHINES} workers of one "
        f"core each take {minutes:.1f} minutes, and {told['trips']} round trips on top; coded "
        f"they are {BILLION * (N_COLUMNS + 12) / MACHINES / 1e6:.0f} MB on each worker."
    )
