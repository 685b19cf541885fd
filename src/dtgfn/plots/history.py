"""plot_history: how the evidence was approached during training or sampling."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from dtgfn._support.arrays import Floats
from dtgfn.diagnostics.exact_distance import check_comparable
from dtgfn.plots.colours import DASHES, FAINT, INK, OTHERS, OURS, QUIET
from dtgfn.plots.frame import axes_or_new, legend_above, style
from dtgfn.posterior.of_model import as_posterior
from dtgfn.posterior.tree_posterior import TreePosterior

# Entries of an engine's history that are worth a line: name, colour, dash.
LINES: dict[str, tuple[str, str, Any]] = {
    "elbo": ("ELBO", OURS, DASHES[0]),
    "log_evidence": ("log evidence, estimated", OTHERS[0], DASHES[1]),
    "mean_log_reward": ("log R, mean of the chains", OURS, DASHES[0]),
    "best_log_reward": ("log R of the best tree", OTHERS[1], DASHES[2]),
}
FEW = 10  # entries, so few that each gets a dot
TIMES = {"seconds": "seconds", "step": "steps", "sweep": "sweeps"}


def plot_history(
    model: Any,
    *,
    exact: float | TreePosterior | None = None,
    x: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw ELBO, log evidence and loss over training (GFlowNet), or what a sampler kept of its run.

    Parameters
    ----------
    model : fitted model or TreePosterior
        Of the engines gfn, mcmc or smc; exact inference and bags keep no history.
    exact : float, exact TreePosterior or None
        The exact log evidence, drawn as a line.
    x : {"seconds", "step", "sweep"} or None
        What to draw over; None takes steps or sweeps.
    ax : Axes or None
        Where to draw; None makes a new figure. A loss gets an axis of its own at the right.

    Returns
    -------
    Axes
        Where it was drawn.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from dtgfn import infer
    >>> posterior = infer([[1.0], [2.0], [8.0], [9.0]] * 5, ["no", "no", "yes", "yes"] * 5,
    ...                   engine="smc", max_depth=1, n_thresholds=3, random_state=0)
    >>> ax = plot_history(posterior, exact=-5.0, ax=Figure().subplots())
    >>> [line.get_label() for line in ax.lines]
    ['log evidence, estimated', 'log R of the best tree', 'exact log evidence']

    """
    posterior = as_posterior(model)
    history = posterior.history
    if not history:
        raise ValueError(
            f"This posterior of engine {posterior.engine!r} has no history; fit with inference="
            "'gfn', 'mcmc' or 'smc', without bags."
        )
    time = _time(history, x)
    truth = _truth(posterior, exact)
    ax = axes_or_new(ax, (6.4, 3.8))
    at = _series(history, time)
    style(ax, TIMES[time], "nats")
    if time != "seconds":
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    for key, (name, colour, dash) in LINES.items():
        values = _series(history, key)
        if key == "best_log_reward" and "elbo" in history[-1]:
            continue  # a tree's log R is no bound of the evidence: it would only take room
        if np.isfinite(values).any():
            dot = "o" if len(at) < FEW else "None"
            (line,) = ax.plot(at, values, color=colour, linestyle=dash, label=name, zorder=3)
            line.set(linewidth=1.8, marker=dot, markersize=4)
    error = 2 * _series(history, "elbo_error")
    elbo = _series(history, "elbo")
    if np.isfinite(error).any():
        ax.fill_between(at, elbo - error, elbo + error, color=OURS, alpha=0.2, linewidth=0)
    if truth is not None:
        ax.axhline(
            truth, color=INK, linestyle=DASHES[3], linewidth=1.2, label="exact log evidence"
        )  # fmt: skip
    _frame_end(ax, at, truth)
    _draw_loss(ax, at, _series(history, "loss"))
    legend_above(ax)
    return ax


def _time(history: list[dict[str, Any]], x: str | None) -> str:
    known = [name for name in TIMES if name in history[-1]]
    if x is None:
        return next(name for name in ("step", "sweep", "seconds") if name in known)
    if x not in known:
        raise ValueError(f"x={x!r} is not in this history; give one of {', '.join(known)}.")
    return x


def _truth(posterior: TreePosterior, exact: Any) -> float | None:
    """The exact log evidence if it is known."""
    if isinstance(exact, Real) and not isinstance(exact, bool):
        return float(exact)
    if exact is None:
        known = posterior.log_evidence_error == 0 and math.isfinite(posterior.log_evidence)
        return posterior.log_evidence if known else None
    given = as_posterior(exact)
    if not given.is_exact:
        raise ValueError(
            f"exact is a posterior of engine {given.engine!r}; give one of the exact engine, or "
            "its log evidence."
        )
    check_comparable(posterior, given)
    return given.log_evidence


def _series(history: list[dict[str, Any]], key: str) -> Floats:
    """Values of an entry, nan where it is not known."""
    found = (entry.get(key) for entry in history)
    return np.array([math.nan if value is None else float(value) for value in found])


def _frame_end(ax: Axes, at: Floats, truth: float | None) -> None:
    """Show what comes after the first moments: a bad start would flatten all the rest."""
    drawn = [np.asarray(line.get_ydata(), dtype=np.float64) for line in ax.lines]
    later = [values[len(values) // 10 :] for values in drawn]
    ends = np.concatenate(later) if later else np.array([math.nan])
    ends = np.append(ends[np.isfinite(ends)], [] if truth is None else truth)
    if ends.size:
        room = 0.08 * float(np.ptp(ends)) or 1.0
        ax.set_ylim(ends.min() - room, ends.max() + room)


def _draw_loss(ax: Axes, at: Floats, loss: Floats) -> None:
    """Draw the loss on an axis of its own, behind the rest."""
    if not np.isfinite(loss).any():
        return
    beside = ax.twinx()
    beside.plot(at, loss, color=FAINT, linewidth=1.0, linestyle=DASHES[2], label="loss")
    if np.nanmin(loss) > 0:
        beside.set_yscale("log")
    beside.set_ylabel("loss", color=QUIET)
    beside.tick_params(colors=QUIET, labelsize=8)
    for spine in beside.spines.values():
        spine.set_visible(False)
    ax.plot([], [], color=FAINT, linewidth=1.0, linestyle=DASHES[2], label="loss (right)")
    ax.set_zorder(beside.get_zorder() + 1)
    ax.patch.set_visible(False)
