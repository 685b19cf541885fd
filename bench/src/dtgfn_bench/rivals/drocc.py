"""DROCC: a network told apart from points it likes just outside the data (Goyal et al. 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dtgfn._support.arrays import Floats
from dtgfn_bench.contract import Method, TrainingRows
from dtgfn_bench.rivals.scaling import Standardiser
from dtgfn_bench.rivals.seeding import torch_seed

if TYPE_CHECKING:
    from torch import Tensor, nn

# The authors' radius, where they give one; their three tables all have about the square root of d.
RADIUS = {"thyroid": 2.5}
ASCENT, PROJECT_EVERY = 0.001, 10


def to_shell(offset: Tensor, radius: float, gamma: float) -> Tensor:
    """Offsets [n, d] shrunk or stretched to a length between radius and gamma times it."""
    length = offset.norm(dim=1, keepdim=True).clamp_min(1e-12)
    return offset * (length.clamp(radius, gamma * radius) / length)


def adversarial(net: nn.Sequential, x: Tensor, radius: float, gamma: float, steps: int) -> Tensor:
    """Points [n, d] in the shell around each row that the network takes for normal.

    They climb the loss for label 0; its gradient is that of the logit times a positive number,
    which the normalised step does without, so a network of one hidden layer needs no backward pass.
    """
    import torch

    hidden, out = net[0], net[2]
    with torch.no_grad():
        point = x + torch.randn(x.shape)
        for step in range(1, steps + 1):
            active = (hidden(point) > 0).to(x.dtype)
            slope = (active * out.weight) @ hidden.weight
            point += ASCENT * slope / slope.norm(dim=1, keepdim=True).clamp_min(1e-12)
            if step % PROJECT_EVERY == 0 or step == steps:
                point = x + to_shell(point - x, radius, gamma)
    return point


def _rate(epoch: int, plain_epochs: int, epochs: int) -> float:
    """Learning rate: a tenth after 30 %, 60 % and 90 % of the adversarial epochs."""
    share = (epoch - plain_epochs) / max(1, epochs - plain_epochs)
    return float(1e-3 * 0.1 ** sum(share > drop for drop in (0.3, 0.6, 0.9)))


def train(
    X: Floats, radius: float, gamma: float, epochs: int, plain_epochs: int, steps: int, batch: int
) -> nn.Sequential:
    """A network d -> 128 -> 1 after its last epoch."""
    import torch
    from torch import nn
    from torch.nn.functional import softplus

    rows = torch.as_tensor(X, dtype=torch.float32)
    net = nn.Sequential(nn.Linear(X.shape[1], 128), nn.ReLU(), nn.Linear(128, 1))
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-3)
    for epoch in range(epochs):
        optimiser.param_groups[0]["lr"] = _rate(epoch, plain_epochs, epochs)
        for own in torch.split(torch.randperm(len(rows)), batch):
            x = rows[own]
            loss = softplus(-net(x)).mean()  # cross-entropy of label 1
            if epoch >= plain_epochs:
                away = adversarial(net, x, radius, gamma, steps)
                loss = loss + softplus(net(away)).mean()
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    return net


@dataclass(frozen=True)
class FittedDrocc:
    """Scores by the network's logit of "normal", turned around."""

    net: nn.Sequential
    scale: Standardiser
    X: Floats

    def score(self, X: Floats) -> Floats:
        """Score [n] of rows; the higher, the more anomalous."""
        import torch

        with torch.no_grad():
            logit = self.net(torch.as_tensor(self.scale(X), dtype=torch.float32))
        return -logit[:, 0].numpy().astype(np.float64)

    def training_scores(self) -> Floats:
        """The training rows through the network."""
        return self.score(self.X)

    def size(self) -> None:
        """There are no trees."""
        return None


def fit_drocc(
    rows: TrainingRows,
    seed: int,
    epochs: int,
    plain_epochs: int,
    steps: int,
    batch: int,
    gamma: float,
) -> FittedDrocc:
    """Train with the authors' radius for the table, or the square root of d."""
    scale = Standardiser.of(rows.X)
    radius = RADIUS.get(rows.table, rows.X.shape[1] ** 0.5)
    with torch_seed(seed):
        net = train(scale(rows.X), radius, gamma, epochs, plain_epochs, steps, batch)
    return FittedDrocc(net, scale, rows.X)


METHODS: tuple[Method, ...] = (
    Method(
        name="drocc",
        label="DROCC",
        fit=fit_drocc,
        detects=True,
        note="The authors' network and Thyroid settings, radius 2.5 there and the square root of d "
        "elsewhere (untuned); the last epoch's network, where their code keeps the epoch of "
        "best test F1.",
        settings={"epochs": 100, "plain_epochs": 50, "steps": 50, "batch": 256, "gamma": 2.0},
        quick={"epochs": 40, "plain_epochs": 20},
    ),
)
