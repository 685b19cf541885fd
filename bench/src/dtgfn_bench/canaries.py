"""Canaries: what every method says of a few rows after a tiny fit, kept to notice when it changes.

A method whose outputs differ from those kept, under the same revision, libraries and kind of
processor, computes something else than its records say.  Elsewhere the last bits of sums differ,
and samplers and networks make much of them: there a difference is said, and no failure.
"""

from __future__ import annotations

import json
import platform
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dtgfn._support.arrays import Floats
from dtgfn._support.atomic_write import write_atomically
from dtgfn_bench.contract import Method, TrainingRows
from dtgfn_bench.keys import library_versions

FILE = Path(__file__).with_name("canaries.json")
SEED = 1
TOLERANCE = 1e-6  # of an output, relative to it where it is larger than one
DIGITS = 10
STEP = 3  # a classifier learns from every third row of Iris,
FLIPPED = 7  # and of every seventh of these the class is wrong, so that leaves are mixed
ASKED = (7, 41, 70, 77, 83, 106, 119, 133, 146)  # rows of Iris; of most the class is in doubt


@dataclass(frozen=True)
class Canary:
    """Outputs of a method's tiny fit, and what they were made with."""

    revision: int
    settings: Mapping[str, Any]
    libraries: str
    processor: str
    outputs: Sequence[float]


@dataclass(frozen=True)
class Finding:
    """What became of a method's canary; ``failed`` says that its records are in doubt."""

    method: str
    sentence: str
    failed: bool


def make_canary(method: Method) -> Canary:
    """Fit a method at quick settings, or smaller ones, and ask it about rows it has not seen."""
    from threadpoolctl import threadpool_limits

    settings = json.loads(json.dumps({**method.settings, **method.quick, **method.canary}))
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outputs = _outputs(method, settings)
    rounded = [float(f"{value:.{DIGITS}g}") for value in outputs.ravel().tolist()]
    return Canary(method.revision, settings, library_versions(method.needs), processor(), rounded)


def _outputs(method: Method, settings: Mapping[str, Any]) -> Floats:
    """Class probabilities, or scores of a detector, to which the first two classes are normal."""
    from sklearn.datasets import load_iris

    X, y = load_iris(return_X_y=True)
    asked = list(ASKED)
    if method.detects:
        train = np.setdiff1d(np.flatnonzero(y < 2), asked)
        rows = TrainingRows(X[train], np.zeros(len(train), dtype=np.int64), 1, "iris")
        return np.asarray(method.fit(rows, SEED, **settings).score(X[asked]))
    classes = y[::STEP].astype(np.int64)
    classes[::FLIPPED] = (classes[::FLIPPED] + 1) % 3
    rows = TrainingRows(X[::STEP], classes, 3, "iris")
    return np.asarray(method.fit(rows, SEED, **settings).predict_proba(X[asked]))


def processor() -> str:
    """What decides how numpy and the like sum and take logarithms, to the last bit."""
    config: Any = np.show_config(mode="dicts")
    return " ".join([platform.machine(), *config["SIMD Extensions"].get("found", [])])


def read_canaries(path: Path = FILE) -> dict[str, Canary]:
    """The canaries that are kept, by method."""
    kept = json.loads(path.read_text(encoding="utf-8"))
    return {name: Canary(**fields) for name, fields in kept.items()}


def write_canaries(methods: Sequence[Method], path: Path = FILE) -> list[str]:
    """Make canaries anew and keep them; return the methods that cannot run here.

    What is kept of those, and of all that are not among ``methods``, stays as it is.
    """
    kept = read_canaries(path) if path.exists() else {}
    absent = [method.name for method in methods if method.missing() is not None]
    made = {method.name: make_canary(method) for method in methods if method.name not in absent}
    whole = {name: asdict(canary) for name, canary in sorted({**kept, **made}.items())}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(each)}" for name, each in whole.items())
    write_atomically(path, f"{{\n{lines}\n}}\n".encode())
    return absent


def check_canary(method: Method, kept: Canary | None) -> Finding:
    """Make a method's canary anew and compare it with the one that is kept."""
    reason = method.missing()
    if reason is not None:
        return Finding(method.name, f"{method.name}: not checked, {reason}.", failed=False)
    way = f"write canaries anew with `dtgfn bench canaries --write --methods {method.name}`"
    if kept is None:
        return Finding(method.name, f"{method.name} has no canary; {way}.", failed=True)
    now = make_canary(method)
    if kept.revision != now.revision:
        said = f"{method.name} is at revision {now.revision}, its canary at {kept.revision}"
        return Finding(method.name, f"{said}; {way}.", failed=True)
    if kept.settings != now.settings:
        said = f"the quick settings of {method.name} have changed"
        return Finding(method.name, f"{said}; {way}.", failed=True)
    gap = _gap(kept.outputs, now.outputs)
    if gap <= TOLERANCE:
        return Finding(method.name, f"{method.name}: as kept.", failed=False)
    elsewhere = _elsewhere(kept, now)
    if elsewhere:
        said = f"{method.name}: differs by {gap:.2g} with {elsewhere}"
        return Finding(method.name, f"{said}, which may be why.", failed=False)
    said = f"what {method.name} computes has changed (by {gap:.2g}): raise its revision, and {way}"
    return Finding(method.name, f"{said}.", failed=True)


def _gap(kept: Sequence[float], now: Sequence[float]) -> float:
    """Largest difference of outputs, relative to those larger than one."""
    if len(kept) != len(now):
        return np.inf
    a, b = np.asarray(kept), np.asarray(now)
    return float((np.abs(a - b) / np.maximum(np.abs(a), 1.0)).max(initial=0.0))


def _elsewhere(kept: Canary, now: Canary) -> str:
    """What differs in the libraries or the processor that both were made with."""
    before = set(kept.libraries.split(", "))
    said = [library for library in now.libraries.split(", ") if library not in before]
    if kept.processor != now.processor:
        said.append("another kind of processor")
    return " and ".join(said)
