"""ProbableTrees: the most probable trees in order, with their mass, also as a frame."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dtgfn._support.arrays import Floats
from dtgfn._support.checks import check_range
from dtgfn.data.binning import Binner
from dtgfn.posterior.known_trees import KnownTrees
from dtgfn.posterior.node_values import node_values
from dtgfn.trees.batch import node_depths
from dtgfn.trees.equivalent_cuts import EquivalentCuts, log_n_equivalent
from dtgfn.trees.leaf_models import LeafModel
from dtgfn.trees.score import Rows

if TYPE_CHECKING:
    import pandas

    from dtgfn.trees.batch import TreeBatch


@dataclass(frozen=True, eq=False, repr=False)
class ProbableTrees:
    """The most probable trees, each for all trees that part the training rows alike.

    Attributes
    ----------
    trees : TreeBatch
        K trees, the most probable first; thresholds are in the middle of those that cut alike.
    cuts : EquivalentCuts
        First and last cut [K, N] that could take each split's place.
    probability : float64 [K]
        Posterior probability of each tree and its equivalents: their exact mass, divided by the
        evidence. Where that is not known (MCMC, bags) it is ``share``.
    share : float64 [K]
        Weight of the drawn trees that are equivalent to it.
    log_reward : float64 [K]
        Log R, the same for all equivalents.
    complete : bool
        Whether they are the most probable of *all* trees (the exact engine); else of those known.
    rows, leaf, binner, classes
        What the nodes are described by.

    """

    trees: TreeBatch
    cuts: EquivalentCuts
    probability: Floats
    share: Floats
    log_reward: Floats
    complete: bool
    rows: Rows
    leaf: LeafModel
    binner: Binner | None
    classes: npt.NDArray[Any] | None

    def __len__(self) -> int:
        return len(self.trees)

    def __repr__(self) -> str:
        of = "all" if self.complete else "those known"
        return (
            f"ProbableTrees({len(self)} most probable of {of}: "
            f"{self.probability.sum():.3g} of the probability)"
        )

    @property
    def n_equivalent(self) -> Floats:
        """How many trees each of them stands for [K]."""
        return np.rint(np.exp(log_n_equivalent(self.cuts)))

    def n_holding(self, share: float) -> int | None:
        """Return how many of them, at least, hold a share of the posterior; None if all do not.

        Parameters
        ----------
        share : float
            From 0 to 1, such as 0.9.

        Returns
        -------
        int or None
            The size of the smallest set of trees that holds it.

        """
        check_range("share", share, 0.0, 1.0)
        held = np.cumsum(self.probability)
        enough = np.flatnonzero(held >= share * (1 - 1e-12))
        return int(enough[0]) + 1 if enough.size else None

    def to_frame(self) -> pandas.DataFrame:
        """Return a row per node, parents first.

        Returns
        -------
        pandas.DataFrame
            ``tree`` (0 is the most probable), ``probability``, ``node``, ``parent`` (missing at
            the root), ``side`` of the parent, ``depth``; at splits ``column``, ``category`` (of an
            indicator), ``threshold`` and the interval it may lie in without moving a training row,
            ``threshold_low`` and ``threshold_high``; ``rows``; ``prediction``, and of classes the
            probability of each.

        """
        import pandas

        nodes = node_values(self.trees, self.rows, self.leaf)
        depth = node_depths(self.trees)
        lines = [
            {
                "tree": b,
                "probability": self.probability[b],
                "node": node,
                "parent": parent,
                "side": side,
                "depth": int(depth[b, node]),
                **self._split(b, node),
                "rows": nodes.rows[b, node],
                **self._prediction(nodes.value[b, node]),
            }
            for b in range(len(self))
            for node, (parent, side) in enumerate(self._parents(b))
        ]
        return pandas.DataFrame(lines).astype({"parent": "Int64"})

    def _parents(self, b: int) -> list[tuple[int | None, str | None]]:
        """Parent of every node of a tree, and the side of it that the node is on."""
        found: list[tuple[int | None, str | None]] = [(None, None)] * int(self.trees.n_nodes[b])
        for node in np.flatnonzero(self.trees.feature[b] >= 0).tolist():
            left = int(self.trees.left[b, node])
            found[left], found[left + 1] = (node, "left"), (node, "right")
        return found

    def _split(self, b: int, node: int) -> dict[str, Any]:
        """Column, category and thresholds of a node, nothing of a leaf."""
        names = ("column", "category", "threshold", "threshold_low", "threshold_high")
        feature = int(self.trees.feature[b, node])
        said: dict[str, Any] = {**dict.fromkeys(names[:2]), **dict.fromkeys(names[2:], math.nan)}
        if feature < 0:
            return said
        cuts = self.trees.cut[b, node], self.cuts.first[b, node], self.cuts.last[b, node]
        if self.binner is None:
            return dict(zip(names, (f"code {feature}", None, *map(float, cuts)), strict=True))
        here = self.binner.features[feature]
        said |= {"column": here.name, "category": here.category}
        if here.kind == "number" and cuts[0] < len(here.thresholds):
            last = len(here.thresholds) - 1  # behind the last one is what is missing
            found = (float(here.thresholds[min(int(cut), last)]) for cut in cuts)
            said |= dict(zip(names[2:], found, strict=True))
        return said

    def _prediction(self, value: Floats) -> dict[str, Any]:
        """What a node predicts [K]."""
        if self.classes is None:
            return {"prediction": value[0]}
        chances = {f"p({name})": chance for name, chance in zip(self.classes, value, strict=True)}
        return {"prediction": self.classes[int(np.argmax(value))], **chances}


def probabilities(known: KnownTrees, log_evidence: float) -> Floats:
    """Posterior probability of classes of trees [K]: by the evidence, or their share of draws."""
    if math.isnan(log_evidence):
        return known.share
    return np.minimum(np.exp(known.log_mass - log_evidence), 1.0)
