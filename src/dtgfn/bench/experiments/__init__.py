"""The experiments, one file each."""

from __future__ import annotations

from dtgfn.bench.experiment import Experiment
from dtgfn.bench.names import find

_ALL: tuple[Experiment, ...] = ()
EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in _ALL}


def find_experiment(name: str) -> Experiment:
    """The experiment of a name; an unknown one is refused in a sentence."""
    return find(EXPERIMENTS, name, "experiment")
