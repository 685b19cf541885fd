"""Bags: which rows and columns each holds, and what a tree on some of the columns is worth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from dtgfn._support.arrays import Floats, Int32s
from dtgfn.engines.contract import Run
from dtgfn.trees.leaf_models import LeafModel, NormalLeaf
from dtgfn.trees.score import PenaltyPrior, Rows, Score

MOST_AHEAD = 10_000_000  # rows times bags that are drawn before the first bag: a second

Copies = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True)
class BagOptions:
    """How rows and columns are resampled.

    Attributes
    ----------
    n_bags : int
        Bags, 2 or more.
    column_share : float, two of them, or None
        A bag knows a share of the columns, drawn evenly between the two numbers; None is as the
        leaves ask for, see ``shares_for``.

    """

    n_bags: int = 200
    column_share: float | Sequence[float] | None = None

    def __post_init__(self) -> None:
        n_bags = self.n_bags
        if isinstance(n_bags, bool) or not isinstance(n_bags, int | np.integer) or n_bags < 2:
            raise ValueError(f"n_bags={n_bags!r} is out of range; give a whole number from 2.")
        if self.column_share is None:
            return
        shares = as_pair(self.column_share)
        numbers = all(isinstance(s, Real) and not isinstance(s, bool) for s in shares)
        if not numbers or len(shares) != 2 or not 0 < shares[0] <= shares[1] <= 1:
            raise ValueError(
                f"column_share={self.column_share!r} is out of range; give a number above 0, at "
                "most 1, or two such, ascending."
            )

    def shares_for(self, leaf: LeafModel) -> tuple[float, ...]:
        """The least and the largest share of columns: 0.3 to 1 for classes, all for numbers.

        Trees that lack a column draw the average towards the middle. Of classes the sharpness mends
        that; of numbers it mends the spread, not the mean.
        """
        if self.column_share is None:
            return (1.0, 1.0) if isinstance(leaf, NormalLeaf) else (0.3, 1.0)
        return as_pair(self.column_share)


def as_pair(share: Any) -> tuple[float, ...]:
    """Two numbers of one or two; JSON, and so a file, knows lists only."""
    return tuple(share) if isinstance(share, tuple | list) else (share, share)


@dataclass(frozen=True)
class BagPlan:
    """Everything that is random about bags, chosen in advance: bags can be run in any order.

    Attributes
    ----------
    n_varying : int
        Columns that vary at all.
    columns : list of int32 [k]
        Columns that each bag knows.
    copies : uint8 [bags, n] or None
        How often each row is in each bag; a wider type where a row is in a bag too often. None on
        a long table, where they are drawn when a bag begins (``copies_of``).
    row_seeds : list of int
        Seed of each bag's rows, then.
    n_trees : int64 [bags]
        Trees that each bag is to give.
    seeds : list of int
        Seed of each bag's engine.

    """

    n_varying: int
    columns: list[Int32s]
    copies: Copies | None
    row_seeds: list[int]
    n_trees: npt.NDArray[np.int64]
    seeds: list[int]

    @property
    def n_bags(self) -> int:
        """Bags that are wanted."""
        return len(self.n_trees)


def alone(plan: BagPlan, bag: int) -> BagPlan:
    """The part of a plan that is of one bag."""
    one = slice(bag, bag + 1)
    copies = None if plan.copies is None else plan.copies[one]
    given = plan.columns[one], copies, plan.row_seeds[one], plan.n_trees[one], plan.seeds[one]
    return BagPlan(plan.n_varying, *given)


def copies_of(plan: BagPlan, weight: Floats) -> Copies:
    """How often each row [n] of some weight is in a plan's only bag."""
    if plan.copies is not None:
        return plan.copies[0]
    return draw_copies(weight, 1, np.random.default_rng(plan.row_seeds[0]))[0]


def plan_bags(rows: Rows, leaf: LeafModel, run: Run, bagging: BagOptions) -> BagPlan:
    """Draw rows, columns and seed of every bag and deal the trees out evenly."""
    rng = np.random.default_rng(run.random_state)
    varying = np.unique(run.column[(rows.codes != rows.codes[:1]).any(axis=0)])
    n_bags = min(bagging.n_bags, run.n_trees)
    ends = np.linspace(0, run.n_trees, n_bags + 1).astype(np.int64)
    ahead = n_bags * len(rows.weight) <= MOST_AHEAD
    copies = draw_copies(rows.weight, n_bags, rng) if ahead else None
    row_seeds = [0] * n_bags if ahead else rng.integers(2**31, size=n_bags).tolist()
    columns, seeds = [], []
    for _ in range(n_bags):
        columns.append(draw_columns(varying, bagging.shares_for(leaf), rng))
        seeds.append(int(rng.integers(2**31)))
    return BagPlan(varying.size, columns, copies, row_seeds, ends[1:] - ends[:-1], seeds)


def draw_copies(weight: Floats, n_bags: int, rng: np.random.Generator) -> Copies:
    """How often each row is in each bag [bags, n]: as many draws as there is weight, by weight."""
    n_draws = n_draws_of(weight)
    drawn = (rng.multinomial(n_draws, weight / weight.sum()) for _ in range(n_bags))
    return np.stack([copies.astype(np.min_scalar_type(copies.max())) for copies in drawn])


def n_draws_of(weight: Floats) -> int:
    """Rows of a bag: as many as there is weight."""
    return max(round(float(weight.sum())), 1)


def draw_columns(
    varying: Int32s, shares: tuple[float, ...], rng: np.random.Generator
) -> npt.NDArray[np.int32]:
    """Columns of one bag, at least two where there are two."""
    wanted = round(rng.uniform(shares[0], shares[1]) * varying.size)
    n_known = min(max(wanted, 2), varying.size)
    return np.asarray(rng.choice(varying, n_known, replace=False))


def cheaper_splits(score: Score, n_columns: int, n_known: int) -> Score:
    """Score of trees on part of the columns: naming a column costs less."""
    if not isinstance(score.prior, PenaltyPrior) or n_known == 0:
        return score
    penalty = max(score.prior.penalty - math.log(n_columns / n_known), 0.0)
    return replace(score, prior=PenaltyPrior(penalty))


def bag_rows(rows: Rows, copies: Copies, features: npt.NDArray[np.int64]) -> Rows:
    """Rows of one bag: those that are in it, on its features, with their copies as weight.

    A copy weighs one, or so much that a bag weighs what all rows do where that is no whole number.
    """
    present = copies > 0
    each = float(rows.weight.sum()) / n_draws_of(rows.weight)
    return Rows(
        rows.codes[np.flatnonzero(present)[:, None], features],
        rows.target[present],
        copies[present].astype(np.float64) * each,
    )
