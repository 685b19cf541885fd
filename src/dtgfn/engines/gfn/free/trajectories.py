"""Complete trajectories: states in the order they were passed, and how to re-draw them backwards.

P_B is uniform over parents. A parent of s' is s' with one split undone whose two children are both
leaves, so with c(s') such splits::

    log P_B(s | s') = -log c(s')          log P_B(s | stopped s) = 0
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dtgfn._support.arrays import Floats, Int32s, Int64s
from dtgfn._support.compiled import njit
from dtgfn.engines.gfn.free.mdp import (
    STOP,
    GrowingTrees,
    Nodes,
    Table,
    cut_range,
    score_terms,
    tree_batch,
)
from dtgfn.trees.batch import TreeBatch


class Step(NamedTuple):
    """One action of each tree that has not stopped yet (A trees with k + 1 leaves)."""

    tree: Int64s  # [A]
    leaves: Int64s  # [A, k + 1] nodes
    slot: Int64s  # [A] which of the leaves is split, or STOP
    log_pb: Floats  # [A]


@dataclass(frozen=True)
class States:
    """All states of B trajectories one after the other, with the action taken in each (S in all).

    Attributes
    ----------
    tree, step : int64 [S]
        Trajectory a state belongs to, and its number of splits.
    leaves : int64 [S, L]
        Its leaves, padded with -1.
    slot, node : int64 [S]
        The leaf that is split, as position in ``leaves`` and as node; STOP for a stop.
    log_pb : float64 [S]
        log P_B of the transition.
    log_reward : float64 [S]
        log R of the state if it stopped, on all rows and before the temperature.

    """

    tree: Int64s
    step: Int64s
    leaves: Int64s
    slot: Int64s
    node: Int64s
    log_pb: Floats
    log_reward: Floats


@dataclass(frozen=True)
class FreeTrajectories:
    """Complete trajectories of B trees.

    ``training_log_reward`` [B] is what training aims at: log R itself, or its estimate on a
    mini-batch of rows. ``log_pf`` [B] is nan for trajectories that were re-drawn backwards.
    """

    trees: TreeBatch
    log_reward: Floats
    training_log_reward: Floats
    log_prior: Floats
    log_pf: Floats
    log_pb: Floats
    nodes: Nodes
    states: States


def take_step(
    growing: GrowingTrees, tree: Int64s, slot: Int64s, feature: Int64s, cut: Int64s
) -> Step:
    """Split each tree [A], or leave it where slot is STOP, and note it."""
    leaves = growing.open_leaves(tree).copy()
    goes = slot != STOP
    going = tree[goes]
    if going.size:
        growing.split(going, slot[goes], feature[goes], cut[goes])
    log_pb = np.zeros(len(tree))
    log_pb[goes] = -np.log(growing.n_parents[going])
    return Step(tree, leaves, slot, log_pb)


def complete_trajectories(
    growing: GrowingTrees, steps: Sequence[Step], log_pf: Floats
) -> FreeTrajectories:
    """Put the steps of trees that have all stopped together."""
    nodes, n_trees = growing.nodes, len(log_pf)
    terms = score_terms(growing.table, nodes)
    as_leaf = terms.likelihood + terms.stop
    inner = np.flatnonzero(nodes.feature >= 0)
    left = nodes.left[inner]
    gain = np.zeros(len(as_leaf))  # what splitting a node adds to log R
    gain[inner] = terms.split[inner] - as_leaf[inner] + as_leaf[left] + as_leaf[left + 1]
    states, log_reward = _states(steps, as_leaf[:n_trees].copy(), gain)
    prior = np.where(nodes.feature >= 0, terms.split, terms.stop)
    return FreeTrajectories(
        trees=tree_batch(nodes, n_trees),
        log_reward=log_reward,
        training_log_reward=log_reward,
        log_prior=_total(nodes.tree, prior, n_trees),
        log_pf=log_pf,
        log_pb=_total(states.tree, states.log_pb, n_trees),
        nodes=nodes,
        states=states,
    )


def _total(tree: Int64s, value: Floats, n_trees: int) -> Floats:
    """Sum of the values of each tree [B]."""
    return np.asarray(np.bincount(tree, value, minlength=n_trees), dtype=np.float64)


def _states(steps: Sequence[Step], log_reward: Floats, gain: Floats) -> tuple[States, Floats]:
    """All states, and log R [B] of the last ones; ``log_reward`` is that of the roots."""
    sizes = [len(step.tree) for step in steps]
    leaves = np.full((sum(sizes), len(steps)), -1, dtype=np.int64)
    node = np.full(len(leaves), STOP, dtype=np.int64)
    passed = np.empty(len(leaves))
    start = 0
    for k, step in enumerate(steps):
        here = slice(start, start + sizes[k])
        start += sizes[k]
        leaves[here, : k + 1] = step.leaves
        passed[here] = log_reward[step.tree]
        going = np.flatnonzero(step.slot != STOP)
        node[here][going] = step.leaves[going, step.slot[going]]
        log_reward[step.tree[going]] += gain[node[here][going]]
    states = States(
        tree=np.concatenate([step.tree for step in steps]),
        step=np.repeat(np.arange(len(steps)), sizes),
        leaves=leaves,
        slot=np.concatenate([step.slot for step in steps]),
        node=node,
        log_pb=np.concatenate([step.log_pb for step in steps]),
        log_reward=passed,
    )
    return states, log_reward


def retrace(table: Table, trees: TreeBatch, rng: np.random.Generator) -> FreeTrajectories:
    """Trajectories that end in these trees [B], drawn backwards with P_B."""
    n_trees, n_splits = len(trees), trees.n_splits.astype(np.int64)
    chance = rng.random((n_trees, int(n_splits.max(initial=0)) + 1))
    node = np.zeros(chance.shape, dtype=np.int64)
    slot = np.full(chance.shape, STOP, dtype=np.int64)
    _draw_order(trees.feature, trees.left, chance, node, slot)
    growing = GrowingTrees(table, n_trees)
    steps = list(_replay(growing, trees, n_splits, node, slot))
    return complete_trajectories(growing, steps, np.full(n_trees, np.nan))


def _replay(
    growing: GrowingTrees, trees: TreeBatch, n_splits: Int64s, node: Int64s, slot: Int64s
) -> Iterator[Step]:
    tree = np.arange(len(trees))
    for k in range(node.shape[1]):
        tree = tree[n_splits[tree] >= k]
        split = tree, node[tree, k]
        feature = trees.feature[split].astype(np.int64)
        cut = trees.cut[split].astype(np.int64)
        goes = slot[tree, k] != STOP
        _check_splits(growing, tree[goes], slot[tree[goes], k], feature[goes], cut[goes])
        yield take_step(growing, tree, slot[tree, k], feature, cut)


def _check_splits(
    growing: GrowingTrees, tree: Int64s, slot: Int64s, feature: Int64s, cut: Int64s
) -> None:
    """Refuse a tree that this table cannot grow."""
    node = growing.leaves[tree, slot]
    first, end = cut_range(growing.nodes, node, feature)
    if ((cut < first) | (cut >= end) | (growing.nodes.n_actions[node] == 0)).any():
        raise ValueError(
            "a tree has a split below max_depth, one that sends no training row to one side, "
            "or one that is not allowed"
        )


@njit(cache=True, nogil=True)
def _draw_order(feature: Int32s, left: Int32s, chance: Floats, node: Int64s, slot: Int64s) -> None:
    """Undo a random split whose children are leaves until none is left; note them forwards.

    node [B, K] is the split made at each step, slot [B, K] the position of that leaf in the state:
    a left child takes its parent's, a right one comes last.
    """
    for b in range(feature.shape[0]):
        is_leaf = feature[b] < 0
        candidates = np.empty(feature.shape[1], dtype=np.int64)
        n_splits = feature.shape[1] - is_leaf.sum()
        for k in range(n_splits - 1, -1, -1):
            n_candidates = 0
            for i in range(feature.shape[1]):
                if not is_leaf[i] and is_leaf[left[b, i]] and is_leaf[left[b, i] + 1]:
                    candidates[n_candidates] = i
                    n_candidates += 1
            node[b, k] = candidates[int(chance[b, k] * n_candidates)]
            is_leaf[node[b, k]] = True
        position = np.zeros(feature.shape[1], dtype=np.int64)
        for k in range(n_splits):
            parent = node[b, k]
            slot[b, k] = position[parent]
            position[left[b, parent]] = position[parent]
            position[left[b, parent] + 1] = k + 1
