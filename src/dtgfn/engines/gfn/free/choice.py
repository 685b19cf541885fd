"""One option per row: drawn by logits or uniformly, and its log-probability under the logits."""

from __future__ import annotations

import numpy as np
import torch
from numba import njit
from torch import Tensor

from dtgfn._support.arrays import Bools, Float32s, Floats, Int64s


def choose(
    logits: Float32s, n_actions: Int64s, explore: Bools, chance: Floats
) -> tuple[Int64s, Floats]:
    """Draw an option per row of logits [A, W]; return it [A] and its log-probability [A].

    ``n_actions`` [A, W] is how many valid actions lie behind an option; 0 means the option is not
    valid. Where ``explore`` [A] is set the option is drawn in proportion to it, so that choices
    one below the other are uniform over all valid actions. ``chance`` [A] is uniform on [0, 1).
    The log-probability is the policy's in any case.
    """
    index = np.empty(len(logits), dtype=np.int64)
    log_p = np.empty(len(logits))
    choose_into(logits, n_actions, explore, chance, index, log_p)
    return index, log_p


@njit(cache=True, nogil=True)
def choose_into(
    logits: Float32s,
    n_actions: Int64s,
    explore: Bools,
    chance: Floats,
    index: Int64s,
    log_p: Floats,
) -> None:
    """Do what ``choose`` does, into arrays that are there already."""
    weight = np.empty(logits.shape[1])
    for i in range(logits.shape[0]):
        index[i] = 0
        for j in range(logits.shape[1] - 1, -1, -1):
            if n_actions[i, j] > 0:
                index[i] = j  # so that logits that are nan lead to an option that there is
        largest = -np.inf
        for j in range(logits.shape[1]):
            if n_actions[i, j] > 0:
                largest = max(largest, np.float64(logits[i, j]))
        total, mass = 0.0, 0.0
        for j in range(logits.shape[1]):
            p = np.exp(np.float64(logits[i, j]) - largest) if n_actions[i, j] > 0 else 0.0
            total += p
            weight[j] = np.float64(n_actions[i, j]) if explore[i] else p
            mass += weight[j]
        left = chance[i] * mass
        for j in range(logits.shape[1]):
            if weight[j] > 0.0:
                index[i] = j  # the last one that is possible, if rounding eats the rest
                left -= weight[j]
                if left < 0.0:
                    break
        log_p[i] = np.float64(logits[i, index[i]]) - largest - np.log(total)


def log_probability(logits: Tensor, valid: Tensor, index: Tensor) -> Tensor:
    """Log-probability [A] of the option ``index`` [A] among the valid ones [A, W], as float64."""
    normal = logits.masked_fill(~valid, -torch.inf).log_softmax(dim=1)
    return normal.gather(1, index[:, None]).squeeze(1).double()
