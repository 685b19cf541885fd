"""Everything about a fitted model on one page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtgfn._support.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from dtgfn.report.report import Report as Report

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "report.report": ("Report",),
    },
)
