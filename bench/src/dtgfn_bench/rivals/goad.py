"""GOAD: of an anomaly, it is hard to tell which map was applied (Bergman & Hoshen 2020).

With one linear layer, no offsets and columns of mean zero, as the authors run it on small tables,
every map's true centre is the origin: centres differ only by how batches and their weights fall,
hence the large spread over seeds.  A table that fits in one batch has equal scores throughout.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dtgfn._support.arrays import Floats
from dtgfn_bench.contract import Method, TrainingRows
from dtgfn_bench.rivals.scaling import Standardiser
from dtgfn_bench.rivals.seeding import torch_seed

if TYPE_CHECKING:
    from torch import Tensor

OUTPUT, EMBEDDING, MARGIN, TRIPLET = 32, 8, 1.0, 0.1


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
        joint = self.maps @ self.trunk
        for x in torch.split(X, 64):
            z = torch.einsum("nd,mde->nme", x, joint)
            chance = (-squared_distances(z, self.centres)).log_softmax(dim=2)
            own = chance.diagonal(dim1=1, dim2=2)
            parts.append(-own.sum(dim=1, dtype=torch.float64))
        return torch.cat(parts)


def train(X: Tensor, n_maps: int, epochs: int, batch: int) -> MapNetwork:
    """Learn to tell the maps apart; the centres are means over the last epoch's batches."""
    import torch
    from torch import nn
    from torch.nn.functional import cross_entropy, leaky_relu

    maps = torch.randn(n_maps, X.shape[1], OUTPUT)
    trunk, head = nn.Linear(OUTPUT, EMBEDDING, bias=False), nn.Linear(EMBEDDING, n_maps)
    parameters = [*trunk.parameters(), *head.parameters()]
    optimiser = torch.optim.Adam(parameters, lr=1e-3, betas=(0.5, 0.999))
    for _ in range(epochs):
        seen = []
        for own in torch.split(torch.randperm(len(X)), batch):
            z = torch.einsum("nd,mde->nme", X[own], maps @ trunk.weight.T)
            seen.append(z.detach().mean(dim=0))
            logits = head(leaky_relu(z, 0.2)).flatten(0, 1)
            loss = cross_entropy(logits, torch.arange(n_maps).repeat(len(own)))
            loss = loss + TRIPLET * triplet_loss(z)
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    return MapNetwork(maps, trunk.weight.detach().T, torch.stack(seen).mean(dim=0))


@dataclass(frozen=True)
class FittedGoad:
    """Networks that differ by seed alone; scores are means over them."""

    networks: list[MapNetwork]
    scale: Standardiser
    X: Floats

    def score(self, X: Floats) -> Floats:
        """Score [n] of rows; the higher, the more anomalous."""
        import torch

        with torch.no_grad():
            x = torch.as_tensor(self.scale(X), dtype=torch.float32)
            scores = torch.stack([network.score(x) for network in self.networks])
        return scores.mean(dim=0).numpy()

    def training_scores(self) -> Floats:
        """The training rows through the networks."""
        return self.score(self.X)

    def size(self) -> None:
        """There are no trees."""
        return None


def fit_goad(
    rows: TrainingRows,
    seed: int,
    n_networks: int,
    n_maps: int,
    epochs: int,
    epochs_on_thyroid: int,
    batch: int,
) -> FittedGoad:
    """Train networks for some epochs; Thyroid's are in the authors' command."""
    import torch

    scale = Standardiser.of(rows.X)
    x = torch.as_tensor(scale(rows.X), dtype=torch.float32)
    with torch_seed(seed):
        n_epochs = epochs_on_thyroid if rows.table == "thyroid" else epochs
        networks = [train(x, n_maps, n_epochs, batch) for _ in range(n_networks)]
    return FittedGoad(networks, scale, rows.X)


FOR_ALL = {"epochs_on_thyroid": 1, "batch": 64}

METHODS: tuple[Method, ...] = (
    Method(
        name="goad",
        label="GOAD",
        fit=fit_goad,
        detects=True,
        note="256 maps, one linear layer and one epoch on Thyroid as in the authors' command; 10 "
        "epochs on smaller tables, which then see about as many batches; one network per split.",
        settings={"n_networks": 1, "n_maps": 256, "epochs": 10, **FOR_ALL},
        quick={"n_maps": 64},
    ),
    Method(
        name="goad-mean",
        label="GOAD (mean of 3)",
        fit=fit_goad,
        detects=True,
        note="The same with scores averaged over 3 networks, since single ones differ much by "
        "seed; the authors average the F1 of 500 runs instead.",
        settings={"n_networks": 3, "n_maps": 256, "epochs": 10, **FOR_ALL},
        quick={"n_maps": 64, "epochs": 4},
    ),
)
