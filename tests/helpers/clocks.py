"""Clocks that go on by what is looked at or done, so that no test depends on a machine's speed."""

from __future__ import annotations

import functools
import time

from dtgfn._support.parallel import Deadline


class Ticking:
    """A clock that goes on by so many seconds whenever it is looked at."""

    def __init__(self, step: float) -> None:
        self.step, self.time = step, 0.0

    def __call__(self) -> float:
        self.time += self.step
        return self.time


def tick(monkeypatch, step):
    """Let time go on by so many seconds at each look, for whatever reads the monotonic clock."""
    clock = Ticking(step)
    monkeypatch.setattr(time, "monotonic", clock)
    return clock


def second_per_piece(monkeypatch, engine):
    """Let each piece of work of a sampler's tasks take a second of its deadline."""
    clock, run_round_robin = Ticking(0.0), engine.run_round_robin

    def counted(task):
        for turn_over in task:
            clock.time += 1.0
            yield turn_over

    monkeypatch.setattr(engine, "Deadline", functools.partial(Deadline, now=clock))
    monkeypatch.setattr(
        engine,
        "run_round_robin",
        lambda tasks, **how: run_round_robin([*map(counted, tasks)], **how),
    )
    return clock


def endless_grace(monkeypatch, engine):
    """Let a sampler's deadline pass soon, but never its grace, however slow the machine is."""
    monkeypatch.setattr(engine, "Deadline", functools.partial(Deadline, now=Ticking(1e-6)))
