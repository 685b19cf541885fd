"""Trees are drawn from a trained policy and weighed: its posterior, and what is known of it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy.special import softmax

from dtgfn._support import clock
from dtgfn._support.arrays import Floats
from dtgfn._support.budgets import Allowance
from dtgfn.engines.contract import Run
from dtgfn.engines.referee import judge_draws
from dtgfn.posterior.importance_weights import effective_sample_size, evidence_estimate
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.posterior.weighted_trees import sampled_posterior
from dtgfn.trees.batch import TreeBatch, canonical_keys, stack_trees
from dtgfn.trees.score import Rows, Score

if TYPE_CHECKING:
    from dtgfn.engines.gfn.draws import Draws
    from dtgfn.engines.gfn.fixed.fixed_policy import FixedPolicy
    from dtgfn.engines.gfn.sampler import Sampler
    from dtgfn.engines.gfn.trained_policy import TrainedPolicy
    from dtgfn.engines.gfn.trainer import Training
    from dtgfn.engines.gfn.zero_shot import Looked

ENDS = ("finished", "plateau")  # of training that did not have to be broken off
# Times that row sets nobody has looked at may turn out to be worth what a network took them for.
UNDERRATED, LEAST_UNSEEN = 10.0, 1e-300
SETTLED = 0.1  # nats


def draw_posterior(
    policy: TrainedPolicy,
    training: Training | Looked,
    rows: Rows,
    score: Score,
    run: Run,
    rng: np.random.Generator,
    allowance: Allowance,
) -> TreePosterior:
    """Draw trees from the trained policy and weigh them."""
    sampler, begun = policy.sampler, clock.monotonic()
    draws = sampler.draw(run.n_trees, rng)
    n_drawn = len(draws.trees)
    seconds = {"training_seconds": training.seconds, "draw_seconds": clock.monotonic() - begun}
    log_weight = draws.log_weight(score.temperature)
    log_evidence, error = evidence_estimate(log_weight)
    floor, ceiling = sampler.bounds()
    log_evidence = min(log_evidence, ceiling)
    known = math.isfinite(floor)  # by the row sets it has met, which are more than a referee's
    trained = training_diagnostics(sampler, training, draws, rng)
    sampler.deadline = math.inf
    ruling = {}
    # A rule of one's own leaves out trees that the sums count.
    if not sampler.exact and (policy.state is None or policy.state.settings.allowed is None):
        given = (draws, log_weight, rows, score, run, known)
        ruling = hold_against_sums(*given, allowance.last_word())
    error = math.hypot(error, unseen_error(sampler, n_drawn, ceiling - log_evidence))
    diagnostics = {
        # Of few trees the mean may be above log Z by chance, and so above its ceiling.
        "elbo": min(float(log_weight.mean()), log_evidence),
        "ess": effective_sample_size(log_weight),
        **trained,
        "seconds": allowance.used,
        **seconds,
        "distinct": len(set(canonical_keys(draws.trees))) / n_drawn,
        "cut_short": float(draws.cut_short.mean()),
        "wanted_trees": run.n_trees,
        **sampler.diagnostics(),
        **proven_bounds(floor, ceiling),
        **ruling,
    }
    sampler.deadline = clock.monotonic() + allowance.last_word()
    known_trees = also_known(sampler, training)
    sampler.deadline = math.inf
    return sampled_posterior(
        draws.trees,
        log_reward=draws.log_reward,
        # Where many trajectories lead to a tree only their weights are known.
        log_prob=draws.log_pf if sampler.knows_tree_probability else np.full(n_drawn, np.nan),
        log_weight=log_weight,
        log_evidence=log_evidence,
        log_evidence_error=error,
        rows=rows,
        score=score,
        column=run.column,
        n_columns=run.n_columns,
        engine="gfn",
        also_known=known_trees,
        log_z_floor=floor,
        solution=policy,
        diagnostics=diagnostics,
        history=training.history,
    )


def unseen_error(sampler: Sampler | FixedPolicy, n_drawn: int, room: float) -> float:
    """Error of log Z that draws cannot show, as they are of what is known; 0 if all is summed.

    ``room`` are the nats that are left below a proven ceiling.
    """
    if sampler.exact:
        return 0.0
    # Where nothing is remembered, one draw more might have been of something new.
    known = sampler.diagnostics()
    unseen = max(known.get("open", 1.0 / n_drawn), LEAST_UNSEEN)
    nats = math.log(UNDERRATED)
    if known.get("early"):  # a network that is hardly trained says nothing
        nats = max(nats, cast("FixedPolicy", sampler).risen())
    return min(float(np.logaddexp(0.0, math.log(unseen) + nats)), max(room, 0.0))


def hold_against_sums(
    draws: Draws,
    log_weight: Floats,
    rows: Rows,
    score: Score,
    run: Run,
    has_bounds: bool,
    seconds: float,
) -> dict[str, float]:
    """What a little exact work says of the draws: the network's own hopes are no witness."""
    weight = softmax(log_weight)
    n_effective = effective_sample_size(log_weight) * len(weight)
    return judge_draws(
        draws.trees,
        draws.log_reward,
        rows,
        score,
        run,
        n_effective,
        weight=weight,
        partial_sums=not has_bounds,
        seconds=seconds,
    )


def training_diagnostics(
    sampler: Sampler | FixedPolicy,
    training: Training | Looked,
    draws: Draws,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """How training went, and why it ended."""
    complete = draws.trees[np.flatnonzero(~draws.cut_short)]
    because = training.stopped_because
    if training.state is None:
        losses = cast("FixedPolicy", sampler).errors()
    else:
        losses = loss_by_depth(cast("Sampler", sampler), complete[:100], rng)
    return {
        "log_z": float(sampler.log_z.item()),
        "n_steps": training.n_steps,
        "stopped_because": because,
        "settled": True if because in ENDS else settled(training.history),
        "loss_by_depth": losses,
        "exact": sampler.exact,
    }


def settled(history: list[dict[str, Any]]) -> bool | None:
    """Tell whether the ELBO hardly rose from the third quarter to the last; None: too early."""
    known = [entry["elbo"] for entry in history if entry["elbo"] is not None]
    quarter = len(known) // 4
    if quarter == 0:
        return None
    return bool(np.mean(known[-quarter:]) - np.mean(known[-2 * quarter : -quarter]) < SETTLED)


def loss_by_depth(sampler: Sampler, trees: TreeBatch, rng: np.random.Generator) -> list[float]:
    """Mean squared balance residual of trajectories to some trees, by depth of the decision."""
    import torch

    if len(trees) == 0:
        return []
    trajectories = sampler.retrace(trees, rng)
    with torch.no_grad():
        delta = sampler.residuals([trajectories], True).delta[: len(trees)].cpu().numpy()
    depth = sampler.depths(trajectories)
    width = min(depth.shape[1], delta.shape[1])
    square, depth = delta[:, :width] ** 2, depth[:, :width]
    return [float(square[depth == d].mean()) for d in range(int(depth.max(initial=-1)) + 1)]


def proven_bounds(floor: float, ceiling: float) -> dict[str, float]:
    """What is proven of log Z, and so of the share that trees nobody has seen can have."""
    bounds = {}
    if math.isfinite(floor):
        bounds["log_z_floor"] = floor
    if math.isfinite(ceiling):
        bounds["log_z_ceiling"] = ceiling
        bounds["open_most"] = -math.expm1(min(floor - ceiling, 0.0))
    return bounds


def also_known(sampler: Sampler | FixedPolicy, training: Training | Looked) -> TreeBatch | None:
    """Return the best trees that training has met."""
    found = (sampler.best_known(), sampler.most_probable(1), training.best_tree)
    met = [tree for tree in found if tree is not None]
    return stack_trees(met) if met else None
