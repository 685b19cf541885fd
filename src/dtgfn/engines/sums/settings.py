"""SumOptions: what only sums of trees are told."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any

from dtgfn._support.checks import check_count, check_integer, check_range

MOST_CHAINS = 256
MOST_SUMMED = 10_000
USUAL_SUMMED, USUAL_SUMMED_OF_NUMBERS = 50, 100
MOST_IN_A_DRAW, FEWEST_SUMMED = 1000, 10  # trees of all classes; of one
USUAL_DRAWS, USUAL_TREES = (40, 80), 4000  # draws, and the trees in all of them


@dataclass(frozen=True)
class SumOptions:
    """What only sums of trees are told.

    Attributes
    ----------
    n_summed : int or None
        Trees in a sum, M; None is 100 for numbers and 50 for classes, of more than 20 classes 1000
        over their number and at least 10.
    n_chains : int
        Chains, each from no splits.
    n_sweeps : int or None
        How often each chain draws every tree; None is until the time is over. The first third is
        not kept.
    n_draws : int or None
        Sums kept from all chains together; None is 80, or fewer of larger sums, so that predicting
        takes no longer: 40 of 100 trees or more.
    tree_prior : tuple of two floats
        A node at depth k splits with probability base x (1 + k)^-decay, as in BART.
    leaf_scale : float or None
        Standard deviation of a leaf's value, for numbers in units of the target's standard
        deviation, for classes in log odds. None draws it, from a half-t prior of 3 degrees of
        freedom with scale 1 / sqrt(M) for numbers and 2.5 / sqrt(M) for classes.
    lines : bool
        Whether a straight line for each column of numbers is added to the trees (a horseshoe prior
        keeps most of them flat); there are none of more than 128 columns.
    memory_budget : float or None
        Bytes that the chains may take; None is half of what is free.
    checkpoint : str, Path or None
        File that the chains are saved to every 20 sweeps, and taken up from if it exists: a run
        that was killed ends as if it had not been.

    """

    n_summed: int | None = None
    n_chains: int = 4
    n_sweeps: int | None = 200
    n_draws: int | None = None
    tree_prior: tuple[float, float] = (0.95, 2.0)
    leaf_scale: float | None = None
    lines: bool = True
    memory_budget: float | None = None
    checkpoint: str | Path | None = None

    def __post_init__(self) -> None:
        if self.n_summed is not None:
            check_integer("n_summed", self.n_summed, 1, MOST_SUMMED)
        check_integer("n_chains", self.n_chains, 1, MOST_CHAINS)
        if self.n_sweeps is not None:
            check_count("n_sweeps", self.n_sweeps)
        if self.n_draws is not None:
            check_count("n_draws", self.n_draws)
        _check_tree_prior(self.tree_prior)
        if self.leaf_scale is not None:
            check_range("leaf_scale", self.leaf_scale, 1e-9, 1e9)
        if not isinstance(self.lines, bool):
            raise ValueError(f"lines={self.lines!r} is neither True nor False.")
        if self.memory_budget is not None:
            check_range("memory_budget", self.memory_budget, 1.0, 1e18)
        if not isinstance(self.checkpoint, str | Path | None):
            raise ValueError(
                f"checkpoint={self.checkpoint!r} is not a file name; give one, or None."
            )


def trees_in_a_sum(options: SumOptions, of_classes: bool, n_sums: int = 1) -> int:
    """What ``n_summed`` means; of many classes each has fewer trees, or no sweep would end.

    >>> [trees_in_a_sum(SumOptions(), True, n) for n in (1, 20, 40, 300)]
    [50, 50, 25, 10]
    """
    if options.n_summed is not None:
        return options.n_summed
    if not of_classes:
        return USUAL_SUMMED_OF_NUMBERS
    return max(min(USUAL_SUMMED, MOST_IN_A_DRAW // n_sums), FEWEST_SUMMED)


def sums_to_keep(options: SumOptions, n_summed: int) -> int:
    """What ``n_draws`` means."""
    if options.n_draws is not None:
        return options.n_draws
    fewest, most = USUAL_DRAWS
    return min(max(USUAL_TREES // n_summed, fewest), most)


OPTION_NAMES = tuple(SumOptions.__dataclass_fields__)


def _check_tree_prior(given: Any) -> None:
    numbers = isinstance(given, tuple | list) and len(given) == 2
    if numbers and all(isinstance(n, Real) and not isinstance(n, bool) for n in given):
        base, decay = given
        if 0 < base < 1 and 0 <= decay <= 1e6:
            return
    raise ValueError(
        f"tree_prior={given!r} is not a prior; give (base, decay) with 0 < base < 1 and "
        "0 <= decay <= 1e6, such as (0.95, 2.0)."
    )
