"""What if: a part of the posterior that a report carries, to try other splits without a network.

A node is a set of training rows at a depth. What may stand there is known by exact sums
(``engines.alternatives``) where these are quickly done, else by the draws that have the node.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dtgfn._support.arrays import Bools, Floats
from dtgfn.engines.alternatives import NodeSums
from dtgfn.explain.column_labels import split_rule, split_test
from dtgfn.explain.posterior_columns import class_titles
from dtgfn.posterior.node_values import node_values
from dtgfn.posterior.tree_posterior import GROUPED_ROWS, TreePosterior
from dtgfn.report.posterior_facts import plain_number
from dtgfn.trees.batch import empty_batch
from dtgfn.trees.left_out_rows import LeftOutRows
from dtgfn.trees.score import Rows

MOST_ROWS = 50_000  # more would take minutes
MOST_NODES = 160
MOST_OPTIONS = 6  # that are told of a node
LEAST_SHARE = 1e-3  # of a split that is worth telling
FEWEST_DRAWS = 20  # that tell what may stand at a node


def what_if(posterior: TreePosterior, most_nodes: int = MOST_NODES) -> dict[str, Any]:
    """Gather the nodes that a reader may ask about; empty, with the reason, where none are known.

    ``nodes`` are those of the most probable tree, and below the likeliest other splits; the root
    is the first. Each has the likeliest ``options``: a split's words, its probability ``p`` given
    the node (with the standard error ``se`` where draws tell it), and the nodes on its sides,
    None if these are not here. ``best`` is the option that the most probable subtree begins with,
    -1 for a leaf.
    """
    why = _refusal(posterior)
    if why is not None:
        return {"nodes": [], "why": why}
    grown = Growing(posterior)
    root = grown.add(np.ones(len(posterior.rows.codes), dtype=np.bool_), 0, _all_draws(posterior))
    grown.follow_best_tree()
    grown.grow(root, most_nodes)
    return {"nodes": [node.told for node in grown.nodes], "why": None}


def _refusal(posterior: TreePosterior) -> str | None:
    """Say why nothing can be told."""
    if posterior.is_bagged:
        return "An average over bags has no one posterior at a node."
    if posterior.demands:
        return "These trees are under demands already; ask the model without them."
    if isinstance(posterior.rows, LeftOutRows) or GROUPED_ROWS in posterior.diagnostics:
        return "The model has not kept its training rows."
    if len(posterior.rows.codes) > MOST_ROWS:
        return f"The model has more than {MOST_ROWS:,} training rows, too many to try others here."
    return None


Draws = list[tuple[int, int]]  # tree and node


def _all_draws(posterior: TreePosterior) -> Draws:
    return [(b, 0) for b in range(len(posterior.trees))]


@dataclass(frozen=True)
class Split:
    """A split that may stand at a node, or a leaf (feature -1)."""

    feature: int
    low: int
    high: int
    p: float
    best: float  # log probability of the best subtree that begins so, nan if not known
    draws: Draws


@dataclass
class Node:
    """A node as it is told, with what it takes to go on from it."""

    inside: Bools
    depth: int
    splits: list[Split]
    told: dict[str, Any]
    reach: float = 0.0
    sides: dict[int, tuple[int, int]] = field(default_factory=dict)


def _log(probability: float | None) -> float:
    """Log of a probability; that of what is not known is that of a leaf, which is all there is."""
    if probability is None:
        return 0.0
    return math.log(probability) if probability > 0 else -math.inf


class Growing:
    """The nodes found so far; equal row sets at a depth are one."""

    def __init__(self, posterior: TreePosterior) -> None:
        self.posterior = posterior
        self.sums = NodeSums(posterior.rows, posterior.score)
        self.nodes: list[Node] = []
        self.known: dict[tuple[int, bytes], int] = {}
        self.classes = class_titles(posterior) if posterior.classes is not None else None

    def add(self, inside: Bools, depth: int, draws: Draws) -> int:
        """Return the index of a node, which is looked at if it is new."""
        name = depth, np.packbits(inside).tobytes()
        if name not in self.known:
            splits, told = self._look(inside, depth, draws)
            self.known[name] = len(self.nodes)
            self.nodes.append(Node(inside, depth, splits, told))
        return self.known[name]

    def step(self, index: int, option: int) -> tuple[int, int]:
        """Add the nodes on both sides of an option."""
        node = self.nodes[index]
        if option not in node.sides:
            split = node.splits[option]
            left = node.inside & (self.posterior.rows.codes[:, split.feature] <= split.low)
            trees = self.posterior.trees
            found = []
            for side, inside in enumerate((left, node.inside & ~left)):
                below = [(b, int(trees.left[b, at]) + side) for b, at in split.draws]
                found.append(self.add(inside, node.depth + 1, below))
            node.sides[option] = found[0], found[1]
            node.told["options"][option]["then"], node.told["options"][option]["else"] = found
        return node.sides[option]

    def follow_best_tree(self) -> None:
        """Add the nodes of the most probable tree, and the options that it takes there."""
        tree, pending = self.posterior.best_tree, [(0, 0)]
        while pending:
            index, at = pending.pop()
            feature, cut = int(tree.feature[0, at]), int(tree.cut[0, at])
            if feature < 0:
                continue
            here = [
                k
                for k, split in enumerate(self.nodes[index].splits)
                if split.feature == feature and split.low <= cut < split.high
            ]
            if not here:
                continue
            child = int(tree.left[0, at])
            for side, found in enumerate(self.step(index, here[0])):
                pending.append((found, child + side))

    def grow(self, root: int, most_nodes: int) -> None:
        """Add the likeliest other splits, each with the best subtrees behind it."""
        self._best(root)
        heap = [(-1.0, root, -1)]
        while heap and len(self.nodes) < most_nodes:
            reach, index, option = heapq.heappop(heap)
            ends = [index]
            if option >= 0:
                ends = list(self.step(index, option))
                for end in ends:
                    self._best(end)
            for end in ends:
                node = self.nodes[end]
                if node.reach:
                    continue
                node.reach = -reach
                for k, split in enumerate(node.splits):
                    # Half as much at each level: near the root most is asked.
                    heapq.heappush(heap, (0.5 * reach * split.p, end, k))
        for index in sorted(range(len(self.nodes)), key=lambda i: -self.nodes[i].depth):
            self._tell_best(index)

    def _best(self, index: int) -> float:
        """Log probability of the best subtree that can be told, whose nodes are added."""
        node = self.nodes[index]
        value = _log(node.told["stop"])
        order = sorted(range(len(node.splits)), key=lambda k: -self._hope(node.splits[k]))
        if order and self._hope(node.splits[order[0]]) > value:
            left, right = self.step(index, order[0])
            behind = self._best(left) + self._best(right)
            value = max(value, math.log(node.splits[order[0]].p) + behind)
        return value

    @staticmethod
    def _hope(split: Split) -> float:
        return math.log(split.p) if math.isnan(split.best) else split.best

    def _tell_best(self, index: int) -> None:
        """Set which option the best subtree begins with, of those whose sides are here."""
        node = self.nodes[index]
        best, chosen = _log(node.told["stop"]), -1
        for option, sides in sorted(node.sides.items()):
            split = node.splits[option]
            value = split.best
            if math.isnan(value):
                value = math.log(split.p) + sum(self.nodes[side].told["log_best"] for side in sides)
            if value > best + 1e-10:
                best, chosen = value, option
        node.told["best"], node.told["log_best"] = chosen, best

    def _look(self, inside: Bools, depth: int, draws: Draws) -> tuple[list[Split], dict[str, Any]]:
        """Find what may stand at a node, and tell it."""
        exact = self.sums.at(inside, depth)
        if exact is None:
            stop, splits, n_effective = self._by_draws(inside, draws)
        else:
            kept = np.argsort(-exact.probability, kind="stable")[:MOST_OPTIONS]
            stop, n_effective = exact.stop, None
            splits = [
                Split(
                    int(exact.feature[e]),
                    int(exact.low[e]),
                    int(exact.high[e]),
                    float(exact.probability[e]),
                    float(exact.best[e]),
                    [],
                )
                for e in kept
                if exact.probability[e] >= LEAST_SHARE
            ]
        told = {
            **self._values(inside),
            "stop": stop,
            "draws": n_effective,
            "best": -1,
            "log_best": 0.0,
            "options": [self._option(split, n_effective) for split in splits],
        }
        return splits, told

    def _by_draws(self, inside: Bools, draws: Draws) -> tuple[float | None, list[Split], float]:
        """Shares of the draws that have this node; nothing where these are too few."""
        trees, weights = self.posterior.trees, self.posterior.weights
        weight: Floats = np.array([weights[b] for b, _ in draws])
        if not weight.sum() > 0:
            return None, [], 0.0
        n_effective = float(weight.sum() ** 2 / (weight**2).sum())
        groups: dict[tuple[int, int], list[int]] = {}
        for i, (b, at) in enumerate(draws):
            feature, low = int(trees.feature[b, at]), -1
            if feature >= 0:
                codes = self.posterior.rows.codes[inside, feature]
                low = int(codes[codes <= trees.cut[b, at]].max())
            groups.setdefault((feature, low), []).append(i)
        share = {key: float(weight[who].sum() / weight.sum()) for key, who in groups.items()}
        stop = share.pop((-1, -1), 0.0)
        if n_effective < FEWEST_DRAWS:
            return None, [], n_effective
        order = sorted(share, key=lambda key: (-share[key], key))[:MOST_OPTIONS]
        splits = []
        for feature, low in order:
            codes = self.posterior.rows.codes[inside, feature]
            high = int(codes[codes > low].min())
            of_it = [draws[i] for i in groups[feature, low]]
            splits.append(Split(feature, low, high, share[feature, low], math.nan, of_it))
        return stop, splits, n_effective

    def _values(self, inside: Bools) -> dict[str, Any]:
        """What a leaf on these rows would hold and say."""
        rows, leaf = self.posterior.rows, self.posterior.score.leaf
        some = Rows(rows.codes[inside], rows.target[inside], rows.weight[inside])
        nodes = node_values(empty_batch(1, 1), some, leaf)
        value = nodes.value[0, 0]
        return {
            "rows": plain_number(float(nodes.rows[0, 0])),
            "counts": None
            if nodes.counts is None
            else [plain_number(count) for count in nodes.counts[0, 0].tolist()],
            "value": value.tolist(),
            "spread": None if nodes.spread is None else float(nodes.spread[0, 0]),
            "vote": f"{value[0]:.6g}"
            if self.classes is None
            else self.classes[int(np.argmax(value))],
        }

    def _option(self, split: Split, n_effective: float | None) -> dict[str, Any]:
        binner = self.posterior.binner
        assert binner is not None, "infer always sets it"
        middle = (split.low + split.high - 1) // 2
        rule, other = split_rule(binner, split.feature, middle)
        error = None
        if n_effective is not None:
            error = math.sqrt(split.p * (1.0 - split.p) / max(n_effective, 1.0))
        return {
            "test": split_test(binner, split.feature, middle),
            "rule": rule,
            "other": other,
            "alike": self._alike(split),
            "p": split.p,
            "se": error,
            "then": None,
            "else": None,
        }

    def _alike(self, split: Split) -> list[float] | None:
        """Thresholds of the first and last cut that part the rows alike, if there are several."""
        assert self.posterior.binner is not None, "infer always sets it"
        thresholds = self.posterior.binner.features[split.feature].thresholds
        last = min(split.high - 1, len(thresholds) - 1)
        return [float(thresholds[split.low]), float(thresholds[last])] if split.low < last else None
