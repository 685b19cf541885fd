"""A partial graph as arrays for a file, and back: files may lie, and the loops do not check."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from dtgfn._support.arrays import Int64s
from dtgfn.engines.rowsets.graph import count_cuts, make_row_sets
from dtgfn.engines.rowsets.partial.cuts import CutTable
from dtgfn.engines.rowsets.partial.graph import PartialGraph
from dtgfn.engines.rowsets.partial.levels import (
    NODE_FIELDS,
    Level,
    fill_slots,
    make_level,
    reserve_cuts,
    reserve_nodes,
)
from dtgfn.engines.rowsets.partial.rebuilt import sets_at_once

LARGEST_LOG = 1e100  # sums of such numbers stay numbers
CUTS_AT_ONCE = 100_000  # checked, so that the row sets on both sides stay a few megabytes
Arrays = dict[str, npt.NDArray[Any]]


def graph_arrays(graph: PartialGraph) -> Arrays:
    """Everything a graph knows; views, which go on changing with it."""
    out: Arrays = {}
    for level in graph.levels:
        n, name = len(level), f"level.{level.depth}."
        out[name + "bits"], out[name + "keys"] = level.sets.bits[:n], level.sets.keys[:n]
        for field in NODE_FIELDS:
            out[name + field] = getattr(level, field)[:n]
        for field in CutTable._fields:
            out[name + "cuts." + field] = getattr(level.cuts, field)[: level.n_listed]
    return out


def restore_graph(graph: PartialGraph, arrays: Arrays) -> None:
    """Take back what ``graph_arrays`` gave, and nothing of what was there before."""
    rebuilt = graph.limits.rebuilt
    levels = [make_level(graph.problem, depth, rebuilt) for depth in range(graph.n_upper + 1)]
    graph.levels = levels
    for level in levels:
        name = f"level.{level.depth}."
        part = {key.removeprefix(name): a for key, a in arrays.items() if key.startswith(name)}
        fill_level(level, part)
    for level, below in zip(levels, [*levels[1:], None], strict=True):
        check_level(level, below, graph)


def fill_level(level: Level, arrays: dict[str, npt.NDArray[Any]]) -> None:
    """Fill an empty level from the arrays that ``graph_arrays`` made of one."""
    n_nodes, n_cuts = len(arrays["bits"]), len(arrays["cuts.feature"])
    reserve_nodes(level, n_nodes)
    reserve_cuts(level, n_cuts)
    level.n_listed = n_cuts
    columns = {"bits": level.sets.bits, "keys": level.sets.keys}
    columns |= {field: getattr(level, field) for field in NODE_FIELDS}
    columns |= {f"cuts.{field}": column for field, column in level.cuts._asdict().items()}
    for name, column in columns.items():
        length = n_cuts if name.startswith("cuts.") else n_nodes
        if arrays[name].shape != (length, *column.shape[1:]) or arrays[name].dtype != column.dtype:
            raise ValueError(f"{name} has the shape {arrays[name].shape} or another type")
        column[:length] = arrays[name]
    level.sets.used[0] = n_nodes
    fill_slots(n_nodes, level.sets.keys, level.sets.slots)


def check_level(level: Level, below: Level | None, graph: PartialGraph) -> None:
    """Refuse a level that is not one of this problem; those above are checked before."""
    wrong = (
        (level.depth == 0 and len(level) != 1)
        or not all(_has_rows(level, nodes, graph) for nodes in parts(np.arange(len(level)), graph))
        or not _has_numbers(level)
        or not _has_cuts(level, below, graph)
        or not _has_origins(level, below)
        or not _parts_rows(level, below, graph)
    )
    if wrong:
        raise ValueError(f"the row sets at depth {level.depth} do not fit together")


def parts(items: Int64s, graph: PartialGraph) -> Iterator[Int64s]:
    """Yield items in parts with few enough row sets to be looked at together."""
    size = min(sets_at_once(graph.problem), CUTS_AT_ONCE)
    for first in range(0, items.size, size):
        yield items[first : first + size]


def _has_rows(level: Level, nodes: Int64s, graph: PartialGraph) -> bool:
    """Whether nodes have rows, and their names."""
    bits, root = graph.bits_of(level.depth, nodes), graph.problem.root_bits
    return (
        (level.depth > 0 or bool((bits == root).all()))
        and not (bits & ~root).any()
        and bool(bits.any(axis=1).all())
        and bool((make_row_sets(graph.problem, bits).keys == level.sets.keys[nodes]).all())
    )


def _has_origins(level: Level, below: Level | None) -> bool:
    """Whether every node below says which of this level's cuts it was first reached by."""
    if below is None:
        return True
    parent, origin = below.parent[: len(below)], below.origin[: len(below)]
    if ((parent < 0) | (parent >= len(level)) | (origin < 0)).any():
        return False
    return bool((origin >> 1 < level.n_listed).all() and (level.start[parent] >= 0).all())


def _has_numbers(level: Level) -> bool:
    """Whether all is finite but what is not known yet, and nothing so large that it overflows."""
    n_nodes, n_listed = len(level), level.n_listed
    known = ~np.isnan(level.flow[:n_nodes])
    of_nodes = (level.sums, level.lookahead, level.stop, level.open, level.n_thresholds)
    # A leaf model of one's own has no ceiling.
    most = level.cuts.ceiling
    finite = level.cuts._replace(ceiling=np.where(np.isposinf(most), 0.0, most))
    of_cuts = (array for array in finite if array.dtype.kind == "f")
    numbers: list[npt.NDArray[Any]] = [array[:n_nodes][known] for array in (level.flow, level.best)]
    numbers += [*(array[:n_nodes] for array in of_nodes), *(array[:n_listed] for array in of_cuts)]
    shares = level.open[:n_nodes]
    rest = np.concatenate([level.rest[:n_nodes], level.rest_ceiling[:n_nodes]])
    return (
        not np.isnan(rest).any()
        and float(level.rest[:n_nodes].max(initial=-np.inf)) <= LARGEST_LOG
        and all(np.isfinite(array).all() for array in numbers)
        and max(float(np.abs(array).max(initial=0.0)) for array in numbers) <= LARGEST_LOG
        and bool(((shares >= 0) & (shares <= 1)).all())
    )


def _has_cuts(level: Level, below: Level | None, graph: PartialGraph) -> bool:
    """Whether every node that was looked at has its cuts."""
    problem, kept_cuts = graph.problem, graph.limits.kept_cuts
    n_nodes, n_listed, cuts = len(level), level.n_listed, level.cuts
    start, n_cuts = level.start[:n_nodes], level.n_cuts[:n_nodes]
    if below is None:
        return n_listed == 0 and not n_cuts.any() and bool((start == -1).all())
    listed = np.flatnonzero(start >= 0)
    known = np.flatnonzero(~np.isnan(level.flow[:n_nodes]))
    counts = np.zeros(0, np.int32)
    for nodes in parts(listed, graph):
        some = np.empty(nodes.size, np.int32)
        count_cuts(0, nodes.size, graph.bits_of(level.depth, nodes), problem.loops, some)
        counts = np.concatenate([counts, some])
    if kept_cuts is not None and (n_cuts[listed] >= np.minimum(counts, kept_cuts)).all():
        counts = np.minimum(counts, n_cuts[listed])
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
    return not ((child < -1) | (child >= len(below))).any()


def _parts_rows(level: Level, below: Level | None, graph: PartialGraph) -> bool:
    """Whether the children of nodes that are there have their rows, each just once."""
    if below is None:
        return True
    listed = np.flatnonzero(level.start[: len(level)] >= 0)
    counts, child = level.n_cuts[listed].astype(np.int64), level.cuts.child
    owner = np.repeat(listed, counts)
    cut = np.repeat(level.start[listed] - np.cumsum(counts) + counts, counts)
    cut += np.arange(counts.sum())
    there = np.flatnonzero((child[cut] >= 0).any(axis=1))
    for some in parts(there, graph):
        e, parent = child[cut[some]], graph.bits_of(level.depth, owner[some])
        sides = []
        for side in range(2):
            known = e[:, side] >= 0
            sides.append(np.zeros_like(parent))
            sides[side][known] = graph.bits_of(below.depth, e[known, side].astype(np.int64))
        both = (e >= 0).all(axis=1)
        if (sides[0] & sides[1]).any() or ((sides[0] | sides[1]) & ~parent).any():
            return False
        if ((sides[0] | sides[1]) != parent)[both].any():
            return False
        if ((sides[0] | sides[1]) == parent)[~both].all(axis=1).any():
            return False
    return True
