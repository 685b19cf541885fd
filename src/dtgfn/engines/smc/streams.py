"""Streams of sweeps: what is kept of their trees, pooled by evidence, and how they went."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dtgfn._support.arrays import Floats, Int32s
from dtgfn._support.parallel import ChunkSize, Deadline, Flag
from dtgfn.engines.contract import Run
from dtgfn.engines.smc.particles import Nodes
from dtgfn.engines.smc.sweep import Sweep, log_mean_exp, start_sweep, systematic
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.posterior.weighted_trees import sampled_posterior
from dtgfn.trees.batch import TreeBatch
from dtgfn.trees.level_order import as_batch
from dtgfn.trees.score import Rows, Score

HISTORY = 40


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
    """Sweeps one after the other; ``most`` trees are kept of all of them.

    ``make_nodes`` makes what a sweep asks, once the flag [1] is known that ends loops early.
    """

    make_nodes: Callable[[Flag], Nodes]
    rng: np.random.Generator
    n_particles: int
    most: int
    by_level: bool = False
    share: int | None = None  # of the sweeps; None is for ever
    log_z: list[float] = field(default_factory=list)
    best: list[float] = field(default_factory=list)
    resampled: list[int] = field(default_factory=list)
    ess: list[float] = field(default_factory=list)
    particles: list[int] = field(default_factory=list)
    best_tree: tuple[Int32s, Int32s] | None = None
    pool: Pool | None = None

    @property
    def has_answer(self) -> bool:
        """Whether a sweep was finished."""
        return bool(self.log_z)

    def chunks(
        self,
        n_sweeps: int | None,
        deadline: Deadline,
        in_a_hurry: Callable[[], bool] = lambda: False,
    ) -> Iterator[bool]:
        """Run ``n_sweeps`` sweeps (for ever if None), yielding now and then."""
        nodes, chunk = self.make_nodes(deadline.halted), ChunkSize()
        while n_sweeps is None or len(self.log_z) < n_sweeps:
            given = (self.n_particles, self.rng, chunk, deadline, in_a_hurry, self.by_level)
            sweep = start_sweep(nodes, *given)
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


@dataclass(frozen=True)
class Draws:
    """What all sweeps have found.

    Attributes
    ----------
    trees : TreeBatch
        Trees of equal weight.
    log_reward : float64 [B]
        Their log R.
    best : TreeBatch and float
        The best tree that any sweep has seen, and its log R.
    log_z : float64 [sweeps]
        What each sweep estimates.
    diagnostics, history
        How they went.

    """

    trees: TreeBatch
    log_reward: Floats
    best: tuple[TreeBatch, float]
    log_z: Floats
    diagnostics: dict[str, Any]
    history: list[dict[str, Any]]

    @property
    def n_effective(self) -> float:
        """How many independent draws the trees are worth."""
        told = self.diagnostics
        return float(min(told["effective_sweeps"] * told["ess"], len(self.trees)))

    def as_posterior(
        self, rows: Rows, score: Score, run: Run, ruling: dict[str, Any]
    ) -> TreePosterior:
        """Estimate what a posterior tells; ``ruling`` is what a referee says of the trees."""
        unknown = np.full(len(self.trees), np.nan)
        return sampled_posterior(
            self.trees,
            log_reward=self.log_reward,
            log_prob=unknown,
            log_weight=np.zeros(len(self.trees)),
            log_evidence=log_mean_exp(self.log_z),
            log_evidence_error=relative_error(self.log_z),
            rows=rows,
            score=score,
            column=run.column,
            n_columns=run.n_columns,
            engine="smc",
            also_known=self.best[0],
            diagnostics={**self.diagnostics, **ruling},
            history=self.history,
        )


def collect_draws(
    streams: list[Stream], n_trees: int, rng: np.random.Generator, names: Int32s, seconds: float
) -> Draws:
    """Draw trees from all sweeps by weight; ``names`` [F] are the features' numbers outside."""
    log_z = np.concatenate([stream.log_z for stream in streams])
    trees, reward, best = pool_trees(streams, n_trees, rng, names)
    highest = max(max(stream.best, default=-math.inf) for stream in streams)
    told = diagnose(streams, log_z, seconds)
    return Draws(trees, reward, (best, highest), log_z, told, make_history(streams))


def pool_trees(
    streams: list[Stream], n_trees: int, rng: np.random.Generator, names: Int32s
) -> tuple[TreeBatch, Floats, TreeBatch]:
    """Draw trees from all sweeps by weight; return them, their log R and the best tree of all."""
    used = [stream for stream in streams if stream.log_z]
    pools = [stream.pool for stream in used if stream.pool is not None]
    pool = pools[0]
    for other in pools[1:]:
        pool = pool.add(other)
    pool = pool.resample(n_trees, rng)
    width = 2 * int((pool.feature >= 0).sum(axis=1).max()) + 1
    trees = as_batch(pool.feature[:, :width], pool.cut[:, :width], names)
    best = max(used, key=lambda stream: max(stream.best)).best_tree
    assert best is not None
    width = 2 * int((best[0] >= 0).sum()) + 1
    best_tree = as_batch(best[0][:, :width], best[1][:, :width], names)
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
