"""What speaks for or against a posterior: each number with a level and a plain sentence."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dtgfn.diagnostics.comparison import Comparison, compare
from dtgfn.diagnostics.doubts import (
    GOOD_ESS,
    LEAST_DRAWS,
    LEAST_ESS,
    MOST_ERROR,
    MOST_OPEN,
    MOST_R_HAT,
    MOST_SHAPE,
    distinct_share,
    effective_sample_size,
    frequency_doubts,
    open_share,
    pareto_shape,
    referee_doubts,
)
from dtgfn.posterior.tree_posterior import TreePosterior

Level = Literal["good", "fair", "poor", "unknown"]

GOOD_R_HAT = 1.01
GOOD_SHAPE = 0.5
GOOD_DRAWS = 4 * LEAST_DRAWS
GOOD_GAP, MOST_GAP = 0.1, 0.5  # nats
COMPARED = "Compare it between fits of the same rows, thresholds and split_penalty."


@dataclass(frozen=True)
class TrustItem:
    """One number that speaks for or against a posterior."""

    key: str
    name: str
    value: float | None
    error: float | None
    text: str
    level: Level
    sentence: str


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
        _evidence(posterior),
        *_gap_to_exact(posterior, exact),
        *_bounds(posterior),
        *_elbo(posterior),
        *_weights(posterior),
        *_sweeps(posterior),
        *_chains(posterior),
        *_ruling(posterior),
        *_training(posterior),
        *_bags(posterior),
        *_distinct(posterior),
    ]


def _at_least(value: float, good: float, fair: float) -> Level:
    return "unknown" if math.isnan(value) else _graded(value >= good, value >= fair)


def _at_most(value: float, good: float, fair: float) -> Level:
    return "unknown" if math.isnan(value) else _graded(value <= good, value <= fair)


def _graded(good: bool, fair: bool) -> Level:
    return "good" if good else "fair" if fair else "poor"


def _known(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def _evidence(posterior: TreePosterior) -> TrustItem:
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
    level = _at_most(error, MOST_ERROR, 3 * MOST_ERROR)
    if posterior.diagnostics.get("exact") is True:
        sentence = f"The {meaning}, estimated by a sampler without a gap (next number). {COMPARED}"
    else:
        sentence = (
            f"An estimate of the {meaning}, with its standard error in nats (should be below "
            f"{MOST_ERROR}); the error knows only trees that were drawn."
        )
    text = f"{value:.3f} ± {error:.3f}" if error >= 5e-4 else f"{value:.3f} ± < 0.001"
    return TrustItem("evidence", name, value, error, text, level, sentence)


def _gap_to_exact(posterior: TreePosterior, exact: TreePosterior | None) -> Iterator[TrustItem]:
    name = "Gap to the exact answer"
    if posterior.is_exact:
        sentence = "None: every tree has been summed over."
        yield TrustItem("exact_gap", name, 0.0, 0.0, "0", "good", sentence)
    elif exact is not None:
        yield from _compared(compare(posterior, exact))
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


def _compared(found: Comparison) -> Iterator[TrustItem]:
    """What a comparison with the exact posterior says."""
    error = found.log_z_error
    level = _at_most(abs(error), GOOD_GAP, MOST_GAP)
    yield TrustItem(
        "exact_gap",
        "Gap to the exact answer",
        _known(error),
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
            _known(missed),
            _known(found.eubo_error),
            text,
            _at_most(missed, GOOD_GAP, MOST_GAP),
            "How much less probable the sampler makes trees that the exact posterior draws (EUBO "
            "minus log evidence); large where it hardly ever draws what it should.",
        )
    floor = found.prediction_variation_floor_high
    yield TrustItem(
        "exact_prediction",
        "Distance of predictions",
        _known(found.prediction_variation),
        None,
        f"{found.prediction_variation:.4f} (exact draws: up to {floor:.4f})",
        _at_most(found.prediction_variation, 2 * floor, 4 * floor + 0.01),
        "Mean distance of the predictions from the exact average, next to that of as many "
        "exact draws: up to twice as much may be chance.",
    )


def _bounds(posterior: TreePosterior) -> Iterator[TrustItem]:
    """What is proven of log Z, where anything is."""
    told = posterior.diagnostics
    if "log_z_ceiling" not in told or told.get("exact") is True:
        return
    floor, ceiling, most = told["log_z_floor"], told["log_z_ceiling"], told["open_most"]
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


def _elbo(posterior: TreePosterior) -> Iterator[TrustItem]:
    elbo = posterior.diagnostics.get("elbo")
    if elbo is None:
        return
    gap = posterior.log_evidence - elbo
    yield TrustItem(
        "elbo",
        "ELBO",
        _known(elbo),
        None,
        f"{elbo:.3f} ({gap:.3f} below)",
        _at_most(gap, GOOD_GAP, MOST_GAP),
        "A lower bound of the log evidence. The distance between the two, in nats, tells how far "
        f"the sampler is from the posterior where it looks (good below {GOOD_GAP}).",
    )


def _weights(posterior: TreePosterior) -> Iterator[TrustItem]:
    """What importance weights say; engines that draw from the posterior have equal ones."""
    n_trees = len(posterior.trees)
    if posterior.is_exact:
        sentence = "Trees are drawn independently from the exact posterior; all count in full."
        text = f"{n_trees:,} of {n_trees:,} trees"
        yield TrustItem("ess", "Effective sample size", 1.0, None, text, "good", sentence)
    if posterior.engine != "gfn" or posterior.is_bagged or n_trees == 0:
        return
    share = effective_sample_size(posterior.log_weight)
    yield TrustItem(
        "ess",
        "Effective sample size",
        _known(share),
        None,
        f"{share:.0%}: {share * n_trees:,.0f} of {n_trees:,} trees",
        _at_least(share, GOOD_ESS, LEAST_ESS),
        "How many independent posterior draws the weighted trees are worth; more is better, below "
        f"{LEAST_ESS:.0%} a few trees carry the average.",
    )
    shape = pareto_shape(posterior.log_weight)
    even = share >= GOOD_ESS
    yield TrustItem(
        "pareto",
        "Pareto shape of the weights",
        _known(shape),
        None,
        "no tail" if math.isnan(shape) else f"{shape:.2f}",
        "good" if even else _at_most(shape, GOOD_SHAPE, MOST_SHAPE),
        "Weights are nearly equal, so the shape of their tail does not matter."
        if even
        else f"How heavy the tail of the weights is; above {MOST_SHAPE} averages over them cannot "
        "be relied on, however many trees there are.",
    )


def _sweeps(posterior: TreePosterior) -> Iterator[TrustItem]:
    """What sequential Monte Carlo says: its ``ess`` is a number of particles, not a share."""
    told = posterior.diagnostics
    if "effective_sweeps" not in told:
        return
    n_sweeps, worth = int(told["sweeps"]), float(told["effective_sweeps"])
    alone = n_sweeps == 1
    yield TrustItem(
        "sweeps",
        "Effective sweeps",
        worth,
        None,
        f"{worth:.1f} of {n_sweeps:,}",
        "unknown" if alone else _at_least(worth / n_sweeps, LEAST_ESS, 0.2),
        "One sweep cannot be held against others; allow more n_sweeps."
        if alone
        else "How many sweeps carry the average: few of many means that most of them missed the "
        "best trees.",
    )
    particles, effective = int(told["particles"]), float(told["ess"])
    yield TrustItem(
        "ess",
        "Effective particles",
        effective,
        None,
        f"{effective:,.0f} of {particles:,} in a sweep",
        _at_least(effective / particles, LEAST_ESS, 0.2),
        "How many particles still count at the end of a sweep, on average; more n_particles help.",
    )


def _chains(posterior: TreePosterior) -> Iterator[TrustItem]:
    told = posterior.diagnostics
    named = [value for name, value in told.items() if name.startswith("r_hat")]
    if named:
        r_hat = max((value for value in named if value is not None), default=math.nan)
        yield TrustItem(
            "r_hat",
            "R-hat",
            _known(r_hat),
            None,
            "not known" if math.isnan(r_hat) else f"{r_hat:.3f}",
            _at_most(r_hat, GOOD_R_HAT, MOST_R_HAT),
            "Whether chains that began apart agree on log R, on sizes and on columns: 1 if they "
            f"do, above {MOST_R_HAT} they have not mixed.",
        )
    if "ess_log_reward" in told:
        worth = (told["ess_log_reward"], told.get("ess_columns"))
        draws = float(min((value for value in worth if value is not None), default=math.nan))
        yield TrustItem(
            "draws",
            "Independent draws",
            _known(draws),
            None,
            "not known" if math.isnan(draws) else f"{draws:,.0f}",
            _at_least(draws, GOOD_DRAWS, LEAST_DRAWS),
            f"How many independent draws the chains are worth (should be above {LEAST_DRAWS}); "
            "more n_steps help.",
        )


def _ruling(posterior: TreePosterior) -> Iterator[TrustItem]:
    """What a little exact work proves of an engine that cannot see what it misses."""
    told = posterior.diagnostics
    if "referee_floor" not in told:
        return
    floor, ceiling = told["referee_floor"], told.get("referee_ceiling", math.inf)
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


def _training(posterior: TreePosterior) -> Iterator[TrustItem]:
    told = posterior.diagnostics
    unseen = open_share(told)
    if unseen is not None:
        yield TrustItem(
            "open",
            "Open mass",
            float(unseen),
            None,
            f"{unseen:.1%}",
            _at_most(float(unseen), MOST_OPEN / 5, MOST_OPEN),
            "Share of the drawn trees that pass parts of the search space whose worth is only "
            f"guessed, or what they can hold at most if that is less (should be below "
            f"{MOST_OPEN:.0%}).",
        )
    wanted = told.get("wanted_trees")
    if wanted is not None and len(posterior.trees) < wanted:
        yield TrustItem(
            "drawn",
            "Trees drawn in time",
            float(len(posterior.trees)),
            None,
            f"{len(posterior.trees):,} of {wanted:,}",
            _at_least(len(posterior.trees), GOOD_DRAWS, LEAST_DRAWS),
            "How many trees the time budget left time for.",
        )
    if told.get("cut_short"):
        yield TrustItem(
            "cut_short",
            "Trees cut short",
            float(told["cut_short"]),
            None,
            f"{told['cut_short']:.1%}",
            _at_most(told["cut_short"], MOST_OPEN / 5, MOST_OPEN),
            "Share of the drawn trees that end where there was no time to look further (should be "
            f"below {MOST_OPEN:.0%}).",
        )
    if "settled" in told:
        settled = told["settled"]
        text = {True: "yes", False: "no", None: "too early to tell"}[settled]
        level: Level = {True: "good", False: "poor", None: "unknown"}[settled]  # type: ignore[assignment]
        because = told.get("stopped_because")
        ended = f" Training ended by: {because}." if because else ""
        yield TrustItem(
            "settled",
            "Settled",
            None,
            None,
            text,
            level,
            f"Whether the ELBO had stopped rising when training ended.{ended}",
        )


def _bags(posterior: TreePosterior) -> Iterator[TrustItem]:
    told = posterior.diagnostics
    if not posterior.is_bagged:
        return
    score = told.get("out_of_bag_log_score")
    yield TrustItem(
        "out_of_bag",
        "Out-of-bag log score",
        _known(score),
        None,
        "not known" if score is None else f"{score:.4f}",
        "unknown",
        "Mean log probability of each training row's class by trees whose bag lacks the row: an "
        "honest score without held-out rows, 0 at best.",
    )


def _distinct(posterior: TreePosterior) -> Iterator[TrustItem]:
    n_trees = len(posterior.trees)
    if n_trees == 0:
        return
    share = distinct_share(posterior.trees)
    doubts = frequency_doubts(posterior)
    n_distinct = int(np.rint(share * n_trees))
    yield TrustItem(
        "distinct",
        "Distinct trees",
        share,
        None,
        f"{n_distinct:,} of {n_trees:,}",
        "poor" if doubts else "good",
        f"{doubts[0][0].upper()}{doubts[0][1:]}."
        if doubts
        else "How many different trees were drawn: many where the data leave the tree open, few "
        "where they settle it.",
    )
