"""Estimators as MLflow models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtgfn._support.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from dtgfn.storage.mlflow_flavour import load_model as load_model
    from dtgfn.storage.mlflow_flavour import log_model as log_model
    from dtgfn.storage.mlflow_flavour import save_model as save_model

__getattr__, __dir__, __all__ = lazy_exports(
    __name__, {"storage.mlflow_flavour": ("load_model", "log_model", "save_model")}
)
