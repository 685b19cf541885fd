"""A long table's posterior looked for on a part of its rows first, then on more, then on all.

Looking at a row set takes as long as it has rows, and of a million a search of a minute sees a few
hundred sets. A part of the rows, each standing for several, tells nearly as well which cuts are
good, at a fraction of the cost. So a sampler is trained on few rows; the trees that it found are
followed on more, where training goes on from them, and in the end on all rows. What is known of a
part decides only where is looked next: flows, weights and bounds are of all rows.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from dtgfn._support import clock
from dtgfn.engines.gfn.fixed.fixed_sampler import FixedSampler
from dtgfn.engines.gfn.fixed.paths import follow_trees
from dtgfn.engines.gfn.making import Maker
from dtgfn.engines.gfn.trainer import train
from dtgfn.engines.rowsets.problem import LONG
from dtgfn.trees.batch import TreeBatch, canonical_keys, stack_trees
from dtgfn.trees.score import Rows

GROWTH = 5
PART_OF_TIME = 0.3  # of what is left, for each part and for following its trees
FOLLOWED = 60  # trees of a part, the best of them first
AT_ONCE = 4


def part_sizes(n_rows: int) -> list[int]:
    """Rows of each part, ascending; none for a table that is not long.

    >>> part_sizes(90_000), part_sizes(1_000_000), part_sizes(10_000_000)
    ([], [40000, 200000], [80000, 400000, 2000000])
    """
    sizes: list[int] = []
    size = n_rows // GROWTH
    while size >= LONG:
        sizes.insert(0, size)
        size //= GROWTH
    return sizes


def take_part(rows: Rows, index: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Rows:
    """Some of the rows, each weighing as much more as there are fewer of them: a whole number."""
    times = max(round(len(rows.target) / len(index)), 1)
    return Rows(rows.codes[index], rows.target[index], rows.weight[index] * times)


def look_on_parts(maker: Maker, sampler: FixedSampler, rows: Rows, seed: int, until: float) -> None:
    """Let a new sampler know what is found on parts of its rows before ``until``, by the clock."""
    order = np.random.default_rng(seed).permutation(len(rows.target))
    ranked = sampler.graph.problem.loops.ranks.dtype
    found: TreeBatch | None = None
    for size in part_sizes(len(rows.target)):
        seconds = PART_OF_TIME * (until - clock.monotonic())
        if seconds <= 0:
            break
        begun, part = clock.monotonic(), take_part(rows, np.sort(order[:size]))
        problem = maker.problem(part, ranked)
        smaller = cast("FixedSampler", maker.sampler(part, problem, seed))
        if found is not None:
            follow(smaller, found, begun + seconds)
        left = max(begun + seconds - clock.monotonic(), 0.0)
        trained = train(
            smaller, part, maker.score, maker.settings, time_budget=left, random_state=seed
        )
        smaller.finish()
        found = best_trees(smaller, trained.replay.trees, trained.best_tree)
        sampler.warm_start(smaller)
    if found is not None:
        seconds = PART_OF_TIME * (until - clock.monotonic())
        follow(sampler, found, clock.monotonic() + seconds)


def best_trees(sampler: FixedSampler, replayed: TreeBatch, best: TreeBatch | None) -> TreeBatch:
    """Distinct trees to look at on more rows, those first that the sampler thinks most of."""
    parts = [tree for tree in (sampler.best_known(), best) if tree is not None]
    trees = stack_trees([*parts, replayed[:FOLLOWED]])
    first: dict[bytes, int] = {}
    for i, key in enumerate(canonical_keys(trees)):
        first.setdefault(key, i)
    return trees[list(first.values())][:FOLLOWED]


def follow(sampler: FixedSampler, trees: TreeBatch, deadline: float) -> None:
    """Follow trees as long as there is time, so that what they pass is known."""
    for first in range(0, len(trees), AT_ONCE):
        if clock.monotonic() > deadline:
            break
        follow_trees(sampler.flows, trees[first : first + AT_ONCE], deadline, keep=True)
    sampler.finish()
