"""Checkpoints of chains over sums: their states in one file, from which a killed run goes on."""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dtgfn._support.archive import Contents, StorageError, read_archive
from dtgfn._support.archive_writing import write_archive
from dtgfn.engines.sums.chain import Draw, SumChain
from dtgfn.engines.sums.settings import SumOptions
from dtgfn.trees.batch import TreeBatch, check_trees

KIND = "sums checkpoint"
VERSION = 2
ROUND = 20  # sweeps of every chain from one checkpoint to the next
TREES = ("size", "feature", "cut", "left", "value")
STATE = ("fit", "numbers", "counts")  # of a chain, beside its trees and lines
FLOATS = ("value", "slope", "numbers", "watched")  # of a draw
LARGEST = 1e100  # of a leaf or a variance; what is beyond is no chain's


class Saver:
    """Keeps a file of all chains up to date."""

    def __init__(self, path: str | Path, chains: list[SumChain], options: SumOptions) -> None:
        self.path, self.chains = path, chains
        self.fingerprint = fingerprint(chains[0], options)
        self._warned = False

    def begin(self) -> None:
        """Take up what the file holds, if there is one; know whether it can be written."""
        if Path(self.path).exists():
            contents = read_archive(self.path, KIND, VERSION)
            if contents.meta.get("fingerprint") != self.fingerprint:
                raise StorageError(
                    f"{str(self.path)!r} holds chains of another table or with other options; give "
                    "another file, or remove this one to start anew."
                )
            try:
                for number, chain in enumerate(self.chains):
                    restore(number, chain, contents)
            except Exception as error:  # whatever is wrong inside, the file is to blame
                reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
                raise StorageError(f"{str(self.path)!r} is damaged ({reason}).") from error
        self.write()

    def save(self) -> None:
        """Save; a disk that has become full ends no run."""
        try:
            self.write()
        except StorageError as error:
            if not self._warned:
                warnings.warn(f"Chains go on without a checkpoint: {error}", stacklevel=2)
            self._warned = True

    def write(self) -> None:
        """Write the states of all chains, which must stand still."""
        arrays: dict[str, npt.NDArray[Any]] = {}
        for number, chain in enumerate(self.chains):
            state = {name: getattr(chain.forest, name) for name in TREES}
            state |= {name: getattr(chain.forest, name) for name in STATE}
            state |= {f"lines.{k}": array for k, array in chain.forest.lines._asdict().items()}
            state |= {"position": chain.position, **_stacked(chain.draws)}
            arrays |= {f"chain{number}.{name}": array for name, array in state.items()}
        meta = {
            "fingerprint": self.fingerprint,
            "interval": [chain.interval for chain in self.chains],
            "rng": [chain.rng.bit_generator.state for chain in self.chains],
        }
        write_archive(self.path, KIND, VERSION, meta, arrays)


def fingerprint(chain: SumChain, options: SumOptions) -> str:
    """Name what chains are about: rows, priors, sizes; how long they run is left open."""
    free = replace(options, n_sweeps=1, n_draws=1, memory_budget=None, checkpoint=None)
    setup = chain.setup
    settings = (astuple(free), setup.table.max_depth, setup.table.codes.shape, setup.moves)
    digest = hashlib.sha256(repr(settings).encode())
    for array in (setup.table.codes, setup.target.number, setup.target.label, setup.target.weight):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _stacked(draws: list[Draw]) -> dict[str, npt.NDArray[Any]]:
    """Draws as arrays: trees one draw after the other, as wide as the widest."""
    if not draws:
        return {}
    width = max(draw.feature.shape[2] for draw in draws)

    def padded(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        room = [(0, 0)] * (array.ndim - 1) + [(0, width - array.shape[-1])]
        return np.pad(array, room, constant_values=-1 if array.dtype.kind == "i" else 0.0)

    stacked = {
        name: np.stack([padded(getattr(draw, name)) for draw in draws]) for name in TREES[1:]
    }
    for name in ("size", "slope", "numbers", "watched"):
        stacked[name] = np.stack([getattr(draw, name) for draw in draws])
    return {f"draws.{name}": array for name, array in stacked.items()}


def restore(number: int, chain: SumChain, contents: Contents) -> None:
    """Bring a fresh chain to where the file's one was; a ValueError says what is wrong."""
    arrays, forest = contents.arrays, chain.forest
    for name in (*TREES, *STATE):
        _put(getattr(forest, name), arrays[f"chain{number}.{name}"], name)
    for name, array in forest.lines._asdict().items():
        _put(array, arrays[f"chain{number}.lines.{name}"], name)
    _put(chain.position, arrays[f"chain{number}.position"], "position")
    n_cuts = chain.setup.table.n_codes - 1
    _check(forest.size, forest.feature, forest.cut, forest.left, n_cuts)
    chain.rng.bit_generator.state = contents.meta["rng"][number]
    chain.interval = int(contents.meta["interval"][number])
    chain.draws = _draws_of(arrays, f"chain{number}.draws.", chain)
    limits = chain.setup.n_sums, chain.setup.n_summed, 10**12
    if (chain.position < 0).any() or (chain.position >= limits).any() or chain.interval < 1:
        raise ValueError("a chain stands nowhere")
    held = (forest.value, forest.fit, forest.numbers, *forest.lines)
    numbers = np.concatenate([array.ravel() for array in held])
    scales = np.concatenate([forest.numbers, forest.lines.scales.ravel()])
    if not (np.abs(numbers) < LARGEST).all() or (scales <= 0).any():
        raise ValueError("a number is none, or endless")


def _put(target: npt.NDArray[Any], found: npt.NDArray[Any], name: str) -> None:
    if found.shape != target.shape or found.dtype != target.dtype:
        raise ValueError(f"{name} has the shape {found.shape} and the type {found.dtype}")
    target[:] = found


def _check(size: Any, feature: Any, cut: Any, left: Any, n_cuts: Any) -> None:
    """Refuse what is no trees [..., N]."""
    width = feature.shape[-1]
    used = np.arange(width) < size.reshape(-1, 1)
    inner = used & (feature.reshape(-1, width) >= 0)

    def clean(array: Any, fill: int) -> Any:
        return np.where(inner, array.reshape(-1, width), fill).astype(np.int32)

    batch = TreeBatch(clean(feature, -1), clean(cut, 0), clean(left, -1), size.reshape(-1))
    check_trees(batch, n_cuts)


def _draws_of(arrays: Any, prefix: str, chain: SumChain) -> list[Draw]:
    found = {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}
    if not found:
        return []
    shape = chain.forest.size.shape
    count, width = len(found["size"]), found["feature"].shape[-1]
    wanted = {
        "size": (count, *shape),
        **dict.fromkeys(TREES[1:], (count, *shape, width)),
        "slope": (count, *chain.forest.lines.slope.shape),
        "numbers": (count, *chain.forest.numbers.shape),
        "watched": (count, shape[0], len(chain.watched)),
    }
    for name, expected in wanted.items():
        kind = "f" if name in FLOATS else "i"
        if found[name].shape != expected or found[name].dtype.kind != kind:
            raise ValueError(f"draws' {name} has the shape {found[name].shape}")
    _check(
        found["size"], found["feature"], found["cut"], found["left"], chain.setup.table.n_codes - 1
    )
    usable = all((np.abs(found[n]) < LARGEST).all() for n in FLOATS)
    if not usable or (found["numbers"] <= 0).any():
        raise ValueError("a draw's number is none, or endless")
    return [Draw(**{name: found[name][k] for name in wanted}) for k in range(count)]
