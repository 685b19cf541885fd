"""Estimators for tables that are spread over the workers of a Dask cluster (extra ``dask``).

Partitions stay on their workers; only counts of codes travel, once for each level of the trees.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from dtgfn._support.lazy_exports import lazy_exports

if find_spec("dask") is None or find_spec("distributed") is None:
    raise ImportError("Estimators on a cluster need dask: pip install 'dtgfn[dask]'.")

if TYPE_CHECKING:
    from dtgfn.dask.estimators import DaskDTGFNClassifier as DaskDTGFNClassifier
    from dtgfn.dask.estimators import DaskDTGFNRegressor as DaskDTGFNRegressor

__getattr__, __dir__, __all__ = lazy_exports(
    __name__, {"dask.estimators": ("DaskDTGFNClassifier", "DaskDTGFNRegressor")}
)
