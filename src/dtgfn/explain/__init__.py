"""Trees in words and numbers: rules, paths of rows, importances, dependence, consensus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtgfn._support.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from dtgfn.explain.column_dependence import partial_dependence as partial_dependence
    from dtgfn.explain.column_importance import co_occurrence as co_occurrence
    from dtgfn.explain.column_importance import importances as importances
    from dtgfn.explain.rules import distinct_rules as distinct_rules
    from dtgfn.explain.rules import leaf_rules as leaf_rules
    from dtgfn.explain.shapley import shap_values as shap_values
    from dtgfn.explain.text import DecisionPath as DecisionPath
    from dtgfn.explain.text import decision_path as decision_path
    from dtgfn.explain.tree_set import Consensus as Consensus
    from dtgfn.explain.tree_set import TreeSet as TreeSet
    from dtgfn.explain.tree_set import consensus_tree as consensus_tree
    from dtgfn.explain.tree_set import take_trees as take_trees

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "explain.tree_set": (
            "Consensus",
            "TreeSet",
            "consensus_tree",
            "take_trees",
        ),
        "explain.rules": (
            "distinct_rules",
            "leaf_rules",
        ),
        "explain.text": (
            "DecisionPath",
            "decision_path",
        ),
        "explain.column_importance": (
            "co_occurrence",
            "importances",
        ),
        "explain.column_dependence": ("partial_dependence",),
        "explain.shapley": ("shap_values",),
    },
)
