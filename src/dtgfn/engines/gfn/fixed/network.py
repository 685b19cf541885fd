"""ResidualNetwork: what deeper trees are worth beyond the look-ahead of a row set.

For a row set S with k levels left, L its look-ahead and x a few numbers that describe it::

    log F(S, k) = L(S) + r(x(S), k)                      r >= 0, the network
    P(stop | S, k) = m(S) / N          P(cut | S, k) = e^-penalty F(left, k-1) F(right, k-1) / N

with N their sum. The residual r is never negative, since looking ahead leaves trees out.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from dtgfn._support.arrays import Float32s, Int64s
from dtgfn.engines.gfn.fixed.inputs import LEVELS_LEFT, N_INPUTS, child_inputs, node_inputs
from dtgfn.engines.gfn.fixed.kept_views import view_children, view_nodes
from dtgfn.engines.gfn.fixed.policies import MlpPolicy, Policy
from dtgfn.engines.gfn.fixed.views import N_VIEW
from dtgfn.engines.rowsets.partial.graph import PartialGraph
from dtgfn.engines.rowsets.partial.levels import Level

CHUNK = 65_536
LEAST_SAID = 1e-3  # nats that a policy says at least: what it learns to be more must grow


class ResidualNetwork(nn.Module):
    """r(x): a small perceptron; ``network_input`` gives its input."""

    trained = False
    mean: Tensor
    spread: Tensor

    def __init__(self, n_sums: int, hidden: tuple[int, ...]) -> None:
        super().__init__()
        # -5: start from the look-ahead alone.
        self.layers = make_layers(n_sums + N_INPUTS, hidden, bias=-5.0)
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
        return predict_in_parts(self, x)

    def begin(self, graph: PartialGraph) -> None:
        """Give inputs unit spread, by the root's children."""
        x = child_inputs(graph, graph.levels[0], np.arange(graph.levels[0].n_cuts[0]))
        deepest = np.arange(len(x)) % graph.problem.score.max_depth
        x[:, LEVELS_LEFT] -= np.minimum(deepest, x[:, LEVELS_LEFT] - 1)  # all depths to come
        self.standardise(torch.from_numpy(x).to(self.device))

    def see_children(
        self, graph: PartialGraph, level: Level, nodes: Int64s, cuts: Int64s
    ) -> Float32s:
        """Inputs of both children of cuts; ``nodes`` does not matter."""
        return child_inputs(graph, level, cuts)

    def see_nodes(self, graph: PartialGraph, depth: int, nodes: Int64s) -> Float32s:
        """Inputs of nodes."""
        return node_inputs(graph, depth, nodes)


class CorrectedNetwork(nn.Module):
    """A policy for all tables with a perceptron that learns what it is off by on this one.

    log(exp(r) - 1) is what the policy says it is, plus the perceptron, which begins at zero.
    """

    trained = True
    mean: Tensor
    spread: Tensor
    last: Tensor

    def __init__(self, policy: Policy, hidden: tuple[int, ...]) -> None:
        super().__init__()
        self.policy = policy
        if isinstance(policy, MlpPolicy):  # whose last layer looks at this table have fitted
            self.register_buffer("last", torch.from_numpy(policy.last_layer))
        self.layers = make_layers(N_VIEW, hidden, bias=0.0)
        self.register_buffer("mean", torch.zeros(N_VIEW))
        self.register_buffer("spread", torch.ones(N_VIEW))

    @property
    def device(self) -> torch.device:
        """Where it lives."""
        return self.mean.device

    def forward(self, x: Tensor) -> Tensor:
        """Residuals [N] of row sets by their views [N, V]."""
        said = np.maximum(self.base.guess(x.cpu().numpy()), LEAST_SAID)
        before = torch.from_numpy(said + np.log(-np.expm1(-said))).to(self.device)
        return nn.functional.softplus(
            before + self.layers((x - self.mean) / self.spread).squeeze(-1)
        )

    @property
    def base(self) -> Policy:
        """What is corrected: the policy, with what looks at this table have taught it."""
        if not isinstance(self.policy, MlpPolicy):
            return self.policy
        return self.policy.with_last(self.last.cpu().numpy())

    def begin_from(self, learned: Policy) -> None:
        """Correct what the policy has become by looks at this table."""
        if isinstance(learned, MlpPolicy):
            self.last.copy_(torch.from_numpy(learned.last_layer))

    def predict(self, x: Float32s) -> Float32s:
        """Residuals [N] of many row sets [N, V], without gradient."""
        return predict_in_parts(self, x)

    def begin(self, graph: PartialGraph) -> None:
        """Give inputs unit spread, by the root's children."""
        root = graph.levels[0]
        cuts = np.arange(root.n_cuts[0])
        x = torch.from_numpy(view_children(graph, root, np.zeros_like(cuts), cuts))
        if len(x) > 1:
            self.mean.copy_(x.mean(dim=0))
            self.spread.copy_(x.std(dim=0).clamp(min=0.5))  # views are tame by themselves

    def see_children(
        self, graph: PartialGraph, level: Level, nodes: Int64s, cuts: Int64s
    ) -> Float32s:
        """Views of both children of cuts."""
        return view_children(graph, level, nodes, cuts)

    def see_nodes(self, graph: PartialGraph, depth: int, nodes: Int64s) -> Float32s:
        """Views of nodes; the root, whose flow is Z, has none."""
        return view_nodes(graph, depth, nodes)


Learner = ResidualNetwork | CorrectedNetwork


def make_layers(width: int, hidden: tuple[int, ...], bias: float) -> nn.Sequential:
    """Layers with SiLU between them; the last begins at a constant."""
    layers: list[nn.Module] = []
    for size in hidden:
        layers += [nn.Linear(width, size), nn.SiLU()]
        width = size
    last = nn.Linear(width, 1)
    nn.init.zeros_(last.weight)
    nn.init.constant_(last.bias, bias)
    return nn.Sequential(*layers, last)


def predict_in_parts(network: Learner, x: Float32s) -> Float32s:
    """Residuals [N] of described row sets [N, F], without gradient."""
    with torch.no_grad():
        parts = [
            network(torch.from_numpy(x[i : i + CHUNK]).to(network.device)).cpu().numpy()
            for i in range(0, len(x), CHUNK)
        ]
    return np.concatenate(parts) if parts else np.zeros(0, np.float32)
