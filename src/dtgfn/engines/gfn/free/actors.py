"""Who acts while trees grow: drawing an action, and the actor that runs any policy."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
import torch
from scipy.special import logsumexp
from torch import Tensor

from dtgfn._support.arrays import Bools, Float32s, Floats, Int64s
from dtgfn._support.compiled import njit
from dtgfn.engines.gfn.free.mdp import STOP, GrowingTrees, Nodes, cut_range, cuts_by_feature
from dtgfn.engines.gfn.free.policy import NodeEmbeddings
from dtgfn.engines.gfn.hooks import (
    CHOICES,
    ExplorationRule,
    LeafPaths,
    PathNetwork,
    View,
    hook_name,
)

N_CHANCES = 4  # stop, leaf, feature, cut


class Actions(NamedTuple):
    """One action per tree [A]: leaf as position among the open leaves or STOP, and its log P_F."""

    slot: Int64s
    feature: Int64s
    cut: Int64s
    log_pf: Floats


def no_actions(n_trees: int) -> Actions:
    """Return room for actions; all stop."""
    slot, feature, cut = (np.full(n_trees, STOP, dtype=np.int64) for _ in range(3))
    return Actions(slot, feature, cut, np.zeros(n_trees))


class Actor(Protocol):
    """Draws actions for growing trees, step after step."""

    def act(self, growing: GrowingTrees, tree: Int64s, explore: Bools, chance: Floats) -> Actions:
        """Draw an action for each tree [A]; ``chance`` [4, A] is uniform on [0, 1)."""


class TorchActor:
    """Any policy, on any device; with a rule of one's own actions are drawn as that says."""

    def __init__(
        self,
        policy: PathNetwork,
        device: torch.device,
        rule: ExplorationRule | None = None,
        epsilon: float = 0.0,
    ) -> None:
        self.policy, self.device = policy, device
        if rule is None:
            self._choose = [choose] * N_CHANCES
        else:
            self._choose = [partial(choose_by_rule, rule, name, epsilon) for name in CHOICES]
        self._embeddings = NodeEmbeddings()
        self._n_known = 0

    @torch.inference_mode()
    def act(self, growing: GrowingTrees, tree: Int64s, explore: Bools, chance: Floats) -> Actions:
        """Draw an action for each tree [A]."""
        nodes, leaves = growing.nodes, growing.open_leaves(tree)
        new = make_paths(nodes, slice(self._n_known, None), self.device)
        self._n_known = growing.n_nodes
        embeddings = self._embeddings.add(self.policy.embed(new))
        view = self.policy.view(embeddings, torch.from_numpy(leaves).to(self.device))
        n_actions = nodes.n_actions[leaves]
        to_stop = np.stack([np.ones(len(tree), dtype=np.int64), n_actions.sum(axis=1)], axis=1)
        actions = no_actions(len(tree))
        logits = _numbers(stop_logits(view))
        goes, actions.log_pf[:] = self._choose[0](logits, to_stop, explore, chance[0])
        going = np.flatnonzero(goes)
        if going.size:
            self._choose_splits(
                actions, going, view, nodes, leaves, explore[going], chance[:, going]
            )
        return actions

    def _choose_splits(
        self,
        actions: Actions,
        going: Int64s,
        view: View,
        nodes: Nodes,
        leaves: Int64s,
        explore: Bools,
        chance: Floats,
    ) -> None:
        state, rule = torch.from_numpy(going).to(self.device), self.policy.rule
        logits = _numbers(view.leaf_logit.index_select(0, state))
        n_actions = nodes.n_actions[leaves[going]]
        slot, log_leaf = self._choose[1](logits, n_actions, explore, chance[1])
        node = leaves[going, slot]
        hidden = view.hidden(state, torch.from_numpy(slot).to(self.device))
        cuts = cuts_by_feature(nodes, node)
        logits = _numbers(rule.features(hidden))
        feature, log_feature = self._choose[2](logits, cuts, explore, chance[2])
        logits = _numbers(rule.cuts(hidden, torch.from_numpy(feature).to(self.device)))
        valid = valid_cuts(nodes, node, feature, logits.shape[1]).astype(np.int64)
        cut, log_cut = self._choose[3](logits, valid, explore, chance[3])
        actions.slot[going], actions.feature[going], actions.cut[going] = slot, feature, cut
        actions.log_pf[going] += log_leaf + log_feature + log_cut


def distinct_paths(nodes: Nodes) -> tuple[Int64s, Int64s]:
    """Return one node of each distinct path, and for every node [M] which of these it is like."""
    words = np.concatenate(
        [nodes.path_feature, nodes.path_value.view(np.int32).reshape(len(nodes.tree), -1)], axis=1
    )
    # Sums of random 64-bit multiples: two of a few thousand paths never share one.
    factors = np.random.default_rng(0).integers(-(2**62), 2**62, size=words.shape[1]) * 2 + 1
    _, first, member = np.unique(words @ factors, return_index=True, return_inverse=True)
    return first, member


def make_paths(nodes: Nodes, which: slice | Int64s, device: torch.device) -> LeafPaths:
    """Return the paths of some nodes as the networks want them."""
    return LeafPaths(
        torch.from_numpy(nodes.path_feature[which]).to(device),
        torch.from_numpy(nodes.path_value[which]).to(device),
        torch.from_numpy(nodes.n_actions[which] > 0).to(device),
    )


def stop_logits(view: View) -> Tensor:
    """Logits [S, 2] of stop and go."""
    return torch.stack([view.stop_logit, torch.zeros_like(view.stop_logit)], dim=1)


def valid_cuts(nodes: Nodes, node: Int64s, feature: Int64s, n_cuts: int) -> Bools:
    """Which cuts [A, t] of a feature [A] are valid at some nodes [A]."""
    first, end = cut_range(nodes, node, feature)
    cut = np.arange(n_cuts)
    return np.asarray((cut >= first[:, None]) & (cut < end[:, None]))


def _numbers(logits: Tensor) -> Float32s:
    return np.asarray(logits.cpu().numpy())


def choose(
    logits: Float32s, n_actions: Int64s, explore: Bools, chance: Floats
) -> tuple[Int64s, Floats]:
    """Draw an option per row of logits [A, W]; return it [A] and its log-probability [A].

    ``n_actions`` [A, W] is how many valid actions lie behind an option; 0 means the option is not
    valid. Where ``explore`` [A] is set the option is drawn in proportion to it, so that choices
    one below the other are uniform over all valid actions. ``chance`` [A] is uniform on [0, 1).
    The log-probability is the policy's in any case.
    """
    index = np.empty(len(logits), dtype=np.int64)
    log_p = np.empty(len(logits))
    choose_into(logits, n_actions, explore, chance, index, log_p)
    return index, log_p


def choose_by_rule(
    rule: ExplorationRule,
    choice: str,
    epsilon: float,
    logits: Float32s,
    n_actions: Int64s,
    explore: Bools,
    chance: Floats,
) -> tuple[Int64s, Floats]:
    """Draw as ``choose`` does, but by the weights of a rule of one's own."""
    valid = n_actions > 0
    log_p = np.where(valid, logits.astype(np.float64), -np.inf)
    log_p -= logsumexp(log_p, axis=1, keepdims=True)
    weight = np.asarray(rule(choice, log_p, n_actions, epsilon), dtype=np.float64)
    if weight.shape != log_p.shape:
        raise ValueError(
            f"exploration={hook_name(rule)} gives weights {list(weight.shape)} at the choice of a "
            f"{choice}; it must give one for each option, {list(log_p.shape)}."
        )
    total = weight.cumsum(axis=1)
    usable = (weight >= 0).all() and not weight[~valid].any()
    if not usable or not (np.isfinite(total[:, -1]) & (total[:, -1] > 0)).all():
        raise ValueError(
            f"exploration={hook_name(rule)} gives weights at the choice of a {choice} that are "
            "negative, endless, above 0 where there is no action, or 0 everywhere."
        )
    below = (total <= chance[:, None] * total[:, -1:]).sum(axis=1)
    last = valid.shape[1] - 1 - (weight[:, ::-1] > 0).argmax(axis=1)  # if rounding eats the rest
    index = np.minimum(below, last)
    return index, log_p[np.arange(len(index)), index]


@njit(cache=True, nogil=True)
def choose_into(
    logits: Float32s,
    n_actions: Int64s,
    explore: Bools,
    chance: Floats,
    index: Int64s,
    log_p: Floats,
) -> None:
    """Do what ``choose`` does, into arrays that are there already."""
    weight = np.empty(logits.shape[1])
    for i in range(logits.shape[0]):
        index[i] = 0
        for j in range(logits.shape[1] - 1, -1, -1):
            if n_actions[i, j] > 0:
                index[i] = j  # so that logits that are nan lead to an option that there is
        largest = -np.inf
        for j in range(logits.shape[1]):
            if n_actions[i, j] > 0:
                largest = max(largest, np.float64(logits[i, j]))
        total, mass = 0.0, 0.0
        for j in range(logits.shape[1]):
            p = np.exp(np.float64(logits[i, j]) - largest) if n_actions[i, j] > 0 else 0.0
            total += p
            weight[j] = np.float64(n_actions[i, j]) if explore[i] else p
            mass += weight[j]
        left = chance[i] * mass
        for j in range(logits.shape[1]):
            if weight[j] > 0.0:
                index[i] = j  # the last one that is possible, if rounding eats the rest
                left -= weight[j]
                if left < 0.0:
                    break
        log_p[i] = np.float64(logits[i, index[i]]) - largest - np.log(total)


def log_probability(logits: Tensor, valid: Tensor, index: Tensor) -> Tensor:
    """Log-probability [A] of the option ``index`` [A] among the valid ones [A, W], as float64."""
    normal = logits.masked_fill(~valid, -torch.inf).log_softmax(dim=1)
    return normal.gather(1, index[:, None]).squeeze(1).double()
