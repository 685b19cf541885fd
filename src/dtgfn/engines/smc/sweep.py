"""One sweep of particles: trees that grow side by side, an open node each at a time.

Let T_t be a particle's tree after t decisions, its open nodes taken as leaves. With the proposal q
of ``smc.lookahead`` the weights

    w_0 = R(T_0)^(1/T),    w_t = w_(t-1) * [R(T_t) / R(T_(t-1))]^(1/T) / q(decision t)

make the finished particles target R^(1/T). When their effective number falls below half they are
resampled, and the product of the mean weights is an unbiased estimate of Z (Lakshminarayanan, Roy,
Teh 2013; Del Moral 2004). Resampling is right at any moment, so particles may as well wait for each
other at the end of each level of their trees and be resampled there: then all that the next level
will be asked is known at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from dtgfn._support import clock
from dtgfn._support.arrays import Floats, Int64s
from dtgfn._support.parallel import ChunkSize, Deadline
from dtgfn.engines.smc.particles import Nodes, Particles, plant, widen


def log_mean_exp(values: Floats) -> float:
    """Log of the mean of exp(values), without overflow."""
    largest = values.max()
    return float(largest + np.log(np.exp(values - largest).mean()))


def systematic(weight: Floats, n: int, rng: np.random.Generator) -> Int64s:
    """Draw n indices with expected numbers n * weight / sum, from one uniform number."""
    cumulated = np.cumsum(weight)
    points = (np.arange(n) + rng.random()) / n * cumulated[-1]
    return np.minimum(np.searchsorted(cumulated, points, side="right"), len(weight) - 1)


@dataclass
class Sweep:
    """A sweep under way, or finished: its particles and what their weights have added up to.

    ``in_a_hurry`` tells whether the deadline may thin the particles out; ``by_level``, whether
    particles wait for each other at the end of each level.
    """

    nodes: Nodes
    particles: Particles
    rng: np.random.Generator
    log_z: float
    chunk: ChunkSize
    deadline: Deadline
    in_a_hurry: Callable[[], bool]
    n_particles: int
    by_level: bool = False
    resampled: int = 0
    stages: int = 0
    root_seconds: float = 0.0

    def chunks(self) -> Iterator[bool]:
        """Decide and resample until all trees are finished, yielding False now and then.

        By level, it yields True before each level, when all that it will ask about is known.
        """
        if self.by_level:
            for level in range(self.nodes.max_depth):
                if level > 0 and not (self.particles.depth == level).any():
                    break  # no tree is that deep
                if level > 0:
                    self.resample(len(self.particles.next))
                yield True
                self.nodes.settle(level, self.particles)
                yield from self.grow(level)
        else:
            yield from self.grow()
        self.finish()

    def finish(self) -> None:
        """Take the particles as they are, their open nodes as leaves."""
        self.log_z += log_mean_exp(self.particles.log_weight)

    def grow(self, level: int | None = None) -> Iterator[bool]:
        """Decide and resample until nothing is open, at any level or at this one."""
        while (unfinished := self.unfinished(level)).size:
            yield from self.decide_all(unfinished)
            self.stages += 1
            self.resample_if_needed()

    def unfinished(self, level: int | None = None) -> Int64s:
        """Particles whose next node is open, at any level or at this one."""
        particles = self.particles
        member = np.flatnonzero(particles.next < particles.n_nodes)
        if level is None:
            return member
        return member[particles.depth[member, particles.next[member]] == level]

    def decide_all(self, unfinished: Int64s) -> Iterator[bool]:
        """One decision in every unfinished tree, or in some if the particles are thinned out."""
        width = self.particles.feature.shape[1]
        if self.particles.n_nodes.max() + 2 > width:
            self.particles = widen(self.particles, 2 * width + 1)
        # Trees with the same next node share its look-ahead.
        names = self.particles.name[unfinished, self.particles.next[unfinished]]
        by_name = np.argsort(names, kind="stable")
        new_node = np.diff(names[by_name], prepend=~names[by_name[:1]]) != 0
        uniform = self.rng.random((len(self.particles.next), 3))
        given = (new_node.view(np.uint8), unfinished[by_name], uniform)
        position = 0
        while position < len(unfinished):
            begun = clock.monotonic()
            position, cells = self.nodes.decide(position, self.chunk.size, *given, self.particles)
            seconds = clock.monotonic() - begun
            self.chunk.adapt(cells, seconds)
            # The first chunk of all is one look at all rows and columns.
            self.root_seconds = self.root_seconds or seconds
            yield False
            if self.thin_if_late():
                return

    def thin_if_late(self) -> bool:
        """Go on with fewer particles if time runs out; return whether that was so.

        Every particle's weight is right for what it has decided so far, so resampling fewer of
        them keeps the estimate of Z without bias at any moment, also between two decisions.
        """
        n_now = len(self.particles.next)
        if n_now == 1 or not self.in_a_hurry():
            return False
        # A level of one tree reads each row at most once.
        reserve = 1.5 * self.root_seconds * self.nodes.max_depth
        n_left = self.deadline.room(self.n_particles, reserve)
        if 2 * n_left > n_now:
            return False
        self.resample(n_left)
        return True

    def resample_if_needed(self) -> None:
        """Draw the particles anew by their weights when fewer than half of them count."""
        log_weight = self.particles.log_weight
        weight = np.exp(log_weight - log_weight.max())
        if weight.sum() ** 2 < 0.5 * len(weight) * (weight**2).sum():
            self.resample(len(weight))

    def resample(self, n_particles: int) -> None:
        """Draw particles by their weights."""
        log_weight = self.particles.log_weight
        weight = np.exp(log_weight - log_weight.max())
        self.log_z += log_mean_exp(log_weight)
        kept = systematic(weight, n_particles, self.rng)
        self.particles = Particles._make(entries[kept] for entries in self.particles)
        self.particles.log_weight[:] = 0.0
        self.resampled += 1


def start_sweep(
    nodes: Nodes,
    n_particles: int,
    rng: np.random.Generator,
    chunk: ChunkSize,
    deadline: Deadline,
    in_a_hurry: Callable[[], bool],
    by_level: bool = False,
) -> Sweep:
    """Return a sweep before its first decision."""
    particles = plant(nodes, n_particles)
    log_z = float(particles.log_reward[0]) / nodes.temperature
    given = (rng, log_z, chunk, deadline, in_a_hurry, n_particles, by_level)
    return Sweep(nodes, particles, *given)
