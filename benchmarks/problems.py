"""Tables and settings that the benchmarks of the samplers share."""

from __future__ import annotations

import datetime
import os
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import sklearn.datasets
from sklearn.model_selection import train_test_split

from dtgfn.datasets import load_dataset


class Problem(NamedTuple):
    table: str
    n_thresholds: int
    max_depth: int

    def __str__(self) -> str:
        return f"{self.table}, t={self.n_thresholds}, depth {self.max_depth}"


FIDELITY = [
    Problem("iris", 9, 3),
    Problem("iris", 9, 5),
    Problem("iris", 99, 3),
    Problem("wine", 9, 3),
    Problem("wine", 99, 2),
    Problem("breast_cancer", 9, 2),
    Problem("hidden_xor", 1, 3),
]
# Not in the list that anything was chosen by.
UNSEEN = [
    Problem("digits_8x8", 9, 3),
    Problem("pima", 9, 3),
    Problem("raisin", 9, 4),
    Problem("noise", 19, 4),
    Problem("iris", 99, 5),
    Problem("wine", 99, 3),
]
# The registry's names of tables that the scripts and their results call otherwise.
NAMES = {
    "iris": "iris-sklearn",
    "iris_uci": "iris",
    "breast_cancer": "breast-cancer",
    "breast_cancer_original": "breast-cancer-original",
    "odds_vertebral": "vertebral",
}
LARGE = [Problem("breast_cancer", 99, 5), Problem("raisin", 99, 5), Problem("pima", 99, 5)]


def training_rows(table: str) -> tuple[np.ndarray, np.ndarray]:
    """Training part (80 %, random_state 1) of a table."""
    X, y = _load(table)
    X, _, y, _ = train_test_split(X, y, test_size=0.2, random_state=1)
    return X, y


def _load(table: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    if table == "hidden_xor":  # the label is the XOR of the first two of ten binary columns
        X = rng.integers(0, 2, (1000, 10))
        return X, X[:, 0] ^ X[:, 1]
    if table == "noise":  # nothing to learn
        return rng.random((150, 6)), rng.integers(0, 3, 150)
    if table == "digits_8x8":  # two digits, every fourth pixel
        X, y = sklearn.datasets.load_digits(return_X_y=True)
        pair = (y == 3) | (y == 8)
        return X[pair][:, ::4], y[pair]
    return _read(table)


def _read(table: str) -> tuple[np.ndarray, np.ndarray]:
    data = load_dataset(NAMES.get(table, table))
    return data.X, data.y


def infer(problem: Problem, split_penalty: str, engine: str, **options):
    """Posterior of a problem's training rows."""
    import dtgfn

    X, y = training_rows(problem.table)
    return dtgfn.infer(
        X,
        y,
        engine=engine,
        max_depth=problem.max_depth,
        n_thresholds=problem.n_thresholds,
        split_penalty=split_penalty,
        **options,
    )


class Report:
    """Prints a table row by row, and writes all of it to a file in the end."""

    def __init__(self, *columns: str) -> None:
        today = datetime.date.today().isoformat()
        self.lines = [f"`python {' '.join(sys.argv)}`, {os.cpu_count()} cores, {today}", ""]
        print(self.lines[0], flush=True)
        self.row(*columns)
        self.row(*["---"] * len(columns))

    def row(self, *cells: object) -> None:
        self.lines.append("| " + " | ".join(str(cell) for cell in cells) + " |")
        print(self.lines[-1], flush=True)

    def say(self, text: str) -> None:
        self.lines += ["", text]
        print(f"\n{text}", flush=True)

    def write(self, path: Path | None) -> None:
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join(self.lines) + "\n")
