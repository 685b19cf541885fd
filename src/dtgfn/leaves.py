"""Leaf models: what leaves may hold, and how to write one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtgfn._support.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from dtgfn.trees.custom_leaf import CustomLeaf as CustomLeaf
    from dtgfn.trees.leaf_models import DirichletLeaf as DirichletLeaf
    from dtgfn.trees.leaf_models import LeafModel as LeafModel
    from dtgfn.trees.leaf_models import NormalLeaf as NormalLeaf
    from dtgfn.trees.leaf_models import log_marginal as log_marginal

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "trees.custom_leaf": ("CustomLeaf",),
        "trees.leaf_models": (
            "DirichletLeaf",
            "LeafModel",
            "NormalLeaf",
            "log_marginal",
        ),
    },
)
