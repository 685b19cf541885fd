"""Explainable boosting machine: boosted trees of one column each, summed, by interpret."""

from __future__ import annotations

from typing import Any

from dtgfn._support.arrays import Floats, Int64s
from dtgfn_bench.contract import Method, TrainingRows
from dtgfn_bench.seen_classes import OverAllClasses, fit_seen


def fit_boosting_machine(
    rows: TrainingRows, seed: int, *, outer_bags: int, max_rounds: int
) -> OverAllClasses:
    """A sum of one function per column, averaged over ``outer_bags`` of early-stopped boosting."""
    from interpret.glassbox import ExplainableBoostingClassifier

    def fit(X: Floats, codes: Int64s) -> Any:
        machine = ExplainableBoostingClassifier(
            outer_bags=outer_bags,
            max_rounds=max_rounds,
            interactions=0,
            n_jobs=1,
            random_state=seed,
        )
        return machine.fit(X, codes)

    return fit_seen(rows, fit)


METHODS: tuple[Method, ...] = (
    Method(
        name="ebm",
        label="EBM",
        fit=fit_boosting_machine,
        note="interpret's explainable boosting machine with 4 outer bags and no interactions: its "
        "defaults (14 bags, pairs of columns) take minutes per fit on one thread; not in the "
        "paper; it keeps functions of a column, not trees, so it has no size.",
        settings={"outer_bags": 4, "max_rounds": 50_000},
        quick={"outer_bags": 1, "max_rounds": 300},
        needs=("interpret",),
        install="dtgfn-bench[more]",
    ),
)
