"""Carrying over: training on more rows begins with what training on fewer rows has learned."""

from __future__ import annotations

import copy
import time
from dataclasses import asdict

import numpy as np
import torch

from dtgfn.engines.gfn.state import TrainState, first_difference
from dtgfn.posterior.tree_posterior import TreePosterior

FOLLOWED = 0.5  # share of the time in which trees may be followed
AT_ONCE = 10


def carry_over(
    state: TrainState, before: TrainState | None, known: TreePosterior, seconds: float | None
) -> None:
    """Bring a fresh state to where the state ``before``, of other rows of the table, ended.

    The network goes on as it is, with its optimizer; log Z is what ``known``, trees of before
    weighed for the rows of now, say it is. Replayed trees are followed on these rows, the best of
    them first and as long as a share of ``seconds`` lasts, so that what they pass is known, and
    replayed with the rewards they have now. Steps and history begin anew.
    """
    ends = np.inf if seconds is None else time.monotonic() + FOLLOWED * seconds
    if before is not None:
        difference = first_difference(asdict(before.settings), asdict(state.settings))
        if difference is not None:
            raise ValueError(
                f"The policy was trained on earlier rows with {difference}; "
                "set it back, or fit anew."
            )
        if state.sampler.carry(before.sampler):
            # A copy: Adam changes its moments in place.
            state.optimizer.load_state_dict(copy.deepcopy(before.optimizer.state_dict()))
        state.carried = True
        if np.isfinite(known.log_evidence):
            with torch.no_grad():
                state.sampler.log_z.fill_(known.log_evidence)
    # Or the best tree known could be forgotten.
    state.sampler.retrace(known.best_tree, state.rng)
    state.best.add(known.best_tree, np.array([known.best_log_reward]))
    replayed = before.replay.trees if before is not None else known.trees[:0]
    for first in range(0, len(replayed), AT_ONCE):
        if time.monotonic() > ends:
            break
        paths = state.sampler.retrace(replayed[first : first + AT_ONCE], state.rng)
        state.replay.add(paths.trees, paths.log_reward)
    state.sampler.settle()
