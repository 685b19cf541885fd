"""Exact inference: the sum over all trees, by a recursion over row sets."""

from dtgfn._support.budget import BudgetExceeded
from dtgfn.engines.exact.engine import ExactSolution, infer_exact

__all__ = ["BudgetExceeded", "ExactSolution", "infer_exact"]
