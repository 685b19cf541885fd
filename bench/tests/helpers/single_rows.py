"""Small tables for the tests of single trees."""

from __future__ import annotations

import numpy as np
from dtgfn_bench.contract import TrainingRows


def small_rows(seed: int, n: int = 40, d: int = 3, n_classes: int = 2) -> TrainingRows:
    """Coarse values, so that ties and duplicates occur, and labels that follow them with noise."""
    draw = np.random.default_rng(seed)
    X = draw.integers(0, 6, (n, d)).astype(float)
    y = (X[:, 0] + X[:, -1] + draw.integers(0, 3, n)).astype(np.int64) // 4 % n_classes
    return TrainingRows(X, y, n_classes, "small")


def training_errors(fitted, rows: TrainingRows) -> int:
    """Training rows that the most probable class gets wrong."""
    return int((fitted.predict_proba(rows.X).argmax(axis=1) != rows.y).sum())
