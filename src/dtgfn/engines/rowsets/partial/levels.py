"""The nodes of one depth as arrays whose room grows as they come."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from dtgfn._support.arrays import Floats, Int32s, Int64s, UInt64s
from dtgfn._support.compiled import njit
from dtgfn.engines.rowsets.graph import RowSetTable
from dtgfn.engines.rowsets.partial.cuts import CutTable, empty_cuts
from dtgfn.engines.rowsets.problem import Problem

NODE_FIELDS = (
    "sums",
    "lookahead",
    "stop",
    "flow",
    "best",
    "open",
    "start",
    "n_cuts",
    "n_thresholds",
    "version",
    "rest",
    "rest_ceiling",
    "parent",
    "origin",
)
UNSET = {"flow": np.nan, "best": -np.inf, "open": 1.0, "start": -1}
UNSET |= {"rest": -np.inf, "rest_ceiling": -np.inf, "parent": -1, "origin": -1}


@dataclass
class Level:
    """All nodes met at one depth, K of which there is room for; the room is doubled as they come.

    Attributes
    ----------
    depth : int
    sets : RowSetTable
        Row sets (bits, keys) and the hash table over them.
    sums : float64 [K, S]
        The leaf model's sums over the rows.
    lookahead : float64 [K]
        Look-ahead value, as the parent sees it.
    stop : float64 [K]
        Log flow of stopping here.
    flow : float64 [K]
        Log flow; nan until the node has been expanded.
    best : float64 [K]
        Log weight of the best tree known on the row set, with all that part the rows alike.
    open : float64 [K]
        Probability that a tree drawn from here passes a child nobody has expanded; 0 only if there
        is no such child, however improbable.
    start : int64 [K]
        Where the node's cuts begin, -1 until they are listed.
    n_cuts : int32 [K]
    version : int64 [K]
        Step of the network whose residuals the node's cuts have.
    n_thresholds : float64 [K]
        Thresholds that are valid here, once cuts are listed.
    rest, rest_ceiling : float64 [K]
        Log of what the cuts that a node does not keep add up to by their look-ahead, and at most.
    parent, origin : int64 [K]
        Node of the level above that this one was first reached from, and by which of that level's
        cuts: 2 * cut + side. -1 at the root.
    cuts : CutTable
        Of all nodes of the level; ``n_listed`` of the room is filled.
    looked_up : dict
        Cuts of no node's list, which were drawn from the rest: (node, feature, low) to position.
    memo : dict of arrays
        What those who guess flows keep of the nodes, by names of their own.

    """

    depth: int
    sets: RowSetTable
    sums: Floats
    lookahead: Floats
    stop: Floats
    flow: Floats
    best: Floats
    open: Floats
    start: Int64s
    n_cuts: Int32s
    version: Int64s
    n_thresholds: Floats
    rest: Floats
    rest_ceiling: Floats
    parent: Int64s
    origin: Int64s
    cuts: CutTable
    n_listed: int
    looked_up: dict[tuple[int, int, int], int] = field(default_factory=dict)
    memo: dict[str, npt.NDArray[Any]] = field(default_factory=dict)

    def __len__(self) -> int:
        return int(self.sets.used[0])


def known_nodes(level: Level) -> Int64s:
    """Nodes whose flow is known."""
    return np.flatnonzero(~np.isnan(level.flow[: len(level)]))


def make_level(problem: Problem, depth: int, rebuilt: bool = False, capacity: int = 64) -> Level:
    """Return an empty level; one whose row sets are ``rebuilt`` keeps no bits of them."""
    n_sums, n_words = problem.score.leaf.n_sums, 0 if rebuilt else problem.n_words
    return Level(
        depth=depth,
        sets=RowSetTable(
            np.full(4 * capacity, -1, np.int32),
            np.empty((capacity, n_words), np.uint64),
            np.empty((capacity, 2), np.uint64),
            np.zeros(1, np.int32),
        ),
        sums=np.empty((capacity, n_sums)),
        lookahead=np.empty(capacity),
        stop=np.empty(capacity),
        flow=np.full(capacity, np.nan),
        best=np.full(capacity, -np.inf),
        open=np.ones(capacity),
        start=np.full(capacity, -1, np.int64),
        n_cuts=np.zeros(capacity, np.int32),
        version=np.zeros(capacity, np.int64),
        n_thresholds=np.zeros(capacity),
        rest=np.full(capacity, -np.inf),
        rest_ceiling=np.full(capacity, -np.inf),
        parent=np.full(capacity, -1, np.int64),
        origin=np.full(capacity, -1, np.int64),
        cuts=empty_cuts(0, n_sums),
        n_listed=0,
    )


def reserve_nodes(level: Level, needed: int) -> None:
    """Make room for at least so many nodes."""
    old = level.sums.shape[0]
    if needed <= old:
        return
    capacity = max(needed, 2 * old)
    used, sets = len(level), level.sets
    slots = np.full(1 << (4 * capacity - 1).bit_length(), -1, np.int32)
    bits = np.empty((capacity, sets.bits.shape[1]), np.uint64)
    keys = np.empty((capacity, 2), np.uint64)
    bits[:used], keys[:used] = sets.bits[:used], sets.keys[:used]
    level.sets = RowSetTable(slots, bits, keys, sets.used)
    fill_slots(used, keys, slots)
    for name in NODE_FIELDS:
        array = getattr(level, name)
        larger = np.full((capacity, *array.shape[1:]), UNSET.get(name, 0), array.dtype)
        larger[:used] = array[:used]
        setattr(level, name, larger)


def reserve_cuts(level: Level, needed: int) -> None:
    """Make room for at least so many cuts."""
    cuts = level.cuts
    if needed <= cuts.feature.size:
        return
    capacity = max(needed, 2 * cuts.feature.size)
    for name in CutTable._fields:  # one by one: both copies of all of them would be much memory
        old = getattr(level.cuts, name)
        larger = np.zeros((capacity, *old.shape[1:]), old.dtype)
        larger[: level.n_listed] = old[: level.n_listed]
        level.cuts = level.cuts._replace(**{name: larger})


def close_gaps(level: Level, nodes: Int64s) -> None:
    """Let the cuts of nodes that were just listed, each with more room than cuts, be adjacent."""
    number = level.n_cuts[nodes].astype(np.int64)
    ends = level.n_listed + np.cumsum(number)
    moved = np.repeat(level.start[nodes] - ends + number, number)
    if moved.any():
        there = np.arange(level.n_listed, level.n_listed + number.sum())
        for column in level.cuts:
            column[there] = column[there + moved]
    level.start[nodes] = ends - number
    level.n_listed += int(number.sum())


def cut_bytes(n_sums: int) -> int:
    """Bytes that a cut takes."""
    return sum(column.itemsize * column[:1].size for column in empty_cuts(1, n_sums))


@njit(cache=True, nogil=True)
def fill_slots(used: int, keys: UInt64s, slots: Int32s) -> None:
    """Put the first nodes into an empty hash table."""
    mask = np.uint64(slots.shape[0] - 1)
    for k in range(used):
        slot = keys[k, 0] & mask
        while slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = k
