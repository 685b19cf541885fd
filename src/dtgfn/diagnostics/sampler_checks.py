"""What the drawn trees, and the way they were drawn, say for and against a posterior.

Items are numbers, each with a level and a plain sentence; doubts are sentences about bad ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dtgfn.posterior.importance_weights import effective_sample_size, pareto_shape
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.trees.batch import TreeBatch, distinct_trees, tally

Level = Literal["good", "fair", "poor", "unknown"]

LEAST_ESS, GOOD_ESS = 0.5, 0.9
MOST_SHAPE, GOOD_SHAPE = 0.7, 0.5
MOST_R_HAT, GOOD_R_HAT = 1.05, 1.01
LEAST_DRAWS, GOOD_DRAWS = 100, 400
MOST_OPEN = 0.05
MOST_MARGINAL_GAP = 0.01  # of a probability, beyond chance
MOST_ERROR = 0.1  # nats
# So few distinct trees (fifty draws each) that their frequencies can be held against their scores.
FEW_TREES = 0.02
MOST_MISMATCH = 0.2


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


def at_least(value: float, good: float, fair: float) -> Level:
    """Grade a number that should be large."""
    return "unknown" if math.isnan(value) else _graded(value >= good, value >= fair)


def at_most(value: float, good: float, fair: float) -> Level:
    """Grade a number that should be small."""
    return "unknown" if math.isnan(value) else _graded(value <= good, value <= fair)


def _graded(good: bool, fair: bool) -> Level:
    return "good" if good else "fair" if fair else "poor"


def known(value: float | None) -> float | None:
    """Return a finite number, None for any other."""
    return None if value is None or not math.isfinite(value) else float(value)


def weight_items(posterior: TreePosterior) -> Iterator[TrustItem]:
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
        known(share),
        None,
        f"{share:.0%}: {share * n_trees:,.0f} of {n_trees:,} trees",
        at_least(share, GOOD_ESS, LEAST_ESS),
        "How many independent posterior draws the weighted trees are worth; more is better, below "
        f"{LEAST_ESS:.0%} a few trees carry the average.",
    )
    shape = pareto_shape(posterior.log_weight)
    even = share >= GOOD_ESS
    yield TrustItem(
        "pareto",
        "Pareto shape of the weights",
        known(shape),
        None,
        "no tail" if math.isnan(shape) else f"{shape:.2f}",
        "good" if even else at_most(shape, GOOD_SHAPE, MOST_SHAPE),
        "Weights are nearly equal, so the shape of their tail does not matter."
        if even
        else f"How heavy the tail of the weights is; above {MOST_SHAPE} averages over them cannot "
        "be relied on, however many trees there are.",
    )


def weight_doubts(posterior: TreePosterior) -> list[str]:
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


def sweep_items(posterior: TreePosterior) -> Iterator[TrustItem]:
    """What sequential Monte Carlo says: its ``ess`` is a number of particles, not a share."""
    diagnostics = posterior.diagnostics
    if "effective_sweeps" not in diagnostics:
        return
    n_sweeps, worth = int(diagnostics["sweeps"]), float(diagnostics["effective_sweeps"])
    alone = n_sweeps == 1
    yield TrustItem(
        "sweeps",
        "Effective sweeps",
        worth,
        None,
        f"{worth:.1f} of {n_sweeps:,}",
        "unknown" if alone else at_least(worth / n_sweeps, LEAST_ESS, 0.2),
        "One sweep cannot be held against others; allow more n_sweeps."
        if alone
        else "How many sweeps carry the average: few of many means that most of them missed the "
        "best trees.",
    )
    particles, effective = int(diagnostics["particles"]), float(diagnostics["ess"])
    yield TrustItem(
        "ess",
        "Effective particles",
        effective,
        None,
        f"{effective:,.0f} of {particles:,} in a sweep",
        at_least(effective / particles, LEAST_ESS, 0.2),
        "How many particles still count at the end of a sweep, on average; more n_particles help.",
    )


def chain_items(posterior: TreePosterior) -> Iterator[TrustItem]:
    """What Markov chains say of each other."""
    diagnostics = posterior.diagnostics
    named = [value for name, value in diagnostics.items() if name.startswith("r_hat")]
    if named:
        r_hat = max((value for value in named if value is not None), default=math.nan)
        yield TrustItem(
            "r_hat",
            "R-hat",
            known(r_hat),
            None,
            "not known" if math.isnan(r_hat) else f"{r_hat:.3f}",
            at_most(r_hat, GOOD_R_HAT, MOST_R_HAT),
            "Whether chains that began apart agree on log R, on sizes and on columns: 1 if they "
            f"do, above {MOST_R_HAT} they have not mixed.",
        )
    if "ess_log_reward" in diagnostics:
        worth = (diagnostics["ess_log_reward"], diagnostics.get("ess_columns"))
        draws = float(min((value for value in worth if value is not None), default=math.nan))
        yield TrustItem(
            "draws",
            "Independent draws",
            known(draws),
            None,
            "not known" if math.isnan(draws) else f"{draws:,.0f}",
            at_least(draws, GOOD_DRAWS, LEAST_DRAWS),
            f"How many independent draws the chains are worth (should be above {LEAST_DRAWS}); "
            "more n_steps help.",
        )


def chain_doubts(diagnostics: dict[str, Any]) -> list[str]:
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


def training_items(posterior: TreePosterior) -> Iterator[TrustItem]:
    """What a training says about itself, and how drawing trees from it ended."""
    diagnostics = posterior.diagnostics
    unseen = _open_share(diagnostics)
    if unseen is not None:
        yield TrustItem(
            "open",
            "Open mass",
            float(unseen),
            None,
            f"{unseen:.1%}",
            at_most(float(unseen), MOST_OPEN / 5, MOST_OPEN),
            "Share of the drawn trees that pass parts of the search space whose worth is only "
            f"guessed, or what they can hold at most if that is less (should be below "
            f"{MOST_OPEN:.0%}).",
        )
    wanted = diagnostics.get("wanted_trees")
    if wanted is not None and len(posterior.trees) < wanted:
        yield TrustItem(
            "drawn",
            "Trees drawn in time",
            float(len(posterior.trees)),
            None,
            f"{len(posterior.trees):,} of {wanted:,}",
            at_least(len(posterior.trees), GOOD_DRAWS, LEAST_DRAWS),
            "How many trees the time budget left time for.",
        )
    if diagnostics.get("cut_short"):
        yield TrustItem(
            "cut_short",
            "Trees cut short",
            float(diagnostics["cut_short"]),
            None,
            f"{diagnostics['cut_short']:.1%}",
            at_most(diagnostics["cut_short"], MOST_OPEN / 5, MOST_OPEN),
            "Share of the drawn trees that end where there was no time to look further (should be "
            f"below {MOST_OPEN:.0%}).",
        )
    if "settled" in diagnostics:
        settled = diagnostics["settled"]
        text = {True: "yes", False: "no", None: "too early to tell"}[settled]
        level: Level = {True: "good", False: "poor", None: "unknown"}[settled]  # type: ignore[assignment]
        because = diagnostics.get("stopped_because")
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


def training_doubts(posterior: TreePosterior) -> list[str]:
    """What a training says about itself."""
    doubts, diagnostics = [], posterior.diagnostics
    unseen = _open_share(diagnostics)
    if unseen is not None and unseen > MOST_OPEN:
        doubts.append(
            f"{unseen:.0%} of the trees pass parts of the search space whose worth is only guessed "
            f"(should be below {MOST_OPEN:.0%})"
        )
    elif diagnostics.get("early") and diagnostics.get("open_most", 1.0) > MOST_OPEN:
        doubts.append(
            f"after {diagnostics['n_steps']:,} training steps it is too early to tell what the "
            "parts of the search space hold that nobody has looked at"
        )
    if diagnostics.get("settled") is False:
        elbo = [entry["elbo"] for entry in posterior.history if entry.get("elbo") is not None]
        gain = f"{elbo[-1] - elbo[len(elbo) // 2]:.2f} nats in its last half" if elbo else "unknown"
        doubts.append(f"the ELBO was still rising when training ended ({gain})")
    return doubts


def _open_share(diagnostics: dict[str, Any]) -> float | None:
    """Share of the posterior that nobody has looked at: guessed, or proven to be less."""
    guessed, most = diagnostics.get("open"), diagnostics.get("open_most", 1.0)
    return None if guessed is None else min(float(guessed), float(most))


def drawing_doubts(posterior: TreePosterior) -> list[str]:
    """What drawing the trees found out about the policy they were drawn from."""
    doubts, diagnostics = [], posterior.diagnostics
    lifted, gain = diagnostics.get("evidence_lifted", 0.0), diagnostics.get("drawing_gain", 0.0)
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
    if "thinned_to" in diagnostics:
        doubts.append(
            f"the time was too short for one sweep, so only {diagnostics['thinned_to']:,} of "
            f"{diagnostics['particles']:,} particles were kept to its end"
        )
    n_trees, wanted = len(posterior.trees), diagnostics.get("wanted_trees", 0)
    if n_trees < min(wanted, LEAST_DRAWS):
        doubts.append(f"there was time for only {n_trees:,} of {wanted:,} trees")
    if diagnostics.get("cut_short", 0.0) > MOST_OPEN:
        doubts.append(
            f"{diagnostics['cut_short']:.0%} of the trees end where there was no time to look "
            f"further (should be below {MOST_OPEN:.0%})"
        )
    return doubts


def distinct_items(posterior: TreePosterior) -> Iterator[TrustItem]:
    """How many different trees were drawn."""
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


def distinct_share(trees: TreeBatch) -> float:
    """Number of distinct trees over number of trees; nan without trees.

    Parameters
    ----------
    trees : TreeBatch
        Any trees.

    Returns
    -------
    float
        From 0 to 1.

    """
    if len(trees) == 0:
        return math.nan
    return len(distinct_trees(trees)[0]) / len(trees)


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
