"""Columns brought to mean zero and spread one, by the training rows alone."""

from __future__ import annotations

from dataclasses import dataclass

from dtgfn._support.arrays import Floats


@dataclass(frozen=True)
class Standardiser:
    """``mean`` and ``spread`` [d] of the training rows; spread 1 of one that never varies."""

    mean: Floats
    spread: Floats

    @classmethod
    def of(cls, X: Floats) -> Standardiser:
        """Learn from training rows [n, d]."""
        spread = X.std(axis=0)
        spread[spread == 0] = 1.0
        return cls(X.mean(axis=0), spread)

    def __call__(self, X: Floats) -> Floats:
        """The rows on the new scale."""
        return (X - self.mean) / self.spread
