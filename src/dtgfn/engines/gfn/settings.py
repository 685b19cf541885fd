"""Settings: every hyper-parameter of GFlowNet training, checked, and two named sets of them.

Nothing here imports torch, so that options can be read and checked without it.
"""

from __future__ import annotations

import difflib
import math
import os
import re
from dataclasses import dataclass, fields
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from dtgfn.engines.gfn.hooks import (
    ActionRule,
    ExplorationRule,
    LossShape,
    NetworkFactory,
    Objective,
    ObjectiveLoss,
    hook_name,
    lasting_name,
)


@dataclass(frozen=True)
class Settings:
    """How a GFlowNet is trained; a bad value is refused with a sentence.

    What is said to be a function may be one of one's own; docs/extend.md has an example of each.

    Attributes
    ----------
    leaf_order : {"fixed", "free"}
        Whether all open leaves decide at once, level by level, or in any order, one by one.
    objective : {"tb", "vargrad", "subtb", "db"}, Objective or function (ObjectiveLoss)
        Which residuals must vanish, see ``objectives.py``. In fixed order "db" also remembers the
        flow of every row set it has met; with the others the policy is the network's alone.
    loss : {"squared", "huber", "cosh", "linex"} or function (LossShape)
        How far a residual is from zero.
    hidden : tuple of int
        Width of each hidden layer.
    architecture : {"mlp", "set_transformer"} or function (NetworkFactory)
        How the leaves of a partial tree are summarised (free order only).
    exploration : function (ExplorationRule) or None
        Which actions are tried while training; None is a share ``epsilon`` of uniform ones (free
        order only).
    allowed : function (ActionRule) or None
        Which features a node may be split on, by its path; None is all (free order only).
    learning_rate, log_z_learning_rate : float
        Of the network and of log Z, which is one number that has to travel far (where flows are
        remembered log Z is the root's, and neither this nor ``log_z_start`` matters).
    log_z_start : float or None
        Where log Z starts; None is the estimate from draws of the untrained policy.
    grad_clip : float or None
        Longest gradient of the network that is believed.
    n_updates : int or None
        Gradients per step; None is 4 for "db" in fixed order, which learns from all row sets it
        remembers, else 1.
    n_forward, n_replay : int
        Trajectories per step: drawn from the policy, and backwards from replayed trees.
    replay_capacity : int
        How many of the best trees are remembered.
    epsilon, epsilon_end : float
        Share of uniform actions at the start and at the end.
    epsilon_steps : int or None
        Steps from one to the other, linearly; None is all of ``n_steps`` or, without that, of the
        time budget. With a number, a longer run begins exactly like a shorter one.
    n_steps : int or None
        Training steps; None is until the time is up or nothing improves.
    exact_tails : {1, 2}
        How many of the last levels are summed instead of sampled, where a leaf table allows two
        and the table is not too wide (fixed order only).
    n_scouts : int or None
        Scouts per step, see ``rowsets/partial/scouts.py`` (fixed order and "db" only); None is as
        many as the table's width affords.
    row_batch : int or None
        Rows that a reward is computed on while training (free order only); None is all.
    evaluate_every, n_evaluate : int
        Steps between evaluations, and trees drawn for each.
    patience : int or None
        Evaluations without improvement after which training stops; None is never.
    plateau_window : int
        Evaluations whose ELBO is averaged before it is compared.
    plateau_tolerance : float
        What counts as improvement, in standard errors of that average.
    device : str
        "cpu", "cuda", "cuda:1", or "auto".

    """

    leaf_order: str = "fixed"
    objective: str | Objective | ObjectiveLoss = "db"
    loss: str | LossShape = "squared"
    hidden: tuple[int, ...] = (64, 64)
    architecture: str | NetworkFactory = "mlp"
    exploration: ExplorationRule | None = None
    allowed: ActionRule | None = None
    learning_rate: float = 0.01
    log_z_learning_rate: float = 0.1
    log_z_start: float | None = None
    grad_clip: float | None = 10.0
    n_updates: int | None = None
    n_forward: int = 90
    n_replay: int = 10
    replay_capacity: int = 1000
    epsilon: float = 0.1
    epsilon_end: float = 0.01
    epsilon_steps: int | None = 500
    n_steps: int | None = None
    exact_tails: int = 2
    n_scouts: int | None = None
    row_batch: int | None = None
    evaluate_every: int = 20
    n_evaluate: int = 200
    patience: int | None = 20
    plateau_window: int = 5
    plateau_tolerance: float = 1.0
    device: str = "cpu"

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def remembers(self) -> bool:
        """Whether the flows of row sets are remembered."""
        # Detailed balance counts every decision for itself, the others need the network's flows.
        return self.leaf_order == "fixed" and self.objective == "db"

    @property
    def updates_per_step(self) -> int:
        """Gradients per step."""
        if self.n_updates is not None:
            return self.n_updates
        return 4 if self.remembers else 1


SETTING_NAMES = tuple(field.name for field in fields(Settings))
HOOKS = ("objective", "loss", "architecture", "exploration", "allowed")

# They decide only when training stops and where it runs, so they may change when it goes on.
CHANGEABLE = ("n_steps", "patience", "plateau_window", "plateau_tolerance", "device")

_CHOICES = {
    "leaf_order": ("fixed", "free"),
    "architecture": ("mlp", "set_transformer"),
}
_OWN_PARTS = ("exploration", "allowed")  # which have no names
# The names that ``objectives.py`` begins with, known without importing torch.
_OBJECTIVES = ("tb", "vargrad", "db", "subtb")
_LOSSES = ("squared", "huber", "cosh", "linex")
_INTEGERS = {
    "n_updates": (1, 1000),
    "exact_tails": (1, 2),
    "n_scouts": (0, 1_000_000),
    "n_forward": (1, 1_000_000),
    "n_replay": (0, 1_000_000),
    "replay_capacity": (1, 10_000_000),
    "epsilon_steps": (1, 1_000_000_000),
    "n_steps": (0, 1_000_000_000),
    "row_batch": (1, 1_000_000_000),
    "evaluate_every": (1, 1_000_000_000),
    "n_evaluate": (2, 10_000_000),
    "patience": (1, 1_000_000_000),
    "plateau_window": (1, 1_000_000),
}
_NUMBERS = {
    "learning_rate": (1e-9, 10.0),
    "log_z_learning_rate": (1e-9, 100.0),
    "log_z_start": (-1e12, 1e12),
    "grad_clip": (1e-6, 1e9),
    "epsilon": (0.0, 1.0),
    "epsilon_end": (0.0, 1.0),
    "plateau_tolerance": (0.0, 1e6),
}
_OPTIONAL = (
    "log_z_start",
    "grad_clip",
    "n_updates",
    "n_scouts",
    "epsilon_steps",
    "n_steps",
    "row_batch",
    "patience",
)
_DEVICE = re.compile(r"auto|cpu|cuda(:[0-9]{1,3})?")

# The published table (its 3 x 256 MLP, 90 + 10 trajectories, ...). What it is silent on is the
# released code's: log Z is the sum of 16 parameters with rate 0.01 x 100 each, which is one number
# with rate 16 to Adam, and starts at 16 x 150 / 64; no gradient is clipped. Epsilon falls to "some
# small positive constant", here a tenth of its start. ``docs/paper-choices.md`` lists all choices.
PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "paper": {
        "leaf_order": "free",
        "objective": "tb",
        "loss": "squared",
        "hidden": (256, 256, 256),
        "architecture": "mlp",
        "learning_rate": 0.01,
        "log_z_learning_rate": 16.0,
        "log_z_start": 37.5,
        "grad_clip": None,
        "n_forward": 90,
        "n_replay": 10,
        "replay_capacity": 100,
        "epsilon": 0.1,
        "epsilon_end": 0.01,
        "epsilon_steps": None,
        "n_steps": 100,
        "evaluate_every": 10,
        "patience": None,
    },
}


@dataclass(frozen=True)
class Checkpoint:
    """Where and how often training is saved; it is also saved when it ends.

    Attributes
    ----------
    path : str or Path
        The file.
    every_steps, every_seconds
        Steps and seconds between two savings; None for no such limit.

    """

    path: str | Path
    every_steps: int | None = None
    every_seconds: float | None = 60.0


def make_settings(preset: str = "default", **overrides: Any) -> Settings:
    """Return a preset's settings with some of them changed.

    Examples
    --------
    >>> make_settings("paper", n_steps=20).hidden
    (256, 256, 256)

    """
    if preset not in PRESETS:
        raise ValueError(f"preset={preset!r} is not known; give one of {', '.join(PRESETS)}.")
    for name in overrides:
        if name not in SETTING_NAMES:
            similar = difflib.get_close_matches(name, SETTING_NAMES, 1)
            guess = f"did you mean {similar[0]!r}? There are" if similar else "there are"
            raise ValueError(f"{name!r} is not a setting; {guess} {', '.join(SETTING_NAMES)}.")
    values = {**PRESETS[preset], **overrides}
    return Settings(**{name: _plain(value) for name, value in values.items()})


def _plain(value: Any) -> Any:
    """Turn numpy's numbers and any sequence into Python's own numbers and tuples."""
    if isinstance(value, list | tuple):
        return tuple(_plain(item) for item in value)
    if isinstance(value, Integral) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, Real) and not isinstance(value, bool | int):
        return float(value)
    return value


def check_settings(settings: Settings) -> None:
    """Refuse a value that training could not use."""
    choices: dict[str, tuple[str, ...]] = dict(_CHOICES)
    if _is_unknown(settings.objective, _OBJECTIVES) or _is_unknown(settings.loss, _LOSSES):
        from dtgfn.engines.gfn.objectives import OBJECTIVES, SHAPES

        choices |= {"objective": tuple(OBJECTIVES), "loss": tuple(SHAPES)}
    for name, allowed in choices.items():
        value = getattr(settings, name)
        if name in HOOKS and _is_own(value):
            continue
        if value not in allowed:
            known = ", ".join(allowed)
            own = ", or a function (docs/extend.md)" if name in HOOKS else ""
            raise ValueError(f"{name}={value!r} is not known; give one of {known}{own}.")
    for name in _OWN_PARTS:
        value = getattr(settings, name)
        if value is not None and not callable(value):
            raise ValueError(f"{name}={value!r} is not usable; give a function, or None.")
    for name, (low, high) in (_INTEGERS | _NUMBERS).items():
        _check_number(name, getattr(settings, name), low, high)
    hidden = settings.hidden
    widths = isinstance(hidden, tuple) and [_is_integer(width, 1, 65_536) for width in hidden]
    if not widths or not all(widths):
        raise ValueError(
            f"hidden={hidden!r} is not usable; give the widths of the layers, such as (256, 256)."
        )
    if not isinstance(settings.device, str) or not _DEVICE.fullmatch(settings.device):
        raise ValueError(
            f"device={settings.device!r} is not known; give auto, cpu, cuda or cuda:1."
        )
    if settings.epsilon_end > settings.epsilon:
        raise ValueError(
            f"epsilon_end={settings.epsilon_end!r} is above epsilon={settings.epsilon!r}; "
            "exploration can only fade, so give a smaller one."
        )
    if settings.leaf_order == "fixed":
        _check_fixed_order(settings)


def hooks_of(settings: Settings) -> dict[str, Any]:
    """What stands where parts of one's own may."""
    return {name: getattr(settings, name) for name in HOOKS}


def _is_own(value: object) -> bool:
    return isinstance(value, Objective) or callable(value)


def _is_unknown(value: object, names: tuple[str, ...]) -> bool:
    return not _is_own(value) and value not in names


def settings_values(settings: Settings) -> dict[str, Any]:
    """Every setting by name, as it is."""
    return {field.name: getattr(settings, field.name) for field in fields(settings)}


def settings_on_file(settings: Settings) -> dict[str, Any]:
    """Every setting by name, as JSON values: a part of one's own is known by its name there."""
    values = settings_values(settings)
    for name, hook in hooks_of(settings).items():
        if isinstance(hook, Objective):
            flags = {"with_flows": hook.with_flows, "learns_log_z": hook.learns_log_z}
            values[name] = {"loss": lasting_name(name, hook.loss), **flags}
        elif callable(hook):
            values[name] = lasting_name(name, hook)
    return values


def _check_fixed_order(settings: Settings) -> None:
    for name in ("architecture", *_OWN_PARTS):
        value = getattr(settings, name)
        if callable(value):
            raise ValueError(
                f"{name}={hook_name(value)} needs leaf_order='free'; in fixed order row sets are "
                "decided once, whatever path leads to them."
            )
    if settings.architecture != "mlp":
        raise ValueError(
            f"architecture={settings.architecture!r} needs leaf_order='free'; "
            "in fixed order leaves are not summarised, so give 'mlp'."
        )
    if settings.row_batch is not None:
        raise ValueError(
            f"row_batch={settings.row_batch!r} needs leaf_order='free'; "
            "in fixed order every decision sees all rows, so give None."
        )


def _check_number(name: str, value: object, low: float, high: float) -> None:
    or_none = " or None" if name in _OPTIONAL else ""
    if value is None and or_none:
        return
    if name in _INTEGERS:
        kind, good = "a whole number", _is_integer(value, low, high)
    else:
        real = isinstance(value, int | float) and not isinstance(value, bool)
        kind, good = "a number", real and low <= value <= high and math.isfinite(value)  # type: ignore[operator, arg-type]
    if not good:
        raise ValueError(
            f"{name}={value!r} is out of range; give {kind} from {low} to {high}{or_none}."
        )


def _is_integer(value: object, low: float, high: float) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def check_checkpoint(checkpoint: object) -> None:
    """Refuse a checkpoint that could never be written, before any work."""
    path = checkpoint.path if isinstance(checkpoint, Checkpoint) else checkpoint
    if path is None:
        return
    if not isinstance(path, str | os.PathLike):
        raise ValueError(f"checkpoint={path!r} is not usable; give a file name, or None.")
    folder = Path(path).absolute().parent
    if not folder.is_dir():
        raise ValueError(
            f"checkpoint={str(path)!r} cannot be written: there is no folder {str(folder)!r}; "
            "make it, or name another file."
        )
