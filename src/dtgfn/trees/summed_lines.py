"""SummedLines: straight lines beside summed trees, a slope for each feature in each draw.

What a line says of a row depends on the code of its feature alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dtgfn._support.arrays import Codes, Floats, Int32s


@dataclass(frozen=True, eq=False)
class SummedLines:
    """The lines of K draws of S sums.

    Attributes
    ----------
    feature : int32 [D]
        Features that have a line, ascending.
    score : float64 [D, L]
        What each code of a feature stands for: mean 0 and variance 1 over the training rows, 0
        where a number is missing. Codes beyond count as the last.
    slope : float64 [K, S, D]
        What one unit of the score adds.

    """

    feature: Int32s
    score: Floats
    slope: Floats

    def __post_init__(self) -> None:
        n_lines = len(self.feature)
        if self.score.shape[:1] != (n_lines,) or self.slope.shape[2:] != (n_lines,):
            raise ValueError(
                f"{n_lines} features do not go with scores of the shape {self.score.shape} and "
                f"slopes of the shape {self.slope.shape}."
            )

    def scores(self, codes: Codes) -> Floats:
        """Scores [n, D] of rows of codes [n, d]."""
        at = np.minimum(codes[:, self.feature], self.score.shape[1] - 1)
        return np.asarray(self.score[np.arange(len(self.feature)), at])

    def only(self, kept: list[int], others: bool = False) -> SummedLines:
        """The same lines where only some features say anything, or only the others."""
        stays = np.isin(self.feature, kept) != others
        return replace(self, slope=np.where(stays, self.slope, 0.0))
