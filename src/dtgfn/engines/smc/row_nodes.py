"""Nodes of particles whose rows are in this process: looked at row by row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dtgfn._support.arrays import Floats, Int32s, Int64s, UInt64s
from dtgfn._support.compiled import INNER, njit
from dtgfn._support.parallel import Flag
from dtgfn.engines.smc.lookahead import Choices, draw_choice, look_ahead, make_choices
from dtgfn.engines.smc.particles import Particles, skip_decided
from dtgfn.trees.node_terms import (
    NodeTable,
    most_nodes,
    partition_rows,
    segment_log_marginal,
    split_term,
    stop_term,
    varies,
)


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


class RowNodes:
    """Nodes of a table's rows; ``work`` is scratch of one stream of sweeps."""

    def __init__(self, table: NodeTable, work: Workspace) -> None:
        n_rows = len(table.target)
        order, counts = np.arange(n_rows, dtype=np.int32), np.zeros(table.n_sums)
        can_split = table.max_depth > 0 and varies(order, 0, n_rows, table)
        log_m = segment_log_marginal(order, 0, n_rows, table, counts)
        self.root = stop_term(log_m, 0, can_split, table), can_split
        self.table, self.work = table, work
        self.max_depth, self.temperature = table.max_depth, table.temperature
        self.most_nodes = most_nodes(table)
        # Fixed seed: the keys only name row sets.
        n_keys = n_rows + table.max_depth + 1
        self.keys = np.random.default_rng(0).integers(0, 2**64, size=n_keys, dtype=np.uint64)

    def settle(self, level: int, particles: Particles) -> None:
        """Nothing is left to say: a split has looked at the rows of both sides."""

    def decide(
        self,
        first: int,
        most_work: int,
        new_node: Flag,
        member: Int64s,
        uniform: Floats,
        particles: Particles,
    ) -> tuple[int, int]:
        """See ``Nodes``."""
        given = (new_node, member, uniform, self.keys, self.table, particles, self.work)
        return decide(first, most_work, *given)


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
