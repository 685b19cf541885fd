"""The paper's tables by name: found, or fetched, and checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtgfn._support.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from dtgfn.datasets.lookup import load_dataset as load_dataset
    from dtgfn.datasets.values import Dataset as Dataset

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "datasets.lookup": ("load_dataset",),
        "datasets.values": ("Dataset",),
    },
)
