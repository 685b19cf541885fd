"""The experiments, one file each."""

from __future__ import annotations

from dtgfn_bench.experiment import Experiment
from dtgfn_bench.experiments import (
    anomaly,
    bayesian_trees,
    budget,
    cost,
    ensembles,
    fidelity,
    mini_batches,
    readings,
    search_space,
    shift,
    single_trees,
    xor,
)
from dtgfn_bench.names import find

_ALL = (
    single_trees,
    ensembles,
    readings,
    shift,
    anomaly,
    bayesian_trees,
    xor,
    budget,
    cost,
    search_space,
    fidelity,
    mini_batches,
)
EXPERIMENTS: dict[str, Experiment] = {module.EXPERIMENT.name: module.EXPERIMENT for module in _ALL}


def find_experiment(name: str) -> Experiment:
    """The experiment of a name; an unknown one is refused in a sentence."""
    return find(EXPERIMENTS, name, "experiment")
