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

A new objective is a function like these and a line in ``OBJECTIVES``; one of one's own is the
setting
itself (``hooks.py``), and so is a loss shape.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from dtgfn.engines.gfn.hooks import LossShape, ObjectiveLoss, hook_name
from dtgfn.engines.gfn.hooks import Objective as Objective
from dtgfn.engines.gfn.hooks import Residuals as Residuals

SUBTB_DECAY = 0.9
FAR = 5.0  # beyond, cosh and linex go on as straight lines: gradients stay bounded


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


SHAPES: dict[str, LossShape] = {"squared": squared, "huber": huber, "cosh": cosh, "linex": linex}


def trajectory_balance(residuals: Residuals, shape: LossShape) -> Tensor:
    """g(log Z + sum log P_F - sum log P_B - log R), averaged over trajectories."""
    return shape(residuals.delta.sum(dim=1)).mean()


def variance_gradient(residuals: Residuals, shape: LossShape) -> Tensor:
    """Trajectory balance whose log Z is the batch's own best guess."""
    total = residuals.delta.sum(dim=1)
    return shape(total - total.mean()).mean()


def detailed_balance(residuals: Residuals, shape: LossShape) -> Tensor:
    """Every transition for itself."""
    return shape(residuals.delta[residuals.mask]).mean()


def subtrajectory_balance(residuals: Residuals, shape: LossShape) -> Tensor:
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


OBJECTIVES: dict[str, Objective] = {
    "tb": Objective(trajectory_balance, with_flows=False),
    "vargrad": Objective(variance_gradient, with_flows=False, learns_log_z=False),
    "db": Objective(detailed_balance, with_flows=True),
    "subtb": Objective(subtrajectory_balance, with_flows=True),
}


def chosen_objective(objective: str | Objective | ObjectiveLoss) -> Objective:
    """Return what the setting stands for: a name, an objective, or the loss of one."""
    if isinstance(objective, str):
        return OBJECTIVES[objective]
    return objective if isinstance(objective, Objective) else Objective(objective)


def chosen_shape(loss: str | LossShape) -> LossShape:
    """Return what the setting stands for: a name, or a shape."""
    return SHAPES[loss] if isinstance(loss, str) else loss


def check_own_loss(
    objective: str | Objective | ObjectiveLoss, loss: str | LossShape, *, with_ends: bool
) -> None:
    """Rehearse an objective and a loss shape of one's own, and refuse what has another shape.

    ``with_ends`` says whether residuals will have them.
    """
    shape = chosen_shape(loss)
    if not isinstance(loss, str):
        probe = torch.tensor([[-2.0, 0.0], [0.5, 3.0]], dtype=torch.float64, requires_grad=True)
        _check_loss(f"loss={hook_name(loss)}", shape(probe), probe.shape, "as its residuals")
    if not isinstance(objective, str):
        delta = torch.tensor([[-2.0, 1.0, 0.0], [0.5, 3.0, 1.0]], requires_grad=True)
        mask = torch.tensor([[True, True, False], [True, True, True]])
        end = torch.tensor([[2, 2, 2], [3, 2, 3]]) if with_ends else None
        own = chosen_objective(objective).loss
        found = own(Residuals(delta * mask, mask, end), shape)
        _check_loss(f"objective={hook_name(own)}", found, torch.Size(), "for all trajectories")


def _check_loss(name: str, found: object, wanted: torch.Size, what: str) -> None:
    given = list(found.shape) if isinstance(found, Tensor) else f"as {type(found).__name__}"
    if given != list(wanted):
        raise ValueError(
            f"{name} gives a loss {given}; it must be a tensor of shape {list(wanted)}, {what}."
        )
    assert isinstance(found, Tensor)
    if not found.requires_grad or not bool(torch.isfinite(found).all()):
        raise ValueError(
            f"{name} gives a loss that is not finite, or that no gradient flows through; compute "
            "it from its arguments by torch's functions."
        )
