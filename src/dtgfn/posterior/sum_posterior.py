"""SumPosterior: draws from the posterior over sums of trees, and what is known of the chains."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from dtgfn._support.arrays import Array, Codes, Floats, Int32s
from dtgfn.data.binning import Binner, encode, rule
from dtgfn.data.dated_tables import as_new_table
from dtgfn.posterior.arviz_data import inference_data
from dtgfn.trees.leaf_models import DirichletLeaf, NormalLeaf
from dtgfn.trees.score import Rows
from dtgfn.trees.summed_trees import SummedTrees, make_fast, sum_draws


@dataclass(frozen=True, repr=False, eq=False)
class SumPosterior:
    """The posterior over sums of trees given training rows.

    Attributes
    ----------
    summed : SummedTrees
        K draws of S sums of M trees, with the values of their leaves.
    chain : int32 [K]
        Which chain each draw comes from.
    noise : float64 [K]
        Noise variance of numbers in each draw, in units of ``leaf.scale`` squared; empty for
        classes.
    leaf_scale : float64 [K]
        Standard deviation of the prior of a leaf's value in each draw.
    offset : float64 [S]
        What the sums are added to: log odds of two classes, log shares of more, 0 for numbers.
    leaf : DirichletLeaf or NormalLeaf
        What is predicted: how many classes, or the location and scale of numbers.
    rows : Rows
        Coded training rows, their targets (numbers in units of ``leaf``) and weights.
    column, n_columns
        Source column of each feature [d], and how many columns there are.
    binner : Binner or None
        How the user's columns became features and codes; None if codes were given.
    classes : array [C] or None
        The user's label of each class.
    diagnostics, history
        What the chains say of themselves, and of their course.
    engine : str
        Name of the engine.

    """

    summed: SummedTrees
    chain: Int32s
    noise: Floats
    leaf_scale: Floats
    offset: Floats
    leaf: DirichletLeaf | NormalLeaf
    rows: Rows
    column: Int32s
    n_columns: int
    binner: Binner | None = None
    classes: npt.NDArray[Any] | None = None
    diagnostics: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    engine: str = "sums"

    def __repr__(self) -> str:
        size = self.summed
        return (
            f"SumPosterior({size.n_draws} draws of {size.n_sums} x {size.n_summed} trees, "
            f"{self.mean_splits:.2f} splits per tree on average)"
        )

    @property
    def is_of_classes(self) -> bool:
        """Whether classes are predicted, not numbers."""
        return isinstance(self.leaf, DirichletLeaf)

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the chains, so that this is what they had drawn by then."""
        return bool(self.diagnostics.get("stopped_because") == "interrupted")

    @property
    def n_draws(self) -> int:
        """Draws K."""
        return self.summed.n_draws

    @property
    def mean_splits(self) -> float:
        """Splits of a tree, on average."""
        return float(self.summed.batch.n_splits.mean())

    @property
    def column_use(self) -> Floats:
        """Share of each draw's splits that are on each column [K, n_columns]."""
        feature = self.summed.batch.feature.reshape(self.n_draws, -1)
        draw, node = np.nonzero(feature >= 0)
        used = np.zeros((self.n_draws, self.n_columns))
        np.add.at(used, (draw, self.column[feature[draw, node]]), 1.0)
        return np.asarray(used / np.maximum(used.sum(axis=1, keepdims=True), 1.0))

    @property
    def line_spread(self) -> Floats:
        """How far the straight lines on each column part the training rows [K, n_columns].

        Standard deviations, in log odds or the target's units; 0 where there are no lines. Those of
        a category column are added up as if they were independent.
        """
        squares = np.zeros((self.n_columns, self.n_draws))
        lines = self.summed.lines
        if lines is not None:  # scores have variance 1
            np.add.at(squares, self.column[lines.feature], (lines.slope**2).sum(axis=1).T)
        unit = self.leaf.scale if isinstance(self.leaf, NormalLeaf) else 1.0
        return np.asarray(unit * np.sqrt(squares.T))

    def to_arviz(self) -> Any:
        """Draws as ``arviz.InferenceData``, chains by draws, for ArviZ's tables and plots.

        Variables are ``n_splits`` (of all trees of a draw), ``leaf_scale``, ``column_use`` (share
        of the splits), ``line_spread`` (of straight lines), ``sums``, what trees and lines add up
        to at each training row (in units of the target's spread, or log odds, or the logs of what
        softmax normalises), and of numbers ``noise`` (a standard deviation, in the target's units).

        Returns
        -------
        arviz.InferenceData
            With the group ``posterior``.

        Examples
        --------
        >>> from dtgfn import infer
        >>> posterior = infer([[1.0], [2.0], [8.0], [9.0]] * 5, [0, 0, 1, 1] * 5, ensemble="sum",
        ...                   n_summed=3, n_chains=2, n_sweeps=20, n_draws=10, random_state=0)
        >>> sorted(posterior.to_arviz().posterior.data_vars)
        ['column_use', 'leaf_scale', 'line_spread', 'n_splits', 'sums']

        """
        summed = self.summed
        sums = sum_draws(make_fast(summed), summed, self.rows.codes)  # [n, K, S]
        sums = np.moveaxis(sums + self.offset, 1, 0)
        variables: dict[str, Array] = {
            "n_splits": summed.batch.n_splits.reshape(self.n_draws, -1).sum(axis=1),
            "leaf_scale": self.leaf_scale,
            "column_use": self.column_use,
            "line_spread": self.line_spread,
            "sums": sums[:, :, 0] if summed.n_sums == 1 else sums,
        }
        if isinstance(self.leaf, NormalLeaf):
            variables["noise"] = self.leaf.scale * np.sqrt(self.noise)
        names = list(map(str, range(self.n_columns)))
        if self.binner is not None:
            names = list(self.binner.column_names)
        dims = {"column_use": ["column"], "line_spread": ["column"], "sums": ["row"]}
        if summed.n_sums > 1:
            dims["sums"].append("class")
        rows = list(range(sums.shape[1]))
        coords: dict[str, list[Any]] = {"column": names, "row": rows, "class": self.class_names}
        return inference_data(variables, self.chain, dims, coords)

    @property
    def class_names(self) -> list[str]:
        """The classes as text."""
        if self.classes is None:
            return [str(c) for c in range(self.leaf.n_outputs)]
        return [str(label) for label in self.classes]

    def rule(self, feature: int, cut: int) -> tuple[str, str]:
        """Say what goes left and what goes right at a split, in the user's units."""
        if self.binner is None:
            return f"code {feature} <= {cut}", f"code {feature} > {cut}"
        return rule(self.binner.features[feature], cut)

    def encode(self, X: Any) -> Codes:
        """Codes [n, d] of a table with the training columns."""
        if self.binner is None:
            raise ValueError("This posterior was inferred from codes, so it knows no columns.")
        return encode(self.binner, as_new_table(X))
