"""When not to trust a sampled posterior: by the exact answer, and without it."""

from __future__ import annotations

import math
import sys
import warnings
from typing import Any

import numpy as np

from dtgfn.diagnostics.comparison import Comparison, compare
from dtgfn.diagnostics.distances import top_trees
from dtgfn.posterior.importance_weights import (
    effective_sample_size,
    evidence_estimate,
    pareto_shape,
)
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.trees.batch import TreeBatch, tally

__all__ = [
    "Comparison",
    "UntrustworthyFit",
    "compare",
    "distinct_share",
    "effective_sample_size",
    "evidence_estimate",
    "pareto_shape",
    "top_trees",
    "trust",
    "warn_if_untrustworthy",
]

LEAST_ESS = 0.5
GOOD_ESS = 0.9
MOST_SHAPE = 0.7
MOST_ERROR = 0.1
MOST_R_HAT = 1.05
MOST_OPEN = 0.05
LEAST_DRAWS = 100
# So few distinct trees (fifty draws each) that their frequencies can be held against their scores.
FEW_TREES = 0.02
MOST_MISMATCH = 0.2


# What else each engine can be given more of.
MORE = {"gfn": ", more n_steps", "mcmc": ", more n_steps", "smc": ", more n_sweeps"}


class UntrustworthyFit(UserWarning):
    """A fit whose own numbers say that its posterior may be off."""


def trust(posterior: TreePosterior) -> list[str]:
    """Say what speaks against a fit, from what it knows itself; an empty list is no proof.

    Everything here is seen from trees that the sampler drew. A mode that it never draws leaves
    importance weights, their effective sample size and the evidence estimate looking fine: only
    ``compare`` with the exact answer sees it (an EUBO gap far above the ELBO gap).

    Examples
    --------
    >>> from dtgfn import infer
    >>> X, y = [[1.0], [2.0], [8.0], [9.0]] * 5, [0, 0, 1, 1] * 5
    >>> trust(infer(X, y, engine="exact", max_depth=1))
    []

    """
    doubts = [*_weight_doubts(posterior), *frequency_doubts(posterior)]
    error = posterior.log_evidence_error
    if error > MOST_ERROR:
        doubts.append(
            f"the log evidence has a standard error of {error:.2f} (should be below {MOST_ERROR})"
        )
    doubts += _chain_doubts(posterior.diagnostics)
    doubts += _training_doubts(posterior)
    return doubts + _drawing_doubts(posterior) + referee_doubts(posterior)


def _training_doubts(posterior: TreePosterior) -> list[str]:
    """What a training says about itself."""
    doubts, told = [], posterior.diagnostics
    unseen = open_share(told)
    if unseen is not None and unseen > MOST_OPEN:
        doubts.append(
            f"{unseen:.0%} of the trees pass parts of the search space whose worth is only guessed "
            f"(should be below {MOST_OPEN:.0%})"
        )
    elif told.get("early") and told.get("open_most", 1.0) > MOST_OPEN:
        doubts.append(
            f"after {told['n_steps']:,} training steps it is too early to tell what the parts of "
            "the search space hold that nobody has looked at"
        )
    if told.get("settled") is False:
        elbo = [entry["elbo"] for entry in posterior.history if entry.get("elbo") is not None]
        gain = f"{elbo[-1] - elbo[len(elbo) // 2]:.2f} nats in its last half" if elbo else "unknown"
        doubts.append(f"the ELBO was still rising when training ended ({gain})")
    return doubts


def open_share(diagnostics: dict[str, Any]) -> float | None:
    """Share of the posterior that nobody has looked at: guessed, or proven to be less."""
    guessed, most = diagnostics.get("open"), diagnostics.get("open_most", 1.0)
    return None if guessed is None else min(float(guessed), float(most))


def referee_doubts(posterior: TreePosterior) -> list[str]:
    """What a little exact work says against an engine that cannot see what it misses."""
    doubts, told = [], posterior.diagnostics
    error, value = posterior.log_evidence_error, posterior.log_evidence
    if posterior.engine == "smc" and math.isnan(error):
        doubts.append("the evidence is that of one sweep, so its error is not known")
    allowed = MOST_ERROR if math.isnan(error) else max(4 * error, MOST_ERROR)
    below, above = (
        told.get("referee_floor", -math.inf) - value,
        value - told.get("referee_ceiling", math.inf),
    )
    for gap, side in ((below, "below"), (above, "above")):
        if gap > allowed:
            doubts.append(f"the log evidence is at least {gap:.2g} nats {side} what sums prove")
    if told.get("missed", 0.0) > MOST_OPEN:
        doubts.append(
            f"at least {told['missed']:.0%} of the posterior is proven to be where no drawn tree is"
        )
    return doubts


def _drawing_doubts(posterior: TreePosterior) -> list[str]:
    """What drawing the trees found out about the policy they were drawn from."""
    doubts, told = [], posterior.diagnostics
    lifted, gain = told.get("evidence_lifted", 0.0), told.get("drawing_gain", 0.0)
    if lifted > MOST_ERROR:
        doubts.append(
            f"trees that are known add up to {lifted:.2g} nats more than the evidence estimated "
            "from the drawn ones, which miss them"
        )
    if gain > MOST_ERROR:
        doubts.append(
            f"drawing trees found {gain:.2f} nats of evidence that training had missed (should be "
            f"below {MOST_ERROR})"
        )
    if "thinned_to" in told:
        doubts.append(
            f"the time was too short for one sweep, so only {told['thinned_to']:,} of "
            f"{told['particles']:,} particles were kept to its end"
        )
    n_trees, wanted = len(posterior.trees), told.get("wanted_trees", 0)
    if n_trees < min(wanted, LEAST_DRAWS):
        doubts.append(f"there was time for only {n_trees:,} of {wanted:,} trees")
    if told.get("cut_short", 0.0) > MOST_OPEN:
        doubts.append(
            f"{told['cut_short']:.0%} of the trees end where there was no time to look further "
            f"(should be below {MOST_OPEN:.0%})"
        )
    return doubts


def warn_if_untrustworthy(posterior: TreePosterior, *, stacklevel: int | None = None) -> None:
    """Warn in one sentence, with the way out, if anything speaks against a fit.

    ``stacklevel`` is that of ``warnings.warn``; None names the line that called the package.
    """
    doubts = trust(posterior)
    if doubts:
        warnings.warn(
            f"The {posterior.engine} posterior may be off: {'; '.join(doubts)}; allow a larger "
            f"time_budget{MORE.get(posterior.engine, '')}, fewer n_thresholds or a smaller "
            "max_depth.",
            UntrustworthyFit,
            stacklevel=_levels_to_caller() if stacklevel is None else stacklevel,
        )


def _levels_to_caller() -> int:
    """How many frames up, seen from the caller, the first one outside of this package is."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("dtgfn."):
        frame, level = frame.f_back, level + 1
    return level


def distinct_share(trees: TreeBatch) -> float:
    """Number of distinct trees over number of trees; nan without trees."""
    if len(trees) == 0:
        return math.nan
    return len(tally(trees, np.ones(len(trees)))[0]) / len(trees)


def _weight_doubts(posterior: TreePosterior) -> list[str]:
    """What importance weights say, where they are weights of a known sampler."""
    weighted = "ess" in posterior.diagnostics or not np.isnan(posterior.log_prob).any()
    if len(posterior.trees) == 0 or not weighted:
        return []
    doubts = []
    share, shape = effective_sample_size(posterior.log_weight), pareto_shape(posterior.log_weight)
    if share < LEAST_ESS:
        n_trees = len(posterior.trees)
        doubts.append(
            f"{n_trees:,} weighted trees are worth only {share * n_trees:,.0f} independent ones "
            f"(an effective sample size of {share:.2f}, should be above {LEAST_ESS})"
        )
    # Where nearly all weights are equal, the shape of a tail of few says nothing.
    if shape > MOST_SHAPE and share < GOOD_ESS:
        doubts.append(
            f"the weights have a heavy tail, with a Pareto shape of {shape:.2f} "
            f"(should be below {MOST_SHAPE})"
        )
    return doubts


def frequency_doubts(posterior: TreePosterior) -> list[str]:
    """Hold the frequencies of few distinct trees against the proportions of their scores.

    A sampler may rightly return few trees where few are probable, but then in proportion to R.
    """
    n_trees = len(posterior.trees)
    share = distinct_share(posterior.trees)
    if not share < FEW_TREES:
        return []
    first, frequency = tally(posterior.trees, posterior.weights)
    log_target = posterior.log_reward[first] / posterior.score.temperature
    wanted = np.exp(log_target - log_target.max())
    mismatch = 0.5 * float(np.abs(frequency - wanted / wanted.sum()).sum())
    if mismatch <= MOST_MISMATCH:
        return []
    return [
        f"only {len(first)} of {n_trees:,} trees are distinct, and {mismatch:.0%} of their weight "
        "is not where their scores want it"
    ]


def _chain_doubts(diagnostics: dict[str, Any]) -> list[str]:
    """What Markov chains say of each other: any ``r_hat...`` and ``ess_log_reward``."""
    doubts = []
    named = [value for name, value in diagnostics.items() if name.startswith("r_hat")]
    r_hat = max((value for value in named if value is not None), default=math.nan)
    if r_hat > MOST_R_HAT:
        doubts.append(
            f"the chains disagree, with an R-hat of {r_hat:.2f} (should be below {MOST_R_HAT})"
        )
    worth = [diagnostics.get(name) for name in ("ess_log_reward", "ess_columns")]
    n_draws = min((value for value in worth if value is not None), default=None)
    if n_draws is not None and n_draws < LEAST_DRAWS:
        doubts.append(
            f"the chains are worth only {n_draws:,.0f} independent draws "
            f"(should be above {LEAST_DRAWS})"
        )
    return doubts
