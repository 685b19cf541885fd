"""A support from a file: refused unless it is one of its problem."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from dtgfn._support.arrays import UInt64s
from dtgfn.engines.rowsets.problem import Problem
from dtgfn.engines.rowsets.support import SupportLevel, owners_of

EDGES_AT_ONCE = 100_000  # checked, so that the row sets on both sides stay a few megabytes


def check_support(problem: Problem, support: list[SupportLevel]) -> None:
    """Refuse arrays that do not describe a support of this problem.

    Files come from strangers, and the compiled loops do not check bounds. Below the root a level
    may be empty: where nearly all mass stops, or rows cannot be told apart, nothing goes on.
    """
    last_levels = problem.score.max_depth - (len(support) - 1)
    summed = problem.summed_at_once
    if not support or not min(summed, 1) <= last_levels <= summed:
        raise ValueError("the support has the wrong number of levels")
    if len(support[0].bits) != 1 or (support[0].bits != problem.root_bits).any():
        raise ValueError("the support has no root")
    for here in support:
        if (here.bits & ~problem.root_bits).any() or not here.bits.any(axis=1).all():
            raise ValueError("a row set of the support is empty or holds rows that do not exist")
    for here, below in pairwise(support):
        _check_edges(problem, here, below.bits)
        _check_probabilities(here)
    last = support[-1]
    if last.stop.size or last.probability.size or any(column.size for column in last.edges[1:]):
        raise ValueError("the support goes on below its last level")


def _check_edges(problem: Problem, here: SupportLevel, children: UInt64s) -> None:
    """Refuse edges that do not cut their row set into two of the next level."""
    edges, n_sets = here.edges, len(here.bits)
    if {column.shape for column in edges[1:]} != {here.probability.shape}:
        raise ValueError("the support's edges differ in length")
    if edges.start.shape != (n_sets + 1,) or edges.start[0] != 0:
        raise ValueError("the support's edges differ in length")
    if (np.diff(edges.start) < 0).any() or edges.start[-1] != edges.feature.size:
        raise ValueError("the support's edges are out of order")
    n_features, n_children = problem.feature.size, len(children)
    for index, limit in ((edges.feature, n_features), (edges.left, n_children)):
        if ((index < 0) | (index >= limit)).any():
            raise ValueError("an edge of the support leads nowhere")
    if ((edges.right < 0) | (edges.right >= n_children)).any():
        raise ValueError("an edge of the support leads nowhere")
    highest = problem.loops.rank_code.max(axis=1, initial=0)
    if ((edges.low < 0) | (edges.high <= edges.low)).any():
        raise ValueError("a cut of the support is out of range")
    if (edges.high > highest[edges.feature]).any():
        raise ValueError("a cut of the support is out of range")
    owner = owners_of(edges)
    for first in range(0, len(owner), EDGES_AT_ONCE):
        part = slice(first, first + EDGES_AT_ONCE)
        left, right = children[edges.left[part]], children[edges.right[part]]
        if (left & right).any() or ((left | right) != here.bits[owner[part]]).any():
            raise ValueError("a cut of the support does not part the rows of its set")


def _check_probabilities(here: SupportLevel) -> None:
    n_sets = len(here.bits)
    if here.stop.shape != (n_sets,):
        raise ValueError("the support's stops differ in length")
    total = here.stop + np.bincount(owners_of(here.edges), here.probability, minlength=n_sets)
    below_zero = (here.probability < 0).any() or (here.stop < 0).any()
    if below_zero or not (np.abs(total - 1) < 1e-6).all():
        raise ValueError("the support's probabilities do not sum to one")
