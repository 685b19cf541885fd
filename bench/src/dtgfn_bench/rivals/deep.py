"""Neural networks for tables: MLP, FT-Transformer, TabTransformer, TabM."""

from __future__ import annotations

import warnings
from typing import Any

from dtgfn._support.arrays import Floats, Int64s
from dtgfn_bench.contract import Method, TrainingRows
from dtgfn_bench.seen_classes import OverAllClasses, fit_seen


def fit_mlp(rows: TrainingRows, seed: int, *, max_iterations: int, scaled: bool) -> OverAllClasses:
    """scikit-learn's network of one hidden layer of 100 units."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    def fit(X: Floats, codes: Int64s) -> Any:
        network = MLPClassifier(max_iter=max_iterations, random_state=seed)
        pipeline = make_pipeline(StandardScaler() if scaled else "passthrough", network)
        with warnings.catch_warnings():
            # The limit of iterations is the setting, not an accident.
            warnings.simplefilter("ignore", ConvergenceWarning)
            return pipeline.fit(X, codes)

    return fit_seen(rows, fit)


def fit_ft_transformer(
    rows: TrainingRows, seed: int, *, n_blocks: int, **schedule: Any
) -> OverAllClasses:
    """A transformer over all columns, each embedded linearly, with a classification token."""
    from rtdl_revisiting_models import FTTransformer
    from torch import Tensor, nn

    from dtgfn_bench.rivals.network_training import Schedule, as_columns, train

    class OfNumbers(nn.Module):
        """The library's network takes categorical columns too; here are none."""

        def __init__(self, n_columns: int, n_classes: int) -> None:
            super().__init__()
            self.network = FTTransformer(
                n_cont_features=n_columns,
                cat_cardinalities=[],
                d_out=n_classes,
                **FTTransformer.get_default_kwargs(n_blocks),
            )

        def forward(self, columns: Tensor) -> Tensor:
            logits: Tensor = self.network(columns, None)
            return logits

    def fit(X: Floats, codes: Int64s) -> Any:
        def build() -> nn.Module:
            return OfNumbers(X.shape[1], int(codes.max()) + 1)

        return train(build, as_columns(X), X, codes, seed, Schedule(**schedule))

    return fit_seen(rows, fit)


def fit_tab_transformer(
    rows: TrainingRows, seed: int, *, n_categories: int, **schedule: Any
) -> OverAllClasses:
    """TabTransformer over columns cut into categories."""
    from torch import nn

    from dtgfn_bench.rivals import tab_transformer
    from dtgfn_bench.rivals.network_training import Schedule, train

    def fit(X: Floats, codes: Int64s) -> Any:
        def build() -> nn.Module:
            n_classes = int(codes.max()) + 1
            return tab_transformer.categorical_network(X.shape[1], n_categories, n_classes)

        categories = tab_transformer.QuantileCategories(X, n_categories)
        return train(build, categories, X, codes, seed, Schedule(**schedule))

    return fit_seen(rows, fit)


def fit_numeric_tab_transformer(rows: TrainingRows, seed: int, **schedule: Any) -> OverAllClasses:
    """What TabTransformer's definition leaves of it when no column is categorical."""
    from torch import nn

    from dtgfn_bench.rivals import tab_transformer
    from dtgfn_bench.rivals.network_training import Schedule, as_columns, train

    def fit(X: Floats, codes: Int64s) -> Any:
        def build() -> nn.Module:
            return tab_transformer.numeric_network(X.shape[1], int(codes.max()) + 1)

        return train(build, as_columns(X), X, codes, seed, Schedule(**schedule))

    return fit_seen(rows, fit)


def fit_tabm(rows: TrainingRows, seed: int, *, width: int, **schedule: Any) -> OverAllClasses:
    """An ensemble of 32 MLPs that share most weights."""
    from tabm import TabM
    from torch import nn

    from dtgfn_bench.rivals.network_training import Schedule, as_columns, train

    def fit(X: Floats, codes: Int64s) -> Any:
        def build() -> nn.Module:
            network: nn.Module = TabM.make(
                n_num_features=X.shape[1], d_out=int(codes.max()) + 1, d_block=width
            )
            return network

        return train(build, as_columns(X), X, codes, seed, Schedule(**schedule))

    return fit_seen(rows, fit)


HELD_OUT = "a fifth of the training rows is held out to stop early"

METHODS: tuple[Method, ...] = (
    Method(
        name="mlp",
        label="MLP",
        fit=fit_mlp,
        note="scikit-learn's MLP (100 hidden units) on standardised columns, at most 1000 "
        "iterations.",
        settings={"max_iterations": 1000, "scaled": True},
        quick={"max_iterations": 200},
    ),
    Method(
        name="mlp-raw",
        label="MLP, unscaled columns",
        fit=fit_mlp,
        note="The same MLP on the table's own values, which the paper's row may be.",
        settings={"max_iterations": 1000, "scaled": False},
        quick={"max_iterations": 200},
    ),
    Method(
        name="ft-transformer",
        label="FT-Transformer",
        fit=fit_ft_transformer,
        note="rtdl_revisiting_models' default of 2 blocks (its authors' has 3) on standardised "
        f"columns, at most 100 epochs, untuned; {HELD_OUT}.",
        settings={
            "n_blocks": 2,
            "learning_rate": 1e-4,
            "weight_decay": 1e-5,
            "batch_size": 32,
            "epochs": 100,
            "patience": 16,
        },
        quick={"n_blocks": 1, "epochs": 10},
        needs=("rtdl_revisiting_models",),
    ),
    Method(
        name="tab-transformer",
        label="TabTransformer, binned",
        fit=fit_tab_transformer,
        note="Its attention sees only categorical columns, of which these tables have none: here "
        "every column is cut into 8 quantile categories; 6 layers of 8 heads, at most 200 epochs, "
        f"untuned; {HELD_OUT}.",
        settings={
            "n_categories": 8,
            "learning_rate": 1e-4,
            "weight_decay": 1e-5,
            "batch_size": 64,
            "epochs": 200,
            "patience": 16,
        },
        quick={"epochs": 5},
    ),
    Method(
        name="tab-transformer-numeric",
        label="TabTransformer, numeric",
        fit=fit_numeric_tab_transformer,
        note="TabTransformer by its definition on a table without categorical columns: "
        "LayerNorm and an MLP on standardised columns, no attention; at most 500 epochs, "
        f"untuned; {HELD_OUT}.",
        settings={
            "learning_rate": 1e-3,
            "weight_decay": 1e-5,
            "batch_size": 32,
            "epochs": 500,
            "patience": 16,
        },
        quick={"epochs": 50},
    ),
    Method(
        name="tabm",
        label="TabM",
        fit=fit_tabm,
        note="tabm's default of 32 members and 3 blocks, but 128 units wide for 512, on "
        "standardised columns without number embeddings, at most 200 epochs, untuned; "
        f"{HELD_OUT}; not in the paper.",
        settings={
            "width": 128,
            "learning_rate": 2e-3,
            "weight_decay": 3e-4,
            "batch_size": 32,
            "epochs": 200,
            "patience": 16,
        },
        quick={"epochs": 10},
        needs=("tabm",),
        install="dtgfn-bench[more]",
    ),
)
