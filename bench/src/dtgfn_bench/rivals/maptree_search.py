"""The most probable tree under the CGM prior, by AND/OR search (Sullivan, Tiwari & Thrun 2023)."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from dtgfn._support.arrays import Bools, Floats, Int64s


@dataclass(frozen=True)
class CgmPrior:
    """A node at depth d splits with probability alpha (1 + d)^-beta, uniformly over valid features.

    Leaves are Dirichlet with ``mass`` per class.  Costs are negative logarithms.
    """

    alpha: float = 0.95
    beta: float = 0.5
    mass: float = 2.5

    def split_cost(self, depth: int) -> float:
        """Of splitting at all."""
        return float(self.beta * np.log1p(depth) - np.log(self.alpha))

    def stop_cost(self, depth: int) -> float:
        """Of not splitting where that is possible."""
        return float(-np.log1p(-self.alpha * (1.0 + depth) ** -self.beta))

    def leaf_cost(self, counts: Floats) -> Floats:
        """Of the labels counted [classes, n] being in one leaf, [n]."""
        total_mass = self.mass * len(counts)
        labels = gammaln(counts + self.mass).sum(axis=0) - len(counts) * gammaln(self.mass)
        return gammaln(counts.sum(axis=0) + total_mass) - gammaln(total_mass) - labels

    def pure_cost(self, counts: Floats) -> Floats:
        """Of the same labels with a leaf to each class, [n]; no tree does better."""
        total_mass = self.mass * len(counts)
        ratio = gammaln(counts + total_mass) - gammaln(counts + self.mass)
        return (ratio - gammaln(total_mass) + gammaln(self.mass)).sum(axis=0)


class OrNode:
    """Some rows at some depth, to stop at or to split; a split is an AND of two such nodes.

    ``lower`` and ``upper`` bound the cost of the best subtree.  After expansion so do
    ``lower_of`` and ``upper_of`` [splits] for each split; ``sides`` has those split once visited.
    """

    def __init__(self, index: Int64s, depth: int, lower: float, upper: float) -> None:
        self.index = index
        self.depth = depth
        self.lower = lower
        self.upper = upper
        self.stop = upper
        self.expanded = False
        self.features: Int64s = np.zeros(0, np.int64)
        self.entry = 0.0
        self.lower_of: Floats = np.zeros(0)
        self.upper_of: Floats = np.zeros(0)
        self.sides: dict[int, tuple[OrNode, OrNode]] = {}
        self.parents: list[tuple[OrNode, int]] = []

    def tighten(self) -> bool:
        """Take the bounds from those of stopping and splitting; whether they changed."""
        before = (self.lower, self.upper)
        if len(self.features):
            # Bounds only ever tighten; max and min keep rounding from undoing that.
            self.lower = max(self.lower, min(self.stop, float(self.lower_of.min())))
            self.upper = min(self.upper, self.stop, float(self.upper_of.min()))
        else:
            self.upper = min(self.upper, self.stop)
            self.lower = self.upper
        self.lower = min(self.lower, self.upper)
        return before != (self.lower, self.upper)


@dataclass(frozen=True)
class Chosen:
    """A split on a binary feature: the rows that have it inside, others outside; None is a leaf."""

    column: int
    inside: Chosen | None
    outside: Chosen | None


class MapTreeSearch:
    """Search of the most probable tree of rows of binary features; can be stopped at any time."""

    def __init__(self, binary: Bools, y: Int64s, n_classes: int, prior: CgmPrior) -> None:
        self.binary = binary.astype(np.float64)
        self.labels = (y == np.arange(n_classes)[:, None]).astype(np.float64)
        self.prior = prior
        self.expansions = 0
        self._nodes: dict[tuple[bytes, int], OrNode] = {}
        counts = self.labels.sum(axis=1, keepdims=True)
        lower, upper = self._bounds(counts, 0)
        self.root = self._node(np.arange(len(y)), 0, float(lower[0]), float(upper[0]))

    def run(self, max_expansions: int, seconds: float) -> None:
        """Expand until the root's bounds meet or the expansions or processor seconds are spent."""
        end = time.process_time() + seconds
        while self._open(self.root) and self.expansions < max_expansions:
            if time.process_time() > end:
                break
            node = self._select()
            if node is None:
                continue
            self._expand(node)
            self.expansions += 1
            self._propagate([node])

    def solved(self) -> bool:
        """Whether no other tree can be more probable than the best one found."""
        return not self._open(self.root)

    def best(self) -> Chosen | None:
        """The most probable tree found so far, None if that is a single leaf."""
        return self._best(self.root)

    def _best(self, node: OrNode) -> Chosen | None:
        if len(node.features) == 0 or node.stop <= node.upper_of.min():
            return None
        split = int(node.upper_of.argmin())
        column = int(node.features[split])
        if split not in node.sides:
            return Chosen(column, None, None)
        inside, outside = node.sides[split]
        return Chosen(column, self._best(inside), self._best(outside))

    @staticmethod
    def _open(node: OrNode) -> bool:
        return node.upper - node.lower > 1e-9 * max(1.0, abs(node.upper))

    def _bounds(self, counts: Floats, depth: int) -> tuple[Floats, Floats]:
        """Lower and upper costs of nodes of which only class counts [classes, n] are known.

        Whether they can be split is not known, so stopping may be free or not.
        """
        leaf = self.prior.leaf_cost(counts)
        perfect = self.prior.split_cost(depth) + self.prior.pure_cost(counts)
        return np.minimum(leaf, perfect), leaf + self.prior.stop_cost(depth)

    def _node(self, index: Int64s, depth: int, lower: float, upper: float) -> OrNode:
        key = (index.tobytes(), depth)
        if key not in self._nodes:
            self._nodes[key] = OrNode(index, depth, lower, upper)
        return self._nodes[key]

    def _select(self) -> OrNode | None:
        """The unexpanded node to which the lower bounds lead; None if new links moved bounds."""
        node = self.root
        while node.expanded:
            split = int(node.lower_of.argmin())
            if split not in node.sides:
                self._link(node, split)
                if self._refresh(node, split):
                    self._propagate([node])
                    return None
                continue  # the sides may be known better than their counts say
            below, above = node.sides[split]
            wider_below = below.upper - below.lower >= above.upper - above.lower
            node = below if wider_below else above
        return node

    def _link(self, node: OrNode, split: int) -> None:
        goes = self.binary[node.index, node.features[split]] > 0
        sides = []
        for index in (node.index[goes], node.index[~goes]):
            counts = self.labels[:, index].sum(axis=1, keepdims=True)
            lower, upper = self._bounds(counts, node.depth + 1)
            sides.append(self._node(index, node.depth + 1, float(lower[0]), float(upper[0])))
            sides[-1].parents.append((node, split))
        node.sides[split] = (sides[0], sides[1])

    def _expand(self, node: OrNode) -> None:
        labels = self.labels[:, node.index]
        total = labels.sum(axis=1, keepdims=True)
        inside = self.binary[node.index]
        holds = inside.sum(axis=0)
        node.features = np.flatnonzero((holds > 0) & (holds < len(node.index)))
        node.expanded = True
        leaf = float(self.prior.leaf_cost(total)[0])
        if len(node.features) == 0:
            node.stop = leaf
        else:
            below = labels @ inside[:, node.features]
            node.stop = leaf + self.prior.stop_cost(node.depth)
            node.entry = self.prior.split_cost(node.depth) + float(np.log(len(node.features)))
            lower_below, upper_below = self._bounds(below, node.depth + 1)
            lower_above, upper_above = self._bounds(total - below, node.depth + 1)
            node.lower_of = node.entry + lower_below + lower_above
            node.upper_of = node.entry + upper_below + upper_above
        node.tighten()

    def _refresh(self, node: OrNode, split: int) -> bool:
        """Take a split's bounds from its sides; whether the node's own bounds changed."""
        below, above = node.sides[split]
        node.lower_of[split] = node.entry + below.lower + above.lower
        node.upper_of[split] = node.entry + below.upper + above.upper
        return node.tighten()

    def _propagate(self, changed: list[OrNode]) -> None:
        """Renew the bounds of all that stand above, deepest first."""
        waiting = {id(node): node for node in changed}
        while waiting:
            node = waiting.pop(max(waiting, key=lambda name: waiting[name].depth))
            for parent, split in node.parents:
                if self._refresh(parent, split):
                    waiting[id(parent)] = parent
