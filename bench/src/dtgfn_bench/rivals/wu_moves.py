"""Moves of Wu, Tjelmeland, West (2007), each with its Hastings ratio; restructure is theirs.

A move from T returns T' and log q(T' -> T) - log q(T -> T'), or None where it cannot be done. With
M leaves, W splits above two leaves, d features, and c cuts that part a node's rows by a feature::

    grow a leaf         q = 1 / (M d c)           prune           q = 1 / W
    change a rule       q = 1 / (splits d c')     shift its cut   symmetric
    swap two rules      symmetric: the shape stays
    restructure         q = prod over splits of T' 1 / (gaps at the node * cuts in the gap)

Restructure keeps the leaves' rows and builds a new tree above them from the root: a gap is a run of
cuts of one feature that parts the node's leaves the same way and goes through none of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

import numpy as np

from dtgfn._support.arrays import Int64s
from dtgfn_bench.rivals.wu_tree import Node, Path, Problem, replaced, walk

Proposal = tuple[Node, float] | None
Move = Callable[[Problem, Node, Random], Proposal]


def _splits(tree: Node) -> list[tuple[Path, Node]]:
    return [(path, node) for path, node in walk(tree) if node.children]


def _leaves(tree: Node) -> list[tuple[Path, Node]]:
    return [(path, node) for path, node in walk(tree) if not node.children]


def _n_prunable(tree: Node) -> int:
    return sum(node.n_leaves == 2 for _, node in walk(tree))


def grow(problem: Problem, tree: Node, random: Random) -> Proposal:
    """Split a leaf."""
    path, leaf = random.choice(_leaves(tree))
    feature = random.randrange(len(problem.below))
    low, high = problem.reach(leaf.rows, feature)
    if low == high:
        return None
    cut = random.randrange(low, high)
    left = leaf.rows & problem.below[feature][cut]
    sides = problem.leaf(left), problem.leaf(leaf.rows ^ left)
    grown = replaced(problem, tree, path, problem.split(feature, cut, *sides))
    n_rules = len(problem.below) * (high - low)
    return grown, math.log(tree.n_leaves * n_rules / _n_prunable(grown))


def prune(problem: Problem, tree: Node, random: Random) -> Proposal:
    """Undo a split above two leaves."""
    ends = [(path, node) for path, node in walk(tree) if node.n_leaves == 2]
    if not ends:
        return None
    path, node = random.choice(ends)
    low, high = problem.reach(node.rows, node.feature)
    pruned = replaced(problem, tree, path, problem.leaf(node.rows))
    n_rules = len(problem.below) * (high - low)
    return pruned, math.log(len(ends) / (pruned.n_leaves * n_rules))


def change(problem: Problem, tree: Node, random: Random) -> Proposal:
    """Give a split another feature and cut; the rules below it stay."""
    return _ruled(problem, tree, random, random.randrange(len(problem.below)))


def shift(problem: Problem, tree: Node, random: Random) -> Proposal:
    """Give a split another cut of its feature."""
    return _ruled(problem, tree, random, None)


def _ruled(problem: Problem, tree: Node, random: Random, feature: int | None) -> Proposal:
    splits = _splits(tree)
    if not splits:
        return None
    path, node = random.choice(splits)
    feature = node.feature if feature is None else feature
    low, high = problem.reach(node.rows, feature)
    if low == high:
        return None
    cut = random.randrange(low, high)
    subtree = problem.routed(node.rows, node._replace(feature=feature, cut=cut))
    if subtree is None:
        return None
    before = problem.reach(node.rows, node.feature)
    log_q = math.log((high - low) / (before[1] - before[0]))
    return replaced(problem, tree, path, subtree), log_q


def swap(problem: Problem, tree: Node, random: Random) -> Proposal:
    """Exchange the rules of a split and of a split right below it."""
    pairs = [
        (path, node, turn)
        for path, node in _splits(tree)
        for turn in (0, 1)
        if node.children[turn].children
    ]
    if not pairs:
        return None
    path, node, turn = random.choice(pairs)
    sides = list(node.children)
    child = sides[turn]
    sides[turn] = child._replace(feature=node.feature, cut=node.cut)
    swapped = node._replace(feature=child.feature, cut=child.cut, children=tuple(sides))
    subtree = problem.routed(node.rows, swapped)
    return None if subtree is None else (replaced(problem, tree, path, subtree), 0.0)


def restructure(problem: Problem, tree: Node, random: Random) -> Proposal:
    """Build another tree above the same leaves."""
    leaves = [leaf for _, leaf in _leaves(tree)]
    if len(leaves) < 3:
        return None  # nothing but a cut could change
    built = _build(problem, leaves, _all_reaches(problem, leaves), random)
    if built is None:
        return None
    return built[0], restructure_log_probability(problem, tree) - built[1]


def _all_reaches(problem: Problem, leaves: list[Node]) -> Int64s:
    """Lowest and highest codes of leaves [2, leaves, d]."""
    return np.stack([problem.reaches(leaf.rows) for leaf in leaves], axis=1)


def _gaps(reach: Int64s) -> tuple[Int64s, Int64s]:
    """First cut of each gap and number of its cuts (none if <= 0), both [leaves - 1, d]."""
    # A cut goes through no leaf if k leaves end before it and all others begin after it.
    low, high = np.sort(reach, axis=1)
    return high[:-1], low[1:] - high[:-1]


def _build(
    problem: Problem, leaves: list[Node], reach: Int64s, random: Random
) -> tuple[Node, float] | None:
    """Draw a tree above leaves; return it and the log probability of drawing it."""
    if len(leaves) == 1:
        return leaves[0], 0.0
    first, width = _gaps(reach)
    gaps = np.flatnonzero(width > 0)
    if not gaps.size:
        return None
    gap = int(gaps[random.randrange(gaps.size)])
    feature, n_cuts = gap % reach.shape[2], int(width.flat[gap])
    cut = int(first.flat[gap]) + random.randrange(n_cuts)
    goes_left = reach[1, :, feature] <= cut
    sides, log_q = [], -math.log(gaps.size * n_cuts)
    for part in (goes_left, ~goes_left):
        mine = [leaf for leaf, here in zip(leaves, part, strict=True) if here]
        built = _build(problem, mine, reach[:, part], random)
        if built is None:
            return None
        sides.append(built[0])
        log_q += built[1]
    return problem.split(feature, cut, sides[0], sides[1]), log_q


def restructure_log_probability(problem: Problem, tree: Node) -> float:
    """Log probability that restructure, given the leaves of a tree, builds this tree."""
    reach = _all_reaches(problem, [leaf for _, leaf in _leaves(tree)])
    return _built_log_probability(tree, reach)


def _built_log_probability(tree: Node, reach: Int64s) -> float:
    if not tree.children:
        return 0.0
    _, width = _gaps(reach)
    n_left = tree.children[0].n_leaves
    n_cuts = int(width[n_left - 1, tree.feature])
    log_q = -math.log(int((width > 0).sum()) * n_cuts)
    log_q += _built_log_probability(tree.children[0], reach[:, :n_left])
    return log_q + _built_log_probability(tree.children[1], reach[:, n_left:])


# How often each is tried; the first two must be equal, for they undo each other.
SHARES: dict[Move, float] = {
    grow: 0.2,
    prune: 0.2,
    change: 0.25,
    shift: 0.15,
    swap: 0.1,
    restructure: 0.1,
}
