"""The obvious twin of a GFlowNet over trees: a table of logits over all trees of depth one.

The root stops or takes one of the valid cuts; a tree with a cut must stop. With a logit for each
action and a flow for each tree with a cut, every balance condition can hold exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from enumeration import Case, Enumeration, to_batch
from torch import nn

from dtgfn.engines.gfn.draws import Draws
from dtgfn.engines.gfn.objectives import Residuals, join_residuals
from dtgfn.trees.batch import TreeBatch, canonical_keys

torch.set_num_threads(1)  # these networks are too small to share


@dataclass(frozen=True)
class TablePaths:
    """Which action each trajectory has taken."""

    action: np.ndarray
    trees: TreeBatch
    log_reward: np.ndarray


class Table(nn.Module):
    """A logit per action and a log flow per tree."""

    def __init__(self, n_trees: int, log_flow: float) -> None:
        super().__init__()
        self.logit = nn.Parameter(torch.zeros(n_trees))
        self.log_flow = nn.Parameter(torch.full((n_trees,), log_flow))

    def log_pf(self) -> torch.Tensor:
        return torch.log_softmax(self.logit, 0)


class TabularSampler:
    """All trees of depth one of a case; tree 0 is the single leaf."""

    def __init__(self, case: Case, tree_form: bool = False) -> None:
        self.case = case.but(max_depth=1)
        everything = Enumeration(self.case)
        self.exact_log_z = everything.log_z
        self.probability = everything.probability
        self.trees = to_batch(everything.trees)
        self.log_reward = everything.log_rewards
        self.tree_form = tree_form
        self.network = Table(len(self.trees), log_flow=float(self.log_reward[0]))
        self.log_z = nn.Parameter(torch.zeros(()))
        self.n_learned = 0
        self.finish_after = np.inf
        self._position = {key: i for i, key in enumerate(canonical_keys(self.trees))}

    def _paths(self, action: np.ndarray) -> TablePaths:
        return TablePaths(action, self.trees[action], self.log_reward[action])

    def policy(self) -> np.ndarray:
        with torch.no_grad():
            probability = self.network.log_pf().double().exp().numpy()
        return probability / probability.sum()

    def look_first(self, most=np.inf):
        pass

    def rollout(self, n_trees, epsilon, rng):
        probability = (1 - epsilon) * self.policy() + epsilon / len(self.trees)
        return self._paths(rng.choice(len(self.trees), n_trees, p=probability))

    def retrace(self, trees, rng):
        return self._paths(np.array([self._position[key] for key in canonical_keys(trees)]))

    def residuals(self, trajectories, with_flows, n_update=0):
        return join_residuals([self.part_residuals(part, with_flows) for part in trajectories])

    def part_residuals(self, trajectories, with_flows):
        action = torch.from_numpy(trajectories.action)
        target = torch.from_numpy(trajectories.log_reward / self.case.temperature).float()
        splits = action > 0
        flow = self.network.log_flow[action] if with_flows else torch.zeros(len(action))
        after = torch.where(splits, flow, target)
        first = self.log_z + self.network.log_pf()[action] - after
        delta = torch.stack([first, torch.where(splits, after - target, 0.0)], dim=1)
        mask = torch.stack([torch.ones_like(splits), splits], dim=1)
        # The root's part is all of it, the cut tree's part its forced stop.
        end = torch.stack([1 + splits.long(), torch.full_like(action, 2)], dim=1)
        return Residuals(delta, mask, end if self.tree_form else None)

    def learn(self, trajectories):
        self.n_learned += 1
        return {"n_trajectories": float(sum(len(t.action) for t in trajectories))}

    def draw(self, n_trees, rng):
        paths = self.rollout(n_trees, 0.0, rng)
        log_pf = np.log(self.policy()[paths.action])
        zeros = np.zeros(n_trees)
        return Draws(paths.trees, paths.log_reward, log_pf, zeros, zeros.astype(bool))

    @property
    def full(self) -> bool:
        return False

    def stop_growing(self) -> None:
        pass

    @property
    def finished(self):
        return self.n_learned >= self.finish_after

    complete_trees = True
    large = False
    deadline = np.inf
    best_log_reward = -np.inf

    def depths(self, trajectories):
        return np.zeros((len(trajectories.trees), 1), np.int32)

    def bounds(self):
        return -np.inf, np.inf

    def finish(self):
        pass

    def memory(self):
        return {"Learned Steps": np.array([self.n_learned])}

    def restore(self, arrays):
        self.n_learned = int(arrays["Learned Steps"][0])

    def total_variation(self) -> float:
        return float(0.5 * np.abs(self.policy() - self.probability).sum())
