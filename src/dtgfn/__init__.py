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

import dtgfn.forks as _forks  # noqa: F401  (what is to happen at a fork must be known before it)

if TYPE_CHECKING:
    from dtgfn.engines.exact import BudgetExceeded
    from dtgfn.estimators import DTGFNAnomalyDetector, DTGFNClassifier, DTGFNRegressor
    from dtgfn.explain import tree_text
    from dtgfn.files import read_table
    from dtgfn.inference import infer
    from dtgfn.posterior import TreePosterior
    from dtgfn.selection import select
    from dtgfn.storage import load, save

__version__ = "0.1.0"

# Loaded on first use, so that `import dtgfn` (and `dtgfn --help`) costs next to nothing.
_HOMES = {
    "BudgetExceeded": "dtgfn.engines.exact",
    "DTGFNAnomalyDetector": "dtgfn.estimators",
    "DTGFNClassifier": "dtgfn.estimators",
    "DTGFNRegressor": "dtgfn.estimators",
    "TreePosterior": "dtgfn.posterior",
    "infer": "dtgfn.inference",
    "load": "dtgfn.storage",
    "read_table": "dtgfn.files",
    "save": "dtgfn.storage",
    "select": "dtgfn.selection",
    "tree_text": "dtgfn.explain",
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
