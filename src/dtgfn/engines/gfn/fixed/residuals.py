"""Balance residuals of the fixed order, one per row set on a path.

The flow of a node is log F(S) = look-ahead + residual by the network; what it must balance is N(S),
the sum of the flows through its actions (for a tail: the exact sum)::

    delta(S) = log F(S) - log N(S)

Where flows are remembered, N is the remembered one, a target without gradient, and the network is
fitted to it. Where they are not, N comes from the network itself: since log P(action | S) =
log flow(action) - log N(S), and a cut's flow is the product of its children's, the residuals then
add up along a path to log Z + log P_F(path) - log R(path). Trajectory balance is a function of that
sum, detailed balance a sum of functions of each, and sub-trajectory balance looks at the sums over
subtrees.
"""

from __future__ import annotations

import math
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from dtgfn._support.arrays import Bools, Floats, Int32s, Int64s
from dtgfn._support.compiled import njit
from dtgfn.engines.gfn.fixed.estimates import FlowEstimates
from dtgfn.engines.gfn.fixed.network import Learner
from dtgfn.engines.gfn.fixed.paths import Paths
from dtgfn.engines.gfn.objectives import Residuals
from dtgfn.engines.rowsets.partial.cuts import CutTable
from dtgfn.engines.rowsets.partial.flows import ceilings_of, log_add
from dtgfn.engines.rowsets.partial.graph import PartialGraph
from dtgfn.engines.rowsets.partial.levels import Level, known_nodes

Group = tuple[int, Int64s]  # a depth and nodes of its level

TOP_CUTS = 64  # gradients of a sum over cuts go through its largest terms


def path_residuals(
    flows: FlowEstimates, log_z: Tensor, paths: Paths, replayed: list[Group]
) -> Residuals:
    """Return delta [B, K] over the row sets of each path, in preorder; tails included.

    Rows that follow the B are known nodes for themselves, those of ``replayed``.
    """
    n_trees, width = paths.trees.feature.shape
    visited, position, end = residual_positions(flows.graph, paths)
    groups, positions = [], []
    for depth, here in enumerate(paths.visits):
        seen = visited[here.tree, here.slot]
        nodes, member = np.unique(here.node[seen], return_inverse=True)
        groups.append((depth, nodes))
        flat_position = here.tree * width + position[here.tree, here.slot]
        positions.append((member.ravel(), flat_position[seen]))
    delta = group_residuals(flows, log_z, groups + replayed)
    device = log_z.device
    flat, used = torch.zeros(n_trees * width, device=device), 0
    for (_, nodes), (member, flat_position) in zip(groups, positions, strict=True):
        if nodes.size:
            where = torch.from_numpy(flat_position).to(device)
            flat = flat.index_put((where,), delta[used + torch.from_numpy(member).to(device)])
        used += nodes.size
    n_alone = delta.numel() - used
    alone = nn.functional.pad(delta[used:], (0, -n_alone % width)).reshape(-1, width)
    alone_mask = torch.arange(alone.numel(), device=device).reshape(alone.shape) < n_alone
    mask = np.arange(width)[None, :] < visited.sum(axis=1)[:, None]
    ends = torch.arange(1, width + 1, device=device).expand(alone.shape)
    return Residuals(
        torch.cat([flat.reshape(n_trees, width), alone]),
        torch.cat([torch.from_numpy(mask).to(device), alone_mask]),
        torch.cat([torch.from_numpy(end).to(device), ends]),
    )


def residual_positions(graph: PartialGraph, paths: Paths) -> tuple[Bools, Int64s, Int64s]:
    """Return which slots hold known row sets, their preorder, and where the parts below end."""
    visited = np.zeros(paths.trees.feature.shape, dtype=np.bool_)
    for level, here in zip(graph.levels, paths.visits, strict=True):
        visited[here.tree, here.slot] = ~np.isnan(level.flow[here.node])
    return visited, *preorder(paths.trees.left, visited)


def path_depths(graph: PartialGraph, paths: Paths) -> Int32s:
    """Depth of the row set behind each residual [B, K], -1 where there is none."""
    visited, position, _ = residual_positions(graph, paths)
    depths = np.full(position.shape, -1, np.int32)
    for depth, here in enumerate(paths.visits):
        seen = visited[here.tree, here.slot]
        depths[here.tree[seen], position[here.tree, here.slot][seen]] = depth
    return depths


def draw_known_nodes(graph: PartialGraph, n_nodes: int, rng: np.random.Generator) -> list[Group]:
    """Draw known nodes from all levels below the root."""
    known = [known_nodes(level) for level in graph.levels[1:]]
    ends = np.cumsum([0, *(part.size for part in known)])
    if n_nodes == 0 or ends[-1] == 0:
        return []
    # Half from all nodes alike, half from all levels alike: upper ones are few, and matter more.
    some = rng.integers(0, ends[-1], n_nodes)
    level = np.searchsorted(ends, some, side="right") - 1
    filled = np.flatnonzero(np.diff(ends))
    level[::2] = filled[rng.integers(0, filled.size, level[::2].size)]
    index = (rng.random(n_nodes) * np.diff(ends)[level]).astype(np.int64)
    return [(int(d) + 1, known[d][index[level == d]]) for d in filled]


def group_residuals(flows: FlowEstimates, log_z: Tensor, groups: list[Group]) -> Tensor:
    """Return delta [U] of groups of nodes whose flows are known, one after the other."""
    graph, device, network = flows.graph, log_z.device, cast("Learner", flows.network)
    inputs, lookahead, target = [], [], []
    for depth, nodes in groups:
        level = graph.levels[depth]
        inputs.append(flows.network.see_nodes(graph, depth, nodes))
        lookahead.append(level.lookahead[nodes])
        if flows.remember or depth == graph.n_upper:
            target.append(torch.from_numpy(level.flow[nodes].astype(np.float32)).to(device))
        else:
            target.append(network_normaliser(flows, level, nodes))
    x, base = np.concatenate(inputs), np.concatenate(lookahead).astype(np.float32)
    log_flow = torch.from_numpy(base).to(device) + network(torch.from_numpy(x).to(device))
    if not flows.remember:  # where the network is the policy, both have the same ceiling
        most = np.concatenate([node_ceilings(graph, *group) for group in groups])
        log_flow = torch.minimum(log_flow, torch.from_numpy(most.astype(np.float32)).to(device))
    if groups[0][0] == 0:  # the root, whose flow is Z
        log_flow = torch.cat([log_z.float().reshape(1), log_flow[1:]])
    return log_flow - torch.cat(target)


def node_ceilings(graph: PartialGraph, depth: int, nodes: Int64s) -> Floats:
    """Ceilings [U] of nodes, as their parents see them."""
    level, loops = graph.levels[depth], graph.problem.loops
    leaf_value = level.lookahead[nodes] - loops.log_stop[depth]
    return ceilings_of(level.sums[nodes], leaf_value, graph.levels[0].n_thresholds[0], depth, loops)


def network_normaliser(flows: FlowEstimates, level: Level, nodes: Int64s) -> Tensor:
    """Log N [U] with gradient through the children of each node's largest cuts."""
    network = cast("Learner", flows.network)
    device = network.device
    width = min(TOP_CUTS, int(level.n_cuts[nodes].max(initial=0)))
    given = (nodes, level.start, level.n_cuts, level.cuts, level.stop, level.rest)
    top, rest = largest_cuts(*given, width)
    rest_part = torch.from_numpy(rest.astype(np.float32)).to(device)[:, None]
    if width == 0:
        return rest_part[:, 0]
    some = np.maximum(top, 0)
    of_node = np.repeat(nodes, width)
    x = network.see_children(flows.graph, level, of_node, some.reshape(-1))
    residual = network(torch.from_numpy(x).to(device)).reshape(*some.shape, 2)
    log_flow = torch.from_numpy(level.cuts.lookahead[some]).to(device) + residual
    log_flow = torch.minimum(log_flow, torch.from_numpy(level.cuts.ceiling[some]).to(device))
    prior = torch.from_numpy(level.cuts.prior[some].astype(np.float32)).to(device)
    logit = prior + log_flow.sum(dim=-1)
    logit = logit.masked_fill(torch.from_numpy(top < 0).to(device), -math.inf)
    return torch.logsumexp(torch.cat([logit, rest_part], dim=1), dim=1)


@njit(cache=True, nogil=True)
def largest_cuts(
    nodes: Int64s,
    start: Int64s,
    n_cuts: Int32s,
    cuts: CutTable,
    stop: Floats,
    not_kept: Floats,
    width: int,
) -> tuple[Int64s, Floats]:
    """Return the cuts [U, width] with the largest flows (-1: none) and the log of the rest [U]."""
    top = np.full((nodes.shape[0], width), -1, np.int64)
    rest = np.empty(nodes.shape[0])
    for i in range(nodes.shape[0]):
        first, number = start[nodes[i]], n_cuts[nodes[i]]
        order = np.argsort(-cuts.logit[first : first + number])
        for j in range(min(width, number)):
            top[i, j] = first + order[j]
        highest, total = log_add(stop[nodes[i]], not_kept[nodes[i]]), 1.0
        for j in range(width, number):
            logit = cuts.logit[first + order[j]]
            if logit > highest:
                total = total * math.exp(highest - logit) + 1.0
                highest = logit
            else:
                total += math.exp(logit - highest)
        rest[i] = highest + math.log(total)
    return top, rest


@njit(cache=True, nogil=True)
def preorder(left: Int32s, visited: Bools) -> tuple[Int64s, Int64s]:
    """Preorder position of each visited slot, and where the part below each position ends."""
    n_trees, width = left.shape
    position = np.zeros((n_trees, width), np.int64)
    end = np.zeros((n_trees, width), np.int64)
    size = np.zeros(width, np.int64)
    for b in range(n_trees):
        # Children come after parents, so sizes add up from the back.
        for slot in range(width - 1, -1, -1):
            size[slot] = 1 if visited[b, slot] else 0
            child = left[b, slot]
            if size[slot] > 0 and child >= 0:
                size[slot] += size[child] + size[child + 1]
        for slot in range(width):
            if not visited[b, slot]:
                continue
            end[b, position[b, slot]] = position[b, slot] + size[slot]
            child = left[b, slot]
            if child >= 0 and child + 1 < width:
                position[b, child] = position[b, slot] + 1
                position[b, child + 1] = position[b, slot] + 1 + size[child]
    return position, end
