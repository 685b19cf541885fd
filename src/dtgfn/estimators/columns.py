"""TableEstimator: columns of every kind behind scikit-learn's checks of names and numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import validate_data

from dtgfn.data.tables import Table


class TableEstimator(BaseEstimator):  # type: ignore[misc]
    """An estimator that takes numbers, booleans, text and missing values as they are."""

    def _check_columns(self, X: Any, table: Table, *, reset: bool) -> None:
        """Remember number and names of columns, or compare with them, as scikit-learn does."""
        if not isinstance(X, Table):
            validate_data(self, X, reset=reset, skip_check_array=True)
        elif reset:
            self.n_features_in_ = table.n_columns
            if table.named:
                self.feature_names_in_ = np.array(table.names, dtype=object)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags
