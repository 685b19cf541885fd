"""Every way to grow the trees of a small table in free order, and what a sampler says of it."""

from __future__ import annotations

import numpy as np
import torch
from enumeration import Case, Enumeration

from dtgfn.engines.gfn.free.free_sampler import FreeSampler
from dtgfn.engines.gfn.free.mdp import STOP, GrowingTrees
from dtgfn.engines.gfn.free.trajectories import complete_trajectories, take_step


def all_histories(case: Case) -> list[tuple]:
    """Every order of splits (path, feature, cut) that grows some tree of the case."""
    every = Enumeration(case)

    def rows_at(splits: dict, path: tuple) -> tuple:
        rows = every.everything
        for k, turn in enumerate(path):
            rows = every.sides(rows, *splits[path[:k]])[turn]
        return rows

    def grow(history: tuple, splits: dict, leaves: tuple):
        yield history
        for path in leaves:
            if len(path) == case.max_depth:
                continue
            others = tuple(leaf for leaf in leaves if leaf != path)
            for rule in every.valid_splits(rows_at(splits, path)):
                children = ((*path, 0), (*path, 1))
                yield from grow(
                    (*history, (path, *rule)), splits | {path: rule}, (*others, *children)
                )

    return list(grow((), {}, ((),)))


def follow(sampler: FreeSampler, histories: list[tuple]):
    """Return the trajectories that make these splits in this order, then stop."""
    growing = GrowingTrees(sampler.table, len(histories))
    slots = [{(): 0} for _ in histories]
    steps = []
    tree = np.arange(len(histories))
    while tree.size:
        k = len(steps)
        slot, feature, cut = [], [], []
        for b in tree:
            if len(histories[b]) == k:
                slot.append(STOP)
                feature.append(0)
                cut.append(0)
                continue
            path, f, j = histories[b][k]
            slot.append(slots[b][path])
            slots[b][(*path, 0)], slots[b][(*path, 1)] = slots[b][path], k + 1
            feature.append(f)
            cut.append(j)
        action = (np.array(x, dtype=np.int64) for x in (slot, feature, cut))
        steps.append(take_step(growing, tree, *action))
        tree = tree[steps[-1].slot != STOP]
    return complete_trajectories(growing, steps, np.full(len(histories), np.nan))


def log_pf(sampler: FreeSampler, trajectories) -> np.ndarray:
    """What the residuals say log P_F of whole trajectories is."""
    with torch.no_grad():
        total = sampler.residuals([trajectories], with_flows=False).delta.sum(dim=1)
        total = total - sampler.log_z
    target = trajectories.log_reward / sampler.score.temperature
    return total.numpy() + target + trajectories.log_pb
