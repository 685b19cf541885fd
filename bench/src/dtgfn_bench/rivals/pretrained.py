"""Networks trained by others on made-up tables: TabPFN, whose weights must be downloaded."""

from __future__ import annotations

from typing import Any

from dtgfn._support.arrays import Floats, Int64s
from dtgfn_bench.contract import Method, TrainingRows
from dtgfn_bench.seen_classes import OverAllClasses, fit_seen


def fit_tabpfn(rows: TrainingRows, seed: int) -> OverAllClasses:
    """Show the training rows to the network as they are; nothing is trained."""
    from tabpfn import TabPFNClassifier

    def fit(X: Floats, codes: Int64s) -> Any:
        return TabPFNClassifier(device="cpu", random_state=seed).fit(X, codes)

    return fit_seen(rows, fit)


METHODS: tuple[Method, ...] = (
    Method(
        name="tabpfn",
        label="TabPFN",
        fit=fit_tabpfn,
        note="To get this row: pip install tabpfn, accept the licence of its weights and log in as "
        "its first fit asks (it downloads them), and run this experiment again; no weights are "
        "here, so it is not measured; not in the paper.",
        needs=("tabpfn",),
        install=None,
    ),
)
