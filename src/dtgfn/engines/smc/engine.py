"""The SMC engine: sweeps of particles that grow trees from the root, pooled by their evidence."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dtgfn._support.arrays import Floats, Int32s
from dtgfn._support.budgets import Allowance
from dtgfn._support.checks import check_count, check_integer
from dtgfn._support.memory import read_memory_budget
from dtgfn._support.parallel import ChunkSize, Deadline, count_threads, run_round_robin
from dtgfn.engines.contract import PREPARING, BudgetExceeded, Run, check_table_memory
from dtgfn.engines.referee import judge_draws
from dtgfn.engines.smc.sweep import (
    Sweep,
    log_mean_exp,
    make_workspace,
    start_sweep,
    systematic,
)
from dtgfn.posterior.tree_posterior import TreePosterior, sampled_posterior
from dtgfn.trees.batch import TreeBatch
from dtgfn.trees.level_order import as_batch
from dtgfn.trees.node_terms import NodeTable, make_node_table, two_rows
from dtgfn.trees.score import Rows, Score

# Sweeps are dealt to so many streams, each with its own seed, whatever the number of threads.
N_STREAMS = 4
HISTORY = 40
COPIES = 3  # of the codes, while equal rows are merged
PARTICLE_BYTES = 2000  # of a tree of some nodes
MOST_PARTICLES = 10_000_000


@dataclass(frozen=True)
class SmcOptions:
    """What only the particles are told.

    Attributes
    ----------
    n_particles : int
        Trees that grow side by side in a sweep.
    n_sweeps : int or None
        Independent sweeps; None is until the time is over.
    memory_budget : int, str or None
        Bytes that it may take, or a text such as "2GB"; None for half of what is free.

    """

    n_particles: int = 1000
    n_sweeps: int | None = 20
    memory_budget: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "memory_budget", read_memory_budget(self.memory_budget))
        n_particles = check_integer("n_particles", self.n_particles, 1, MOST_PARTICLES)
        object.__setattr__(self, "n_particles", n_particles)
        if self.n_sweeps is not None:
            object.__setattr__(self, "n_sweeps", check_count("n_sweeps", self.n_sweeps))


@dataclass(frozen=True)
class SmcEngine:
    """Sequential Monte Carlo: sweeps of top-down particles."""

    name: str = "smc"
    option_names: tuple[str, ...] = ("n_particles", "n_sweeps", "memory_budget")
    side_by_side: bool = True
    fills_time: bool = False

    def read_options(self, given: Mapping[str, Any]) -> SmcOptions:
        """Make options of keywords."""
        return SmcOptions(**given)

    def infer(self, rows: Rows, score: Score, run: Run, options: SmcOptions) -> TreePosterior:
        """Infer the posterior over trees."""
        return infer_smc(rows, score, run, options)


ENGINE = SmcEngine()


def infer_smc(
    rows: Rows, score: Score, run: Run, options: SmcOptions | None = None
) -> TreePosterior:
    """Sample trees from R^(1/temperature) by independent sweeps of top-down particles.

    Where the time is too short for one sweep, its particles are thinned out on the way
    (``diagnostics["thinned_to"]`` tells how many were left), and where not even one particle
    finishes its tree, there is no answer but ``BudgetExceeded``. Each sweep estimates the evidence
    without bias; ``log_evidence`` is the log of their mean, its error comes from their spread (nan
    for one sweep). All particles, weighted by the evidence of their sweep, are resampled.

    Parameters
    ----------
    rows : Rows
        Coded training rows, their targets and weights.
    score : Score
        Prior and leaf model.
    run : Run
        Columns, trees to draw, seed, time, threads.
    options : SmcOptions or None
        Number and size of the sweeps; with the time, whichever ends first.

    Returns
    -------
    TreePosterior
        Trees of equal weight.

    """
    options = SmcOptions() if options is None else options
    n_trees, n_particles = check_count("n_trees", run.n_trees), options.n_particles
    if options.n_sweeps is None and run.time_budget is None:
        raise ValueError("n_sweeps=None runs until time_budget ends; give one of them.")
    run.progress(PREPARING, 0.0)
    compile_loops(rows, score)
    run.progress(PREPARING, 1.0)
    # The clock starts here: compiling, on a first run, is not the problem's fault.
    allowance, deadline = Allowance(run.time_budget), Deadline(run.time_budget)
    # The rows in several orders while they are merged, each stream's, and the particles.
    needed = COPIES * rows.codes.nbytes + 8.0 * len(rows.target) * (N_STREAMS + COPIES)
    needed += PARTICLE_BYTES * N_STREAMS * n_particles
    check_table_memory("SMC", needed, options.memory_budget)
    table = make_node_table(rows, score)
    rng = np.random.default_rng(run.random_state)
    streams = [
        Stream(table, np.random.default_rng(seed), n_particles, max(2 * n_particles, n_trees))
        for seed in rng.integers(0, 2**63, size=N_STREAMS)
    ]
    run_streams(streams, options.n_sweeps, deadline, run)
    seconds = deadline.used
    trees, reward, best = pool_trees(streams, n_trees, rng, table)
    log_z = np.concatenate([stream.log_z for stream in streams])
    diagnostics = diagnose(streams, log_z, seconds)
    n_effective = min(diagnostics["effective_sweeps"] * diagnostics["ess"], n_trees)
    given = (trees, reward, rows, score, run, n_effective)
    ruling = judge_draws(*given, seconds=allowance.last_word())
    return sampled_posterior(
        trees,
        log_reward=reward,
        log_prob=np.full(n_trees, np.nan),
        log_weight=np.zeros(n_trees),
        log_evidence=log_mean_exp(log_z),
        log_evidence_error=relative_error(log_z),
        rows=rows,
        score=score,
        column=run.column,
        n_columns=run.n_columns,
        engine="smc",
        also_known=best,
        diagnostics={**diagnostics, **ruling},
        history=make_history(streams),
    )


def compile_loops(rows: Rows, score: Score) -> None:
    """Run a sweep on two rows, so that all loops are compiled."""
    table = make_node_table(two_rows(rows), score)
    for _ in Stream(table, np.random.default_rng(0), 1, 1).chunks(1, Deadline(None)):
        pass


@dataclass
class Pool:
    """Weighted trees [B, K] of many sweeps, level by level."""

    feature: Int32s
    cut: Int32s
    log_reward: Floats
    log_weight: Floats

    def add(self, other: Pool) -> Pool:
        """Put two pools together."""
        width = max(self.feature.shape[1], other.feature.shape[1])

        def stack(one: Int32s, two: Int32s, empty: int) -> Int32s:
            parts = (
                np.pad(a, ((0, 0), (0, width - a.shape[1])), constant_values=empty)
                for a in (one, two)
            )
            return np.concatenate(list(parts))

        return Pool(
            stack(self.feature, other.feature, -1),
            stack(self.cut, other.cut, 0),
            np.concatenate([self.log_reward, other.log_reward]),
            np.concatenate([self.log_weight, other.log_weight]),
        )

    def resample(self, n: int, rng: np.random.Generator) -> Pool:
        """Draw n trees by weight; together they weigh what all did."""
        largest = self.log_weight.max()
        weight = np.exp(self.log_weight - largest)
        kept = systematic(weight, n, rng)
        log_each = largest + math.log(weight.sum() / n)
        each = np.full(n, log_each)
        return Pool(self.feature[kept], self.cut[kept], self.log_reward[kept], each)


def finished_pool(sweep: Sweep) -> Pool:
    """Return the particles of a finished sweep, their weights adding up to its estimate of Z."""
    particles = sweep.particles
    width = int(particles.n_nodes.max())
    log_weight = particles.log_weight - particles.log_weight.max()
    log_weight -= math.log(np.exp(log_weight).sum())
    return Pool(
        particles.feature[:, :width].copy(),
        particles.cut[:, :width].copy(),
        particles.log_reward.copy(),
        log_weight + sweep.log_z,
    )


@dataclass
class Stream:
    """Sweeps one after the other; ``most`` trees are kept of all of them."""

    table: NodeTable
    rng: np.random.Generator
    n_particles: int
    most: int
    log_z: list[float] = field(default_factory=list)
    best: list[float] = field(default_factory=list)
    resampled: list[int] = field(default_factory=list)
    ess: list[float] = field(default_factory=list)
    particles: list[int] = field(default_factory=list)
    best_tree: tuple[Int32s, Int32s] | None = None
    pool: Pool | None = None

    def chunks(
        self,
        n_sweeps: int | None,
        deadline: Deadline,
        in_a_hurry: Callable[[], bool] = lambda: False,
    ) -> Iterator[bool]:
        """Run ``n_sweeps`` sweeps (for ever if None), yielding now and then."""
        work, chunk = make_workspace(self.table, deadline.halted), ChunkSize()
        while n_sweeps is None or len(self.log_z) < n_sweeps:
            given = (self.table, work, self.n_particles, self.rng, chunk, deadline, in_a_hurry)
            sweep = start_sweep(*given)
            for _ in sweep.chunks():
                yield False
            self.keep(sweep)
            yield True

    def keep(self, sweep: Sweep) -> None:
        """Add a finished sweep to the pool; resample the pool when it gets large."""
        new = finished_pool(sweep)
        top = int(np.argmax(sweep.particles.log_reward))
        best = float(sweep.particles.log_reward[top])
        if best > max(self.best, default=-math.inf):
            self.best_tree = new.feature[top : top + 1], new.cut[top : top + 1]
        self.pool = new if self.pool is None else self.pool.add(new)
        if len(self.pool.log_weight) > 2 * self.most:
            self.pool = self.pool.resample(self.most, self.rng)
        self.best.append(best)
        self.resampled.append(sweep.resampled)
        self.ess.append(effective_number(new.log_weight))
        self.particles.append(len(new.log_weight))
        self.log_z.append(sweep.log_z)  # last: it counts the finished sweeps


def run_streams(streams: list[Stream], n_sweeps: int | None, deadline: Deadline, run: Run) -> None:
    """Let all streams make their sweeps, until the deadline is over."""

    def show_progress() -> None:
        by_sweeps = sum(len(stream.log_z) for stream in streams) / (n_sweeps or math.inf)
        run.progress("sweeping", min(max(deadline.share, by_sweeps), 1.0))

    def enough() -> bool:
        return any(stream.log_z for stream in streams)

    shares: list[int | None] = [None] * len(streams)
    if n_sweeps is not None:
        shares = [len(part) for part in np.array_split(np.arange(n_sweeps), len(streams))]
    run_round_robin(
        [
            stream.chunks(share, deadline, lambda: not enough())
            for stream, share in zip(streams, shares, strict=True)
        ],
        n_jobs=count_threads(run.n_jobs),
        deadline=deadline,
        enough=enough,
        on_progress=show_progress,
    )
    if not enough():
        raise BudgetExceeded(
            f"SMC could not finish a single tree within time_budget={deadline.seconds:g} s; allow "
            "more, or use fewer n_thresholds, a smaller max_depth, fewer rows or fewer columns."
        )


def pool_trees(
    streams: list[Stream], n_trees: int, rng: np.random.Generator, table: NodeTable
) -> tuple[TreeBatch, Floats, TreeBatch]:
    """Draw trees from all sweeps by weight; return them, their log R and the best tree of all."""
    used = [stream for stream in streams if stream.log_z]
    pools = [stream.pool for stream in used if stream.pool is not None]
    pool = pools[0]
    for other in pools[1:]:
        pool = pool.add(other)
    pool = pool.resample(n_trees, rng)
    width = 2 * int((pool.feature >= 0).sum(axis=1).max()) + 1
    trees = as_batch(pool.feature[:, :width], pool.cut[:, :width], table.feature)
    best = max(used, key=lambda stream: max(stream.best)).best_tree
    assert best is not None
    width = 2 * int((best[0] >= 0).sum()) + 1
    best_tree = as_batch(best[0][:, :width], best[1][:, :width], table.feature)
    return trees, pool.log_reward, best_tree


def relative_error(log_z: Floats) -> float:
    """Return the standard error of log mean(Z), sd(Z) / (mean(Z) sqrt(sweeps)); nan for one."""
    if len(log_z) < 2:
        return math.nan
    z = np.exp(log_z - log_z.max())
    return float(z.std(ddof=1) / (z.mean() * math.sqrt(len(z))))


def effective_number(log_weight: Floats) -> float:
    """(sum w)^2 / sum w^2."""
    weight = np.exp(log_weight - log_weight.max())
    return float(weight.sum() ** 2 / (weight**2).sum())


def diagnose(streams: list[Stream], log_z: Floats, seconds: float) -> dict[str, Any]:
    """How the sweeps went: effective numbers of sweeps (by Z) and of the last particles."""
    fewest = min(n for stream in streams for n in stream.particles)
    thinned = {"thinned_to": fewest} if fewest < streams[0].n_particles else {}
    return {
        "sweeps": len(log_z),
        "particles": streams[0].n_particles,
        **thinned,
        "effective_sweeps": effective_number(log_z),
        "ess": float(np.mean([ess for stream in streams for ess in stream.ess])),
        "resampled_per_sweep": float(np.mean([n for stream in streams for n in stream.resampled])),
        "seconds": seconds,
    }


def make_history(streams: list[Stream]) -> list[dict[str, Any]]:
    """Evidence and best log R after some of the sweeps, as if streams alternated strictly."""
    deepest = max(len(stream.log_z) for stream in streams)
    sweeps = [(s, i) for i in range(deepest) for s in streams if i < len(s.log_z)]
    log_z = np.array([stream.log_z[i] for stream, i in sweeps])
    best = np.maximum.accumulate([stream.best[i] for stream, i in sweeps])
    marks = np.unique(np.linspace(1, len(sweeps), HISTORY).astype(np.int64))
    return [
        {
            "sweep": int(mark),
            "log_evidence": log_mean_exp(log_z[:mark]),
            "best_log_reward": float(best[mark - 1]),
        }
        for mark in marks
    ]
