"""One sweep of particles: trees that grow side by side, an open node each at a time.

Let T_t be a particle's tree after t decisions, its open nodes taken as leaves. With the proposal q
of ``smc.lookahead`` the weights

    w_0 = R(T_0)^(1/T),    w_t = w_(t-1) * [R(T_t) / R(T_(t-1))]^(1/T) / q(decision t)

make the finished particles target R^(1/T). When their effective number falls below half they are
resampled, and the product of the mean weights is an unbiased estimate of Z (Lakshminarayanan, Roy,
Teh 2013; Del Moral 2004).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dtgfn._support import clock
from dtgfn._support.arrays import Floats, Int32s, Int64s, UInt64s
from dtgfn._support.compiled import INNER, njit
from dtgfn._support.parallel import ChunkSize, Deadline, Flag
from dtgfn.engines.smc.lookahead import Choices, draw_choice, look_ahead, make_choices
from dtgfn.trees.node_terms import (
    NodeTable,
    most_nodes,
    partition_rows,
    segment_log_marginal,
    split_term,
    stop_term,
    varies,
)

FIRST_WIDTH = 15


class Particles(NamedTuple):
    """B growing trees with room for K nodes each, written level by level."""

    feature: Int32s  # [B, K] -1 at leaves and open nodes
    cut: Int32s  # [B, K]
    parent: Int32s  # [B, K]
    depth: Int32s  # [B, K]
    can_split: npt.NDArray[np.bool_]  # [B, K] whether there is anything to decide
    value: Floats  # [B, K] what the node adds to log R as a leaf
    name: UInt64s  # [B, K] names row set and depth, so that equal nodes are looked at once
    n_nodes: Int64s  # [B]
    next: Int64s  # [B] the node to decide next; n_nodes when the tree is finished
    log_reward: Floats  # [B] of the tree with its open nodes as leaves
    log_weight: Floats  # [B] since the last resampling


class Workspace(NamedTuple):
    """What the loops of one stream of sweeps write into."""

    order: Int32s  # [P] rows at the node
    counts: Floats  # [C]
    path: Int64s  # [max_depth + 1]
    choices: Choices
    looked: Floats  # [4] what look-ahead found at the node: rows, choices, varying, largest


def make_workspace(table: NodeTable, halted: Flag) -> Workspace:
    """Return room for the loops, which end early when ``halted`` [1] is set."""
    return Workspace(
        order=np.zeros(len(table.target), dtype=np.int32),
        counts=np.zeros(table.n_sums),
        path=np.zeros(table.max_depth + 1, dtype=np.int64),
        choices=make_choices(table, halted),
        looked=np.zeros(4),
    )


def plant(table: NodeTable, n_particles: int) -> Particles:
    """Return particles whose root is open."""
    n_rows = len(table.target)
    order, counts = np.arange(n_rows, dtype=np.int32), np.zeros(table.n_sums)
    can_split = table.max_depth > 0 and varies(order, 0, n_rows, table)
    log_m = segment_log_marginal(order, 0, n_rows, table, counts)
    value = stop_term(log_m, 0, can_split, table)
    shape = (n_particles, min(FIRST_WIDTH, most_nodes(table)))
    particles = Particles(
        feature=np.full(shape, -1, dtype=np.int32),
        cut=np.zeros(shape, dtype=np.int32),
        parent=np.full(shape, -1, dtype=np.int32),
        depth=np.zeros(shape, dtype=np.int32),
        can_split=np.zeros(shape, dtype=np.bool_),
        value=np.zeros(shape),
        name=np.zeros(shape, dtype=np.uint64),
        n_nodes=np.ones(n_particles, dtype=np.int64),
        next=np.full(n_particles, 0 if can_split else 1, dtype=np.int64),
        log_reward=np.full(n_particles, value),
        log_weight=np.zeros(n_particles),
    )
    particles.can_split[:, 0], particles.value[:, 0] = can_split, value
    return particles


def widen(particles: Particles, width: int) -> Particles:
    """Return the same particles with room for more nodes."""
    extra = ((0, 0), (0, width - particles.feature.shape[1]))
    names = ("feature", "cut", "parent", "depth", "can_split", "value", "name")
    wider = {name: np.pad(getattr(particles, name), extra) for name in names}
    wider["feature"][:, particles.feature.shape[1] :] = -1
    return particles._replace(**wider)


@njit(cache=True, nogil=True)
def decide(
    first: int,
    most_work: int,
    new_node: Flag,
    member: Int64s,
    uniform: Floats,
    keys: UInt64s,
    table: NodeTable,
    particles: Particles,
    work: Workspace,
) -> tuple[int, int]:
    """Let particles ``member[first:]`` decide their next node, until ``most_work`` is done.

    Those with the same next node follow each other, and ``new_node`` [M] marks the first of them:
    what it sees in ``work`` serves the others. ``keys`` [P + depths] name rows and depths,
    ``uniform`` [B, 3] are the draws. Return how many have decided, and the cells looked at.
    """
    cells = 0
    m = first
    while m < member.shape[0] and (m == first or cells < most_work):
        b = member[m]
        if new_node[m]:
            cells += look_at(particles, b, table, work)
        if work.choices.halted[0]:  # perhaps in the middle of that look
            break
        end, n_choices = int(work.looked[0]), int(work.looked[1])
        n_varying, largest = int(work.looked[2]), work.looked[3]
        chosen, cut, log_q = draw_choice(work.choices, n_choices, largest, uniform[b])
        gain = 0.0
        if chosen >= 0:
            feature = work.choices.feature[chosen]
            gain = split_node(particles, b, feature, cut, end, n_varying, keys, table, work)
            cells += 4 * end
        particles.log_reward[b] += gain
        particles.log_weight[b] += gain / table.temperature - log_q
        skip_decided(particles, b)
        m += 1
    return m, cells + 1


@njit(**INNER)
def look_at(particles: Particles, b: int, table: NodeTable, work: Workspace) -> int:
    """Find the rows of a particle's next node and weigh all its cuts; return the cells read."""
    node = particles.next[b]
    end = rows_at(particles, b, node, table, work)
    n_choices, n_varying, largest = look_ahead(
        work.order, end, particles.depth[b, node], particles.value[b, node], table, work.choices
    )
    work.looked[0], work.looked[1], work.looked[2] = end, n_choices, n_varying
    work.looked[3] = largest
    return work.order.shape[0] + 2 * end * table.codes.shape[0] + 2 * n_choices * table.n_sums


@njit(**INNER)
def rows_at(particles: Particles, b: int, node: int, table: NodeTable, work: Workspace) -> int:
    """Write the rows that reach a node into ``work.order``; return how many."""
    depth = 0
    while node > 0:
        work.path[depth] = node
        node = particles.parent[b, node]
        depth += 1
    end = work.order.shape[0]
    for r in range(end):
        work.order[r] = r
    above = 0
    while depth > 0:
        depth -= 1
        below = work.path[depth]
        feature, cut = particles.feature[b, above], particles.cut[b, above]
        goes_right = below % 2 == 0  # left children have odd slots
        kept = 0
        for r in range(end):
            row = work.order[r]
            work.order[kept] = row
            kept += (table.codes[feature, row] > cut) == goes_right
        end = kept
        above = below
    return end


@njit(**INNER)
def split_node(
    particles: Particles,
    b: int,
    feature: int,
    cut: int,
    end: int,
    n_varying: int,
    keys: UInt64s,
    table: NodeTable,
    work: Workspace,
) -> float:
    """Split a particle's next node, with rows ``work.order[:end]``; return the gain in log R."""
    node = particles.next[b]
    depth = particles.depth[b, node]
    middle = partition_rows(work.order, 0, end, table.codes[feature], cut)
    particles.feature[b, node] = feature
    particles.cut[b, node] = cut
    ranges = work.choices.ranges
    gain = split_term(depth, n_varying, ranges[1, feature] - ranges[0, feature], table)
    gain -= particles.value[b, node]
    for side in range(2):
        child = particles.n_nodes[b]
        begin, stop = (0, middle) if side == 0 else (middle, end)
        can_split = depth + 1 < table.max_depth and varies(work.order, begin, stop, table)
        log_m = segment_log_marginal(work.order, begin, stop, table, work.counts)
        value = stop_term(log_m, depth + 1, can_split, table)
        name = keys[work.order.shape[0] + depth + 1]
        for r in range(begin, stop):
            name ^= keys[work.order[r]]
        particles.feature[b, child] = -1
        particles.parent[b, child] = node
        particles.depth[b, child] = depth + 1
        particles.can_split[b, child] = can_split
        particles.value[b, child] = value
        particles.name[b, child] = name
        particles.n_nodes[b] += 1
        gain += value
    return gain


@njit(**INNER)
def skip_decided(particles: Particles, b: int) -> None:
    """Move on to the next node that has a choice."""
    particles.next[b] += 1
    while particles.next[b] < particles.n_nodes[b]:
        if particles.can_split[b, particles.next[b]]:
            return
        particles.next[b] += 1


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

    ``in_a_hurry`` tells whether the deadline may thin the particles out.
    """

    table: NodeTable
    work: Workspace
    keys: UInt64s
    particles: Particles
    rng: np.random.Generator
    log_z: float
    chunk: ChunkSize
    deadline: Deadline
    in_a_hurry: Callable[[], bool]
    n_particles: int
    resampled: int = 0
    stages: int = 0
    root_seconds: float = 0.0

    def chunks(self) -> Iterator[None]:
        """Decide and resample until all trees are finished, yielding now and then."""
        while (unfinished := np.flatnonzero(self.particles.next < self.particles.n_nodes)).size:
            yield from self.decide_all(unfinished)
            self.stages += 1
            self.resample_if_needed()
        self.log_z += log_mean_exp(self.particles.log_weight)

    def decide_all(self, unfinished: Int64s) -> Iterator[None]:
        """One decision in every unfinished tree, or in some if the particles are thinned out."""
        width = self.particles.feature.shape[1]
        if self.particles.n_nodes.max() + 2 > width:
            self.particles = widen(self.particles, 2 * width + 1)
        # Trees with the same next node share its look-ahead.
        names = self.particles.name[unfinished, self.particles.next[unfinished]]
        by_name = np.argsort(names, kind="stable")
        new_node = np.diff(names[by_name], prepend=~names[by_name[:1]]) != 0
        uniform = self.rng.random((len(self.particles.next), 3))
        given = (new_node.view(np.uint8), unfinished[by_name], uniform, self.keys)
        position = 0
        while position < len(unfinished):
            begun = clock.monotonic()
            position, cells = decide(
                position, self.chunk.size, *given, self.table, self.particles, self.work
            )
            seconds = clock.monotonic() - begun
            self.chunk.adapt(cells, seconds)
            # The first chunk of all is one look at all rows and columns.
            self.root_seconds = self.root_seconds or seconds
            yield
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
        reserve = 1.5 * self.root_seconds * self.table.max_depth
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
    table: NodeTable,
    work: Workspace,
    n_particles: int,
    rng: np.random.Generator,
    chunk: ChunkSize,
    deadline: Deadline,
    in_a_hurry: Callable[[], bool],
) -> Sweep:
    """Return a sweep before its first decision."""
    particles = plant(table, n_particles)
    # Fixed seed: the keys only name row sets.
    n_keys = len(table.target) + table.max_depth + 1
    keys = np.random.default_rng(0).integers(0, 2**64, size=n_keys, dtype=np.uint64)
    log_z = float(particles.log_reward[0]) / table.temperature
    return Sweep(table, work, keys, particles, rng, log_z, chunk, deadline, in_a_hurry, n_particles)
