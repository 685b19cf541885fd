"""What guesses the flows of row sets nobody has looked at: a network in training, or a policy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from dtgfn._support.arrays import Float32s, Floats, Int64s
from dtgfn.engines.gfn.fixed.kept_views import view_children, view_nodes
from dtgfn.engines.gfn.fixed.policies import Policy
from dtgfn.engines.rowsets.partial.graph import PartialGraph
from dtgfn.engines.rowsets.partial.levels import Level


class Guesser(Protocol):
    """Says what deeper trees add to the look-ahead, from whatever it sees of row sets."""

    @property
    def trained(self) -> bool:
        """Whether before this table; else it is not asked until it has learned a little."""

    def begin(self, graph: PartialGraph) -> None:
        """Look at a graph whose root is expanded, before anything is asked."""

    def see_children(
        self, graph: PartialGraph, level: Level, nodes: Int64s, cuts: Int64s
    ) -> Float32s:
        """Describe both children of cuts [N] of nodes [N] of a level: [2 N, F]."""

    def see_nodes(self, graph: PartialGraph, depth: int, nodes: Int64s) -> Float32s:
        """Describe nodes [N] of a depth: [N, F]."""

    def predict(self, x: Float32s) -> Float32s:
        """Nats [N] that deeper trees add to the look-ahead of described row sets [N, F]."""


@dataclass(frozen=True)
class PolicyGuesser:
    """A policy for all tables, without a network in training."""

    policy: Policy
    learned: Policy | None = None  # the same, with what this table has taught
    trained: bool = True

    def begin(self, graph: PartialGraph) -> None:
        """Do nothing: it has been trained."""

    def see_children(
        self, graph: PartialGraph, level: Level, nodes: Int64s, cuts: Int64s
    ) -> Float32s:
        """Views of both children of cuts."""
        return view_children(graph, level, nodes, cuts)

    def see_nodes(self, graph: PartialGraph, depth: int, nodes: Int64s) -> Float32s:
        """Views of nodes."""
        return view_nodes(graph, depth, nodes)

    def predict(self, x: Float32s) -> Float32s:
        """What the policy says."""
        return (self.policy if self.learned is None else self.learned).guess(x)

    def adapted(self, x: Float32s, nats: Floats) -> PolicyGuesser | None:
        """Return one that has learned what known row sets [N, V] add; None if it cannot learn."""
        learn = getattr(self.policy, "adapted", None)
        return None if learn is None else replace(self, learned=learn(x, nats))
