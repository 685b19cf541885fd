"""How far a sampled posterior is from the exact one, on the same rows and score.

Finite samples are at a distance from the truth even if they are drawn from it. So each distance
comes with its floor: the same number for exact draws, as many as the sampler's are worth. That
worth is a rule of thumb for weighted trees: up to twice the floor may still be chance.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dtgfn._support.arrays import Codes, Floats
from dtgfn.diagnostics.distances import (
    Distances,
    Truth,
    distances,
    exact_solution,
    floors,
    make_truth,
)
from dtgfn.posterior.importance_weights import effective_sample_size
from dtgfn.posterior.tree_posterior import TreePosterior, as_posterior
from dtgfn.trees.batch import TreeBatch
from dtgfn.trees.score import merge_rows

N_REPLICATES = 10
N_TOP = 100


@dataclass(frozen=True)
class Comparison:
    """Distances of a sampled posterior from the exact one; nan where a number is not known.

    Attributes
    ----------
    engine : str
        Engine of the sampled posterior.
    n_trees, n_effective
        Trees it sampled, and how many independent ones their weights are worth.
    log_z_error : float
        Its log evidence minus the exact one.
    elbo, elbo_gap, elbo_error : float
        Mean of log R / temperature - log_prob over its trees; log Z minus that, which is
        KL(sampler || posterior) and does not see what the sampler never draws; standard error.
    eubo, eubo_gap, eubo_error : float
        The same mean over exact trees; that minus log Z, which is KL(posterior || sampler) and
        does see it: inf where the sampler can never draw one of these trees.
    unreachable_mass : float
        Share of the exact trees that the sampler can never draw.
    ess : float
        Share of its draws that its importance weights are worth.
    tree_variation, tree_variation_floor, tree_variation_floor_high : float
        Total variation between weighted tree frequencies and exact probabilities; mean and largest
        of the same for ``n_effective`` exact draws.
    prediction_variation, prediction_variation_floor, prediction_variation_floor_high : float
        Total variation between P(y | x) and the exact average, as a mean over rows.
    prediction_variation_max : float
        That of the worst row.
    mass_covered, mass_covered_ceiling : float
        Posterior mass of the distinct trees sampled; mean of the same for ``n_trees`` exact draws.
    top_trees, top_mass : int, float
        How many most probable trees were looked for (100, or all), and their posterior mass.
    top_found, top_found_ceiling : int, float
        How many of them were sampled; mean of the same for ``n_trees`` exact draws.
    column_inclusion_error : float
        Largest difference of a column's probability to be used.
    mean_splits_error : float
        Mean number of splits minus the exact one.

    """

    engine: str
    n_trees: int
    n_effective: float
    log_z_error: float
    elbo: float
    elbo_gap: float
    elbo_error: float
    eubo: float
    eubo_gap: float
    eubo_error: float
    unreachable_mass: float
    ess: float
    tree_variation: float
    tree_variation_floor: float
    tree_variation_floor_high: float
    prediction_variation: float
    prediction_variation_floor: float
    prediction_variation_floor_high: float
    prediction_variation_max: float
    mass_covered: float
    mass_covered_ceiling: float
    top_trees: int
    top_mass: float
    top_found: int
    top_found_ceiling: float
    column_inclusion_error: float
    mean_splits_error: float

    def __str__(self) -> str:
        return self.summary()

    def summary(self) -> str:
        """Write the comparison for a person."""
        number, exact = _number, "exact draws:"
        elbo = f"{number(self.elbo_gap)} +- {number(self.elbo_error)}"
        eubo = f"{number(self.eubo_gap)} +- {number(self.eubo_error)}"
        lines = {
            "log evidence": f"off by {self.log_z_error:+.4f}"
            if not math.isnan(self.log_z_error)
            else "not known",
            "ELBO gap": elbo if not math.isnan(self.elbo_gap) else "not known",
            "EUBO gap": f"{eubo}; out of reach: {self.unreachable_mass:.2%} of the mass"
            if not math.isnan(self.eubo_gap)
            else "not known",
            "effective sample size": number(self.ess, ".1%"),
            "distance of trees": f"{number(self.tree_variation)} ({exact} "
            f"{number(self.tree_variation_floor)}, at most "
            f"{number(self.tree_variation_floor_high)})",
            "distance of predictions": f"{number(self.prediction_variation)} ({exact} "
            f"{number(self.prediction_variation_floor)}, at most "
            f"{number(self.prediction_variation_floor_high)}); "
            f"worst row {number(self.prediction_variation_max)}",
            "posterior mass sampled": f"{number(self.mass_covered)} ({exact} "
            f"{number(self.mass_covered_ceiling)})",
            f"top {self.top_trees} trees sampled": f"{self.top_found} ({exact} "
            f"{number(self.top_found_ceiling, '.1f')}); they hold {self.top_mass:.3g} of the mass",
            "column inclusion": f"off by at most {number(self.column_inclusion_error)}",
            "splits per tree": f"off by {number(self.mean_splits_error, '+.4f')} on average",
        }
        head = (
            f"{self.engine} engine against the exact posterior: {self.n_trees:,} trees, worth "
            f"{self.n_effective:,.0f} independent ones"
        )
        width = max(map(len, lines))
        return "\n".join([head, *(f"  {name:<{width}}  {text}" for name, text in lines.items())])

    def to_dict(self) -> dict[str, str | int | float | None]:
        """Return plain JSON values: None where a number is not known, "inf" for infinity."""

        def plain(value: str | int | float) -> str | int | float | None:
            if isinstance(value, float) and not math.isfinite(value):
                return None if math.isnan(value) else str(value)
            return value

        return {name: plain(value) for name, value in asdict(self).items()}


def _number(value: float, form: str = ".4f") -> str:
    return "not known" if math.isnan(value) else format(value, form)


def compare(
    posterior: Any,
    exact: Any,
    *,
    n_exact: int = 2000,
    codes: Codes | None = None,
    random_state: int | np.random.Generator | None = 0,
) -> Comparison:
    """Measure how far a sampled posterior is from the exact one.

    Parameters
    ----------
    posterior : TreePosterior or fitted model
        Of any engine. EUBO needs ``posterior.solution.log_prob(trees)``, the sampler's log
        probability of any trees.
    exact : TreePosterior or fitted model
        Of the exact engine, on the same rows and score.
    n_exact : int
        Exact trees for the EUBO.
    codes : uint16 [n, d] or None
        Rows to compare predictions on; the training rows (with their weights) if None.
    random_state : int, Generator or None
        Seed of the exact trees.

    Examples
    --------
    >>> from dtgfn import infer
    >>> X, y = [[1.0], [2.0], [8.0], [9.0]] * 5, [0, 0, 1, 1] * 5
    >>> exact = infer(X, y, engine="exact", max_depth=1)
    >>> compare(exact, exact).elbo_gap
    0.0

    """
    if n_exact < 1:
        raise ValueError(f"n_exact={n_exact!r} is out of range; give a whole number from 1.")
    posterior, exact = as_posterior(posterior), as_posterior(exact)
    check_comparable(posterior, exact)
    rng = np.random.default_rng(random_state)
    truth = make_truth(exact, codes, N_TOP)
    drawn = truth.log_prob(posterior.trees)
    _check_rewards(posterior, drawn, truth)
    n_trees, share = len(posterior.trees), effective_sample_size(posterior.log_weight)
    at = distances(posterior, truth)
    floor = floors(n_trees, n_trees * share, truth, N_REPLICATES, rng)
    mean, highest = (Distances(*reduce(floor, axis=0).tolist()) for reduce in (np.mean, np.max))
    elbo_gap, elbo_error = _mean(posterior.log_prob - drawn)
    excess = _excess_on(truth.solution.sample(n_exact, rng), posterior, truth)
    eubo_gap, eubo_error = _mean(excess)
    return Comparison(
        engine=posterior.engine,
        n_trees=n_trees,
        n_effective=n_trees * share,
        log_z_error=posterior.log_evidence - exact.log_evidence,
        elbo=exact.log_evidence - elbo_gap,
        elbo_gap=elbo_gap,
        elbo_error=elbo_error,
        eubo=exact.log_evidence + eubo_gap,
        eubo_gap=eubo_gap,
        eubo_error=eubo_error,
        unreachable_mass=math.nan if np.isnan(excess).any() else float(np.isinf(excess).mean()),
        ess=math.nan if np.isnan(posterior.log_prob).any() else share,
        tree_variation=at.tree_variation,
        tree_variation_floor=mean.tree_variation,
        tree_variation_floor_high=highest.tree_variation,
        prediction_variation=at.prediction_variation,
        prediction_variation_floor=mean.prediction_variation,
        prediction_variation_floor_high=highest.prediction_variation,
        prediction_variation_max=at.prediction_variation_max,
        mass_covered=at.mass_covered,
        mass_covered_ceiling=mean.mass_covered,
        top_trees=truth.top_probability.size,
        top_mass=float(truth.top_probability.sum()),
        top_found=int(at.top_found),
        top_found_ceiling=mean.top_found,
        column_inclusion_error=float(
            np.abs(posterior.column_inclusion - exact.column_inclusion).max(initial=0.0)
        ),
        mean_splits_error=posterior.mean_splits - exact.mean_splits,
    )


def check_comparable(posterior: TreePosterior, exact: TreePosterior) -> None:
    """Refuse posteriors of different questions."""
    exact_solution(exact)
    if len(posterior.trees) == 0:
        raise ValueError("The posterior has no sampled trees to compare; fit it with n_trees > 0.")
    if posterior.score != exact.score:
        raise ValueError(
            f"The two posteriors have different scores, {posterior.score} and {exact.score}; "
            "fit both with the same settings."
        )
    ours, theirs = merge_rows(posterior.rows), merge_rows(exact.rows)
    same = (
        np.array_equal(ours.codes, theirs.codes)
        and np.array_equal(ours.target, theirs.target)
        and np.allclose(ours.weight, theirs.weight, rtol=1e-9, atol=0)
        and posterior.column_inclusion.shape == exact.column_inclusion.shape
    )
    if not same:
        raise ValueError(
            "The two posteriors have different training rows; fit both to the same table with the "
            "same binning."
        )


def _check_rewards(posterior: TreePosterior, drawn: Floats, truth: Truth) -> None:
    """Refuse a sampler whose log R is not that of the score: all its numbers would be off."""
    reward = (drawn + truth.log_z) * truth.score.temperature
    wrong = np.flatnonzero(~np.isclose(posterior.log_reward, reward, rtol=1e-9, atol=1e-6))
    if wrong.size:
        b = int(wrong[0])
        raise ValueError(
            f"log_reward of tree {b} is {posterior.log_reward[b]:.6f} in the {posterior.engine} "
            f"posterior, but its score gives {reward[b]:.6f}."
        )


def _excess_on(trees: TreeBatch, posterior: TreePosterior, truth: Truth) -> Floats:
    """Exact minus sampler's log probability of exact trees [B]; inf where it never draws one."""
    log_prob = getattr(posterior.solution, "log_prob", None)
    if log_prob is None:
        return np.full(len(trees), math.nan)
    return np.asarray(truth.log_prob(trees) - np.asarray(log_prob(trees), dtype=np.float64))


def _mean(values: Floats) -> tuple[float, float]:
    """Mean of values [B] and its standard error, nan where that makes no sense."""
    mean = float(values.mean())
    if not math.isfinite(mean) or values.size < 2:
        return mean, math.nan
    return mean, float(values.std(ddof=1) / math.sqrt(values.size))
