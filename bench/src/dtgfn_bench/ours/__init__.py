"""Our own methods, behind the contract that the rivals keep."""

from __future__ import annotations

from dtgfn_bench.contract import Method
from dtgfn_bench.ours import classifiers, detectors, developed, paper_detector

OURS: tuple[Method, ...] = (
    *classifiers.METHODS,
    *developed.METHODS,
    *detectors.METHODS,
    *paper_detector.METHODS,
)
