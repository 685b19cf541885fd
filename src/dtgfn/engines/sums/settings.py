"""SumOptions: what only sums of trees are told."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any

from dtgfn._support.checks import check_count, check_integer, check_range

MOST_CHAINS = 256
MOST_SUMMED = 10_000


@dataclass(frozen=True)
class SumOptions:
    """What only sums of trees are told.

    Attributes
    ----------
    n_summed : int
        Trees in a sum, M.
    n_chains : int
        Chains, each from no splits.
    n_sweeps : int or None
        How often each chain draws every tree; None is until the time is over. The first third is
        not kept.
    n_draws : int
        Sums kept from all chains together.
    tree_prior : tuple of two floats
        A node at depth k splits with probability base x (1 + k)^-decay, as in BART.
    leaf_scale : float or None
        Standard deviation of a leaf's value, for numbers in units of the target's standard
        deviation, for classes in log odds. None draws it, from a half-t prior of 3 degrees of
        freedom with scale 1 / sqrt(M) for numbers and 2.5 / sqrt(M) for classes.
    memory_budget : float or None
        Bytes that the chains may take; None is half of what is free.
    checkpoint : str, Path or None
        File that the chains are saved to every 20 sweeps, and taken up from if it exists: a run
        that was killed ends as if it had not been.

    """

    n_summed: int = 50
    n_chains: int = 4
    n_sweeps: int | None = 200
    n_draws: int = 80
    tree_prior: tuple[float, float] = (0.95, 2.0)
    leaf_scale: float | None = None
    memory_budget: float | None = None
    checkpoint: str | Path | None = None

    def __post_init__(self) -> None:
        check_integer("n_summed", self.n_summed, 1, MOST_SUMMED)
        check_integer("n_chains", self.n_chains, 1, MOST_CHAINS)
        if self.n_sweeps is not None:
            check_count("n_sweeps", self.n_sweeps)
        check_count("n_draws", self.n_draws)
        _check_tree_prior(self.tree_prior)
        if self.leaf_scale is not None:
            check_range("leaf_scale", self.leaf_scale, 1e-9, 1e9)
        if self.memory_budget is not None:
            check_range("memory_budget", self.memory_budget, 1.0, 1e18)
        if not isinstance(self.checkpoint, str | Path | None):
            raise ValueError(
                f"checkpoint={self.checkpoint!r} is not a file name; give one, or None."
            )


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
