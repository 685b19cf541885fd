"""TreePosterior: what every engine returns."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from dtgfn._support.arrays import Array, Codes, Floats
from dtgfn._support.checks import check_count
from dtgfn.data.binning import Binner, encode, rule
from dtgfn.data.dated_tables import as_new_table
from dtgfn.posterior.arviz_data import inference_data
from dtgfn.posterior.known_trees import known_trees
from dtgfn.posterior.probable_trees import ProbableTrees, probabilities
from dtgfn.trees.batch import (
    TreeBatch,
    canonical_keys,
    stack_trees,
    trim,
    uses_columns,
)
from dtgfn.trees.equivalent_cuts import (
    EquivalentCuts,
    equivalence_keys,
    equivalent_cuts,
    log_n_equivalent,
)
from dtgfn.trees.leaf_models import DirichletLeaf
from dtgfn.trees.left_out_rows import cuts_alike
from dtgfn.trees.score import Rows, Score

if TYPE_CHECKING:
    import pandas

# A diagnostic: rows are merged as far as these trees tell them apart, and serve no other trees.
GROUPED_ROWS = "grouped_rows"
# Another: what training rows told of the best tree, in files that were written without them.
SHARE_OF_BEST = "share_of_best"


@runtime_checkable
class ModelAverage(Protocol):
    """Something that knows P(y | x, D) without averaging over sampled trees."""

    def average(self, codes: Codes) -> Floats:
        """Return class probabilities [n, C] for rows of codes [n, d]."""


@runtime_checkable
class KnownSampler(Protocol):
    """Something that knows how probable it is to draw any given tree."""

    def log_prob(self, trees: TreeBatch) -> Floats:
        """Return log P_F of each tree [B]; -inf for a tree that it can never draw."""


@runtime_checkable
class BaggedTrees(Protocol):
    """Trees of resampled rows and columns, whose average is sharpened; see ``inference.bagging``.

    ``copies`` [bags, n] is how often each row is in each bag; ``sharpness`` is the power of an
    average over classes, and what the variance of numbers is divided by.
    """

    copies: Array
    sharpness: float


@runtime_checkable
class RankedTrees(Protocol):
    """Something that finds the most probable trees, drawn or not."""

    def most_probable(self, n_trees: int) -> TreeBatch | None:
        """Return the most probable trees, of those known, that part the rows differently."""


class TreeSource(Protocol):
    """Something that draws more trees."""

    def sample(self, n_trees: int, rng: np.random.Generator) -> TreeBatch:
        """Draw trees."""


@dataclass(frozen=True, repr=False)
class TreePosterior:
    """The posterior over trees given training rows: sampled trees and what is known beyond them.

    Attributes
    ----------
    trees : TreeBatch
        B sampled trees.
    log_reward : float64 [B]
        log R of each tree, before the temperature.
    log_prob : float64 [B]
        Log probability of each tree under the sampler; nan where it is not known.
    log_weight : float64 [B]
        Log importance weight, log R / temperature - log_prob up to a constant; 0 for exact samples.
    log_evidence, log_evidence_error : float
        log Z of the target R^(1/temperature) and its standard error (0 when exact); nan where the
        engine cannot tell.
    best_tree : TreeBatch
        The most probable tree: of all (exact engine) or of those known. Trees that part the
        training rows alike at every split count as one, with the probability of all of them; this
        is the one whose thresholds are in the middle. Where there is no evidence to weigh them by
        (MCMC, bags) it is the tree that most draws are equivalent to.
    best_log_reward : float
        Its log R; ``best_log_mass`` and ``best_probability`` are of all trees equivalent to it.
    paper_tree : TreeBatch
        The single tree with the highest log R that was met, as the paper chooses it. Equivalent
        trees are not added up, which favours small trees where many thresholds part the rows
        alike: each of the larger ones is improbable, all together are not.
    column_inclusion : float64 [n_columns]
        P(the column is used by the tree).
    size_probability : float64 [S]
        P(the tree has s splits), s = 0..S-1.
    rows : Rows
        Coded training rows, their targets and weights.
    score : Score
        Prior and leaf model.
    engine : str
        Name of the engine.
    solution : TreeSource or None
        What the engine found, to draw more trees from; some know more, see ``ModelAverage`` (the
        exact engine's) and ``KnownSampler`` (the GFlowNet's in fixed order).
    binner : Binner or None
        How the user's columns became features and codes; None if the engine was given codes.
    classes : array [C] or None
        The user's label of each class.
    diagnostics, history
        What the engine says of the fit, and of its course.
    ranked_trees : TreeBatch or None
        The most probable trees that the ``solution`` knew, of a posterior that lives on without it.

    """

    trees: TreeBatch
    log_reward: Floats
    log_prob: Floats
    log_weight: Floats
    log_evidence: float
    log_evidence_error: float
    best_tree: TreeBatch
    best_log_reward: float
    paper_tree: TreeBatch
    column_inclusion: Floats
    size_probability: Floats
    rows: Rows
    score: Score
    engine: str
    solution: TreeSource | None = None
    binner: Binner | None = None
    classes: npt.NDArray[Any] | None = None
    diagnostics: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    ranked_trees: TreeBatch | None = None

    def __repr__(self) -> str:
        return (
            f"TreePosterior({self.engine}: {len(self.trees)} trees, "
            f"log evidence {self.log_evidence:.4f}, {self.mean_splits:.2f} splits on average)"
        )

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended training, so that this is what was learned by then."""
        return bool(self.diagnostics.get("stopped_because") == "interrupted")

    @property
    def is_exact(self) -> bool:
        """Whether the engine has summed over all trees, and knows P(y | x, D) without a sample."""
        return isinstance(self.solution, ModelAverage)

    @property
    def n_features(self) -> int:
        """Columns of codes."""
        return self.rows.codes.shape[1] if self.binner is None else len(self.binner.features)

    @property
    def is_bagged(self) -> bool:
        """Whether this is the average of posteriors of resampled rows and columns."""
        return isinstance(self.solution, BaggedTrees)

    def check_single_rows(self, wanted_by: str) -> None:
        """Refuse what needs the training rows themselves where these were left on a cluster."""
        if GROUPED_ROWS in self.diagnostics:
            raise ValueError(
                f"{wanted_by} needs every training row, but this posterior was inferred on a "
                "cluster and has them only in groups that its trees cannot tell apart; fit again "
                "with all rows."
            )

    @property
    def demands(self) -> tuple[str, ...]:
        """What all trees were made to keep, in words; see ``dtgfn.condition``."""
        return tuple(self.diagnostics.get("given", ()))

    @property
    def n_bags(self) -> int:
        """How many posteriors were averaged, 0 if this is one posterior."""
        return len(self.solution.copies) if isinstance(self.solution, BaggedTrees) else 0

    @property
    def sharpness(self) -> float:
        """How sharp bags have chosen their average to be; 1 of any other posterior."""
        return float(self.solution.sharpness) if isinstance(self.solution, BaggedTrees) else 1.0

    @property
    def class_names(self) -> list[str]:
        """The classes as text."""
        if self.classes is None:
            return [str(c) for c in range(self.score.leaf.n_outputs)]
        return [str(label) for label in self.classes]

    def rule(self, feature: int, cut: int) -> tuple[str, str]:
        """Say what goes left and what goes right at a split, in the user's units."""
        if self.binner is None:
            return f"code {feature} <= {cut}", f"code {feature} > {cut}"
        return rule(self.binner.features[feature], cut)

    def encode(self, X: Any) -> Codes:
        """Codes [n, d] of a table with the training columns, such as ``average_outputs`` takes."""
        if self.binner is None:
            raise ValueError("This posterior was inferred from codes, so it knows no columns.")
        return encode(self.binner, as_new_table(X))

    def to_arviz(self) -> Any:
        """Draws as ``arviz.InferenceData``, chains by draws, for ArviZ's tables and plots.

        Variables are ``log_reward``, ``n_splits``, ``depth`` and ``uses`` (whether the tree splits
        on each column). The chains of ``"mcmc"`` are told apart; independent draws are one chain.
        Weighted draws and bags are refused.

        Returns
        -------
        arviz.InferenceData
            With the group ``posterior``.

        Examples
        --------
        >>> from dtgfn import infer
        >>> posterior = infer([[1.0], [2.0], [8.0], [9.0]] * 5, [0, 0, 1, 1] * 5, engine="mcmc",
        ...                   max_depth=1, n_thresholds=3, n_trees=100, n_steps=1000)
        >>> dict(posterior.to_arviz().posterior.sizes)
        {'chain': 4, 'draw': 25, 'column': 1}

        """
        if self.is_bagged:
            raise ValueError("Bags are many posteriors, not chains of one; ArviZ has no use of it.")
        if np.ptp(self.log_weight) > 0:
            raise ValueError(
                f"The draws of {self.engine} are weighted, and ArviZ takes equal ones; "
                "infer with engine 'mcmc' or 'exact'."
            )
        n_trees, n_columns = len(self.trees), len(self.column_inclusion)
        variables: dict[str, Array] = {
            "log_reward": self.log_reward,
            "n_splits": self.trees.n_splits,
            "depth": self.trees.depth,
        }
        names = list(map(str, range(n_columns)))
        column = np.arange(n_columns, dtype=np.int32)
        if self.binner is not None:
            names = list(self.binner.column_names)
            column = self.binner.feature_column.astype(np.int32)
        if len(column) == self.rows.codes.shape[1]:  # else codes came without their columns
            variables["uses"] = uses_columns(self.trees.feature, column, n_columns)
        chains = self.diagnostics.get("steps_per_chain", [0]) if self.engine == "mcmc" else [0]
        parts = np.array_split(np.arange(n_trees), len(chains))  # as the engine takes them
        chain = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        dims = {"uses": ["column"]} if "uses" in variables else {}
        return inference_data(variables, chain, dims, {"column": names})

    @property
    def weights(self) -> Floats:
        """Normalised weights of the sampled trees [B]."""
        weight = np.exp(self.log_weight - self.log_weight.max())
        return np.asarray(weight / weight.sum())

    @property
    def mean_splits(self) -> float:
        """Posterior mean of the number of splits."""
        return float(self.size_probability @ np.arange(self.size_probability.size))

    @property
    def by_share(self) -> bool:
        """Whether trees are weighed by their share of the draws, not by mass and evidence.

        So it is where there is no evidence (MCMC, bags), and under demands (``given``), which
        equivalent trees need not keep.
        """
        return math.isnan(self.log_evidence) or "given" in self.diagnostics

    @cached_property
    def best_cuts(self) -> EquivalentCuts:
        """First and last cut [1, N] that parts the rows at each split of the best tree alike."""
        return cuts_alike(self.best_tree, self.rows)

    @property
    def best_log_mass(self) -> float:
        """Log of the sum of R^(1/temperature) over the best tree and those equivalent to it."""
        number = float(log_n_equivalent(self.best_cuts)[0])
        return self.best_log_reward / self.score.temperature + number

    @cached_property
    def best_probability(self) -> float:
        """Posterior probability of the best tree and those equivalent to it.

        By the evidence; where that is not known (MCMC, bags) it is their share of the drawn trees.
        """
        if not self.by_share:
            return float(np.exp(np.minimum(self.best_log_mass - self.log_evidence, 0.0)))
        return self._share_of_best()

    def _share_of_best(self) -> float:
        """Weight of the draws that are equivalent to the best tree."""
        if SHARE_OF_BEST in self.diagnostics:
            return float(self.diagnostics[SHARE_OF_BEST])

        def shapes(trees: TreeBatch) -> list[bytes]:  # a cheap test that most draws fail
            return canonical_keys(replace(trees, cut=np.zeros_like(trees.cut)))

        shape = shapes(self.best_tree)[0]
        alike = np.array([found == shape for found in shapes(self.trees)])
        some = self.trees[alike]
        keys = equivalence_keys(some, equivalent_cuts(some, self.rows.codes))
        best = equivalence_keys(self.best_tree, self.best_cuts)[0]
        return float(self.weights[alike] @ np.array([key == best for key in keys], dtype=float))

    def most_probable(self, n_trees: int = 10) -> ProbableTrees:
        """Return the most probable trees in order, each for all that part the rows alike.

        The exact engine finds them among all trees, with their exact mass. The GFlowNet finds them
        on its graph of row sets, as far as that is known, and among the drawn trees; the other
        engines among the drawn trees. Their mass is exact, too, but relative to the evidence.

        Parameters
        ----------
        n_trees : int
            How many, from 1; there may be fewer.

        Returns
        -------
        ProbableTrees
            The trees, their probabilities, and how many hold a share of the posterior.

        Examples
        --------
        >>> from dtgfn import infer
        >>> posterior = infer([[1.0], [2.0], [8.0], [9.0]] * 5, ["no", "no", "yes", "yes"] * 5,
        ...                   engine="exact", max_depth=2)
        >>> found = posterior.most_probable(3)
        >>> found.probability.round(3).tolist(), found.n_holding(0.9)
        ([0.949, 0.013, 0.013], 1)

        """
        n_trees = check_count("n_trees", n_trees, "give a whole number from 1")
        ranked = self.ranked(n_trees)
        drawn, reward = self.trees, self.log_reward
        weight = self.weights if len(drawn) else np.zeros(0)
        also = stack_trees([self.best_tree, *([] if ranked is None else [ranked])])
        how = {"by_share": self.by_share, "middle": "given" not in self.diagnostics}
        known = known_trees(drawn, reward, weight, self.rows, self.score, also=also, **how)
        known_all = isinstance(self.solution, RankedTrees) and self.diagnostics.get("exact") is True
        kept = slice(0, n_trees)
        return ProbableTrees(
            trees=trim(known.trees[kept]),
            cuts=EquivalentCuts(*(cut[kept] for cut in known.cuts)),
            probability=probabilities(known, math.nan if self.by_share else self.log_evidence)[
                kept
            ],
            share=known.share[kept],
            log_reward=known.log_reward[kept],
            complete=self.is_exact or known_all,
            rows=self.rows,
            leaf=self.score.leaf,
            binner=self.binner,
            classes=self.classes if isinstance(self.score.leaf, DirichletLeaf) else None,
        )

    def ranked(self, n_trees: int) -> TreeBatch | None:
        """Return the most probable trees of what the engine knows beyond its draws, if it does."""
        if isinstance(self.solution, RankedTrees):
            return self.solution.most_probable(n_trees)
        return None if self.ranked_trees is None else self.ranked_trees[:n_trees]

    def to_frame(self, n_trees: int = 10) -> pandas.DataFrame:
        """Return the most probable trees as a frame, one row per node.

        Parameters
        ----------
        n_trees : int
            How many trees, from 1.

        Returns
        -------
        pandas.DataFrame
            See ``ProbableTrees.to_frame``.

        """
        return self.most_probable(n_trees).to_frame()
