"""What a method is to the benchmark: fit on training rows, then answer for rows it never saw."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any, Protocol

from dtgfn._support.arrays import Floats, Int64s


@dataclass(frozen=True)
class TrainingRows:
    """All that a method may know: no test row is ever in here.

    ``X`` [n, d] holds the table's own values, finite and not scaled; a method that wants scaled
    columns scales by these rows.  ``y`` [n] holds class codes 0..n_classes-1 (of a detector's rows,
    which are all normal, zeros).  ``table`` names the data: some authors chose settings per table.
    """

    X: Floats
    y: Int64s
    n_classes: int
    table: str


class Fitted(Protocol):
    """What every fitted method can say of itself."""

    def size(self) -> float | None:
        """Mean number of nodes (splits and leaves) per tree; None without trees."""


class FittedClassifier(Fitted, Protocol):
    """A fitted classifier."""

    def predict_proba(self, X: Floats) -> Floats:
        """Class probabilities [n, n_classes]."""


class FittedDetector(Fitted, Protocol):
    """A fitted detector of anomalies."""

    def score(self, X: Floats) -> Floats:
        """Score [n] of rows; the higher, the more anomalous."""

    def training_scores(self) -> Floats:
        """Scores of the training rows, for rules that set a threshold from them."""


@dataclass(frozen=True)
class Method:
    """One row of a table.

    ``fit(rows, seed, **settings)`` returns a `FittedClassifier`, or a `FittedDetector` of a method
    that ``detects`` anomalies; the runner takes the time.  ``quick`` are the settings that differ
    in the two-minute version, ``canary`` those that differ from these again in its canary, because
    differences in the last bit grow along its chains.  ``needs`` names the modules of libraries
    that ``install`` brings (None: nothing of ours does); without them the table says so.  ``note``
    says in one sentence what was run and where it departs from its authors.  ``revision`` is
    raised by hand when what ``fit`` computes changes on purpose: records of an earlier one are
    stale.
    """

    name: str
    label: str
    fit: Callable[..., Any]
    note: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    quick: Mapping[str, Any] = field(default_factory=dict)
    canary: Mapping[str, Any] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    install: str | None = "dtgfn-bench"
    ours: bool = False
    detects: bool = False
    revision: int = 1

    def with_settings(self, **changes: Any) -> Method:
        """The same method with some settings changed."""
        return replace(self, settings={**self.settings, **changes})

    def missing(self) -> str | None:
        """Why this method cannot run here, or None."""
        return missing_modules(self.needs, self.install)


def missing_modules(needs: Sequence[str], install: str | None) -> str | None:
    """Say which of the modules are absent and what installs them, or None."""
    absent = [module for module in needs if find_spec(module) is None]
    if not absent:
        return None
    way = f": pip install '{install}'" if install else ", which no extra installs"
    return f"needs {', '.join(absent)}{way}"
