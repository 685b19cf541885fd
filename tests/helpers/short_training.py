"""A training run of seconds on a GFlowNet that can be known exactly."""

import numpy as np
from enumeration import Case
from tabular import TabularSampler

from dtgfn.engines.gfn.settings import make_settings
from dtgfn.engines.gfn.trainer import train

RNG = np.random.default_rng(0)
CASE = Case(RNG.integers(0, 5, (24, 3)), RNG.integers(0, 2, 24), 2, max_depth=1, split_penalty=1.0)
SHORT = {
    "n_steps": 12,
    "n_forward": 8,
    "n_replay": 4,
    "replay_capacity": 6,
    "evaluate_every": 5,
    "n_evaluate": 20,
    "hidden": (16,),
    "learning_rate": 0.05,
    "epsilon_steps": 8,
    "patience": None,
}


def short(**changes):
    return make_settings(**(SHORT | changes))


def run(sampler=None, settings=None, **options):
    sampler = TabularSampler(CASE) if sampler is None else sampler
    options = {"random_state": 0} | options
    return train(sampler, CASE.rows, CASE.score, settings or short(), **options)


def facts(training):
    """Everything that two equal runs must agree in, bit by bit."""
    state = training.state
    sampler = state.sampler
    history = [{k: v for k, v in e.items() if k != "seconds"} for e in training.history]
    adam = state.optimizer.state_dict()["state"]
    return {
        "network": {k: v.tolist() for k, v in sampler.network.state_dict().items()},
        "log_z": sampler.log_z.item(),
        "adam": {i: {k: v.tolist() for k, v in m.items()} for i, m in adam.items()},
        "history": history,
        "replay": {k: v.tolist() for k, v in training.replay.arrays().items()},
        "best": {k: v.tolist() for k, v in state.best.arrays().items()},
        "rng": state.rng.bit_generator.state,
        "step": training.n_steps,
        "memory": {k: v.tolist() for k, v in sampler.memory().items()},
        "losses": state.losses,
    }
