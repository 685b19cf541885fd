"""How good a policy is now, and whether it still gets better.

All of this is judged by the policy's own trees: it cannot see a mode that the policy never draws.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from scipy.special import logsumexp

from dtgfn.engines.gfn.sampler import Sampler
from dtgfn.engines.gfn.settings import Settings
from dtgfn.engines.gfn.state import TrainState
from dtgfn.trees.batch import TreeBatch

SETTLED = 0.1  # nats
NEGLIGIBLE = 1e-3  # nats: less is no improvement, however precisely it is known


def evaluate(state: TrainState, deadline: float = math.inf) -> None:
    """Draw trees, as long as the clock allows, and append what they tell to the history."""
    settings, training_deadline = state.settings, state.sampler.deadline
    # By step, so that a run that is taken up draws the same ones.
    rng = np.random.default_rng([state.evaluation_seed, state.step])
    state.sampler.deadline = min(deadline, training_deadline)
    try:
        with torch.no_grad():
            draws = state.sampler.draw(settings.n_evaluate, rng)
    finally:
        state.sampler.deadline = training_deadline
    log_weight = draws.log_weight(state.score.temperature)
    state.best.add(draws.trees, draws.log_reward)
    entry = {
        **state.learned,
        "step": state.step,
        "seconds": state.seconds,
        "loss": float(np.mean(state.losses)) if state.losses else math.nan,
        "epsilon": state.epsilon,
        "log_z": float(state.sampler.log_z.detach()),
        **weight_summary(log_weight),
        "best_log_reward": max(_best_drawn(state), state.sampler.best_log_reward),
        "n_skipped": state.n_skipped,
    }
    state.losses = []
    state.history.append({name: _plain(value) for name, value in entry.items()})


def _best_drawn(state: TrainState) -> float:
    return state.best.best[1] if state.best.best else -math.inf


def weight_summary(log_weight: np.ndarray[Any, np.dtype[np.float64]]) -> dict[str, float]:
    """ELBO and its standard error, log evidence and the share of effective samples."""
    n_draws = log_weight.size
    with np.errstate(invalid="ignore"):  # a tree without reward makes them infinite or nan
        return {
            "elbo": float(log_weight.mean()),
            "elbo_error": float(log_weight.std(ddof=1) / math.sqrt(n_draws)),
            "log_evidence": float(logsumexp(log_weight) - math.log(n_draws)),
            "ess": float(np.exp(2 * logsumexp(log_weight) - logsumexp(2 * log_weight)) / n_draws),
        }


def _plain(value: Any) -> Any:
    """Return a JSON value."""
    if isinstance(value, bool | int | str | None):
        return value
    number = float(value)
    return number if math.isfinite(number) else None


def plateaued(history: list[dict[str, Any]], settings: Settings) -> bool:
    """Tell whether the averaged ELBO has not improved for ``patience`` evaluations.

    It is compared with the last average that was a clear improvement, so that many small ones add
    up and are seen.
    """
    window, patience = settings.plateau_window, settings.patience
    known = [(e["elbo"], e["elbo_error"]) for e in history if e["elbo"] is not None]
    if patience is None or len(known) < window + patience:
        return False
    elbo, error = np.array(known, dtype=np.float64).T
    kernel = np.full(window, 1 / window)
    average = np.convolve(elbo, kernel, "valid")
    average_error = np.sqrt(np.convolve(error**2, kernel / window, "valid"))
    least = np.maximum(settings.plateau_tolerance * average_error, NEGLIGIBLE)
    best, waited = average[0], 0
    for value, wanted in zip(average[1:], least[1:], strict=True):
        improved = value > best + wanted
        best, waited = (value, 0) if improved else (best, waited + 1)
    return bool(waited >= patience)


def settled(history: list[dict[str, Any]]) -> bool | None:
    """Tell whether the ELBO hardly rose from the third quarter to the last; None: too early."""
    known = [entry["elbo"] for entry in history if entry["elbo"] is not None]
    quarter = len(known) // 4
    if quarter == 0:
        return None
    return bool(np.mean(known[-quarter:]) - np.mean(known[-2 * quarter : -quarter]) < SETTLED)


def loss_by_depth(sampler: Sampler, trees: TreeBatch, rng: np.random.Generator) -> list[float]:
    """Mean squared balance residual of trajectories to some trees, by depth of the decision."""
    if len(trees) == 0:
        return []
    trajectories = sampler.retrace(trees, rng)
    with torch.no_grad():
        delta = sampler.residuals([trajectories], True).delta[: len(trees)].cpu().numpy()
    depth = sampler.depths(trajectories)
    width = min(depth.shape[1], delta.shape[1])
    square, depth = delta[:, :width] ** 2, depth[:, :width]
    return [float(square[depth == d].mean()) for d in range(int(depth.max(initial=-1)) + 1)]


def progress_line(state: TrainState) -> str:
    """Say in a line how training goes."""
    entry = state.history[-1] if state.history else {}
    loss = state.loss if state.losses else entry.get("loss")
    words = [
        f"{name} {value:.4g}"
        for name, value in (
            ("loss", loss),
            ("log Z", float(state.sampler.log_z.detach())),
            ("ELBO", entry.get("elbo")),
        )
        if value is not None
    ]
    if entry.get("ess") is not None:
        words.append(f"ESS {entry['ess']:.0%}")
    if entry.get("best_log_reward") is not None:
        words.append(f"best log R {entry['best_log_reward']:.4g}")
    return ", ".join(words)
