"""Training objectives: what makes all balance residuals vanish.

Notation, as in the literature: states s, forward policy P_F, backward policy P_B, state flow F with
F(s0) = Z and F(terminal) = R^(1/temperature). A transition s -> s' is balanced when its
residual is zero::

    delta = log F(s) + log P_F(s' | s) - log F(s') - log P_B(s | s')

An objective is a function (residuals, shape) -> scalar loss. With delta_t the residuals of a
trajectory, D = sum_t delta_t its sum and g the loss shape::

    tb       g(D)                                 Malkin et al. 2022; Z is a parameter
    vargrad  g(D - mean of D over the batch)      Richter et al. 2020, Zhang et al. 2023; no Z
    db       mean_t g(delta_t)                    Bengio et al. 2023; needs state flows. In fixed
                                                  order the flow to reach is a remembered one
    subtb    mean over parts g(sum of delta over the part), weighted lambda^length
                                                  Madan et al. 2023; needs state flows

A new objective is a function like these and a line in ``OBJECTIVES``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Shape = Callable[[Tensor], Tensor]

SUBTB_DECAY = 0.9
FAR = 5.0  # beyond, cosh and linex go on as straight lines: gradients stay bounded


@dataclass(frozen=True)
class Residuals:
    """Balance residuals of B trajectories with at most K transitions each.

    Attributes
    ----------
    delta : [B, K]
        Residual of each transition, with gradient; 0 where there is none. The first one of a
        trajectory holds log Z, so the sum over a row is the trajectory's residual.
    mask : bool [B, K]
        Which transitions exist.
    end : int64 [B, K] or None
        Transitions i..end-1 belong together: the part of the tree below a decision (fixed order).
        None when the trajectory is a chain and every stretch i..j belongs together (free order).

    """

    delta: Tensor
    mask: Tensor
    end: Tensor | None = None


def join_residuals(parts: list[Residuals]) -> Residuals:
    """Put residuals under one another, so that every trajectory counts the same."""
    if len(parts) == 1:
        return parts[0]
    width = max(part.delta.shape[1] for part in parts)

    def padded(values: Tensor) -> Tensor:
        return torch.nn.functional.pad(values, (0, width - values.shape[1]))

    ends: list[Tensor] = []
    for part in parts:
        if part.end is not None:
            nothing = torch.arange(width, device=part.end.device)  # an empty stretch
            ends.append(torch.where(padded(part.mask), padded(part.end), nothing))
    return Residuals(
        delta=torch.cat([padded(part.delta) for part in parts]),
        mask=torch.cat([padded(part.mask) for part in parts]),
        end=torch.cat(ends) if ends else None,
    )


def squared(x: Tensor) -> Tensor:
    """x^2 / 2."""
    return 0.5 * x.square()


def huber(x: Tensor) -> Tensor:
    """x^2 / 2 up to 1, then |x| - 1/2."""
    return torch.where(x.abs() <= 1, 0.5 * x.square(), x.abs() - 0.5)


def cosh(x: Tensor) -> Tensor:
    """Hyperbolic cosine less 1: like x^2 / 2 near 0, and far trees count more."""
    near = x.clamp(-FAR, FAR)
    return torch.cosh(near) - 1 + math.sinh(FAR) * (x - near).abs()


def linex(x: Tensor) -> Tensor:
    """e^-x + x - 1: a tree the policy draws too rarely (x < 0) costs more than one too often."""
    near = x.clamp(-FAR, FAR)
    left, right = math.exp(FAR) - 1, 1 - math.exp(-FAR)
    beyond = x - near
    return torch.exp(-near) + near - 1 + torch.where(beyond < 0, -left * beyond, right * beyond)


SHAPES: dict[str, Shape] = {"squared": squared, "huber": huber, "cosh": cosh, "linex": linex}


def trajectory_balance(residuals: Residuals, shape: Shape) -> Tensor:
    """g(log Z + sum log P_F - sum log P_B - log R), averaged over trajectories."""
    return shape(residuals.delta.sum(dim=1)).mean()


def variance_gradient(residuals: Residuals, shape: Shape) -> Tensor:
    """Trajectory balance whose log Z is the batch's own best guess."""
    total = residuals.delta.sum(dim=1)
    return shape(total - total.mean()).mean()


def detailed_balance(residuals: Residuals, shape: Shape) -> Tensor:
    """Every transition for itself."""
    return shape(residuals.delta[residuals.mask]).mean()


def subtrajectory_balance(residuals: Residuals, shape: Shape) -> Tensor:
    """Every part of a trajectory for itself, long ones discounted."""
    n_steps = residuals.delta.shape[1]
    before = torch.nn.functional.pad(residuals.delta.cumsum(dim=1), (1, 0))
    if residuals.end is not None:
        total = before.gather(1, residuals.end) - before[:, :-1]
        length = (residuals.end - torch.arange(n_steps, device=total.device)).clamp(min=0)
        weight = SUBTB_DECAY**length * residuals.mask
    else:
        total = before[:, None, :] - before[:, :, None]
        start, stop = torch.triu_indices(n_steps + 1, n_steps + 1, offset=1, device=total.device)
        total = total[:, start, stop]
        weight = SUBTB_DECAY ** (stop - start) * residuals.mask[:, stop - 1]
    return (weight * shape(total)).sum() / weight.sum()


@dataclass(frozen=True)
class Objective:
    """A loss and what it implies.

    ``with_flows``: it looks at states between start and end. ``learns_log_z``: log Z has a
    gradient; without, it is set to the batch's guess.
    """

    loss: Callable[[Residuals, Shape], Tensor]
    with_flows: bool
    learns_log_z: bool = True


OBJECTIVES: dict[str, Objective] = {
    "tb": Objective(trajectory_balance, with_flows=False),
    "vargrad": Objective(variance_gradient, with_flows=False, learns_log_z=False),
    "db": Objective(detailed_balance, with_flows=True),
    "subtb": Objective(subtrajectory_balance, with_flows=True),
}
