"""A fit to lessons: a small perceptron, judged on tables that it has not learned from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from dtgfn._support.arrays import Bools, Float32s, Int64s
from dtgfn.engines.gfn.fixed.policies import MlpPolicy
from dtgfn.engines.gfn.fixed.views import N_VIEW

HIDDEN = (32, 32)  # a thousand row sets in a millisecond or two
HELD_OUT = 8  # one table of so many is for judging alone
BATCH = 4096
RATE, LAST_RATE = 3e-3, 3e-5
LEAST_SPREAD = 0.05


@dataclass(frozen=True)
class Lessons:
    """Lessons of many tables: views [M, V], nats, levels left, share and table of each [M]."""

    views: Float32s
    nats: Float32s
    levels_left: Int64s
    share: Float32s
    table: Int64s

    @property
    def held_out(self) -> Bools:
        """Which lessons are of tables that are for judging."""
        return np.asarray(self.table % HELD_OUT == 0)


def read_lessons(folder: Path, n_lessons: int) -> Lessons:
    """Read the first lessons of a folder."""
    parts, tables = [], []
    for path in sorted(folder.glob("*.npz")):
        if int(path.stem) >= n_lessons:
            break
        with np.load(path) as arrays:
            if "views" not in arrays:
                continue
            parts.append([arrays[k] for k in ("views", "nats", "levels_left", "share")])
        tables.append(np.full(len(parts[-1][0]), int(path.stem)))
    if not parts:
        raise ValueError(f"There are no lessons in {str(folder)!r}; write some first.")
    views, nats, left, share = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Lessons(views, nats, left, share, np.concatenate(tables))


def weigh(lessons: Lessons) -> Float32s:
    """Weights [M]: tables count by the square root of their lessons, likely ones more."""
    _, table, count = np.unique(lessons.table, return_inverse=True, return_counts=True)
    weight = (0.1 + lessons.share**0.5) / np.sqrt(count[table])
    return np.asarray(weight / weight.mean(), np.float32)


def fit_policy(
    lessons: Lessons, hidden: tuple[int, ...], n_epochs: float, seed: int, card: Mapping[str, str]
) -> MlpPolicy:
    """Fit a perceptron by Huber's loss of nats, with a rate that falls."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    learned = np.flatnonzero(~lessons.held_out)
    views = lessons.views[learned]
    mean, spread = views.mean(axis=0), np.maximum(views.std(axis=0), LEAST_SPREAD)
    x = torch.from_numpy((views - mean) / spread)
    y, weight = (torch.from_numpy(a[learned]) for a in (lessons.nats, weigh(lessons)))
    layers = make_layers(hidden)
    optimizer = torch.optim.AdamW(layers.parameters(), lr=RATE, weight_decay=1e-3)
    n_steps = max(int(n_epochs * learned.size / BATCH), 1)
    fall = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=RATE, total_steps=n_steps + 1, final_div_factor=RATE / LAST_RATE
    )
    for _ in range(n_steps):
        some = torch.from_numpy(rng.integers(0, learned.size, min(BATCH, learned.size)))
        guess = nn.functional.softplus(layers(x[some]).squeeze(-1)) ** 2
        error = nn.functional.huber_loss(guess, y[some], reduction="none")
        # In nats where they are few, in shares where they are many.
        loss = (weight[some] * error / (1.0 + 0.2 * y[some])).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(layers.parameters(), 1.0)
        optimizer.step()
        fall.step()
    linear = [layer for layer in layers if isinstance(layer, nn.Linear)]
    return MlpPolicy(
        mean.astype(np.float32),
        spread.astype(np.float32),
        tuple(layer.weight.detach().numpy().T.copy() for layer in linear),
        tuple(layer.bias.detach().numpy().copy() for layer in linear),
        dict(card),
    )


def make_layers(hidden: tuple[int, ...]) -> nn.Sequential:
    """Layers with SiLU between them."""
    layers: list[nn.Module] = []
    width = N_VIEW
    for size in hidden:
        layers += [nn.Linear(width, size), nn.SiLU()]
        width = size
    return nn.Sequential(*layers, nn.Linear(width, 1))


def judge(policy: MlpPolicy, lessons: Lessons) -> list[tuple[str, int, float, float, float]]:
    """Held-out errors by levels left, and of all: lessons, and root mean square errors in nats.

    The errors are of the policy, of a constant share of what a row loses, and of no guess at all.
    """
    held = lessons.held_out
    views, nats = lessons.views[held], lessons.nats[held]
    left, summed = lessons.levels_left[held], views[:, 5]
    guess = policy.guess(views)
    weight = weigh(lessons)[held]
    rows = []
    for look in (1, 0):
        for k in [*range(1, 6), None]:
            there = (summed == look) & ((left == k) if k is not None else (left > 0))
            if not there.any():
                continue
            name = f"{look + 1} levels summed, {k if k is not None else 'all'} left"
            total = weight[there] / weight[there].sum()
            errors = (
                float((total * np.abs(guess - nats)[there]).sum()),
                float(np.sqrt((total * (guess - nats)[there] ** 2).sum())),
                float((total * nats[there]).sum()),
            )
            rows.append((name, int(there.sum()), *errors))
    return rows
