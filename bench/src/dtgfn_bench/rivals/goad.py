"""GOAD: of an anomaly, it is hard to tell which map was applied (Bergman & Hoshen 2020).

The authors' head begins with an activation in place, which overwrites what the trunk returned: so
centres, triplet loss and scores are of activated embeddings, and so are ours.  Much hangs on it.
Without offsets and with columns of mean zero, a linear embedding has mean zero under every map: all
centres would be the origin but for chance.  The activated one of a symmetric row z has mean
(1 - slope) / 2 times that of |z|, which differs by map: centres know each map's spread.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from dtgfn._support.arrays import Floats
from dtgfn_bench.contract import Method, TrainingRows
from dtgfn_bench.rivals.scaling import Standardiser
from dtgfn_bench.rivals.seeding import torch_seed

if TYPE_CHECKING:
    from torch import Tensor

OUTPUT, EMBEDDING, SLOPE, MARGIN, TRIPLET = 32, 8, 0.2, 1.0, 0.1


def embed(x: Tensor, maps: Tensor, trunk: Tensor) -> Tensor:
    """Activated embeddings [n, M, e] of rows [n, d] under all maps."""
    import torch
    from torch.nn.functional import leaky_relu

    return leaky_relu(torch.einsum("nd,mde->nme", x, maps @ trunk), SLOPE)


def squared_distances(z: Tensor, centres: Tensor) -> Tensor:
    """Squared distances [n, M, M] of embeddings [n, M, e] to all centres [M, e]."""
    cross = z @ centres.T
    length = (z * z).sum(dim=2, keepdim=True)
    return (length + (centres * centres).sum(dim=1) - 2 * cross).clamp_min(0)


def triplet_loss(z: Tensor) -> Tensor:
    """How much nearer than by a margin some other map's batch mean is than one's own; a mean."""
    import torch

    centres = z.mean(dim=0)
    with torch.no_grad():  # the nearest other centre, up to a row's own length
        offset = (centres * centres).sum(dim=1).repeat(len(centres), 1).fill_diagonal_(torch.inf)
        nearest = torch.baddbmm(offset, z, -2 * centres.T.expand(len(z), -1, -1)).argmin(dim=2)
    own = ((z - centres) ** 2).sum(dim=2)
    other = ((z - centres[nearest]) ** 2).sum(dim=2)
    return (own + MARGIN - other).clamp_min(0).mean()


@dataclass(frozen=True)
class MapNetwork:
    """Maps [M, d, 32], the linear trunk [32, 8] behind them, and the centres [M, 8] it left."""

    maps: Tensor
    trunk: Tensor
    centres: Tensor

    def score(self, X: Tensor) -> Tensor:
        """-log probability [n] that each map is recognised, summed over maps."""
        import torch

        parts = []
        for x in torch.split(X, 64):
            z = embed(x, self.maps, self.trunk)
            chance = (-squared_distances(z, self.centres)).log_softmax(dim=2)
            own = chance.diagonal(dim1=1, dim2=2)
            parts.append(-own.sum(dim=1, dtype=torch.float64))
        return torch.cat(parts)


def train(X: Tensor, n_maps: int, epochs: int, batch: int) -> MapNetwork:
    """Learn to tell the maps apart; the centres are means over the last epoch's batches."""
    import torch
    from torch import nn
    from torch.nn.functional import cross_entropy

    maps = torch.randn(n_maps, X.shape[1], OUTPUT)
    trunk, head = nn.Linear(OUTPUT, EMBEDDING, bias=False), nn.Linear(EMBEDDING, n_maps)
    parameters = [*trunk.parameters(), *head.parameters()]
    optimiser = torch.optim.Adam(parameters, lr=1e-3, betas=(0.5, 0.999))
    for _ in range(epochs):
        seen = []
        for own in torch.split(torch.randperm(len(X)), batch):
            z = embed(X[own], maps, trunk.weight.T)
            seen.append(z.detach().mean(dim=0))
            logits = head(z).flatten(0, 1)
            loss = cross_entropy(logits, torch.arange(n_maps).repeat(len(own)))
            loss = loss + TRIPLET * triplet_loss(z)
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    return MapNetwork(maps, trunk.weight.detach().T, torch.stack(seen).mean(dim=0))


@dataclass(frozen=True)
class FittedGoad:
    """A trained network, for columns on the training rows' scale."""

    network: MapNetwork
    scale: Standardiser
    X: Floats

    def score(self, X: Floats) -> Floats:
        """Score [n] of rows; the higher, the more anomalous."""
        import torch

        with torch.no_grad():
            x = torch.as_tensor(self.scale(X), dtype=torch.float32)
            return self.network.score(x).numpy()

    def training_scores(self) -> Floats:
        """The training rows through the network."""
        return self.score(self.X)

    def size(self) -> None:
        """There are no trees."""
        return None


def fit_goad(rows: TrainingRows, seed: int, n_maps: int, updates: int, batch: int) -> FittedGoad:
    """Train one network for as many whole epochs as hold the number of updates."""
    import torch

    scale = Standardiser.of(rows.X)
    x = torch.as_tensor(scale(rows.X), dtype=torch.float32)
    epochs = ceil(updates / ceil(len(x) / batch))
    with torch_seed(seed):
        network = train(x, n_maps, epochs, batch)
    return FittedGoad(network, scale, rows.X)


METHODS: tuple[Method, ...] = (
    Method(
        name="goad",
        label="GOAD",
        fit=fit_goad,
        detects=True,
        note="256 maps and one linear layer, activated in place as in the authors' code; their one "
        "epoch on Thyroid is 29 batches of 64 rows, and smaller tables get as many; one network "
        "per split, where the authors average the F1 of 500.",
        settings={"n_maps": 256, "updates": 29, "batch": 64},
        quick={"n_maps": 64},
        revision=2,
    ),
)
