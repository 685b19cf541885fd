"""Levels: arrays of the row sets met so far, one level per depth, growing as they come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from dtgfn._support.arrays import Floats, Int32s, Int64s, UInt64s
from dtgfn.engines.rowsets.graph import RowSetTable, count_cuts, make_row_sets
from dtgfn.engines.rowsets.partial.lookahead import Cuts, empty_cuts
from dtgfn.engines.rowsets.problem import Problem

LARGEST_LOG = 1e100  # sums of such numbers stay numbers
CUTS_AT_ONCE = 100_000  # checked, so that the row sets on both sides stay a few megabytes
NODE_FIELDS = ("sums", "look", "stop", "flow", "best", "open", "start", "n_cuts", "span", "version")


@dataclass
class Level:
    """All nodes met at one depth; capacity is doubled as they come, ``used`` of it is filled.

    Attributes
    ----------
    depth : int
    nursery : RowSetTable
        Row sets (bits, keys) and the hash table over them.
    sums : float64 [K, S]
        The leaf model's sums over the rows.
    look : float64 [K]
        Look-ahead value, as the parent sees it.
    stop : float64 [K]
        Log flow of stopping here.
    flow : float64 [K]
        Log flow; nan until the node has been looked at.
    best : float64 [K]
        Log weight of the best tree known on the row set.
    open : float64 [K]
        Probability that a tree drawn from here passes a child nobody looked at; 0 only if there is
        no such child, however improbable.
    start : int64 [K]
        Where the node's cuts begin, -1 until they are listed.
    n_cuts : int32 [K]
    version : int64 [K]
        Step of the network whose residuals the node's cuts carry.
    span : float64 [K]
        Thresholds that are valid here, once cuts are listed.
    cuts : Cuts
        Of all nodes of the level; ``n_listed`` of the room is filled.

    """

    depth: int
    nursery: RowSetTable
    sums: Floats
    look: Floats
    stop: Floats
    flow: Floats
    best: Floats
    open: Floats
    start: Int64s
    n_cuts: Int32s
    version: Int64s
    span: Floats
    cuts: Cuts
    n_listed: int

    def __len__(self) -> int:
        return int(self.nursery.used[0])


def known_nodes(level: Level) -> Int64s:
    """Nodes whose flow is known."""
    return np.flatnonzero(~np.isnan(level.flow[: len(level)]))


def make_level(problem: Problem, depth: int, capacity: int = 64) -> Level:
    """Return an empty level."""
    n_sums = problem.score.leaf.n_sums
    return Level(
        depth=depth,
        nursery=RowSetTable(
            np.full(4 * capacity, -1, np.int32),
            np.empty((capacity, problem.n_words), np.uint64),
            np.empty((capacity, 2), np.uint64),
            np.zeros(1, np.int32),
        ),
        sums=np.empty((capacity, n_sums)),
        look=np.empty(capacity),
        stop=np.empty(capacity),
        flow=np.full(capacity, np.nan),
        best=np.full(capacity, -np.inf),
        open=np.ones(capacity),
        start=np.full(capacity, -1, np.int64),
        n_cuts=np.zeros(capacity, np.int32),
        version=np.zeros(capacity, np.int64),
        span=np.zeros(capacity),
        cuts=empty_cuts(0, n_sums),
        n_listed=0,
    )


def grow(level: Level, needed: int) -> None:
    """Make room for at least so many nodes."""
    old = level.sums.shape[0]
    if needed <= old:
        return
    capacity = max(needed, 2 * old)
    used, nursery = len(level), level.nursery
    slots = np.full(1 << (4 * capacity - 1).bit_length(), -1, np.int32)
    bits = np.empty((capacity, nursery.bits.shape[1]), np.uint64)
    keys = np.empty((capacity, 2), np.uint64)
    bits[:used], keys[:used] = nursery.bits[:used], nursery.keys[:used]
    level.nursery = RowSetTable(slots, bits, keys, nursery.used)
    fill_slots(used, keys, slots)
    for field in NODE_FIELDS:
        array = getattr(level, field)
        empty = {"flow": np.nan, "best": -np.inf, "open": 1.0, "start": -1}.get(field, 0)
        larger = np.full((capacity, *array.shape[1:]), empty, array.dtype)
        larger[:used] = array[:used]
        setattr(level, field, larger)


def grown_cuts(cuts: Cuts, used: int, needed: int) -> Cuts:
    """Return the cuts with room for at least so many."""
    if needed <= cuts.feature.size:
        return cuts
    larger = empty_cuts(max(needed, 2 * cuts.feature.size), cuts.sums.shape[2])
    for field in Cuts._fields:
        getattr(larger, field)[:used] = getattr(cuts, field)[:used]
    return larger


@njit(cache=True, nogil=True)
def fill_slots(used: int, keys: UInt64s, slots: Int32s) -> None:
    """Put the first nodes into an empty hash table."""
    mask = np.uint64(slots.shape[0] - 1)
    for k in range(used):
        slot = keys[k, 0] & mask
        while slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = k


def fill_level(level: Level, arrays: dict[str, npt.NDArray[Any]]) -> None:
    """Fill an empty level from the arrays that ``Graph.arrays`` made of one."""
    n_nodes, n_cuts = len(arrays["bits"]), len(arrays["cuts.feature"])
    grow(level, n_nodes)
    level.cuts, level.n_listed = grown_cuts(level.cuts, 0, n_cuts), n_cuts
    places = {"bits": level.nursery.bits, "keys": level.nursery.keys}
    places |= {field: getattr(level, field) for field in NODE_FIELDS}
    places |= {f"cuts.{field}": column for field, column in level.cuts._asdict().items()}
    for name, place in places.items():
        length = n_cuts if name.startswith("cuts.") else n_nodes
        if arrays[name].shape != (length, *place.shape[1:]) or arrays[name].dtype != place.dtype:
            raise ValueError(f"{name} has the shape {arrays[name].shape} or another type")
        place[:length] = arrays[name]
    level.nursery.used[0] = n_nodes
    fill_slots(n_nodes, level.nursery.keys, level.nursery.slots)


def check_level(level: Level, below: Level | None, problem: Problem) -> None:
    """Refuse a level that is not one of this problem: files may lie, and the loops do not check."""
    n_nodes, bits = len(level), level.nursery.bits[: len(level)]
    wrong = (
        (level.depth == 0 and (n_nodes != 1 or (bits != problem.root_bits).any()))
        or (bits & ~problem.root_bits).any()
        or not bits.any(axis=1).all()
        or (make_row_sets(problem, bits).keys != level.nursery.keys[:n_nodes]).any()
        or not _has_numbers(level)
        or not _has_cuts(level, below, problem)
    )
    if wrong:
        raise ValueError(f"the row sets at depth {level.depth} do not fit together")


def _has_numbers(level: Level) -> bool:
    """Whether all is finite but what is not known yet, and nothing so large that it overflows."""
    n_nodes, n_listed = len(level), level.n_listed
    known = ~np.isnan(level.flow[:n_nodes])
    of_nodes = (level.sums, level.look, level.stop, level.open, level.span)
    # A leaf model of one's own has no ceiling.
    most = level.cuts.ceiling
    finite = level.cuts._replace(ceiling=np.where(np.isposinf(most), 0.0, most))
    of_cuts = (array for array in finite if array.dtype.kind == "f")
    numbers: list[npt.NDArray[Any]] = [array[:n_nodes][known] for array in (level.flow, level.best)]
    numbers += [*(array[:n_nodes] for array in of_nodes), *(array[:n_listed] for array in of_cuts)]
    shares = level.open[:n_nodes]
    return (
        all(np.isfinite(array).all() for array in numbers)
        and max(float(np.abs(array).max(initial=0.0)) for array in numbers) <= LARGEST_LOG
        and bool(((shares >= 0) & (shares <= 1)).all())
    )


def _has_cuts(level: Level, below: Level | None, problem: Problem) -> bool:
    """Whether every node that was looked at has its cuts, and these part its rows."""
    n_nodes, n_listed, cuts = len(level), level.n_listed, level.cuts
    start, n_cuts = level.start[:n_nodes], level.n_cuts[:n_nodes]
    if below is None:
        return n_listed == 0 and not n_cuts.any() and bool((start == -1).all())
    listed = np.flatnonzero(start >= 0)
    known = np.flatnonzero(~np.isnan(level.flow[:n_nodes]))
    counts = np.empty(listed.size, np.int32)
    count_cuts(0, listed.size, level.nursery.bits[listed], problem.loops, counts)
    unlisted = start < 0
    if (unlisted[known]).any() or n_cuts[unlisted].any() or (counts != n_cuts[listed]).any():
        return False
    if (start[listed] + counts > n_listed).any():
        return False
    feature, child = cuts.feature[:n_listed], cuts.child[:n_listed]
    low, high = cuts.low[:n_listed], cuts.high[:n_listed]
    if ((feature < 0) | (feature >= problem.feature.size)).any():
        return False
    highest = problem.loops.rank_code.max(axis=1, initial=0)[feature]
    if ((low < 0) | (high <= low) | (high > highest)).any():
        return False
    if ((child < -1) | (child >= len(below))).any():
        return False
    cut = np.repeat(start[listed] - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
    return _parts_rows(np.repeat(listed, counts), child[cut], level, below)


def _parts_rows(owner: Int64s, child: Int32s, level: Level, below: Level) -> bool:
    """Whether the children [E, 2] of nodes [E] that are there have their rows, each just once."""
    there = np.flatnonzero((child >= 0).any(axis=1))
    for first in range(0, there.size, CUTS_AT_ONCE):
        e = there[first : first + CUTS_AT_ONCE]
        whole = level.nursery.bits[owner[e]]
        sides = [
            np.where((child[e, side] >= 0)[:, None], below.nursery.bits[child[e, side]], 0)
            for side in range(2)
        ]
        both = (child[e] >= 0).all(axis=1)
        if (sides[0] & sides[1]).any() or ((sides[0] | sides[1]) & ~whole).any():
            return False
        if ((sides[0] | sides[1]) != whole)[both].any():
            return False
        if ((sides[0] | sides[1]) == whole)[~both].all(axis=1).any():
            return False
    return True
