"""The key of a record: what was measured, by which revision of a method, on which libraries.

Where a method's code stands and what it says are no part of it; that a method computes something
else under the same revision is what the canaries find.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, version

from dtgfn_bench.experiment import Cell, Experiment
from dtgfn_bench.method_lookup import METHODS

_LENGTH = 16
_SHARED = ("numpy", "scipy", "scikit-learn", "numba", "torch")  # what most methods compute by


def cell_identity(cell: Cell) -> str:
    """A cell as text, the same for the same cell whatever measures it."""
    return json.dumps(asdict(cell), sort_keys=True)


def current_revisions(experiment: Experiment, cell: Cell) -> dict[str, int]:
    """Revisions that would measure a cell now; an experiment's own runs may have no method."""
    method = METHODS.get(cell.method)
    own = {"experiment": experiment.revision}
    return own if method is None else {**own, "method": method.revision}


def current_key(experiment: Experiment, cell: Cell) -> str:
    """Key of a record of a cell that would be measured now."""
    method = METHODS.get(cell.method)
    needed = {module: library_version(module) for module in method.needs} if method else {}
    return record_key(cell, current_revisions(experiment, cell), needed)


def record_key(cell: Cell, revisions: Mapping[str, int], needed: Mapping[str, str]) -> str:
    """Digest of a cell, of revisions and of the versions of the libraries that its method needs."""
    whole = {"cell": asdict(cell), "revisions": dict(revisions), "needs": dict(needed)}
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()[:_LENGTH]


def library_versions(needs: Sequence[str]) -> str:
    """Versions of what the numbers of a method that needs these modules depend on."""
    names = (*_SHARED, *needs)
    found = {name: library_version(name) for name in names}
    versions = {"Python": platform.python_version(), **found}
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def library_version(module: str) -> str:
    """Version of the distribution that provides a module ("missing" without one)."""
    for name in _distributions().get(module, [module]):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return "missing"


@cache
def _distributions() -> Mapping[str, list[str]]:
    return packages_distributions()
