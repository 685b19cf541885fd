"""The judgement of a posterior: its doubts, its numbers, and a verdict no better than the worst.

What drawn trees say is in ``sampler_checks``; here is what the evidence, its bounds and the exact
answer say, and everything together.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from dtgfn._support.callers import levels_to_caller
from dtgfn.diagnostics.exact_distance import Comparison, compare
from dtgfn.diagnostics.sampler_checks import (
    MOST_ERROR,
    MOST_MARGINAL_GAP,
    MOST_OPEN,
    Level,
    TrustItem,
    at_most,
    chain_doubts,
    chain_items,
    distinct_items,
    drawing_doubts,
    frequency_doubts,
    known,
    sweep_items,
    training_doubts,
    training_items,
    weight_doubts,
    weight_items,
)
from dtgfn.diagnostics.sum_checks import sum_doubts, sum_verdict
from dtgfn.posterior.of_model import Posterior
from dtgfn.posterior.sum_posterior import SumPosterior
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.trees.leaf_models import DirichletLeaf

GOOD_GAP, MOST_GAP = 0.1, 0.5  # nats
COMPARED = "Compare it between fits of the same rows, thresholds and split_penalty."
# What else each engine can be given more of.
MORE = {"gfn": ", more n_steps", "mcmc": ", more n_steps", "smc": ", more n_sweeps"}
ORDER: tuple[Level, ...] = ("good", "fair", "poor")
# Of the engine and its answer, not only of the draws.
TELLING = ("evidence", "exact_gap", "exact_prediction", "r_hat", "bounds", "referee")


class UntrustworthyFit(UserWarning):
    """A fit whose own numbers say that its posterior may be off."""


def trust(posterior: Posterior) -> list[str]:
    """Say what speaks against a fit, from what it knows itself; an empty list is no proof.

    Everything here is seen from trees that the sampler drew. A mode that it never draws leaves
    importance weights, their effective sample size and the evidence estimate looking fine: only
    ``compare`` with the exact answer sees it (an EUBO gap far above the ELBO gap).

    Parameters
    ----------
    posterior : TreePosterior or SumPosterior
        Whose trees, weights and training rows.

    Returns
    -------
    list of str
        Doubts, each in a clause; empty if there are none.

    Examples
    --------
    >>> from dtgfn import infer
    >>> X, y = [[1.0], [2.0], [8.0], [9.0]] * 5, [0, 0, 1, 1] * 5
    >>> trust(infer(X, y, engine="exact", max_depth=1))
    []

    """
    if isinstance(posterior, SumPosterior):
        return sum_doubts(posterior)
    doubts = [*weight_doubts(posterior), *frequency_doubts(posterior)]
    error = posterior.log_evidence_error
    if error > MOST_ERROR:
        doubts.append(
            f"the log evidence has a standard error of {error:.2f} (should be below {MOST_ERROR})"
        )
    doubts += chain_doubts(posterior.diagnostics)
    doubts += training_doubts(posterior)
    return doubts + drawing_doubts(posterior) + referee_doubts(posterior)


def warn_if_untrustworthy(posterior: TreePosterior, *, stacklevel: int | None = None) -> None:
    """Warn in one sentence, with the way out, if anything speaks against a fit.

    ``stacklevel`` is that of ``warnings.warn``; None names the line that called the package.

    Parameters
    ----------
    posterior : TreePosterior
        Whose trees, weights and training rows.
    stacklevel : int or None
        As of ``warnings.warn``; None names the line that called the package.

    """
    doubts = trust(posterior)
    if doubts:
        warnings.warn(
            f"The {posterior.engine} posterior may be off: {'; '.join(doubts)}; allow a larger "
            f"time_budget{MORE.get(posterior.engine, '')}, fewer n_thresholds or a smaller "
            "max_depth.",
            UntrustworthyFit,
            stacklevel=levels_to_caller() if stacklevel is None else stacklevel,
        )


def verdict(posterior: Posterior, exact: TreePosterior | None = None) -> dict[str, Any]:
    """Return the overall level, its sentence, all doubts and all items as plain JSON values.

    Parameters
    ----------
    posterior : TreePosterior or SumPosterior
        Whose trees, weights and training rows.
    exact : TreePosterior or None
        That of the exact engine, to hold single trees against.

    Returns
    -------
    dict
        ``level``, ``sentence``, ``doubts`` and ``items``.

    Examples
    --------
    >>> from dtgfn import infer
    >>> posterior = infer([[1.0], [2.0]] * 9, [0, 1] * 9, engine="exact", max_depth=1)
    >>> verdict(posterior)["level"]
    'good'

    """
    if isinstance(posterior, SumPosterior):
        return sum_verdict(posterior)
    items, doubts = trust_items(posterior, exact), trust(posterior)
    level, sentence = _overall(posterior, items, doubts, exact)
    return {
        "level": level,
        "sentence": sentence,
        "doubts": doubts,
        "items": [asdict(item) for item in items],
    }


def _overall(
    posterior: TreePosterior,
    items: list[TrustItem],
    doubts: list[str],
    exact: TreePosterior | None,
) -> tuple[Level, str]:
    """Level and sentence of everything together: no better than its worst part."""
    if posterior.is_exact:
        return "good", "This is the exact answer: a sum over all trees, nothing is approximated."
    if posterior.is_bagged:
        return "unknown", (
            "An average over bags has no evidence to be judged by, and the fit of each bag was not "
            "checked; judge it by held-out rows."
        )
    level = _worst(items)
    if doubts or level == "poor":
        way_out = f"allow a larger time_budget{MORE.get(posterior.engine, '')}"
        return "poor", (
            "Do not rely on this fit yet; " + way_out + ", or fewer n_thresholds or a smaller "
            "max_depth."
        )
    if exact is not None or posterior.diagnostics.get("exact") is True:
        close = "what it should be" if level == "good" else "close, with room for doubt (see below)"
        return level, f"Held against the exact answer, this fit is {close}."
    if level == "unknown":
        return (
            level,
            "Too little is known to judge this fit; run it longer, or judge by held-out rows.",
        )
    unseen = (
        "all of it is seen from trees that were drawn, so a group of trees that never was drawn "
        "would not show."
    )
    if level == "fair":
        return level, f"Usable, with room for doubt (see below); {unseen}"
    return level, f"Nothing speaks against this fit; {unseen}"


def _worst(items: list[TrustItem]) -> Level:
    """Return the worst known level; without a number that can tell, good ones prove nothing."""
    levels: list[Level] = [item.level for item in items if item.level != "unknown"]
    worst: Level = max(levels, key=ORDER.index, default="unknown")
    telling = any(item.key in TELLING and item.level != "unknown" for item in items)
    return worst if telling or worst != "good" else "unknown"


def trust_items(posterior: TreePosterior, exact: TreePosterior | None = None) -> list[TrustItem]:
    """Judge every number that a posterior knows of itself, and its distance to an exact one.

    Examples
    --------
    >>> from dtgfn import infer
    >>> posterior = infer([[1.0], [2.0]] * 9, [0, 1] * 9, engine="exact", max_depth=1)
    >>> [item.key for item in trust_items(posterior)]
    ['evidence', 'exact_gap', 'ess', 'distinct']

    """
    return [
        _evidence_item(posterior),
        *_exact_items(posterior, exact),
        *_bound_items(posterior),
        *_elbo_items(posterior),
        *weight_items(posterior),
        *sweep_items(posterior),
        *chain_items(posterior),
        *_referee_items(posterior),
        *training_items(posterior),
        *_bag_items(posterior),
        *distinct_items(posterior),
    ]


def _evidence_item(posterior: TreePosterior) -> TrustItem:
    value, error = posterior.log_evidence, posterior.log_evidence_error
    name, meaning = "Log evidence", "log of the sum of likelihood times prior, R, over all trees"
    if math.isnan(value):
        why = f"{posterior.engine} draws trees without estimating their sum"
        if posterior.is_bagged:
            why = "bags are many data sets, so there is no single evidence"
        sentence = f"Not known ({meaning}): {why}."
        return TrustItem("evidence", name, None, None, "not known", "unknown", sentence)
    if error == 0 and posterior.is_exact:
        sentence = f"Exact: the {meaning}. {COMPARED}"
        return TrustItem("evidence", name, value, 0.0, f"{value:.4f}", "good", sentence)
    if math.isnan(error):
        sentence = f"A single estimate of the {meaning}, so its error is not known."
        return TrustItem("evidence", name, value, None, f"{value:.3f}", "unknown", sentence)
    level = at_most(error, MOST_ERROR, 3 * MOST_ERROR)
    if posterior.diagnostics.get("exact") is True:
        sentence = f"The {meaning}, estimated by a sampler without a gap (next number). {COMPARED}"
    else:
        sentence = (
            f"An estimate of the {meaning}, with its standard error in nats (should be below "
            f"{MOST_ERROR}); the error knows only trees that were drawn."
        )
    text = f"{value:.3f} ± {error:.3f}" if error >= 5e-4 else f"{value:.3f} ± < 0.001"
    return TrustItem("evidence", name, value, error, text, level, sentence)


def _exact_items(posterior: TreePosterior, exact: TreePosterior | None) -> Iterator[TrustItem]:
    name = "Gap to the exact answer"
    if posterior.is_exact:
        sentence = "None: every tree has been summed over."
        yield TrustItem("exact_gap", name, 0.0, 0.0, "0", "good", sentence)
    elif exact is not None:
        yield from _comparison_items(compare(posterior, exact))
    elif posterior.diagnostics.get("exact") is True:
        sentence = (
            "None: training has looked at every way to split every set of rows that can come up, "
            "so it draws trees from the posterior itself."
        )
        yield TrustItem("exact_gap", name, 0.0, None, "0", "good", sentence)
    else:
        sentence = (
            "Only the exact engine can tell what this fit may have missed; where it is in reach, "
            "fit with inference='exact' too and compare."
        )
        yield TrustItem("exact_gap", name, None, None, "not known", "unknown", sentence)


def _comparison_items(found: Comparison) -> Iterator[TrustItem]:
    """What a comparison with the exact posterior says."""
    error = found.log_z_error
    level = at_most(abs(error), GOOD_GAP, MOST_GAP)
    yield TrustItem(
        "exact_gap",
        "Gap to the exact answer",
        known(error),
        None,
        "not known" if math.isnan(error) else f"{error:+.4f} nats",
        level,
        "Log evidence minus the exact one: below zero where trees were missed.",
    )
    missed = found.eubo_gap
    if not math.isnan(missed):
        text = "out of reach" if math.isinf(missed) else f"{missed:.4f} nats"
        yield TrustItem(
            "exact_missed",
            "Distance on exact trees",
            known(missed),
            known(found.eubo_error),
            text,
            at_most(missed, GOOD_GAP, MOST_GAP),
            "How much less probable the sampler makes trees that the exact posterior draws (EUBO "
            "minus log evidence); large where it hardly ever draws what it should.",
        )
    floor = found.prediction_variation_floor_high
    yield TrustItem(
        "exact_prediction",
        "Distance of predictions",
        known(found.prediction_variation),
        None,
        f"{found.prediction_variation:.4f} (exact draws: up to {floor:.4f})",
        at_most(found.prediction_variation, 2 * floor, 4 * floor + 0.01),
        "Mean distance of the predictions from the exact average, next to that of as many "
        "exact draws: up to twice as much may be chance.",
    )


def _bound_items(posterior: TreePosterior) -> Iterator[TrustItem]:
    """What is proven of log Z, where anything is."""
    diagnostics = posterior.diagnostics
    if "log_z_ceiling" not in diagnostics or diagnostics.get("exact") is True:
        return
    floor, ceiling, most = (
        diagnostics["log_z_floor"],
        diagnostics["log_z_ceiling"],
        diagnostics["open_most"],
    )
    yield TrustItem(
        "bounds",
        "Proven bounds",
        float(most),
        None,
        f"{floor:.3f} to {ceiling:.3f}",
        # Wide bounds prove nothing, for the fit or against it.
        "good" if most <= MOST_OPEN else "unknown",
        "The log evidence is not below what known trees add up to, and not above what parts nobody "
        f"has looked at could hold at most; trees that were never seen have at most {most:.1%} of "
        "the posterior.",
    )


def _elbo_items(posterior: TreePosterior) -> Iterator[TrustItem]:
    elbo = posterior.diagnostics.get("elbo")
    if elbo is None:
        return
    gap = posterior.log_evidence - elbo
    yield TrustItem(
        "elbo",
        "ELBO",
        known(elbo),
        None,
        f"{elbo:.3f} ({gap:.3f} below)",
        at_most(gap, GOOD_GAP, MOST_GAP),
        "A lower bound of the log evidence. The distance between the two, in nats, tells how far "
        f"the sampler is from the posterior where it looks (good below {GOOD_GAP}).",
    )


def _referee_items(posterior: TreePosterior) -> Iterator[TrustItem]:
    """What a little exact work proves of an engine that cannot see what it misses."""
    diagnostics = posterior.diagnostics
    if "referee_floor" not in diagnostics:
        return
    floor, ceiling = diagnostics["referee_floor"], diagnostics.get("referee_ceiling", math.inf)
    doubts = referee_doubts(posterior)
    yield TrustItem(
        "referee",
        "Held against sums",
        float(floor),
        None,
        f"log evidence {floor:.3f} to {ceiling:.3f}",
        "poor" if doubts else "good" if ceiling - floor <= GOOD_GAP else "unknown",
        "; ".join(f"{doubt[0].upper()}{doubt[1:]}" for doubt in doubts) + "."
        if doubts
        else "What summing some row sets proves of the log evidence, and of the columns that trees "
        "split on first: nothing against this fit. Wide bounds prove little.",
    )


def referee_doubts(posterior: TreePosterior) -> list[str]:
    """What a little exact work says against an engine that cannot see what it misses."""
    doubts, diagnostics = [], posterior.diagnostics
    error, value = posterior.log_evidence_error, posterior.log_evidence
    if posterior.engine == "smc" and math.isnan(error):
        doubts.append("the evidence is that of one sweep, so its error is not known")
    allowed = MOST_ERROR if math.isnan(error) else max(4 * error, MOST_ERROR)
    below, above = (
        diagnostics.get("referee_floor", -math.inf) - value,
        value - diagnostics.get("referee_ceiling", math.inf),
    )
    for gap, side in ((below, "below"), (above, "above")):
        if gap > allowed:
            doubts.append(f"the log evidence is at least {gap:.2g} nats {side} what sums prove")
    if diagnostics.get("missed", 0.0) > MOST_OPEN:
        doubts.append(
            f"at least {diagnostics['missed']:.0%} of the posterior is proven to be where no drawn "
            "tree is"
        )
    gap = diagnostics.get("marginal_gap", 0.0)
    if gap > MOST_MARGINAL_GAP:
        doubts.append(
            f"the columns or the sizes of the drawn trees are {gap:.2f} further from exact sums "
            "than so many draws may be"
        )
    return doubts


def _bag_items(posterior: TreePosterior) -> Iterator[TrustItem]:
    diagnostics = posterior.diagnostics
    if not posterior.is_bagged:
        return
    score = diagnostics.get("out_of_bag_log_score")
    of_classes = isinstance(posterior.score.leaf, DirichletLeaf)
    said = "probability of each training row's class" if of_classes else "density of each target"
    best = ", 0 at best" if of_classes else ""
    yield TrustItem(
        "out_of_bag",
        "Out-of-bag log score",
        known(score),
        None,
        "not known" if score is None else f"{score:.4f}",
        "unknown",
        f"Mean log {said} by trees whose bag lacks the row: an honest score without held-out "
        f"rows{best}.",
    )
