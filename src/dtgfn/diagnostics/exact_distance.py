"""The distance of a sampled posterior from the exact one, on the same rows and score.

Finite samples are at a distance from the truth even if they are drawn from it. So each distance
comes with its floor: the same number for exact draws, as many as the sampler's are worth. That
worth is a rule of thumb for weighted trees: up to twice the floor may still be chance.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, cast

import numpy as np

from dtgfn._support.arrays import Codes, Floats
from dtgfn.engines.exact.engine import ExactSolution
from dtgfn.posterior.importance_weights import effective_sample_size
from dtgfn.posterior.of_model import as_posterior
from dtgfn.posterior.prediction import average_trees
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.trees.batch import TreeBatch, tally
from dtgfn.trees.equivalent_cuts import group_equivalent
from dtgfn.trees.score import Rows, Score, log_reward, merge_rows

N_REPLICATES = 10
N_TOP = 100
# Rewards of equally probable trees may differ by rounding.
ROUNDING = 1e-9


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
        How many most probable trees were looked for (100, or all), those that part the rows alike
        counted as one, and their posterior mass.
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

    Returns
    -------
    Comparison
        Every distance, with its floor.

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
    truth = _gather_exact(exact, codes, N_TOP)
    drawn = truth.log_prob(posterior.trees)
    _check_rewards(posterior, drawn, truth)
    n_trees, share = len(posterior.trees), effective_sample_size(posterior.log_weight)
    at = _distances(posterior, truth)
    floor = _floors(n_trees, n_trees * share, truth, N_REPLICATES, rng)
    mean, highest = (_Distances(*reduce(floor, axis=0).tolist()) for reduce in (np.mean, np.max))
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
    _solution_of(exact)
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


def _check_rewards(posterior: TreePosterior, drawn: Floats, truth: _Exact) -> None:
    """Refuse a sampler whose log R is not that of the score: all its numbers would be off."""
    reward = (drawn + truth.log_z) * truth.score.temperature
    wrong = np.flatnonzero(~np.isclose(posterior.log_reward, reward, rtol=1e-9, atol=1e-6))
    if wrong.size:
        b = int(wrong[0])
        raise ValueError(
            f"log_reward of tree {b} is {posterior.log_reward[b]:.6f} in the {posterior.engine} "
            f"posterior, but its score gives {reward[b]:.6f}."
        )


def _excess_on(trees: TreeBatch, posterior: TreePosterior, truth: _Exact) -> Floats:
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


class _Exact(NamedTuple):
    """The exact answer, ready to be compared with."""

    rows: Rows  # merged
    score: Score
    log_z: float
    solution: ExactSolution
    codes: Codes  # [n, d] rows to predict
    row_weight: Floats  # [n], sums to one
    average: Floats  # [n, C]
    top_probability: Floats  # of the most probable trees, best first

    def log_prob(self, trees: TreeBatch) -> Floats:
        """Exact log probability of each tree [B]."""
        reward = log_reward(trees, self.rows, self.score)
        return np.asarray(reward / self.score.temperature - self.log_z)


class _Distances(NamedTuple):
    """What can be measured on trees of any sampler."""

    tree_variation: float
    prediction_variation: float
    prediction_variation_max: float
    mass_covered: float
    top_found: float


def _gather_exact(exact: TreePosterior, codes: Codes | None, n_top: int) -> _Exact:
    """Gather the exact answer; ``codes`` [n, d] are the rows to predict, else those of training."""
    rows = merge_rows(exact.rows)
    weight = rows.weight
    if codes is None:
        codes = rows.codes
    else:
        codes = np.ascontiguousarray(codes, dtype=np.uint16)
        if codes.ndim != 2 or codes.shape[1] != rows.codes.shape[1] or codes.shape[0] == 0:
            raise ValueError(
                f"codes has shape {codes.shape}; give rows of {rows.codes.shape[1]} codes each."
            )
        weight = np.ones(len(codes))
    solution = _solution_of(exact)
    return _Exact(
        rows=rows,
        score=exact.score,
        log_z=exact.log_evidence,
        solution=solution,
        codes=codes,
        row_weight=weight / weight.sum(),
        average=solution.average(codes),
        top_probability=exact.most_probable(n_top).probability,
    )


def _distances(posterior: TreePosterior, truth: _Exact) -> _Distances:
    """Measure a posterior's weighted trees and its predictions."""
    predicted = _predict(posterior, truth.codes)
    return _Distances(
        _tree_variation(posterior.trees, posterior.weights, truth),
        *_prediction_variation(predicted, truth),
        *_coverage(posterior.trees, truth),
    )


def _floors(
    n_trees: int, n_effective: float, truth: _Exact, n_replicates: int, rng: np.random.Generator
) -> list[_Distances]:
    """Measure samples of ``n_trees`` exact trees; variations on the first ``n_effective``."""
    n_few = max(1, round(n_effective))
    weight = np.full(n_few, 1 / n_few)
    found = []
    for _ in range(n_replicates):
        trees = truth.solution.sample(n_trees, rng)
        few = trees[:n_few]
        predicted = average_trees(few, weight, truth.rows, truth.score, truth.codes)
        variation = _tree_variation(few, weight, truth), *_prediction_variation(predicted, truth)
        found.append(_Distances(*variation, *_coverage(trees, truth)))
    return found


def _solution_of(exact: TreePosterior) -> ExactSolution:
    """Return the exact engine's solution, or say that there is none."""
    if not exact.is_exact:
        raise ValueError(
            f"A posterior of engine {exact.engine!r} is not the exact one; "
            "fit the same rows and settings with the exact engine."
        )
    return cast(ExactSolution, exact.solution)


def _predict(posterior: TreePosterior, codes: Codes) -> Floats:
    """P(y | x) of the sampler [n, C]; a solution may know trees' probabilities but no average."""
    average = getattr(posterior.solution, "average", None)
    if average is not None:
        return np.asarray(average(codes))
    return average_trees(posterior.trees, posterior.weights, posterior.rows, posterior.score, codes)


def _tree_variation(trees: TreeBatch, weight: Floats, truth: _Exact) -> float:
    """Total variation between the weighted frequencies of trees [B] and their probabilities."""
    first, frequency = tally(trees, weight)
    probability = np.exp(truth.log_prob(trees[first]))
    # All trees that were not sampled have frequency 0.
    missed = max(1.0 - float(probability.sum()), 0.0)
    return 0.5 * (float(np.abs(frequency - probability).sum()) + missed)


def _prediction_variation(predicted: Floats, truth: _Exact) -> tuple[float, float]:
    """Total variation between class probabilities [n, C]: mean over rows, and the worst row."""
    distance = 0.5 * np.abs(predicted - truth.average).sum(axis=1)
    return float(distance @ truth.row_weight), float(distance.max())


def _coverage(trees: TreeBatch, truth: _Exact) -> tuple[float, int]:
    """Exact mass of the distinct trees, and how many of the most probable ones are among them.

    Trees that part the rows alike count as one among the most probable ones.
    """
    first, _ = tally(trees, np.ones(len(trees)))
    log_prob = truth.log_prob(trees[first])
    groups = group_equivalent(trees[first], truth.rows.codes)
    together = log_prob[groups.leader] + groups.log_number
    # Any tree as probable as the last of the top is as good as that one.
    found = int((together >= np.log(truth.top_probability[-1]) - ROUNDING).sum())
    return min(float(np.exp(log_prob).sum()), 1.0), min(found, truth.top_probability.size)
