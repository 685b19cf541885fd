"""Checkpoints: training in one file, from which a killed run goes on as if nothing had happened."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from dtgfn._support import clock
from dtgfn._support.archive import Contents, StorageError, read_archive
from dtgfn._support.archive_writing import write_archive
from dtgfn.engines.gfn.settings import Checkpoint, Settings, settings_on_file
from dtgfn.engines.gfn.state import (
    TrainState,
    buffer_from_arrays,
    data_fingerprint,
    first_difference,
)
from dtgfn.trees.score import Rows, Score

Arrays = dict[str, npt.NDArray[Any]]
KIND = "training checkpoint"
VERSION = 2
LARGEST_WEIGHT = 1e9  # beyond, what a network says overflows
LARGEST_MOMENT = 1e30


class Saver:
    """Keeps a checkpoint up to date while training runs."""

    def __init__(self, checkpoint: str | Path | Checkpoint, rows: Rows, score: Score) -> None:
        plan = checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint)
        self.plan = plan
        self.rows = rows
        self.fingerprint = data_fingerprint(rows, score)
        self._last = clock.monotonic()
        self._warned = False

    def begin(self, state: TrainState, resume: bool) -> bool:
        """Take up what the file holds, if there is one; return whether there was."""
        found = Path(self.plan.path).exists()
        if found:
            contents = read_archive(self.plan.path, KIND, VERSION)
            check_fit(self.plan.path, contents.meta, self.fingerprint, state.settings)
            if resume:
                restore(self.plan.path, contents, state, self.rows)
        # A path that cannot be written must be known before the work, not after it.
        write(self.plan.path, state, self.fingerprint)
        return found and resume

    def after_step(self, state: TrainState) -> None:
        """Save if it is time to."""
        every, seconds = self.plan.every_steps, self.plan.every_seconds
        due = every is not None and state.step % every == 0
        if due or (seconds is not None and clock.monotonic() - self._last >= seconds):
            self.save(state)

    def save(self, state: TrainState) -> None:
        """Save; a disk that has become full ends no training."""
        if not state.between_steps:
            return  # the file keeps the last complete step
        try:
            write(self.plan.path, state, self.fingerprint)
        except StorageError as error:
            if not self._warned:
                warnings.warn(f"Training goes on without a checkpoint: {error}", stacklevel=2)
            self._warned = True
        self._last = clock.monotonic()


def write(path: str | Path, state: TrainState, fingerprint: str) -> None:
    """Write a state to a file."""
    network = state.sampler.network.state_dict()
    memory = state.sampler.memory()
    # Numbered, because a container is strict about the names of its arrays.
    arrays: Arrays = {f"network.{i}": _array(value) for i, value in enumerate(network.values())}
    arrays |= {f"memory.{i}": np.asarray(value) for i, value in enumerate(memory.values())}
    arrays |= {f"replay.{name}": value for name, value in state.replay.arrays().items()}
    arrays |= {f"best.{name}": value for name, value in state.best.arrays().items()}
    arrays["log_z"] = _array(state.sampler.log_z)
    for i, moments in state.optimizer.state_dict()["state"].items():
        arrays |= {f"adam.{i}.{name}": _array(value) for name, value in moments.items()}
    meta = {
        "fingerprint": fingerprint,
        "settings": settings_on_file(state.settings),
        "network": list(network),
        "memory": list(memory),
        "rng": state.rng.bit_generator.state,
        "evaluation_seed": state.evaluation_seed,
        "step": state.step,
        "seconds": state.seconds,
        "losses": state.losses,
        "n_skipped": state.n_skipped,
        "history": state.history,
    }
    write_archive(path, KIND, VERSION, meta, arrays)


def check_fit(path: str | Path, meta: dict[str, Any], fingerprint: str, settings: Settings) -> None:
    """Refuse a file about another table, another score or another way to train."""
    if meta.get("fingerprint") != fingerprint:
        raise StorageError(
            f"{str(path)!r} holds training on another table or with another score; "
            "give another file, or remove this one to start anew."
        )
    before = meta.get("settings")
    now = json.loads(json.dumps(settings_on_file(settings)))  # tuples become lists, as in the file
    difference = first_difference(before if isinstance(before, dict) else {}, now)
    if difference is not None:
        raise StorageError(
            f"{str(path)!r} was trained with {difference}; "
            "use the same settings, give another file, or remove this one to start anew."
        )


def restore(path: str | Path, contents: Contents, state: TrainState, rows: Rows) -> None:
    """Bring a fresh state to where the file's one was."""
    try:
        _restore(contents.meta, contents.arrays, state, rows)
    except Exception as error:  # whatever is wrong inside, the file is to blame
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        raise StorageError(f"{str(path)!r} is damaged or of another sampler ({reason}).") from error


def _restore(meta: dict[str, Any], arrays: Arrays, state: TrainState, rows: Rows) -> None:
    sampler = state.sampler
    limits = rows.codes.max(axis=0), state.score.max_depth
    capacity = state.settings.replay_capacity
    state.replay = buffer_from_arrays(_part(arrays, "replay."), capacity, *limits)
    state.best = buffer_from_arrays(_part(arrays, "best."), 1, *limits)
    for name, value in sampler.network.state_dict().items():
        found = arrays[f"network.{meta['network'].index(name)}"]
        if found.dtype != _array(value).dtype:
            raise ValueError(f"{name} is of the type {found.dtype}")
    sampler.network.load_state_dict(
        {name: torch.from_numpy(arrays[f"network.{i}"]) for i, name in enumerate(meta["network"])}
    )
    with torch.no_grad():
        sampler.log_z.copy_(torch.from_numpy(arrays["log_z"]))
    sampler.restore({name: arrays[f"memory.{i}"] for i, name in enumerate(meta["memory"])})
    _restore_optimizer(state.optimizer, _part(arrays, "adam."))
    learned = [*sampler.network.state_dict().values(), sampler.log_z.detach()]
    if not all(bool((value.abs() <= LARGEST_WEIGHT).all()) for value in learned):
        raise ValueError("the network holds numbers that are not finite, or endless")
    state.rng.bit_generator.state = meta["rng"]
    state.evaluation_seed = int(meta["evaluation_seed"])
    state.step = int(meta["step"])
    state.seconds = float(meta["seconds"])
    state.losses = [float(loss) for loss in meta["losses"]]
    state.n_skipped = int(meta["n_skipped"])
    state.history = [dict(entry) for entry in meta["history"]]
    if state.step < 0 or not all(isinstance(entry["step"], int) for entry in state.history):
        raise ValueError("a number of steps is none")


def _restore_optimizer(optimizer: torch.optim.Adam, arrays: Arrays) -> None:
    """Give Adam its moments back; the rates are those of the settings."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    moments: dict[int, dict[str, torch.Tensor]] = {}
    for name, array in arrays.items():
        index, _, moment = name.partition(".")
        like = np.zeros((), np.float32) if moment == "step" else _array(parameters[int(index)])
        if array.shape != like.shape or array.dtype != like.dtype:
            raise ValueError(f"a moment has the shape {array.shape} and the type {array.dtype}")
        least = -LARGEST_MOMENT if moment == "exp_avg" else 0.0
        if not ((array >= least) & (array <= LARGEST_MOMENT)).all():
            raise ValueError("a moment is not finite, or out of range")
        moments.setdefault(int(index), {})[moment] = torch.from_numpy(array)
    if any(names.keys() != {"step", "exp_avg", "exp_avg_sq"} for names in moments.values()):
        raise ValueError("a moment is missing")
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": moments, "param_groups": groups})


def _part(arrays: Arrays, prefix: str) -> Arrays:
    return {k.removeprefix(prefix): value for k, value in arrays.items() if k.startswith(prefix)}


def _array(value: torch.Tensor) -> npt.NDArray[Any]:
    return value.detach().cpu().numpy()
