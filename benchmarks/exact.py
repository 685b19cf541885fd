"""Exact inference on small tables: sub-problems, seconds, memory, log Z.

Run: python benchmarks/exact.py [--slow] [--out benchmarks/results/exact.md]
Each problem runs in a process of its own, after a warm-up that compiles; memory is that process's
peak beyond what it had before. "solve" is the recursion, which gives log Z, sizes and column use;
"fit" adds binning, the estimate, the best tree and 1000 samples. "plain" is the figure for a naive
compiled recursion to log Z on one thread (same splits, same penalty) on a machine of this class:
compare as orders of magnitude.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

PROBLEMS = [
    # table, thresholds, depth, published log Z, published seconds of the plain recursion
    ("iris", 9, 3, -28.6934, 0.01),
    ("iris", 9, 5, -26.6958, 0.14),
    ("iris", 99, 3, -11.4443, 0.05),
    ("iris", 99, 5, 9.1308, 18.0),
    ("wine", 9, 3, -41.1880, 0.08),
    ("wine", 99, 3, -18.0263, 12.9),
    ("breast_cancer", 9, 3, -77.9200, 2.4),
    ("breast_cancer", 99, 2, -80.2119, 0.25),
    ("breast_cancer", 99, 3, None, None),
]
SLOW = [("wine", 99, 4, None, None)]


def measure(name: str, n_thresholds: int, max_depth: int, split_penalty: str) -> dict[str, float]:
    import sklearn.datasets
    from sklearn.model_selection import train_test_split

    import dtgfn
    from dtgfn.data.binning import encode
    from dtgfn.data.tables import as_table

    X, y = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
    X, X_test, y, _ = train_test_split(X, y, test_size=0.2, random_state=1)
    dtgfn.infer(X[:60], y[:60], engine="exact", max_depth=3, n_thresholds=3).solution.average(
        encode(
            dtgfn.infer(X, y, engine="exact", max_depth=1, n_thresholds=3).binner, as_table(X_test)
        )
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.perf_counter()
    posterior = dtgfn.infer(
        X,
        y,
        engine="exact",
        max_depth=max_depth,
        n_thresholds=n_thresholds,
        split_penalty=split_penalty,
        n_trees=1000,
        time_budget=None,
        random_state=0,
    )
    seconds = time.perf_counter() - begun
    begun = time.perf_counter()
    posterior.solution.average(encode(posterior.binner, as_table(X_test)))
    return {
        "sub_problems": posterior.diagnostics["sub_problems"],
        "estimated_sub_problems": posterior.diagnostics["estimated_sub_problems"],
        "estimated_seconds": posterior.diagnostics["estimated_seconds"],
        "solve_seconds": posterior.diagnostics["solve_seconds"],
        "seconds": seconds,
        "predict_seconds": time.perf_counter() - begun,
        "predict_rows": len(X_test),
        "megabytes": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024,
        "log_evidence": posterior.log_evidence,
        "mean_splits": posterior.mean_splits,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slow", action="store_true", help="also the problems that take minutes")
    parser.add_argument("--penalty", default="paper")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        name, n_thresholds, max_depth = arguments.one
        print(json.dumps(measure(name, int(n_thresholds), int(max_depth), arguments.penalty)))
        return
    lines = [
        f"`python {' '.join(sys.argv)}`, {os.cpu_count()} cores, "
        f"{datetime.date.today().isoformat()}",
        "",
        "| table | t | depth | sub-problems (guess) | solve s (guess) | fit s | predict s (rows) "
        "| MB | log Z | published log Z | plain s | speed-up |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    print("\n".join(lines), flush=True)
    for name, t, depth, published, plain in PROBLEMS + (SLOW if arguments.slow else []):
        command = [sys.executable, __file__, "--penalty", arguments.penalty, "--one", name]
        done = subprocess.run([*command, str(t), str(depth)], check=True, stdout=subprocess.PIPE)
        r = json.loads(done.stdout)
        against = "- | - | -"
        if published is not None and arguments.penalty == "paper":
            against = f"{published} | {plain} | {plain / r['solve_seconds']:.1f}"
        lines.append(
            f"| {name} | {t} | {depth} "
            f"| {r['sub_problems']:,.0f} ({r['estimated_sub_problems']:,.0f}) "
            f"| {r['solve_seconds']:.3g} ({r['estimated_seconds']:.2g}) | {r['seconds']:.2f} "
            f"| {r['predict_seconds']:.2f} ({r['predict_rows']}) | {r['megabytes']:.0f} "
            f"| {r['log_evidence']:.4f} | {against} |"
        )
        print(lines[-1], flush=True)
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
