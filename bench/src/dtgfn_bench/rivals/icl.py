"""ICL: some columns of a row are matched with its other columns (Shenkar & Wolf 2022)."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, log
from typing import TYPE_CHECKING

import numpy as np

from dtgfn._support.arrays import Floats, Int64s
from dtgfn_bench.contract import Method, TrainingRows
from dtgfn_bench.rivals.seeding import torch_seed

if TYPE_CHECKING:
    from torch import Tensor, nn

TEMPERATURE, WIDTH, SLOPE = 0.01, 200, 0.2


def window_width(d: int) -> int:
    """The authors' number of neighbouring columns to match, by the number of columns."""
    if d <= 40:
        return min(2, d - 1)
    return 10 if d <= 160 else d - 150


def n_orders(n: int, d: int) -> int:
    """The authors' number of orders of the columns, by the size of the table."""
    return floor(100 / (log(n) + d)) + 1


def windows(d: int, width: int) -> tuple[Int64s, Int64s]:
    """Columns of every window [d + 1 - width, width] and of the rest of the row beside it."""
    inside = np.arange(d + 1 - width)[:, None] + np.arange(width)
    outside = np.array([np.setdiff1d(np.arange(d), own) for own in inside])
    return inside, outside


def _pair_of_networks(d: int, width: int) -> nn.ModuleList:
    """The rest's network and the window's; batches are normalised per window."""
    from torch import nn

    m = d + 1 - width
    rest = nn.Sequential(
        nn.Linear(d - width, WIDTH),
        nn.Tanh(),
        nn.BatchNorm1d(m),
        nn.Linear(WIDTH, 2 * WIDTH),
        nn.LeakyReLU(SLOPE),
        nn.BatchNorm1d(m),
        nn.Linear(2 * WIDTH, WIDTH),
        nn.LeakyReLU(SLOPE),
    )
    window = nn.Sequential(
        nn.Linear(width, WIDTH // 4),
        nn.LeakyReLU(SLOPE),
        nn.BatchNorm1d(m),
        nn.Linear(WIDTH // 4, WIDTH // 2),
        nn.LeakyReLU(SLOPE),
        nn.Linear(WIDTH // 2, WIDTH),
        nn.LeakyReLU(SLOPE),
    )
    return nn.ModuleList([rest, window])


def _unit(z: Tensor, dim: int) -> Tensor:
    """Vectors of length one along a dimension; torch's own norm takes a third of all the time."""
    return z * z.square().sum(dim=dim, keepdim=True).clamp_min(1e-24).rsqrt()


def matching_loss(rest: Tensor, window: Tensor) -> Tensor:
    """InfoNCE [n] of embeddings [n, m, u]: rests find their windows among a row's m."""
    rest, window = (_unit(_unit(z, dim=1), dim=2) for z in (rest, window))
    likeness = rest @ window.transpose(1, 2) / TEMPERATURE
    return -likeness.log_softmax(dim=2).diagonal(dim1=1, dim2=2).mean(dim=1)


@dataclass(frozen=True)
class Matcher:
    """Networks for one order of the columns; ``inside`` and ``outside`` index the table's own."""

    networks: nn.ModuleList
    inside: Int64s
    outside: Int64s

    def loss(self, X: Tensor) -> Tensor:
        """Matching loss [n] of rows."""
        rest, window = self.networks
        return matching_loss(rest(X[:, self.outside]), window(X[:, self.inside]))


def train(X: Tensor, order: Int64s, epochs: int, batch: int) -> Matcher:
    """Adam until an epoch's mean loss is as low as the authors ask, or the epochs are over."""
    import torch

    d = X.shape[1]
    width = window_width(d)
    inside, outside = windows(d, width)
    networks = _pair_of_networks(d, width)
    optimiser = torch.optim.Adam(networks.parameters(), lr=1e-3, fused=True)
    matcher = Matcher(networks, order[inside], order[outside])
    n_batches = ceil(len(X) / batch)
    enough = 1e-3 if d <= 40 else 1e-2
    for _ in range(epochs):
        losses = []
        for own in torch.randperm(len(X)).tensor_split(n_batches):
            loss = matcher.loss(X[own]).mean()
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            losses.append(loss.item())
        if np.mean(losses) < enough:
            break
    networks.eval()
    return matcher


@dataclass(frozen=True)
class FittedIcl:
    """One matcher per order of the columns; scores are sums over them."""

    matchers: list[Matcher]
    X: Floats

    def score(self, X: Floats) -> Floats:
        """Score [n] of rows; the higher, the more anomalous."""
        import torch

        with torch.no_grad():
            parts = torch.split(torch.as_tensor(X, dtype=torch.float32), 512)
            losses = [torch.cat([matcher.loss(x) for x in parts]) for matcher in self.matchers]
        return torch.stack(losses).sum(dim=0).numpy().astype(np.float64)

    def training_scores(self) -> Floats:
        """The training rows through the networks."""
        return self.score(self.X)

    def size(self) -> None:
        """There are no trees."""
        return None


def fit_icl(
    rows: TrainingRows, seed: int, orders: int | None, epochs: int, batch: int
) -> FittedIcl:
    """Train one matcher per random order of the columns (None: as many as the authors take)."""
    import torch

    random = np.random.default_rng(seed)
    x = torch.as_tensor(rows.X, dtype=torch.float32)
    n, d = x.shape
    with torch_seed(seed):
        matchers = [
            train(x, random.permutation(d), epochs, batch) for _ in range(orders or n_orders(n, d))
        ]
    return FittedIcl(matchers, rows.X)


METHODS: tuple[Method, ...] = (
    Method(
        name="icl",
        label="ICL",
        fit=fit_icl,
        detects=True,
        note="As the authors run it: raw values, 8 to 10 orders of the columns, each trained until "
        "the loss is below 0.001; but Thyroid in batches of at most 256 rows, where they take all "
        "rows at once, which reaches that loss for a seventh of the work.",
        settings={"orders": None, "epochs": 2000, "batch": 256},
        quick={"orders": 1, "epochs": 20},
        revision=3,  # norms and steps are rounded otherwise
    ),
)
