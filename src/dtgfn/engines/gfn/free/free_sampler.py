"""FreeSampler: the paper's GFlowNet over trees, leaves split in any order, as trainers want it."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from dtgfn._support.arrays import Floats, Int32s, Int64s
from dtgfn.engines.gfn.draws import Draws, draw_in_parts
from dtgfn.engines.gfn.free.actors import (
    N_CHANCES,
    Actor,
    TorchActor,
    distinct_paths,
    log_probability,
    make_paths,
    stop_logits,
    valid_cuts,
)
from dtgfn.engines.gfn.free.compiled import CompiledActor, can_compile, one_blas_thread
from dtgfn.engines.gfn.free.mdp import STOP, GrowingTrees, Nodes, cuts_by_feature, make_table
from dtgfn.engines.gfn.free.policy import ARCHITECTURES, MlpPolicy, check_network
from dtgfn.engines.gfn.free.trajectories import (
    FreeTrajectories,
    complete_trajectories,
    retrace,
    take_step,
)
from dtgfn.engines.gfn.hooks import (
    ActionRule,
    ExplorationRule,
    NetworkFactory,
    PathNetwork,
    Residuals,
    Sizes,
    hook_name,
)
from dtgfn.engines.gfn.objectives import join_residuals
from dtgfn.engines.gfn.sampler import seeded_network
from dtgfn.trees.batch import TreeBatch, empty_batch
from dtgfn.trees.score import Rows, Score, log_likelihood, log_reward

DRAWN_AT_ONCE = 250  # trees; more do not make a network call any faster


class FreeSampler:
    """GFlowNet whose states are partial trees and whose actions are stop or (leaf, feature, cut).

    Parameters
    ----------
    rows : Rows
        Training rows; masks always look at all of them.
    score : Score
        The target is R^(1/temperature).
    hidden : sequence of int
        Widths of the hidden layers of both networks.
    architecture : {"mlp", "set_transformer"} or NetworkFactory
        See ``policy.py``.
    policy : PathNetwork or None
        A network of one's own, of which a copy is trained; None makes one by ``architecture``.
    exploration : ExplorationRule or None
        Which actions ``rollout`` tries; None is a share of uniform ones.
    allowed : ActionRule or None
        Which features a node may be split on; None is all.
    column : int32 [d] or None
        Source column of each feature, which only ``allowed`` looks at; None is its own.
    row_batch : int or None
        Rows on which training rewards are estimated, drawn afresh by each ``rollout`` and
        ``retrace``: log R ~ log prior + (n / row_batch) * log likelihood of the drawn rows. The
        marginal likelihood is no sum over rows, so small batches shift the target towards
        smaller trees; None uses all rows.
    device : str
        Where the networks live.
    seed : int
        Of the networks' initial weights.

    """

    complete_trees = True
    large = False
    knows_tree_probability = False  # many trajectories lead to a tree
    summed_levels = 0
    exact = False
    deadline = math.inf

    def __init__(
        self,
        rows: Rows,
        score: Score,
        *,
        hidden: Sequence[int] = (256, 256, 256),
        architecture: str | NetworkFactory = "mlp",
        policy: PathNetwork | None = None,
        exploration: ExplorationRule | None = None,
        allowed: ActionRule | None = None,
        column: Int32s | None = None,
        row_batch: int | None = None,
        device: str = "cpu",
        seed: int = 0,
    ) -> None:
        if not callable(architecture) and architecture not in ARCHITECTURES:
            raise ValueError(
                f"architecture={architecture!r} is not known; give one of "
                f"{', '.join(ARCHITECTURES)}."
            )
        if row_batch is not None and row_batch < 1:
            raise ValueError(f"row_batch={row_batch!r} is not usable; give 1 or more, or None.")
        if not hidden or min(hidden) < 1:
            raise ValueError(f"hidden={hidden!r} has no units; give at least one width above 0.")
        self.rows, self.score, self.row_batch = rows, score, row_batch
        self.table = make_table(rows, score, column, allowed)
        self.exploration = exploration
        self.device = torch.device(device)
        sizes = Sizes(self.table.n_features, self.table.n_cuts, self.table.path_length)
        make = architecture if callable(architecture) else ARCHITECTURES[architecture]
        given = copy.deepcopy(policy) if policy is not None else None
        made = seeded_network(lambda: make(sizes, hidden), seed) if given is None else given
        if not isinstance(made, nn.Module):
            raise ValueError(f"{hook_name(made)} is no torch module; a policy must be one.")
        self.network: nn.Module = made.to(self.device)
        if given is not None or callable(architecture):
            check_network(self._policy, sizes)
        stop_at_once = float(log_reward(empty_batch(1, 1), self.table.rows, score)[0])
        self.log_z = nn.Parameter(
            torch.tensor(stop_at_once / score.temperature, dtype=torch.float64, device=self.device)
        )

    def look_first(self, most: float = math.inf) -> None:
        """Do nothing: no row sets are known here."""

    def rollout(self, n_trees: int, epsilon: float, rng: np.random.Generator) -> FreeTrajectories:
        """Draw trajectories from P_F.

        A share ``epsilon`` of the actions is uniform over stop and all valid (leaf, feature, cut),
        unless a rule of one's own explores.
        """
        return self._grow(n_trees, epsilon, rng, self.exploration)

    def _grow(
        self, n_trees: int, epsilon: float, rng: np.random.Generator, rule: ExplorationRule | None
    ) -> FreeTrajectories:
        growing = GrowingTrees(self.table, n_trees)
        steps, log_pf = [], np.zeros(n_trees)
        tree = np.arange(n_trees)
        actor = self._actor(rule, epsilon)
        with one_blas_thread():
            while tree.size:
                explore = rng.random(len(tree)) < epsilon
                chance = rng.random((N_CHANCES, len(tree)))
                actions = actor.act(growing, tree, explore, chance)
                log_pf[tree] += actions.log_pf
                steps.append(take_step(growing, tree, actions.slot, actions.feature, actions.cut))
                tree = tree[actions.slot != STOP]
        return self._with_training_reward(complete_trajectories(growing, steps, log_pf), rng)

    def retrace(self, trees: TreeBatch, rng: np.random.Generator) -> FreeTrajectories:
        """Return trajectories that end in these trees, drawn backwards with P_B."""
        return self._with_training_reward(retrace(self.table, trees, rng), rng)

    def residuals(
        self, trajectories: list[FreeTrajectories], with_flows: bool, n_update: int = 0
    ) -> Residuals:
        """Residuals of all transitions."""
        return join_residuals([self._residuals(part, with_flows) for part in trajectories])

    def _residuals(self, trajectories: FreeTrajectories, with_flows: bool) -> Residuals:
        """Residuals of all transitions, from one pass over all nodes and states."""
        states, temperature = trajectories.states, self.score.temperature
        log_pf, log_gain = self._log_pf(trajectories)
        tree, step = self._tensor(states.tree), self._tensor(states.step)
        shape = len(trajectories.trees), states.leaves.shape[1]
        flow = self.log_z.new_zeros(shape[0], shape[1] + 1, dtype=torch.float64)
        if with_flows:
            log_flow = self._tensor(states.log_reward / temperature) + log_gain.double()
            flow = flow.index_put((tree, step), log_flow)
        first = torch.zeros_like(flow[0], dtype=torch.bool)
        first[0] = True
        flow = torch.where(first, self.log_z.double(), flow)
        stopped = self._tensor(states.slot == STOP)
        end = self._tensor(trajectories.training_log_reward / temperature)[tree]
        change = flow[tree, step] - torch.where(stopped, end, flow[tree, step + 1])
        delta = change + log_pf - self._tensor(states.log_pb)
        empty = flow.new_zeros(shape)
        mask = torch.zeros(shape, dtype=torch.bool, device=self.device)
        return Residuals(
            delta=empty.index_put((tree, step), delta),
            mask=mask.index_put((tree, step), torch.ones_like(stopped)),
        )

    def learn(self, trajectories: list[FreeTrajectories]) -> dict[str, float]:
        """Do nothing: all is learned by gradients."""
        return {}

    def draw(self, n_trees: int, rng: np.random.Generator) -> Draws:
        """Draw trees from P_F as it is now, some at a time as long as there is time."""

        def draw(size: int) -> Draws:
            return _without_nodes(self._grow(size, 0.0, rng, None))

        return draw_in_parts(draw, n_trees, DRAWN_AT_ONCE, self.deadline)

    def depths(self, trajectories: FreeTrajectories) -> Int32s:
        """Depth [B, K] of the leaf that each split is made at, -1 for stops."""
        states = trajectories.states
        depths = np.full((len(trajectories.trees), states.leaves.shape[1]), -1, np.int32)
        goes = states.slot != STOP
        depths[states.tree[goes], states.step[goes]] = trajectories.nodes.depth[states.node[goes]]
        return depths

    def best_known(self) -> None:
        """Nothing is known beyond the trees drawn."""

    def most_probable(self, n_trees: int) -> None:
        """Nor is there a graph to rank trees on."""

    def log_prob(self, trees: TreeBatch) -> Floats:
        """Nan [B]: many trajectories lead to a tree, and nobody sums over them."""
        return np.full(len(trees), np.nan)

    def diagnostics(self) -> dict[str, float]:
        """Nothing of its own."""
        return {}

    def bounds(self) -> tuple[float, float]:
        """Nothing is known beyond the trees drawn."""
        return -math.inf, math.inf

    @property
    def full(self) -> bool:
        """It remembers nothing that could fill the memory."""
        return False

    def stop_growing(self) -> None:
        """It does not grow."""

    @property
    def finished(self) -> bool:
        """Never: gradients may always go on."""
        return False

    def warm_start(self, before: FreeSampler) -> bool:
        """Take the network of a sampler trained on other rows of the same table."""
        self.network.load_state_dict(before.network.state_dict())
        return True

    def finish(self) -> None:
        """Do nothing: the network is always up to date."""

    def memory(self) -> dict[str, npt.NDArray[Any]]:
        """Nothing beyond the network's parameters."""
        return {}

    def restore(self, arrays: dict[str, npt.NDArray[Any]]) -> None:
        """Take back what ``memory`` gave: nothing."""

    @property
    def _policy(self) -> PathNetwork:
        return self.network  # type: ignore[return-value]

    def _actor(self, rule: ExplorationRule | None = None, epsilon: float = 0.0) -> Actor:
        policy = self.network
        if rule is None and self.device.type == "cpu" and can_compile(policy):
            assert isinstance(policy, MlpPolicy)
            return CompiledActor(policy)
        return TorchActor(self._policy, self.device, rule, epsilon)

    def _log_pf(self, trajectories: FreeTrajectories) -> tuple[Tensor, Tensor]:
        """Return log P_F of each action and c(s) of each state [S], with gradient."""
        nodes, states = trajectories.nodes, trajectories.states
        # Trees that begin alike share leaves: the networks see each path once.
        first, member = distinct_paths(nodes)
        leaves = self._tensor(np.where(states.leaves >= 0, member[states.leaves], -1))
        embedded = self._policy.embed(make_paths(nodes, first, self.device))
        view = self._policy.view(embedded, leaves)
        n_actions = np.where(states.leaves >= 0, nodes.n_actions[states.leaves], 0)
        may_go = n_actions.any(axis=1)
        to_stop = np.stack([np.ones_like(may_go), may_go], axis=1)
        goes = states.slot != STOP
        log_pf = log_probability(
            stop_logits(view), self._tensor(to_stop), self._tensor(goes.astype(np.int64))
        )
        going = np.flatnonzero(goes)
        state, slot = self._tensor(going), self._tensor(states.slot[going])
        log_leaf = log_probability(
            view.leaf_logit.index_select(0, state), self._tensor(n_actions[going] > 0), slot
        )
        log_rule = self._log_rule(nodes, states.node[going], view.hidden(state, slot))
        return log_pf.index_add(0, state, log_leaf + log_rule), view.log_gain

    def _log_rule(self, nodes: Nodes, node: Int64s, hidden: Tensor) -> Tensor:
        """Return log P(feature, cut | leaf) [A] of the splits of some nodes [A]."""
        feature, cut = nodes.feature[node].astype(np.int64), nodes.cut[node].astype(np.int64)
        logits = self._policy.rule.features(hidden)
        valid = self._tensor(cuts_by_feature(nodes, node) > 0)
        log_feature = log_probability(logits, valid, self._tensor(feature))
        logits = self._policy.rule.cuts(hidden, self._tensor(feature))
        valid = self._tensor(valid_cuts(nodes, node, feature, logits.shape[1]))
        return log_feature + log_probability(logits, valid, self._tensor(cut))

    def _with_training_reward(
        self, trajectories: FreeTrajectories, rng: np.random.Generator
    ) -> FreeTrajectories:
        """Estimate log R on a batch of rows; only the likelihood is scaled, never the prior."""
        n_rows = len(self.rows.target)
        if self.row_batch is None or self.row_batch >= n_rows:
            return trajectories
        drawn = rng.choice(n_rows, self.row_batch, replace=False)
        rows = Rows(self.rows.codes[drawn], self.rows.target[drawn], self.rows.weight[drawn])
        likelihood = log_likelihood(trajectories.trees, rows, self.score)
        estimate = trajectories.log_prior + n_rows / self.row_batch * likelihood
        return replace(trajectories, training_log_reward=estimate)

    def _tensor(self, array: npt.NDArray[Any]) -> Tensor:
        return torch.from_numpy(array).to(self.device)


def _without_nodes(drawn: FreeTrajectories) -> Draws:
    """Keep of a trajectory only what its importance weight needs."""
    nothing = np.zeros(len(drawn.trees), np.bool_)
    return Draws(drawn.trees, drawn.log_reward, drawn.log_pf, drawn.log_pb, nothing)
