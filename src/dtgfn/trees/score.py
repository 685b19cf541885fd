"""The score of a tree, log R = log likelihood + log prior: the one place that computes it.

With a tree's leaves l, the leaf model's sums over their training rows and the splits s::

    log R(T) = sum_l [ log m(sums_l) + log_stop(l) ]  +  sum_s log_split(s)

where m is the leaf model's marginal likelihood (``leaves.py``; of class counts n it is
ln B(n + a) - ln B(a)).
The prior enters as one number per node, so that every engine can apply it locally; at max_depth a
stop is forced and costs nothing, unless a prior of one's own says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Protocol, runtime_checkable

import numpy as np

from dtgfn._support.arrays import Codes, Floats, Int32s
from dtgfn._support.checks import check_integer, check_range
from dtgfn._support.parallel import run_serial
from dtgfn.data.equal_rows import LONG, are_distinct, distinct_coded
from dtgfn.trees.batch import (
    MAX_DEPTH,
    TreeBatch,
    distinct_trees,
    node_code_ranges,
    node_depths,
    node_sums,
)
from dtgfn.trees.leaf_models import LeafModel, log_marginals
from dtgfn.trees.shared_sums import shared_leaf_sums

PIECE = 3_000_000  # rows times trees that are scored at once: a tenth of a second
SHARED = 20_000_000  # rows times trees from which on paths are shared
SUMS_AT_ONCE = 20_000_000  # of nodes of trees, then


@dataclass(frozen=True)
class Rows:
    """Training rows as the engines see them: codes [n, d], target [n], weight [n] > 0.

    The target is a class 0..C-1 (int32) or a number (float64), as the leaf model wants it.
    """

    codes: Codes
    target: Int32s | Floats
    weight: Floats

    def __post_init__(self) -> None:
        shapes = self.codes.shape, self.target.shape, self.weight.shape
        if len(shapes[0]) != 2 or not shapes[0][:1] == shapes[1] == shapes[2]:
            raise ValueError(
                f"Rows have codes, targets and weights of the shapes {shapes[0]}, {shapes[1]} and "
                f"{shapes[2]}; give codes [n, d], and a target and a weight for each row."
            )


def merge_rows(rows: Rows, ordered: bool = True) -> Rows:
    """Merge rows that are equal in codes and target: no tree can tell them apart.

    They come in ascending order; if that is not asked for (``ordered``), those of a long table of
    which no two are equal are returned as they are, without a copy.
    """
    if not ordered and len(rows.target) >= LONG and are_distinct(rows.codes, rows.target):
        return rows
    first, member = distinct_coded(rows.codes, rows.target)
    weight = np.zeros(len(first))
    np.add.at(weight, member, rows.weight)
    return Rows(rows.codes[first], rows.target[first], weight)


@dataclass(frozen=True)
class PenaltyPrior:
    """Each split costs ``penalty`` nats, whatever it splits on."""

    penalty: float

    def node_terms(self, max_depth: int) -> tuple[Floats, Floats]:
        """Log prior of a stop and of a split at depth 0..max_depth."""
        return np.zeros(max_depth + 1), np.full(max_depth + 1, -self.penalty)


@dataclass(frozen=True)
class BranchingPrior:
    """BCART (Chipman, George, McCulloch 1998): a node at depth k splits with base * (1 + k)^-decay.

    The rule is uniform over the features that vary at the node, then over that feature's valid
    cuts. A node that cannot split (max_depth, or no valid cut) stops with probability one, so this
    prior sums to one over the valid trees.
    """

    base: float = 0.95
    decay: float = 0.5

    def node_terms(self, max_depth: int) -> tuple[Floats, Floats]:
        """Log prior of a stop and of a split at depth 0..max_depth (the rule comes on top)."""
        log_split = math.log(self.base) - self.decay * np.log1p(np.arange(max_depth + 1))
        log_stop = np.log1p(-np.exp(log_split))
        log_stop[max_depth] = 0.0
        return log_stop, log_split


@runtime_checkable
class StructurePrior(Protocol):
    """A prior over structures of one's own; given as ``split_penalty``.

    If it also has ``uniform_rules = True``, a split pays log(varying features) + log(valid cuts) on
    top, and a node that cannot split (max_depth, or no valid cut) stops for nothing, as under
    "bcart". Without it every stop costs what ``node_terms`` says, the forced ones at max_depth too.
    """

    def node_terms(self, max_depth: int) -> tuple[Floats, Floats]:
        """Log prior of a stop and of a split at depth 0..max_depth: [max_depth + 1] each."""


@dataclass(frozen=True)
class DepthPrior:
    """What a prior of one's own says of each depth, as numbers: they can be kept in a file."""

    log_stop: tuple[float, ...]
    log_split: tuple[float, ...]
    uniform_rules: bool = False

    def node_terms(self, max_depth: int) -> tuple[Floats, Floats]:
        """Log prior of a stop and of a split at depth 0..max_depth; the last stop is forced."""
        if max_depth >= len(self.log_stop):
            raise ValueError(
                f"The prior was made for max_depth={len(self.log_stop) - 1}, not {max_depth}."
            )
        # Under uniform rules what cannot be split stops for nothing.
        last = 0.0 if self.uniform_rules else self.log_stop[-1]
        stop = (*self.log_stop[:max_depth], last)
        return np.array(stop), np.array(self.log_split[: max_depth + 1])


Prior = PenaltyPrior | BranchingPrior | DepthPrior


def read_prior(own: StructurePrior, max_depth: int) -> DepthPrior:
    """Ask a prior of one's own for its numbers; refuse what are none."""
    name = f"split_penalty={type(own).__qualname__}"
    terms = own.node_terms(max_depth)
    stop_and_split = tuple(np.asarray(part, dtype=np.float64) for part in terms)
    shapes = [part.shape for part in stop_and_split]
    if shapes != [(max_depth + 1,)] * 2:
        raise ValueError(
            f"{name} gives node_terms of the shapes {shapes}; for max_depth={max_depth} it must "
            f"give two arrays [{max_depth + 1}], of a stop and of a split."
        )
    stop, split = stop_and_split
    split = np.append(split[:max_depth], 0.0)  # nobody splits there
    numbers = np.concatenate([stop, split])
    if not np.isfinite(numbers).all() or (numbers > 0).any():
        raise ValueError(
            f"{name} gives node_terms that are not finite, or above 0; give logs of numbers above "
            "0 and at most 1."
        )
    uniform = bool(getattr(own, "uniform_rules", False))
    return DepthPrior(tuple(stop.tolist()), tuple(split.tolist()), uniform)


@dataclass(frozen=True)
class Score:
    """Everything log R needs besides tree and rows; the target is R^(1/temperature)."""

    leaf: LeafModel
    max_depth: int
    prior: Prior
    temperature: float = 1.0

    @property
    def uniform_rules(self) -> bool:
        """Whether a split also pays log(varying features) + log(valid cuts)."""
        if isinstance(self.prior, DepthPrior):
            return self.prior.uniform_rules
        return isinstance(self.prior, BranchingPrior)


SplitPenalty = str | float | tuple[str, float, float] | StructurePrior


def make_score(
    leaf: LeafModel,
    *,
    n_features: int,
    n_thresholds: int,
    max_depth: int = 5,
    split_penalty: SplitPenalty = "mdl",
    temperature: float = 1.0,
) -> Score:
    """Check the parameters and turn the prior's name into numbers.

    Examples
    --------
    >>> from dtgfn.trees.leaf_models import DirichletLeaf
    >>> make_score(DirichletLeaf(2), n_features=4, n_thresholds=9, split_penalty="paper").prior
    PenaltyPrior(penalty=2.77...)

    """
    max_depth = check_integer("max_depth", max_depth, 0, MAX_DEPTH)
    check_range("n_thresholds", n_thresholds, 1, 65_000)
    check_range("temperature", temperature, 1e-2, 1e6)
    prior: Prior
    if isinstance(split_penalty, StructurePrior):
        prior = read_prior(split_penalty, max_depth)
    else:
        prior = make_prior(split_penalty, n_features=n_features, n_thresholds=n_thresholds)
    return Score(leaf, max_depth, prior, float(temperature))


def make_prior(
    split_penalty: SplitPenalty, *, n_features: int, n_thresholds: int
) -> PenaltyPrior | BranchingPrior:
    """Turn ``split_penalty`` (a name, a number, or ("bcart", base, decay)) into a prior."""
    allowed = (
        'give "mdl", "paper", a number from 0 to 1e6, "bcart", ("bcart", base, decay) '
        "with 0 < base < 1 and 0 <= decay <= 1e6, or an object with node_terms"
    )
    paper = math.log(4) + math.log(max(n_features, 1))
    if isinstance(split_penalty, str):
        if split_penalty == "mdl":
            return PenaltyPrior(paper + math.log(n_thresholds))
        if split_penalty == "paper":
            return PenaltyPrior(paper)
        if split_penalty == "bcart":
            return BranchingPrior()
    elif isinstance(split_penalty, Real) and not isinstance(split_penalty, bool):
        if 0 <= split_penalty <= 1e6:
            return PenaltyPrior(float(split_penalty))
    elif isinstance(split_penalty, tuple | list) and len(split_penalty) == 3:
        name, base, decay = split_penalty
        numbers = all(isinstance(n, Real) and not isinstance(n, bool) for n in (base, decay))
        if name == "bcart" and numbers and 0 < base < 1 and 0 <= decay <= 1e6:
            return BranchingPrior(float(base), float(decay))
    raise ValueError(f"split_penalty={split_penalty!r} is not a prior; {allowed}.")


def leaf_log_marginal(sums: Floats, score: Score) -> Floats:
    """Log m of sums [..., K] -> [...]."""
    flat = np.ascontiguousarray(sums, dtype=np.float64).reshape(-1, score.leaf.n_sums)
    out, terms = np.empty(flat.shape[0]), score.leaf.terms()
    run_serial(lambda i, j: log_marginals(flat[i:j], terms, out[i:j]), len(flat))
    return out.reshape(sums.shape[:-1])


def log_likelihood(trees: TreeBatch, rows: Rows, score: Score) -> Floats:
    """Sum of log m over the leaves of each tree [B]."""
    sums, _ = node_sums(trees, rows.codes, rows.target, rows.weight, score.leaf)
    return _leaf_sum(trees, sums, score)


def _leaf_sum(trees: TreeBatch, sums: Floats, score: Score) -> Floats:
    leaves = (node_depths(trees) >= 0) & (trees.feature < 0)
    return np.asarray(np.where(leaves, leaf_log_marginal(sums, score), 0.0).sum(axis=1))


def log_prior(trees: TreeBatch, rows: Rows, score: Score) -> Floats:
    """Log prior of each tree [B]; -inf where a split leaves a side without training rows."""
    _, n_rows = node_sums(trees, rows.codes, rows.target, rows.weight, score.leaf)
    return _prior_sum(trees, rows, n_rows, score)


def _prior_sum(trees: TreeBatch, rows: Rows, n_rows: Int32s, score: Score) -> Floats:
    depths = node_depths(trees)
    log_stop, log_split = score.prior.node_terms(score.max_depth)
    inner = trees.feature >= 0
    leaves = (depths >= 0) & ~inner
    level = np.clip(depths, 0, score.max_depth)
    terms = np.where(inner, log_split[level], 0.0) + np.where(leaves, log_stop[level], 0.0)
    if score.uniform_rules:
        terms += _rule_terms(trees, rows, log_stop[level])
    value = terms.sum(axis=1)
    impossible = (leaves & (n_rows == 0)).any(axis=1) | (depths > score.max_depth).any(axis=1)
    value[impossible] = -np.inf
    return np.asarray(value)


def _rule_terms(trees: TreeBatch, rows: Rows, stop: Floats) -> Floats:
    """What uniform rules add [B, N]: -log(features x cuts) at splits, a free stop where forced."""
    terms = np.zeros(trees.feature.shape)
    shape = (trees.feature.shape[1], rows.codes.shape[1])
    for b in range(len(trees)):
        lowest = np.full(shape, np.iinfo(np.int32).max, dtype=np.int32)
        highest = np.full(shape, -1, dtype=np.int32)
        node_code_ranges(trees.feature[b], trees.cut[b], trees.left[b], rows.codes, lowest, highest)
        cuts = np.maximum(highest.astype(np.int64) - lowest, 0)
        varying = (cuts > 0).sum(axis=1)
        for node in range(trees.n_nodes[b]):
            feature = trees.feature[b, node]
            if feature < 0 and varying[node] == 0:
                terms[b, node] = -stop[b, node]
            elif feature >= 0 and cuts[node, feature] > 0:
                terms[b, node] = -math.log(varying[node]) - math.log(cuts[node, feature])
    return terms


def log_reward(trees: TreeBatch, rows: Rows, score: Score) -> Floats:
    """Log R of each tree [B]: likelihood plus prior, before the temperature.

    Trees are scored in pieces, between which Ctrl-C is heard.

    Parameters
    ----------
    trees : TreeBatch
        B trees.
    rows : Rows
        Coded training rows, their targets and weights.
    score : Score
        Prior and leaf model.

    Returns
    -------
    float64 [B]
        Log R of each tree.

    """
    first, member = distinct_trees(trees)  # draws of a narrow posterior are often equal
    reward, size = np.empty(len(first)), max(PIECE // max(len(rows.target), 1), 1)
    add_up = node_sums
    if len(first) * len(rows.target) >= SHARED:
        add_up, size = (
            shared_leaf_sums,
            SUMS_AT_ONCE // (trees.feature.shape[1] * score.leaf.n_sums),
        )
        size = max(size, 1)
    for start in range(0, len(first), size):
        some = trees[first[start : start + size]]
        sums, n_rows = add_up(some, rows.codes, rows.target, rows.weight, score.leaf)
        value = _leaf_sum(some, sums, score) + _prior_sum(some, rows, n_rows, score)
        reward[start : start + size] = value
    return np.asarray(reward[member])
