"""Particles: trees that grow side by side, and what a sweep asks of their nodes.

A sweep does not look at rows. It asks ``Nodes``, of which there are two: ``row_nodes`` has the rows
in this process, ``histogram_nodes`` sums over rows that somebody else has counted.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from dtgfn._support.arrays import Floats, Int32s, Int64s, UInt64s
from dtgfn._support.compiled import INNER, njit
from dtgfn._support.parallel import Flag

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


class Nodes(Protocol):
    """Where particles learn what they need to know of their next nodes.

    ``root`` [2] is what the root adds to log R as a leaf, and whether it can be split.
    """

    max_depth: int
    temperature: float
    most_nodes: int
    root: tuple[float, bool]

    def settle(self, level: int, particles: Particles) -> None:
        """Say which nodes of a level can be split, where that was not known before."""

    def decide(
        self,
        first: int,
        most_work: int,
        new_node: Flag,
        member: Int64s,
        uniform: Floats,
        particles: Particles,
    ) -> tuple[int, int]:
        """Let particles ``member[first:]`` decide their next node, until ``most_work`` is done.

        Those with the same next node follow each other, and ``new_node`` [M] marks the first of
        them. ``uniform`` [B, 3] are the draws. Return how many have decided, and the work done.
        """


def plant(nodes: Nodes, n_particles: int) -> Particles:
    """Return particles whose root is open."""
    value, can_split = nodes.root
    shape = (n_particles, min(FIRST_WIDTH, nodes.most_nodes))
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


@njit(**INNER)
def skip_decided(particles: Particles, b: int) -> None:
    """Move on to the next node that has a choice."""
    particles.next[b] += 1
    while particles.next[b] < particles.n_nodes[b]:
        if particles.can_split[b, particles.next[b]]:
            return
        particles.next[b] += 1
