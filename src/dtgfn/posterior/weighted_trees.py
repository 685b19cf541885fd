"""A posterior of weighted trees: what they estimate, and the refusal of what cannot be."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import logsumexp

from dtgfn._support.arrays import Floats, Int32s
from dtgfn.posterior.known_trees import known_trees
from dtgfn.posterior.tree_posterior import TreePosterior, TreeSource
from dtgfn.trees.batch import TreeBatch, distinct_trees, trim, uses_columns
from dtgfn.trees.score import Rows, Score
from dtgfn.trees.score import log_reward as score_trees

ROUNDING = 1e-9  # relative, of sums over trees
ROUNDED_ROW = 1e-13  # and of each row's worth of weight, whose terms may cancel in log Z
HEAVY = 1e7  # rows' worth of weight from which on sums of numbers may lose the digits that matter


def sampled_posterior(
    trees: TreeBatch,
    *,
    log_reward: Floats,
    log_prob: Floats,
    log_weight: Floats,
    log_evidence: float,
    log_evidence_error: float,
    rows: Rows,
    score: Score,
    column: Int32s,
    n_columns: int,
    engine: str,
    also_known: TreeBatch | None = None,
    log_z_floor: float = -math.inf,
    solution: TreeSource | None = None,
    diagnostics: dict[str, Any] | None = None,
    history: list[dict[str, Any]] | None = None,
) -> TreePosterior:
    """Estimate everything a posterior tells from weighted trees [B].

    ``column`` [d] is the source column of each feature; ``also_known`` are trees met elsewhere that
    may be the best and not be among ``trees``; ``log_z_floor`` is what log Z is known to be at
    least. An estimate of the evidence below what known trees add up to is
    impossible: it is lifted there, which ``diagnostics["evidence_lifted"]`` tells, in nats.
    """
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    used = uses_columns(trees.feature, column, n_columns)
    demanded = "given" in (diagnostics or {})
    how = {"by_share": demanded or math.isnan(log_evidence), "middle": not demanded}
    known = known_trees(trees, log_reward, weight, rows, score, also=also_known, **how)
    floor = max(log_z_floor, _drawn_mass(trees, log_reward, score))
    if not demanded:
        floor = max(floor, float(known.log_mass.max()))
    diagnostics = dict(diagnostics or {})
    if log_evidence < floor - ROUNDING * max(1.0, abs(floor)):
        diagnostics["evidence_lifted"] = floor - log_evidence
        log_evidence_error = max(log_evidence_error, floor - log_evidence)
        log_evidence = floor
    posterior = TreePosterior(
        trees=trees,
        log_reward=log_reward,
        log_prob=log_prob,
        log_weight=log_weight,
        log_evidence=log_evidence,
        log_evidence_error=log_evidence_error,
        best_tree=trim(known.trees[:1]),
        best_log_reward=float(known.log_reward[0]),
        paper_tree=_highest(trees, log_reward, also_known, rows, score),
        column_inclusion=np.minimum(weight @ used, 1.0),
        size_probability=np.asarray(np.bincount(trees.n_splits, weights=weight), dtype=np.float64),
        rows=rows,
        score=score,
        engine=engine,
        solution=solution,
        diagnostics=diagnostics,
        history=history or [],
    )
    check_possible(posterior)
    return posterior


def _drawn_mass(trees: TreeBatch, log_reward: Floats, score: Score) -> float:
    """Log of what distinct trees [B] add up to, each for itself.

    Their equivalents would make it a tighter bound, and bias the evidence of every small table.
    """
    first, _ = distinct_trees(trees)
    return float(logsumexp(log_reward[first] / score.temperature))


def _highest(
    trees: TreeBatch, reward: Floats, also: TreeBatch | None, rows: Rows, score: Score
) -> TreeBatch:
    """The tree with the highest log R, a batch of one; of equals one that was drawn."""
    top = int(np.argmax(reward))
    if also is not None:
        met = score_trees(also, rows, score)
        best = int(np.argmax(met))
        if met[best] > reward[top] + ROUNDING * abs(reward[top]):
            return trim(also[best : best + 1])
    return trim(trees[top : top + 1])


def clip_rounding(shares: Floats, log_evidence: float) -> Floats:
    """Shares that rounding has lifted above one, which it does in proportion to log Z, are one.

    What is further above stays, and ``check_possible`` refuses it.
    """
    slack = ROUNDING * max(1.0, abs(log_evidence))
    return np.where((shares > 1.0) & (shares <= 1.0 + slack), 1.0, shares)


def check_possible(posterior: TreePosterior) -> None:
    """Refuse to hand out what cannot be; nobody should ever see it, but a wrong answer is worse."""
    heavy = float(posterior.rows.weight.sum())
    slack = max(ROUNDING * max(1.0, abs(posterior.log_evidence)), ROUNDED_ROW * heavy)
    best = posterior.best_log_reward / posterior.score.temperature
    if not posterior.by_share:
        best = posterior.best_log_mass
    elbo = posterior.diagnostics.get("elbo", -math.inf)
    shares = np.concatenate([posterior.column_inclusion, posterior.size_probability])
    wrong = {
        "the best tree outweighs all trees": best > posterior.log_evidence + slack,
        "the ELBO is above the evidence it bounds": elbo > posterior.log_evidence + slack,
        "a share is no probability": not ((shares >= 0) & (shares <= 1 + ROUNDING)).all(),
        "the sizes do not add up": abs(posterior.size_probability.sum() - 1) > 1e-6,
        "a weight is not finite": np.isnan(posterior.log_weight).any()
        or posterior.log_weight.max(initial=-math.inf) == math.inf,
    }
    way_out = (
        "please report this table as a bug, and try another engine."
        if heavy < HEAVY
        else f"sample_weight sums to {heavy:g} rows' worth, of which too few digits are left; "
        "divide it by a constant."
    )
    for what, found in wrong.items():
        if found:
            raise ArithmeticError(
                f"The {posterior.engine} engine contradicts itself ({what}), so its posterior "
                f"cannot be used; {way_out}"
            )
