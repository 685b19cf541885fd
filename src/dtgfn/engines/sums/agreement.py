"""What chains over sums say of themselves: whether they agree, how they moved, how they went."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import softmax

from dtgfn._support.arrays import Floats
from dtgfn._support.json_values import none_if_nan
from dtgfn.engines.convergence import effective_draws, split_r_hat
from dtgfn.engines.sums.chain import SumChain
from dtgfn.engines.sums.sweep import NOISE, VARIANCE

WARM_UP = 1 / 3  # of a chain that is not kept
HISTORY = 40


def tell_agreement(chains: list[SumChain]) -> str:
    """How the chains are doing, in a few words."""
    counts = np.sum([chain.forest.counts for chain in chains], axis=0)
    text = f"acceptance {counts[:, 1].sum() / max(counts[:, 0].sum(), 1):.2f}"
    trace = watched_trace(chains)
    if trace.shape[1] >= 8:
        text += f", R-hat {np.nanmax([split_r_hat(t) for t in np.moveaxis(trace, 2, 0)]):.2f}"
    return text


def watched_trace(chains: list[SumChain]) -> Floats:
    """What is said of the watched rows [chains, draws, S x W], where all chains have draws."""
    kept = [list(chain.kept(WARM_UP)) for chain in chains if chain.draws]
    n_draws = min(len(draws) for draws in kept) if kept else 0
    if not n_draws:
        return np.zeros((len(chains), 0, 1))
    trace = np.array([[draw.watched for draw in draws[-n_draws:]] for draws in kept])
    if trace.shape[2] > 1:  # of many classes only what they say together is known
        trace = softmax(trace + chains[0].setup.target.offset[:, None], axis=2)
    return trace.reshape(*trace.shape[:2], -1)


def diagnose(chains: list[SumChain], seconds: float, stopped: str) -> dict[str, Any]:
    """Acceptance, and whether the chains agree on what they say of the watched rows."""
    counts = np.sum([chain.forest.counts for chain in chains], axis=0)
    trace = watched_trace(chains)
    each = np.moveaxis(trace, 2, 0)
    enough = trace.shape[1] >= 4
    r_hat = np.array([split_r_hat(t) for t in each]) if enough else np.array([math.nan])
    ess = np.array([effective_draws(t) for t in each]) if enough else np.array([math.nan])
    return {
        "acceptance": {
            name: float(taken / proposed) if proposed else 0.0
            for name, (proposed, taken) in zip(("tree", "twig"), counts, strict=True)
        },
        "sweeps_per_chain": [chain.sweeps for chain in chains],
        "r_hat_mean": _known(np.nanmean, r_hat),
        "r_hat_largest": _known(np.nanmax, r_hat),
        "ess_mean": _known(np.nanmean, ess),
        "ess_smallest": _known(np.nanmin, ess),
        "recorded_draws": int(trace.shape[0] * trace.shape[1]),
        "stopped_because": stopped,
        "seconds": seconds,
    }


def _known(summary: Any, values: Floats) -> float | None:
    return None if np.isnan(values).all() else none_if_nan(float(summary(values)))


def make_history(chains: list[SumChain]) -> list[dict[str, Any]]:
    """Noise, leaf scale and size of the trees in each part of the run, over all chains."""
    shortest = min(len(chain.draws) for chain in chains)
    interval = chains[0].interval
    history = []
    for k in np.unique(np.linspace(0, shortest - 1, HISTORY).round().astype(int)):
        draws = [chain.draws[k] for chain in chains]
        history.append(
            {
                "sweep": int((k + 1) * interval),
                "noise": float(np.mean([math.sqrt(draw.numbers[NOISE]) for draw in draws])),
                "leaf_scale": float(np.mean([math.sqrt(draw.numbers[VARIANCE]) for draw in draws])),
                "mean_splits": float(np.mean([(draw.size.mean() - 1) / 2 for draw in draws])),
            }
        )
    return history
