"""Callbacks: how a caller watches training and ends it, by hand or with a tracker of experiments.

Trackers send the history of training to TensorBoard, MLflow or Weights & Biases, as it grows.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:  # which imports torch
    from dtgfn.engines.gfn.state import TrainState


class Callback:
    """Override what you need; a method that returns False ends training."""

    def on_start(self, state: TrainState) -> bool | None:
        """Before the first step of this run."""

    def on_step(self, state: TrainState) -> bool | None:
        """After each step and the evaluation that may follow it."""

    def on_end(self, state: TrainState) -> bool | None:
        """When training is over, for whatever reason."""


AnyCallback = Callback | Callable[["TrainState"], Any] | Any
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


class Tracker(Callback):
    """Sends each new entry of the history somewhere, once."""

    def __init__(self) -> None:
        self._last_step = -1

    def begin(self, settings: dict[str, Any]) -> None:
        """Open what is written to."""

    def log(self, step: int, numbers: dict[str, float]) -> None:
        """Write the numbers of an evaluation."""

    def close(self) -> None:
        """Close what was written to."""

    def on_start(self, state: TrainState) -> None:
        """Open, and write what an earlier run has left."""
        self.begin(asdict(state.settings))
        self._log_new(state)

    def on_step(self, state: TrainState) -> None:
        """Write what is new."""
        self._log_new(state)

    def on_end(self, state: TrainState) -> None:
        """Write what is new, and close."""
        self._log_new(state)
        self.close()

    def _log_new(self, state: TrainState) -> None:
        first = len(state.history)
        while first > 0 and state.history[first - 1]["step"] > self._last_step:
            first -= 1
        for entry in state.history[first:]:
            numbers = {k: float(v) for k, v in entry.items() if isinstance(v, int | float)}
            self._last_step = int(numbers.pop("step"))
            self.log(self._last_step, numbers)


class TensorBoardTracker(Tracker):
    """Writes TensorBoard event files into a directory."""

    def __init__(self, log_dir: str | Path) -> None:
        super().__init__()
        module = _import("torch.utils.tensorboard", "TensorBoardTracker", "tensorboard")
        self._module, self._log_dir = module, str(log_dir)
        self._writer: Any = None

    def begin(self, settings: dict[str, Any]) -> None:
        """Open an event file."""
        self._writer = self._module.SummaryWriter(self._log_dir)
        self._writer.add_text("settings", "\n".join(f"    {k}: {v}" for k, v in settings.items()))

    def log(self, step: int, numbers: dict[str, float]) -> None:
        """Add a point to every curve."""
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Close the event file."""
        if self._writer is not None:
            self._writer.close()


class MLflowTracker(Tracker):
    """Writes an MLflow run; what is not given is as MLflow is configured."""

    def __init__(
        self,
        experiment: str | None = None,
        run_name: str | None = None,
        tracking_uri: str | None = None,
    ) -> None:
        super().__init__()
        self._mlflow = _import("mlflow", "MLflowTracker", "mlflow")
        self._experiment, self._run_name, self._uri = experiment, run_name, tracking_uri
        self._running = False

    def begin(self, settings: dict[str, Any]) -> None:
        """Start a run."""
        if self._uri is not None:
            self._mlflow.set_tracking_uri(self._uri)
        if self._experiment is not None:
            self._mlflow.set_experiment(self._experiment)
        self._mlflow.start_run(run_name=self._run_name)
        self._running = True
        self._mlflow.log_params(settings)

    def log(self, step: int, numbers: dict[str, float]) -> None:
        """Add a point to every curve."""
        self._mlflow.log_metrics(numbers, step=step)

    def close(self) -> None:
        """End the run."""
        if self._running:
            self._mlflow.end_run()
            self._running = False


class WandbTracker(Tracker):
    """Writes a Weights & Biases run; ``options`` go to ``wandb.init``."""

    def __init__(self, project: str = "dtgfn", **options: Any) -> None:
        super().__init__()
        self._wandb = _import("wandb", "WandbTracker", "wandb")
        self._options = {"project": project, **options}
        self._run: Any = None

    def begin(self, settings: dict[str, Any]) -> None:
        """Start a run."""
        self._run = self._wandb.init(config=settings, **self._options)

    def log(self, step: int, numbers: dict[str, float]) -> None:
        """Add a point to every curve."""
        self._run.log(numbers, step=step)

    def close(self) -> None:
        """End the run."""
        if self._run is not None:
            self._run.finish()
            self._run = None


def _import(module: str, tracker: str, package: str) -> Any:
    """Import a library that only this tracker needs."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{tracker} needs {package}, which is not installed; run: pip install {package}"
        ) from error
