"""Callbacks: how a caller watches training and ends it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from dtgfn.engines.gfn.state import TrainState


class Callback:
    """Override what you need; a method that returns False ends training."""

    def on_start(self, state: TrainState) -> bool | None:
        """Before the first step of this run."""

    def on_step(self, state: TrainState) -> bool | None:
        """After each step and the evaluation that may follow it."""

    def on_end(self, state: TrainState) -> bool | None:
        """When training is over, for whatever reason."""


AnyCallback = Callback | Callable[[TrainState], Any] | Any
_EVENTS = ("on_start", "on_step", "on_end")


class CallbackList:
    """Several callbacks as one."""

    def __init__(self, callbacks: Iterable[AnyCallback]) -> None:
        if not isinstance(callbacks, Iterable):
            raise ValueError(
                f"callbacks={callbacks!r} is not usable; give a list of functions of the training "
                "state, or of objects with on_start, on_step or on_end."
            )
        self._callbacks = [_as_callback(callback) for callback in callbacks]

    def call(self, event: str, state: TrainState) -> bool:
        """Tell all of them; return whether none wants to stop."""
        go_on = True
        for callback in self._callbacks:
            answer = getattr(callback, event, lambda _: None)(state)
            stops = isinstance(answer, bool | np.bool_) and not answer
            go_on = go_on and not stops
        return go_on


def _as_callback(callback: AnyCallback) -> object:
    if any(hasattr(callback, event) for event in _EVENTS):
        return callback
    if not callable(callback):
        raise TypeError(
            f"callback {callback!r} is not usable; give a function of the training state, "
            f"or an object with {', '.join(_EVENTS)}."
        )
    function = Callback()
    function.on_step = callback  # type: ignore[method-assign, assignment]
    return function
