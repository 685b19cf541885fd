"""The door to leaf models: what leaves may hold, and how to write one."""

from dtgfn.trees.custom_leaf import CustomLeaf
from dtgfn.trees.leaves import DirichletLeaf, LeafModel, NormalLeaf, log_marginal

__all__ = ["CustomLeaf", "DirichletLeaf", "LeafModel", "NormalLeaf", "log_marginal"]
