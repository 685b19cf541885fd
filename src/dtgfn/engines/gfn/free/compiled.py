"""The MLP policy as a compiled actor: the same trees as the torch one, in a fraction of the time.

Trees that grow together are one small network call per step, where torch spends most of its time
between its operations; here a step is one compiled call.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.linalg  # noqa: F401  (its BLAS, which compiled code calls, must be there to be found)
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]
from torch import nn

from dtgfn._support.arrays import Bools, Float32s, Floats, Int64s
from dtgfn._support.compiled import INNER, njit
from dtgfn.engines.gfn.free.actors import Actions, choose_into, no_actions
from dtgfn.engines.gfn.free.mdp import GrowingTrees
from dtgfn.engines.gfn.free.policy import VALUE_WIDTH, MlpPolicy, PathInput, RuleHeads

Layers = tuple[tuple[Float32s, ...], tuple[Float32s, ...]]

ROOM = 64  # nodes per tree before anything has to be moved


class Weights(NamedTuple):
    """The MLP policy's parameters; matrices are [in, out]."""

    path_feature: Float32s
    token: Layers
    split: Layers
    stop: Layers
    stop_head: Layers
    leaf: Layers
    feature: Layers
    cut: Layers
    gate: Float32s
    cut_bias: Float32s


class Known(NamedTuple):
    """What the networks said of each node so far."""

    token: Float32s  # [M, W]
    hidden: Float32s  # [M, H]
    leaf_logit: Float32s  # [M]


def one_blas_thread() -> AbstractContextManager[Any]:
    """Keep BLAS from starting threads that would wait longer than they compute."""
    return _blas().limit(limits=1, user_api="blas")


@cache
def _blas() -> Any:
    return ThreadpoolController()


class CompiledActor:
    """The MLP policy on the CPU."""

    def __init__(self, policy: MlpPolicy) -> None:
        self._weights = _read(policy)
        token, hidden = (part[1][-1].size for part in (self._weights.token, self._weights.split))
        self._known = Known(
            token=np.empty((0, token), dtype=np.float32),
            hidden=np.empty((0, hidden), dtype=np.float32),
            leaf_logit=np.empty(0, dtype=np.float32),
        )
        self._n_known = 0

    def act(self, growing: GrowingTrees, tree: Int64s, explore: Bools, chance: Floats) -> Actions:
        """Draw an action for each tree [A]."""
        nodes, leaves = growing.nodes, growing.open_leaves(tree)
        if growing.n_nodes > len(self._known.leaf_logit):
            size = max(2 * growing.n_nodes, ROOM * len(growing.leaves))
            larger: list[Any] = [_enlarge(part, self._n_known, size) for part in self._known]
            self._known = Known(*larger)
        new = slice(self._n_known, growing.n_nodes)
        parts: list[Any] = [part[new] for part in self._known]
        paths = nodes.path_feature[new], nodes.path_value[new], nodes.n_actions[new]
        _embed(self._weights, Known(*parts), *paths)
        self._n_known = growing.n_nodes
        actions = no_actions(len(tree))
        ranges = nodes.lowest, nodes.highest, nodes.n_actions
        _act(self._weights, self._known, leaves, ranges, explore, chance, actions)
        return actions


def can_compile(policy: nn.Module) -> bool:
    """Whether this is the MLP policy in all that it does: then its parameters say everything.

    What a subclass does otherwise, other layers, hooks, or methods put in the place of its own are
    seen by torch alone.
    """
    if type(policy) is not MlpPolicy:
        return False
    rule = policy.rule
    linear: list[nn.Module] = [policy.leaf, policy.stop_heads, rule.feature, rule.cut]
    for part in (policy.split, policy.token, policy.stop):
        layers = list(part)
        if [type(layer) for layer in layers] != [nn.Linear, nn.ReLU] * (len(layers) // 2):
            return False
        linear += layers[::2]
    embeddings = [policy.paths.feature, rule.gate, rule.cut_bias]
    owners = [(policy.paths, PathInput), (rule, RuleHeads)]
    owners += [(part, nn.Sequential) for part in (policy.split, policy.token, policy.stop)]
    as_built = all(type(part) is nn.Linear and part.bias is not None for part in linear)
    as_built &= all(type(part) is nn.Embedding for part in embeddings)
    as_built &= all(type(part) is kind for part, kind in owners)
    parts = list(policy.modules())
    hooked = any(part._forward_hooks or part._forward_pre_hooks for part in parts)
    replaced = any(callable(value) for part in parts for value in vars(part).values() if value)
    return as_built and not hooked and not replaced


def _enlarge(part: Float32s, n_known: int, size: int) -> Float32s:
    larger = np.empty((size, *part.shape[1:]), dtype=np.float32)
    larger[:n_known] = part[:n_known]
    return larger


def _read(policy: MlpPolicy) -> Weights:
    def layers(module: nn.Module) -> Layers:
        linear = [part for part in module.modules() if isinstance(part, nn.Linear)]
        return (
            tuple(np.ascontiguousarray(part.weight.detach().numpy().T) for part in linear),
            tuple(part.bias.detach().numpy() for part in linear),
        )

    return Weights(
        path_feature=policy.paths.feature.weight.detach().numpy(),
        token=layers(policy.token),
        split=layers(policy.split),
        stop=layers(policy.stop),
        stop_head=layers(policy.stop_heads),
        leaf=layers(policy.leaf),
        feature=layers(policy.rule.feature),
        cut=layers(policy.rule.cut),
        gate=policy.rule.gate.weight.detach().numpy(),
        cut_bias=policy.rule.cut_bias.weight.detach().numpy(),
    )


@njit(**INNER)
def _dense(x: Float32s, layers: Layers, relu: bool) -> Float32s:
    """Linear layers, each followed by a ReLU if wanted."""
    matrices, biases = layers
    for k in range(len(matrices)):
        x = np.dot(x, matrices[k])
        bias = biases[k]
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                value = x[i, j] + bias[j]
                x[i, j] = value if value > 0 or not relu else np.float32(0)
    return x


@njit(cache=True, nogil=True)
def _embed(
    weights: Weights, known: Known, path_feature: Int64s, path_value: Float32s, n_actions: Int64s
) -> None:
    """Run the path networks on some nodes."""
    n_nodes, length = path_feature.shape
    width = weights.path_feature.shape[1]
    step = width + path_value.shape[2]
    x = np.empty((n_nodes, step * length), dtype=np.float32)
    for i in range(n_nodes):
        for k in range(length):
            x[i, k * step : k * step + width] = weights.path_feature[path_feature[i, k]]
            x[i, k * step + width : (k + 1) * step] = path_value[i, k]
    known.token[:] = _dense(x, weights.token, True)
    is_open = n_actions > 0
    where = np.flatnonzero(is_open)
    if where.size > 0:
        hidden = _dense(x[is_open], weights.split, True)
        logit = _dense(hidden, weights.leaf, False)
        for i in range(where.size):
            known.hidden[where[i]] = hidden[i]
            known.leaf_logit[where[i]] = logit[i, 0]


@njit(**INNER)
def _summary(token: Float32s, leaves: Int64s, path_length: int) -> Float32s:
    """Mean token of each state's leaves, and their number [A, W + 1]."""
    n_leaves, width = leaves.shape[1], token.shape[1]
    summary = np.zeros((leaves.shape[0], width + 1), dtype=np.float32)
    for i in range(leaves.shape[0]):
        for k in range(n_leaves):
            row = token[leaves[i, k]]
            for j in range(width):
                summary[i, j] += row[j]
        summary[i] /= np.float32(n_leaves)
        summary[i, width] = np.log2(n_leaves) / path_length
    return summary


@njit(cache=True, nogil=True)
def _act(
    weights: Weights,
    known: Known,
    leaves: Int64s,
    ranges: tuple[Any, Any, Int64s],
    explore: Bools,
    chance: Floats,
    actions: Actions,
) -> None:
    """Draw stop or leaf, then the leaf's feature, then its cut."""
    lowest, highest, n_node_actions = ranges
    n_trees, n_leaves = leaves.shape
    path_length = weights.token[0][0].shape[0] // (weights.path_feature.shape[1] + VALUE_WIDTH)
    stop = _dense(_summary(known.token, leaves, path_length), weights.stop, True)
    stop = _dense(stop, weights.stop_head, False)
    stop[:, 1] = 0  # the second output is the flow; the logit of going on is zero
    n_actions = np.empty((n_trees, n_leaves), dtype=np.int64)
    leaf_logit = np.empty((n_trees, n_leaves), dtype=np.float32)
    to_stop = np.ones((n_trees, 2), dtype=np.int64)
    for i in range(n_trees):
        for k in range(n_leaves):
            n_actions[i, k] = n_node_actions[leaves[i, k]]
            leaf_logit[i, k] = known.leaf_logit[leaves[i, k]]
        to_stop[i, 1] = n_actions[i].sum()
    goes = np.empty(n_trees, dtype=np.int64)
    choose_into(stop, to_stop, explore, chance[0], goes, actions.log_pf)
    going = np.flatnonzero(goes)
    if going.size == 0:
        return
    slot, log_p = np.empty(going.size, dtype=np.int64), np.empty(going.size)
    choose_into(leaf_logit[going], n_actions[going], explore[going], chance[1][going], slot, log_p)
    node = np.empty(going.size, dtype=np.int64)
    for i in range(going.size):
        node[i] = leaves[going[i], slot[i]]
        actions.slot[going[i]] = slot[i]
        actions.log_pf[going[i]] += log_p[i]
    _choose_rules(weights, known, node, lowest, highest, explore, chance, going, actions)


@njit(**INNER)
def _choose_rules(
    weights: Weights,
    known: Known,
    node: Int64s,
    lowest: npt.NDArray[np.uint16],
    highest: npt.NDArray[np.uint16],
    explore: Bools,
    chance: Floats,
    going: Int64s,
    actions: Actions,
) -> None:
    """Draw feature and cut at the chosen nodes."""
    hidden = known.hidden[node]
    n_cuts = highest[node].astype(np.int64) - lowest[node].astype(np.int64)
    feature, log_feature = np.empty(node.size, dtype=np.int64), np.empty(node.size)
    logits = _dense(hidden, weights.feature, False)
    choose_into(logits, n_cuts, explore[going], chance[2][going], feature, log_feature)
    logits = _dense(hidden * weights.gate[feature], weights.cut, False)
    logits += weights.cut_bias[feature]
    valid = np.zeros(logits.shape, dtype=np.int64)
    for i in range(node.size):
        valid[i, lowest[node[i], feature[i]] : highest[node[i], feature[i]]] = 1
    cut, log_cut = np.empty(node.size, dtype=np.int64), np.empty(node.size)
    choose_into(logits, valid, explore[going], chance[3][going], cut, log_cut)
    for i in range(node.size):
        actions.feature[going[i]], actions.cut[going[i]] = feature[i], cut[i]
        actions.log_pf[going[i]] += log_feature[i] + log_cut[i]
