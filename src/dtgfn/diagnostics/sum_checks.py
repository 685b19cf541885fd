"""What the chains of sums of trees say for and against their posterior.

Chains of sums never agree on trees: many sums say the same. What they have to agree on is what
they say of training rows, which is what R-hat and the number of independent draws are about here.
Both are relative: where classes are told apart with certainty, log odds wander that hardly change
a probability. So a fit is poor only if the chains' predictions are far apart, too.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import numpy as np

from dtgfn.diagnostics.sampler_checks import Level, TrustItem, at_least, at_most, known
from dtgfn.posterior.sum_posterior import SumPosterior
from dtgfn.posterior.sum_prediction import SumPredictor
from dtgfn.trees.leaf_models import NormalLeaf
from dtgfn.trees.left_out_rows import LeftOutRows

GOOD_R_HAT, MOST_R_HAT = 1.1, 1.5
GOOD_DRAWS, LEAST_DRAWS = 100, 20
GOOD_APART, MOST_APART = 0.02, 0.05  # of a probability
NOISE_APART = 10.0  # times as far, in standard deviations of the noise, may numbers be
MOST_ROWS = 500  # that are predicted to tell
FEW_SWEEPS = 20  # below which a chain has hardly left its start


def sum_verdict(posterior: SumPosterior) -> dict[str, Any]:
    """Return the overall level, its sentence, all doubts and all items as plain JSON values."""
    level, sentence = _overall(posterior)
    return {
        "level": level,
        "sentence": sentence,
        "doubts": sum_doubts(posterior),
        "items": [asdict(item) for item in sum_items(posterior)],
    }


def sum_doubts(posterior: SumPosterior) -> list[str]:
    """What speaks against a fit, each in a clause."""
    r_hat, draws, sweeps = _numbers(posterior)
    doubts = []
    if r_hat >= GOOD_R_HAT:
        doubts.append(
            f"the chains disagree on what they predict, with an R-hat of {r_hat:.2f} on average "
            f"(should be below {GOOD_R_HAT})"
        )
    if draws <= GOOD_DRAWS:
        doubts.append(
            f"the chains are worth only {draws:,.0f} independent draws (should be above "
            f"{GOOD_DRAWS})"
        )
    if sweeps < FEW_SWEEPS:
        doubts.append(f"a chain made only {sweeps} sweeps (should be {FEW_SWEEPS} at least)")
    return doubts


def clearly_disagree(posterior: SumPosterior) -> bool:
    """Whether chains say such different things that their average means little."""
    return _numbers(posterior)[0] > MOST_R_HAT and chain_distance(posterior) > MOST_APART


def chain_distance(posterior: SumPosterior) -> float:
    """Standard deviation of a prediction over chains, on average over training rows.

    Of class probabilities; of numbers in tenths of the noise's standard deviation. Not known (nan)
    of a model that was saved without its training rows.
    """
    if isinstance(posterior.rows, LeftOutRows):
        return math.nan
    rows = posterior.rows.codes
    some = np.unique(np.linspace(0, len(rows) - 1, MOST_ROWS).round().astype(np.int64))
    draws = SumPredictor(posterior).draws(rows[some])
    numbers = np.unique(posterior.chain)
    chains = [draws[:, posterior.chain == number].mean(axis=1) for number in numbers]
    apart = float(np.std(chains, axis=0).mean())
    if isinstance(posterior.leaf, NormalLeaf):
        apart /= NOISE_APART * posterior.leaf.scale * math.sqrt(posterior.noise.mean())
    return apart


def _overall(posterior: SumPosterior) -> tuple[Level, str]:
    r_hat, draws, sweeps = _numbers(posterior)
    if clearly_disagree(posterior) or sweeps < FEW_SWEEPS:
        return "poor", (
            "Do not rely on this fit yet; allow more n_sweeps and a larger time_budget, or use "
            "fewer n_summed."
        )
    if math.isnan(r_hat) or math.isnan(draws):
        return "unknown", (
            "Too little is known to judge this fit; run it longer, or judge by held-out rows."
        )
    if sum_doubts(posterior):
        return "fair", (
            "Usable, with room for doubt (see below): the chains agree only roughly; more n_sweeps "
            "help."
        )
    return "good", "The chains agree on what they predict; nothing speaks against this fit."


def sum_items(posterior: SumPosterior) -> list[TrustItem]:
    """Judge every number that the chains know of themselves."""
    r_hat, draws, sweeps = _numbers(posterior)
    diagnostics = posterior.diagnostics
    r_hat_text = draws_text = "not known"
    if not math.isnan(r_hat):
        r_hat_text = f"{r_hat:.3f} on average, {diagnostics['r_hat_largest']:.3f} at most"
    if not math.isnan(draws):
        draws_text = f"{draws:,.0f} on average, {diagnostics['ess_smallest']:,.0f} at least"
    accepted, apart = diagnostics["acceptance"], chain_distance(posterior)
    apart_text = f"{apart:.3f} of a probability"
    if isinstance(posterior.leaf, NormalLeaf):
        apart_text = f"{NOISE_APART * apart:.2f} of the noise"
    if math.isnan(apart):
        apart_text = "not known"
    return [
        TrustItem(
            "r_hat",
            "R-hat",
            known(r_hat),
            None,
            r_hat_text,
            "fair"
            if r_hat > GOOD_R_HAT and apart <= MOST_APART
            else at_most(r_hat, GOOD_R_HAT, MOST_R_HAT),
            "Whether the chains agree on what they say of training rows: 1 if they do, on average "
            f"it should be below {GOOD_R_HAT}.",
        ),
        TrustItem(
            "apart",
            "Distance of the chains",
            known(apart),
            None,
            apart_text,
            at_most(apart, GOOD_APART, MOST_APART),
            "How far what the chains predict of training rows is apart, on average: the standard "
            "deviation of a class probability, or of a number in units of the noise's.",
        ),
        TrustItem(
            "draws",
            "Independent draws",
            known(draws),
            None,
            draws_text,
            at_least(draws, GOOD_DRAWS, LEAST_DRAWS),
            "How many independent draws of a prediction the chains are worth (should be above "
            f"{GOOD_DRAWS}); more n_sweeps help.",
        ),
        TrustItem(
            "sweeps",
            "Sweeps",
            float(sweeps),
            None,
            f"{sweeps:,} by the slowest of {len(diagnostics['sweeps_per_chain'])} chains",
            at_least(sweeps, FEW_SWEEPS, FEW_SWEEPS),
            "How often a chain has drawn every tree anew; the first third is not kept.",
        ),
        TrustItem(
            "acceptance",
            "Accepted proposals",
            known(accepted["tree"]),
            None,
            f"{accepted['tree']:.0%} of whole trees, {accepted['twig']:.0%} of subtrees",
            "unknown",
            "How many of the proposed trees the chains took; a low share makes them slow, which "
            "the numbers above tell.",
        ),
    ]


def _numbers(posterior: SumPosterior) -> tuple[float, float, int]:
    """R-hat and independent draws of predictions, nan where not known, and the fewest sweeps."""
    diagnostics = posterior.diagnostics
    r_hat, draws = diagnostics["r_hat_mean"], diagnostics["ess_mean"]
    return (
        math.nan if r_hat is None else r_hat,
        math.nan if draws is None else draws,
        min(diagnostics["sweeps_per_chain"]),
    )
