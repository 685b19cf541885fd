"""The fixed-order policy: flows of children, from look-ahead plus a learned residual.

For a row set S with k levels left, L its look-ahead and x a few numbers that describe it::

    log F(S, k) = L(S) + r(x(S), k)                      r >= 0, the network
    P(stop | S, k) = m(S) / N          P(cut | S, k) = e^-penalty F(left, k-1) F(right, k-1) / N

with N their sum. The residual is what deeper trees are worth beyond the look-ahead; it is never
negative, since looking ahead leaves trees out.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numba import njit
from torch import Tensor, nn

from dtgfn._support.arrays import Float32s, Floats, Int32s, Int64s
from dtgfn.engines.rowsets.partial.lookahead import Cuts
from dtgfn.engines.rowsets.problem import Loops
from dtgfn.trees.leaves import log_marginal, row_mass

N_FEATURES = 8  # besides the sums as shares
LEVELS_LEFT = -2  # which of them tells the levels left
CHUNK = 65_536


class ResidualNetwork(nn.Module):
    """r(x): a small perceptron; ``describe`` gives its input."""

    mean: Tensor
    spread: Tensor

    def __init__(self, n_sums: int, hidden: tuple[int, ...]) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        width = n_sums + N_FEATURES
        for size in hidden:
            layers += [nn.Linear(width, size), nn.SiLU()]
            width = size
        last = nn.Linear(width, 1)
        nn.init.zeros_(last.weight)
        nn.init.constant_(last.bias, -5.0)  # start from the look-ahead alone
        self.layers = nn.Sequential(*layers, last)
        self.register_buffer("mean", torch.zeros(n_sums + N_FEATURES))
        self.register_buffer("spread", torch.ones(n_sums + N_FEATURES))

    def forward(self, x: Tensor) -> Tensor:
        """Residuals [...] of described row sets [..., F]."""
        # There is about as much to gain as the look-ahead left over; its log is the last feature.
        most = 5.0 + 2.0 * torch.expm1(x[..., -1])
        return torch.sigmoid(self.layers((x - self.mean) / self.spread).squeeze(-1)) * most

    def standardise(self, x: Tensor) -> None:
        """Let described row sets like these [N, F] have mean 0 and spread 1."""
        if len(x) > 1:
            self.mean.copy_(x.mean(dim=0))
            self.spread.copy_(x.std(dim=0).clamp(min=0.1))


def evaluate(network: nn.Module, x: Float32s) -> Float32s:
    """Residuals of many row sets, without gradient."""
    device = next(network.parameters()).device
    with torch.no_grad():
        parts = [
            network(torch.from_numpy(x[i : i + CHUNK]).to(device)).cpu().numpy()
            for i in range(0, len(x), CHUNK)
        ]
    return np.concatenate(parts) if parts else np.zeros(0, np.float32)


@njit(cache=True, nogil=True)
def describe(
    sums: Floats | Float32s, look: Floats | Float32s, levels_left: int, loops: Loops
) -> Float32s:
    """Describe row sets by their sums [N, K] and look-ahead [N]: float32 [N, K + N_FEATURES]."""
    n_sets, n_sums = sums.shape
    x = np.empty((n_sets, n_sums + N_FEATURES), np.float32)
    here = np.empty(n_sums)
    everything = row_mass(loops.sums.sum(axis=0), loops.leaf)
    for i in range(n_sets):
        largest = 0.0
        for c in range(n_sums):
            here[c] = sums[i, c]
            largest = max(largest, here[c])
        n = row_mass(here, loops.leaf)
        largest = min(largest, n)  # the commonest class, where there are classes
        leaf = log_marginal(here, loops.leaf) / loops.temperature
        gain, left = max(look[i] - leaf, 0.0), max(-look[i], 0.0)
        for c in range(n_sums):
            x[i, c] = here[c] / n
        x[i, n_sums] = math.log1p(n)
        x[i, n_sums + 1] = n / everything
        x[i, n_sums + 2] = largest / n
        x[i, n_sums + 3] = math.log1p(n - largest)
        x[i, n_sums + 4] = math.log1p(max(-leaf, 0.0))
        x[i, n_sums + 5] = math.log1p(gain)
        x[i, n_sums + 6] = levels_left
        x[i, n_sums + 7] = math.log1p(left)
    return x


@njit(cache=True, nogil=True)
def promising_cuts(nodes: Int64s, start: Int64s, n_cuts: Int32s, cuts: Cuts, most: int) -> Int64s:
    """Cuts with the largest look-ahead, at most so many of each node, node after node."""
    total = 0
    for i in range(nodes.shape[0]):
        total += min(n_cuts[nodes[i]], most)
    out = np.empty(total, np.int64)
    at = 0
    for i in range(nodes.shape[0]):
        first, number = start[nodes[i]], n_cuts[nodes[i]]
        if number <= most:
            for e in range(first, first + number):
                out[at] = e
                at += 1
            continue
        value = np.empty(number)
        for u in range(number):
            e = first + u
            value[u] = cuts.prior[e] + cuts.look[e, 0] + cuts.look[e, 1]
        lowest = np.partition(value, number - most)[number - most]
        taken = 0
        for u in range(number):
            if value[u] >= lowest and taken < most:
                out[at] = first + u
                at += 1
                taken += 1
    return out


@njit(cache=True, nogil=True)
def fill_residuals(
    nodes: Int64s, start: Int64s, n_cuts: Int32s, chosen: Int64s, residual: Float32s, cuts: Cuts
) -> None:
    """Write what the network said of the chosen cuts, and its mean to the others of each node.

    ``chosen`` is what ``promising_cuts`` gave for the same nodes, ``residual`` is [len(chosen), 2].
    """
    at = 0
    for i in range(nodes.shape[0]):
        first, number = start[nodes[i]], n_cuts[nodes[i]]
        until = at
        while until < chosen.shape[0] and first <= chosen[until] < first + number:
            until += 1
        for side in range(2):
            if until - at < number:
                cuts.residual[first : first + number, side] = residual[at:until, side].mean()
            for j in range(at, until):
                cuts.residual[chosen[j], side] = residual[j, side]
        at = until


@njit(cache=True, nogil=True)
def choose(
    nodes: Int64s,
    order: Int64s,
    start: Int64s,
    n_cuts: Int32s,
    cuts: Cuts,
    stop: Floats,
    flow: Floats,
    epsilon: float,
    uniform: Floats,
) -> Int64s:
    """Choose a cut, or -1 to stop, for every open leaf [V]; ``order`` sorts ``nodes`` [V].

    With probability ``epsilon`` all actions are equally likely. ``uniform`` [V, 2] is random.
    """
    chosen = np.empty(nodes.shape[0], np.int64)
    cumulative = np.empty(n_cuts.max() + 1)
    previous = np.int64(-1)
    for position in range(nodes.shape[0]):
        i = order[position]
        node = nodes[i]
        first, number = start[node], n_cuts[node]
        if node != previous:
            previous = node
            cumulative[0] = math.exp(stop[node] - flow[node])
            for u in range(number):
                share = math.exp(cuts.logit[first + u] - flow[node])
                cumulative[u + 1] = cumulative[u] + share
        if uniform[i, 0] < epsilon:
            action = int(uniform[i, 1] * (number + 1))
        else:
            wanted = uniform[i, 1] * cumulative[number]
            action = np.searchsorted(cumulative[: number + 1], wanted, side="right")
        action = min(action, number)
        chosen[i] = -1 if action == 0 else first + action - 1
    return chosen


def spread_evenly(nodes: Int64s, uniform: Floats, rng: np.random.Generator) -> Floats:
    """Turn random numbers [V] into ones that are spread evenly over the visits of each node.

    The v visits of a node get one number from each of v equal parts, in random order.
    """
    shuffled = rng.permutation(nodes.size)
    order = shuffled[np.argsort(nodes[shuffled], kind="stable")]
    sorted_nodes = nodes[order]
    first = np.searchsorted(sorted_nodes, sorted_nodes)
    count = np.searchsorted(sorted_nodes, sorted_nodes, side="right") - first
    out = np.empty(nodes.size)
    out[order] = (np.arange(nodes.size) - first + uniform[order]) / count
    return out
