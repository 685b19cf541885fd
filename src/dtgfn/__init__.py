"""The Bayesian posterior over decision trees.

Examples
--------
>>> import dtgfn
>>> model = dtgfn.DTGFNClassifier(inference="exact", max_depth=1, n_thresholds=3)
>>> model.fit([[1.0], [2.0], [8.0], [9.0]] * 5, ["no", "no", "yes", "yes"] * 5).predict([[1.5]])
array(['no'], dtype='<U3')

"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

# What is to happen at a fork must be known before it.
import dtgfn._support.forks as _forks  # noqa: F401
from dtgfn._version import __version__

if TYPE_CHECKING:
    from dtgfn.data.table_files import read_table
    from dtgfn.engines.contract import BudgetExceeded
    from dtgfn.estimators import DTGFNAnomalyDetector, DTGFNClassifier, DTGFNRegressor
    from dtgfn.explain.text import tree_text
    from dtgfn.inference.infer import infer
    from dtgfn.inference.select import select
    from dtgfn.posterior.tree_posterior import TreePosterior
    from dtgfn.storage.model_file import load, save

# Loaded on first use, so that `import dtgfn` (and `dtgfn --help`) costs next to nothing.
_HOMES = {
    "BudgetExceeded": "dtgfn.engines.contract",
    "DTGFNAnomalyDetector": "dtgfn.estimators",
    "DTGFNClassifier": "dtgfn.estimators",
    "DTGFNRegressor": "dtgfn.estimators",
    "TreePosterior": "dtgfn.posterior.tree_posterior",
    "infer": "dtgfn.inference.infer",
    "load": "dtgfn.storage.model_file",
    "read_table": "dtgfn.data.table_files",
    "save": "dtgfn.storage.model_file",
    "select": "dtgfn.inference.select",
    "tree_text": "dtgfn.explain.text",
}

__all__ = [
    "BudgetExceeded",
    "DTGFNAnomalyDetector",
    "DTGFNClassifier",
    "DTGFNRegressor",
    "TreePosterior",
    "__version__",
    "infer",
    "load",
    "read_table",
    "save",
    "select",
    "tree_text",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'dtgfn' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
