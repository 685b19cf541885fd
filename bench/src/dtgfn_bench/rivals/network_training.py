"""One loop that trains any torch classifier: batches, a validation part, early stopping."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from dtgfn._support.arrays import Floats, Int64s
from dtgfn_bench.rivals.scaling import Standardiser
from dtgfn_bench.rivals.seeding import torch_seed

VALIDATION_SHARE = 0.2
PREDICTED_AT_ONCE = 1024


@dataclass(frozen=True)
class Schedule:
    """How long and how fast to train; ``patience``: epochs without a better validation loss."""

    learning_rate: float
    weight_decay: float
    batch_size: int
    epochs: int
    patience: int


def as_columns(X: Floats) -> Callable[[Floats], Tensor]:
    """What turns rows into standardised columns of single precision, by the training rows X."""
    scale = Standardiser.of(X)
    return lambda rows: torch.from_numpy(scale(rows)).float()


class TrainedNetwork:
    """A network that tells class probabilities of rows."""

    def __init__(self, network: nn.Module, prepare: Callable[[Floats], Tensor]) -> None:
        self.network = network
        self.prepare = prepare

    def predict_proba(self, X: Floats) -> Floats:
        """Class probabilities [n, k], averaged over the network's members if it has several."""
        with torch.no_grad():
            parts = [
                log_probability(self.network, part).exp().double()
                for part in torch.split(self.prepare(X), PREDICTED_AT_ONCE)
            ]
        return np.asarray(torch.cat(parts).numpy())


def train(
    build: Callable[[], nn.Module],
    prepare: Callable[[Floats], Tensor],
    X: Floats,
    codes: Int64s,
    seed: int,
    schedule: Schedule,
) -> TrainedNetwork:
    """Train what ``build`` makes on 80 % of the rows; keep the epoch best on the other 20 %."""
    inputs, labels = prepare(X), torch.from_numpy(codes)
    with torch_seed(seed):
        network = build()
        kept, validation = split_by_class(labels)
        optimiser = torch.optim.AdamW(
            network.parameters(),
            lr=schedule.learning_rate,
            weight_decay=schedule.weight_decay,
            fused=True,  # several times faster where a step is little else than this
        )
        best_loss, best_epoch, best_state = math.inf, 0, network.state_dict()
        for epoch in range(schedule.epochs):
            run_epoch(network, optimiser, inputs[kept], labels[kept], schedule.batch_size)
            loss = loss_of(network, inputs[validation], labels[validation])
            if loss < best_loss:
                best_loss, best_epoch = loss, epoch
                best_state = deepcopy(network.state_dict())
            elif epoch - best_epoch >= schedule.patience:
                break
        network.load_state_dict(best_state)
    return TrainedNetwork(network.eval(), prepare)


def split_by_class(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Rows to train on and rows to validate on: a fifth of each class, rounded down.

    Without a class of five rows there would be none to validate on; then all rows serve as both.
    """
    kept, validation = [], []
    for label in range(int(labels.max()) + 1):
        (members,) = torch.where(labels == label)
        members = members[torch.randperm(len(members))]
        n_validation = int(VALIDATION_SHARE * len(members))
        validation.append(members[:n_validation])
        kept.append(members[n_validation:])
    if not any(len(part) for part in validation):
        validation = kept
    return torch.cat(kept), torch.cat(validation)


def run_epoch(
    network: nn.Module,
    optimiser: torch.optim.Optimizer,
    inputs: Tensor,
    labels: Tensor,
    batch_size: int,
) -> None:
    """One pass over the rows in random order; each member of the network learns for itself."""
    network.train()
    for batch in torch.split(torch.randperm(len(labels)), batch_size):
        logits = by_member(network(inputs[batch]))
        repeated = labels[batch, None].expand(-1, logits.shape[1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), repeated.flatten())
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()


def loss_of(network: nn.Module, inputs: Tensor, labels: Tensor) -> float:
    """Mean negative log probability of the labels."""
    with torch.no_grad():
        predicted = log_probability(network.eval(), inputs)
    return float(nn.functional.nll_loss(predicted, labels))


def log_probability(network: nn.Module, inputs: Tensor) -> Tensor:
    """Log of the members' mean probability [n, k]."""
    logits = by_member(network(inputs))
    return logits.log_softmax(dim=-1).logsumexp(dim=1) - math.log(logits.shape[1])


def by_member(logits: Tensor) -> Tensor:
    """Logits [n, members, k]; a plain network has one member."""
    return logits if logits.ndim == 3 else logits[:, None]
