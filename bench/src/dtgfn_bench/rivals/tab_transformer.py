"""TabTransformer (Huang et al. 2020): attention among categorical columns, LayerNorm for others."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from dtgfn._support.arrays import Floats

WIDTH = 32
SHARED_WIDTH = WIDTH // 8  # the part of an embedding that names the column, not the value
N_LAYERS = 6
N_HEADS = 8
DROPOUT = 0.1


class QuantileCategories:
    """Columns cut at the training rows' quantiles into categories of about equal counts."""

    def __init__(self, X: Floats, n_categories: int) -> None:
        shares = np.arange(1, n_categories) / n_categories
        self.cuts = np.quantile(X, shares, axis=0)  # [n_categories - 1, d]

    def __call__(self, X: Floats) -> Tensor:
        """Rows as categories 0..n_categories-1."""
        return torch.from_numpy((X[:, None, :] > self.cuts).sum(axis=1))


class ColumnEmbedding(nn.Module):
    """Each category of each column as a vector, part of which all of a column's values share."""

    def __init__(self, n_columns: int, n_categories: int) -> None:
        super().__init__()
        self.of_value = nn.Embedding(n_columns * n_categories, WIDTH - SHARED_WIDTH)
        self.of_column = nn.Embedding(n_columns, SHARED_WIDTH)
        self.first_value = nn.Buffer(torch.arange(n_columns) * n_categories)

    def forward(self, categories: Tensor) -> Tensor:
        """Vectors [n, columns, width] of categories [n, columns]."""
        values = self.of_value(categories + self.first_value)
        columns = self.of_column.weight.expand(len(categories), -1, -1)
        return torch.cat([columns, values], dim=-1)


def categorical_network(n_columns: int, n_categories: int, n_classes: int) -> nn.Module:
    """The network of a table whose columns are all categorical."""
    # Built one by one: nn.TransformerEncoder would start all layers with the same weights.
    layers = [
        nn.TransformerEncoderLayer(
            WIDTH, N_HEADS, 4 * WIDTH, DROPOUT, activation="gelu", batch_first=True, norm_first=True
        )
        for _ in range(N_LAYERS)
    ]
    embedding = ColumnEmbedding(n_columns, n_categories)
    return nn.Sequential(embedding, *layers, nn.Flatten(), head(n_columns * WIDTH, n_classes))


def numeric_network(n_columns: int, n_classes: int) -> nn.Module:
    """The network of a table without categorical columns: no attention is left."""
    return nn.Sequential(nn.LayerNorm(n_columns), head(n_columns, n_classes))


def head(width: int, n_classes: int) -> nn.Module:
    """Two hidden layers, four and two times as wide as the input."""
    return nn.Sequential(
        nn.Linear(width, 4 * width),
        nn.ReLU(),
        nn.Linear(4 * width, 2 * width),
        nn.ReLU(),
        nn.Linear(2 * width, n_classes),
    )
