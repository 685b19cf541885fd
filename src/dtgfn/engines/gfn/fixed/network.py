"""ResidualNetwork: what deeper trees are worth beyond the look-ahead of a row set.

For a row set S with k levels left, L its look-ahead and x a few numbers that describe it::

    log F(S, k) = L(S) + r(x(S), k)                      r >= 0, the network
    P(stop | S, k) = m(S) / N          P(cut | S, k) = e^-penalty F(left, k-1) F(right, k-1) / N

with N their sum. The residual r is never negative, since looking ahead leaves trees out.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

from dtgfn._support.arrays import Float32s, Floats
from dtgfn._support.compiled import njit
from dtgfn.engines.rowsets.problem import Loops
from dtgfn.trees.leaf_models import log_marginal, row_mass

N_INPUTS = 8  # besides the sums as shares
LEVELS_LEFT = -2  # which of them tells the levels left
CHUNK = 65_536


class ResidualNetwork(nn.Module):
    """r(x): a small perceptron; ``network_input`` gives its input."""

    mean: Tensor
    spread: Tensor

    def __init__(self, n_sums: int, hidden: tuple[int, ...]) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        width = n_sums + N_INPUTS
        for size in hidden:
            layers += [nn.Linear(width, size), nn.SiLU()]
            width = size
        last = nn.Linear(width, 1)
        nn.init.zeros_(last.weight)
        nn.init.constant_(last.bias, -5.0)  # start from the look-ahead alone
        self.layers = nn.Sequential(*layers, last)
        self.register_buffer("mean", torch.zeros(n_sums + N_INPUTS))
        self.register_buffer("spread", torch.ones(n_sums + N_INPUTS))

    @property
    def device(self) -> torch.device:
        """Where it lives."""
        return self.mean.device

    def forward(self, x: Tensor) -> Tensor:
        """Residuals [...] of described row sets [..., F]."""
        # There is about as much to gain as the look-ahead left over; its log is the last input.
        most = 5.0 + 2.0 * torch.expm1(x[..., -1])
        return torch.sigmoid(self.layers((x - self.mean) / self.spread).squeeze(-1)) * most

    def standardise(self, x: Tensor) -> None:
        """Let described row sets like these [N, F] have mean 0 and spread 1."""
        if len(x) > 1:
            self.mean.copy_(x.mean(dim=0))
            self.spread.copy_(x.std(dim=0).clamp(min=0.1))

    def predict(self, x: Float32s) -> Float32s:
        """Residuals [N] of many row sets [N, F], without gradient."""
        with torch.no_grad():
            parts = [
                self(torch.from_numpy(x[i : i + CHUNK]).to(self.device)).cpu().numpy()
                for i in range(0, len(x), CHUNK)
            ]
        return np.concatenate(parts) if parts else np.zeros(0, np.float32)


@njit(cache=True, nogil=True)
def network_input(
    sums: Floats,
    lookahead: Floats,
    levels_left: int,
    everything: float,
    loops: Loops,
) -> Float32s:
    """Describe row sets by their sums [N, K] and look-ahead [N]: float32 [N, K + N_INPUTS].

    ``everything`` is the weight of all rows.
    """
    n_sets, n_sums = sums.shape
    x = np.empty((n_sets, n_sums + N_INPUTS), np.float32)
    here = np.empty(n_sums)
    for i in range(n_sets):
        largest = 0.0
        for c in range(n_sums):
            here[c] = sums[i, c]
            largest = max(largest, here[c])
        n = row_mass(here, loops.leaf)
        largest = min(largest, n)  # the commonest class, where there are classes
        leaf = log_marginal(here, loops.leaf) / loops.temperature
        gain, left = max(lookahead[i] - leaf, 0.0), max(-lookahead[i], 0.0)
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
