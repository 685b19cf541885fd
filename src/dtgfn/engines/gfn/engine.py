"""The GFlowNet engine: from rows and a score to a trained sampler and its posterior."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dtgfn._support.arrays import Floats, Int32s
from dtgfn._support.forks import was_forked
from dtgfn._support.parallel import Threads
from dtgfn._support.progress import Progress, silent
from dtgfn.engines.gfn.callbacks import AnyCallback
from dtgfn.engines.gfn.checkpoint import Checkpoint, data_fingerprint
from dtgfn.engines.gfn.evaluation import by_depth, settled
from dtgfn.engines.gfn.fixed.sampler import FixedSampler
from dtgfn.engines.gfn.free.sampler import FreeSampler
from dtgfn.engines.gfn.sampler import Sampler
from dtgfn.engines.gfn.settings import Settings, find_device, make_settings
from dtgfn.engines.gfn.state import TrainState, start_state
from dtgfn.engines.gfn.trainer import Training, train
from dtgfn.engines.gfn.warm_start import carry_over
from dtgfn.engines.rowsets.problem import make_problem
from dtgfn.posterior.importance_weights import effective_sample_size, evidence_estimate
from dtgfn.posterior.tree_posterior import TreePosterior, sampled_posterior
from dtgfn.trees.batch import TreeBatch, canonical_keys
from dtgfn.trees.score import Rows, Score, log_reward, merge_rows

ENDS = ("finished", "plateau")  # of training that did not have to be broken off
EXTRA_SHARE, EXTRA_SECONDS = 0.2, 1.0  # on top of the time budget, for drawing trees
FEW_ROWS = 20


@dataclass(frozen=True)
class TrainedPolicy:
    """A trained sampler: draws more trees, and trains on (``state``).

    ``fingerprint`` names the table and the score it was trained for.
    """

    sampler: Sampler
    state: TrainState
    fingerprint: str
    n_jobs: int  # threads of torch

    def sample(self, n_trees: int, rng: np.random.Generator) -> TreeBatch:
        """Draw trees from the policy; they are not weighted."""
        with torch_threads(self.n_jobs):
            return self.sampler.draw(n_trees, rng).trees


class TrainedFixedPolicy(TrainedPolicy):
    """A trained policy that knows the probability of every tree."""

    sampler: FixedSampler

    def log_prob(self, trees: TreeBatch) -> Floats:
        """Log P_F [B] of given trees; -inf for a tree it can never draw."""
        with torch_threads(self.n_jobs):
            return self.sampler.log_prob(trees)


def infer_gfn(
    rows: Rows,
    score: Score,
    *,
    column: Int32s,
    n_columns: int,
    n_trees: int = 1000,
    random_state: int | np.random.Generator | None = None,
    time_budget: float | None = 60.0,
    n_jobs: int | None = None,
    progress: Progress = silent,
    preset: str = "default",
    callbacks: Iterable[AnyCallback] = (),
    checkpoint: str | Path | Checkpoint | None = None,
    policy: TrainedPolicy | None = None,
    carry: TreePosterior | None = None,
    **options: Any,
) -> TreePosterior:
    """Train a GFlowNet to draw trees in proportion to R^(1/temperature), and draw ``n_trees``.

    ``options`` are fields of ``Settings`` that differ from the ``preset``. Training ends after
    ``n_steps``, ``time_budget`` seconds, at a plateau, when nothing is left to learn, when a
    callback returns False, or by Ctrl-C, which keeps what was learned. ``policy``, the
    ``solution`` of an earlier posterior of the same table and score, is trained on. With ``carry``,
    the trees of an earlier posterior weighed for these rows (``streaming.reweigh``), it may be of
    other rows: what it has learned is carried over, on the time budget.
    """
    started = time.monotonic()
    settings = make_settings(preset, **options)
    check_checkpoint(checkpoint)
    rng = np.random.default_rng(random_state)
    network_seed, train_seed = (int(seed) for seed in rng.integers(0, 2**31, size=2))
    threads = n_jobs or os.cpu_count() or 1
    # The fixed order's network is small: more threads would wait for each other.
    torch_jobs = threads if settings.leaf_order == "free" or settings.device != "cpu" else 1
    fingerprint = data_fingerprint(rows, score)
    progress("preparing (the first run compiles)", 0.0)
    with torch_threads(torch_jobs):
        state = policy.state if policy is not None and policy.fingerprint == fingerprint else None
        sampler = state.sampler if state is not None else None
        if sampler is None:
            sampler = make_sampler(rows, score, column, n_columns, settings, network_seed, threads)
        before = policy.state if policy is not None and carry is not None else None
        if state is None and before is None:
            compile_steps(sampler, rows, score, column, n_columns, settings)
        progress("preparing (the first run compiles)", 1.0)
        begun = time.monotonic()
        if carry is not None and state is None:
            state = start_state(sampler, score, settings, train_seed)
            carry_over(state, before, carry, time_budget)
        spent = time.monotonic() - begun
        training = train(
            sampler,
            rows,
            score,
            settings,
            time_budget=None if time_budget is None else max(time_budget - spent, 0.0),
            random_state=train_seed,
            progress=progress,
            callbacks=callbacks,
            checkpoint=checkpoint,
            state=state,
        )
        sampler.settle()
        progress("drawing trees", 0.0)
        sampler.ends = drawing_ends(training.stopped_because, begun, time_budget)
        return draw_posterior(
            sampler,
            training,
            rows,
            score,
            column=column,
            n_columns=n_columns,
            n_trees=n_trees,
            rng=rng,
            fingerprint=fingerprint,
            n_jobs=torch_jobs,
            started=started,
        )


def make_sampler(
    rows: Rows,
    score: Score,
    column: Int32s,
    n_columns: int,
    settings: Settings,
    seed: int,
    n_jobs: int,
) -> Sampler:
    """Build the untrained sampler that the settings describe."""
    device, merged = find_device(settings.device), merge_rows(rows)
    if settings.leaf_order == "free":
        return FreeSampler(
            merged if settings.row_batch is None else rows,
            score,
            hidden=settings.hidden,
            architecture=settings.architecture,
            row_batch=settings.row_batch,
            device=device,
            seed=seed,
        )
    return FixedSampler(
        make_problem(merged, score, column, n_columns),
        merged,
        hidden=settings.hidden,
        exact_tails=settings.exact_tails,
        n_scouts=settings.n_scouts,
        remember=settings.remembers,
        device=device,
        seed=seed,
        run=Threads(n_jobs),
    )


def draw_posterior(
    sampler: Sampler,
    training: Training,
    rows: Rows,
    score: Score,
    *,
    column: Int32s,
    n_columns: int,
    n_trees: int,
    rng: np.random.Generator,
    fingerprint: str,
    n_jobs: int,
    started: float,
) -> TreePosterior:
    """Draw trees from the trained policy and weigh them."""
    begun = time.monotonic()
    draws = sampler.draw(n_trees, rng)
    sampler.ends = math.inf
    draw_seconds = time.monotonic() - begun
    log_weight = draws.log_weight(score.temperature)
    log_evidence, error = evidence_estimate(log_weight)
    floor, ceiling = sampler.bounds()
    log_evidence = min(log_evidence, ceiling)
    whole = draws.trees[np.flatnonzero(~draws.cut_short)]
    merged = sampler.rows if isinstance(sampler, FixedSampler) else merge_rows(rows)
    best = best_known(sampler, training, merged, score)
    history = training.history
    fixed = isinstance(sampler, FixedSampler)
    kind = TrainedFixedPolicy if fixed else TrainedPolicy
    posterior = sampled_posterior(
        draws.trees,
        log_reward=draws.log_reward,
        # In free order many trajectories lead to a tree: only their weights are known.
        log_prob=draws.log_pf if fixed else np.full(len(draws.trees), np.nan),
        log_weight=log_weight,
        log_evidence=log_evidence,
        log_evidence_error=error,
        rows=rows,
        score=score,
        column=column,
        n_columns=n_columns,
        engine="gfn",
        best=best,
        log_z_floor=floor,
        solution=kind(sampler, training.state, fingerprint, n_jobs),
        diagnostics={
            # Of few trees the mean may be above log Z by chance, and so above its ceiling.
            "elbo": min(float(log_weight.mean()), log_evidence),
            "ess": effective_sample_size(log_weight),
            "log_z": float(sampler.log_z.detach()),
            "n_steps": training.n_steps,
            "stopped_because": training.stopped_because,
            "settled": True if training.stopped_because in ENDS else settled(history),
            "loss_by_depth": by_depth(sampler, whole[:100], rng),
            "exact": isinstance(sampler, FixedSampler) and sampler.exact,
            "seconds": time.monotonic() - started,
            "training_seconds": training.seconds,
            "draw_seconds": draw_seconds,
            "distinct": len(set(canonical_keys(draws.trees))) / len(draws.trees),
            "cut_short": float(draws.cut_short.mean()),
            "wanted_trees": n_trees,
            **(sampler.standing() if isinstance(sampler, FixedSampler) else {}),
            **bounds_told(floor, ceiling),
        },
        history=history,
    )
    return posterior


def bounds_told(floor: float, ceiling: float) -> dict[str, float]:
    """What is proven of log Z, and so of the share that trees nobody has seen can have."""
    told = {}
    if math.isfinite(floor):
        told["log_z_floor"] = floor
    if math.isfinite(ceiling):
        told["log_z_ceiling"] = ceiling
        told["open_most"] = -math.expm1(min(floor - ceiling, 0.0))
    return told


def best_known(
    sampler: Sampler, training: Training, rows: Rows, score: Score
) -> tuple[TreeBatch, float] | None:
    """Return the best tree that training has met, and its log R."""
    best = None
    if isinstance(sampler, FixedSampler):
        tree = sampler.best_tree
        best = tree, float(log_reward(tree, rows, score)[0])
    if training.best_tree is not None and training.best_log_reward is not None:
        drawn = training.best_tree, training.best_log_reward
        if best is None or drawn[1] > best[1] + 1e-9 * abs(best[1]):  # more than rounding
            best = drawn
    return best


def check_checkpoint(checkpoint: object) -> None:
    """Refuse a checkpoint that could never be written, before any work."""
    path = checkpoint.path if isinstance(checkpoint, Checkpoint) else checkpoint
    if path is None:
        return
    if not isinstance(path, str | os.PathLike):
        raise ValueError(f"checkpoint={path!r} is not usable; give a file name, or None.")
    folder = Path(path).absolute().parent
    if not folder.is_dir():
        raise ValueError(
            f"checkpoint={str(path)!r} cannot be written: there is no folder {str(folder)!r}; "
            "make it, or name another file."
        )


def compile_steps(
    sampler: Sampler,
    rows: Rows,
    score: Score,
    column: Int32s,
    n_columns: int,
    settings: Settings,
) -> None:
    """Run everything once on a few rows: compiling is not the time budget's fault."""
    few = Rows(rows.codes[:FEW_ROWS], rows.target[:FEW_ROWS], rows.weight[:FEW_ROWS])
    alike = replace(settings, exact_tails=1) if one_tail(sampler) else settings
    small = make_sampler(few, score, column, n_columns, alike, 0, 1)
    rng = np.random.default_rng(0)
    paths = small.rollout(2, settings.epsilon, rng)
    small.residuals([small.retrace(paths.trees, rng)], True)
    small.draw(2, rng)


def one_tail(sampler: Sampler) -> bool:
    """Whether it sums but one level, so that other loops are compiled."""
    return isinstance(sampler, FixedSampler) and sampler.graph.tail_levels < 2


def drawing_ends(stopped_because: str, begun: float, time_budget: float | None) -> float:
    """When drawing has to be done: when the budget is over, or after a little extra time."""
    now = time.monotonic()
    if stopped_because == "interrupted":
        return now + EXTRA_SECONDS / 2
    if time_budget is None:
        return math.inf
    return max(begun + time_budget, now + max(EXTRA_SHARE * time_budget, EXTRA_SECONDS))


@contextmanager
def torch_threads(n_threads: int) -> Iterator[None]:
    """Let torch use so many threads, one in a forked process, and give back what it had."""
    before = torch.get_num_threads()
    torch.set_num_threads(1 if was_forked() else n_threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
