"""Nodes of particles whose rows are elsewhere: known by their histograms, a level at a time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from dtgfn._support.arrays import Floats, Int32s, Int64s, UInt64s
from dtgfn._support.compiled import njit
from dtgfn._support.parallel import Flag
from dtgfn.engines.smc.histograms import HistogramSource, Step, make_paths, offsets
from dtgfn.engines.smc.lookahead import (
    Choices,
    draw_choice,
    look_ahead_counted,
    room_for_choices,
)
from dtgfn.engines.smc.particles import Particles, skip_decided
from dtgfn.trees.leaf_models import DirichletLeaf, log_marginals
from dtgfn.trees.node_terms import NodeTable, split_term
from dtgfn.trees.score import Score

MOST_NODES = 2**21  # room for nodes is asked for as they come; this only bounds the first asking


@dataclass(eq=False)
class Known:
    """A node: the way to it, the box of codes it is, and the histogram while its level is open."""

    path: tuple[Step, ...]
    box: Int32s  # [2, F] lowest and highest code
    pair: tuple[int, int, int] | None  # parent, feature and cut; None of the root
    histogram: Int64s | None = None
    can_split: bool = False


class HistogramNodes:
    """Nodes known by sums over rows; ``fetch`` must have asked for a level before it is decided.

    Particles of all sweeps share them. Rules of a prior that look at the rows of both sides before
    a split is weighed cannot be served, so the score must have a penalty.
    """

    def __init__(self, source: HistogramSource, score: Score) -> None:
        self.source = source
        self.table = counted_table(source, score)
        self.offset = offsets(source.n_codes)
        self.max_depth, self.temperature = score.max_depth, score.temperature
        self.most_nodes = min(2 ** (score.max_depth + 1) - 1, MOST_NODES)
        room = int(self.offset[-1])
        halted = np.zeros(1, dtype=np.uint8)
        self.choices = room_for_choices(source.n_codes, room, len(source.unit), halted)
        highest = source.n_codes.astype(np.int32) - 1
        self.known = [Known((), np.stack([np.zeros_like(highest), highest]), None)]
        self.found: dict[bytes, int] = {}
        self.children: dict[tuple[int, int, int], tuple[int, int]] = {}
        # The weight of rows is in the sums of all classes, of numbers in the first one.
        self.n_masses = len(source.unit) if isinstance(score.leaf, DirichletLeaf) else 1
        self.asked = 0  # nodes that were counted, not subtracted
        self._ask([0])
        root = self.known[0]
        root.can_split = root.can_split and score.max_depth > 0
        value = self._values(self._total(root)[None])[0] + float(self.table.log_stop[0])
        self.root = float(value), root.can_split

    def fetch(self, level: int, forest: Iterable[Particles]) -> None:
        """Ask for all nodes of a level of all particles, and forget the levels above it."""
        if level == 0:
            return  # the root is known
        wanted = np.unique(np.concatenate([names_at(level, each) for each in forest]))
        lighter = {self._lighter(int(name)) for name in wanted}
        self._ask(sorted(lighter, key=lambda name: self.known[name].path))
        for name in map(int, wanted):
            if self.known[name].histogram is None:
                self._subtract(name)
        kept = {int(name) for name in wanted}
        for name, node in enumerate(self.known):
            if name not in kept:
                node.histogram = None

    def settle(self, level: int, particles: Particles) -> None:
        """See ``Nodes``."""
        if level > 0:
            can_split = np.array([node.can_split for node in self.known])
            at_level = slots_at(level, particles)
            particles.can_split[at_level] = can_split[particles.name[at_level].astype(np.int64)]
            skip_all(particles)

    def decide(
        self,
        first: int,
        most_work: int,
        new_node: Flag,
        member: Int64s,
        uniform: Floats,
        particles: Particles,
    ) -> tuple[int, int]:
        """See ``Nodes``; all of them decide at once, for no rows are looked at."""
        del most_work
        member = member[first:]
        begins = np.flatnonzero(new_node[first:])
        decided = room_for_decisions(len(member))
        for begin, end in zip(begins, [*begins[1:], len(member)], strict=True):
            self._decide_node(member, int(begin), int(end), uniform, particles, decided)
        write_decisions(member, decided, self.table, particles)
        return first + len(member), 1

    def _decide_node(
        self,
        member: Int64s,
        begin: int,
        end: int,
        uniform: Floats,
        particles: Particles,
        decided: Decisions,
    ) -> None:
        """Let particles with the same next node choose, and name the children."""
        one = member[begin]
        slot = particles.next[one]
        name, depth = int(particles.name[one, slot]), int(particles.depth[one, slot])
        node = self.known[name]
        assert node.histogram is not None, "fetch comes before decide"
        n_choices, largest = look_ahead_counted(
            node.histogram * self.source.unit,
            self._total(node) * self.source.unit,
            self.offset,
            depth,
            particles.value[one, slot],
            self.table,
            self.choices,
        )
        draw_all(self.choices, n_choices, largest, member, begin, end, uniform, decided)
        here = slice(begin, end)
        used, which = np.unique(decided.chosen[here], return_inverse=True)
        for k, chosen in enumerate(used.tolist()):
            if chosen >= 0:
                those = begin + np.flatnonzero(which == k)
                self._split(name, node, depth, chosen, those, decided)

    def _split(
        self, name: int, node: Known, depth: int, chosen: int, those: Int64s, decided: Decisions
    ) -> None:
        """Tell particles what the two sides of a cut are called, and worth."""
        feature, low = int(self.choices.feature[chosen]), int(self.choices.low[chosen])
        copies = float(self.choices.copies[chosen])
        copies -= float(self.choices.copies[chosen - 1]) if chosen else 0.0
        assert node.histogram is not None, "fetch comes before decide"
        begin = int(self.offset[feature])
        left = node.histogram[begin : begin + low + 1].sum(axis=0)
        sums = np.stack([left, self._total(node) - left])
        decided.feature[those] = feature
        decided.name[:, those] = np.array(
            self._children(name, node, feature, low, low + int(copies)), dtype=np.uint64
        )[:, None]
        value = self._values(sums) + self.table.log_stop[depth + 1]
        decided.value[:, those] = value[:, None]

    def _children(
        self, name: int, node: Known, feature: int, cut: int, above: int
    ) -> tuple[int, int]:
        """Names of both sides; codes between ``cut`` and ``above`` have no rows."""
        pair = (name, feature, cut)
        if pair not in self.children:
            sides = []
            for right in (0, 1):
                box = node.box.copy()
                box[1 - right, feature] = above if right else cut
                path = (*node.path, (feature, cut, right))
                # Two ways to the same box of codes lead to the same rows.
                key = len(path).to_bytes(4, "little") + box.tobytes()
                if key not in self.found:
                    self.found[key] = len(self.known)
                    self.known.append(Known(path, box, pair))
                sides.append(self.found[key])
            self.children[pair] = sides[0], sides[1]
        return self.children[pair]

    def _lighter(self, name: int) -> int:
        """The lighter of a node and its sibling: the other is what is left of their parent."""
        pair = self.known[name].pair
        assert pair is not None, "the root is known from the start"
        left, right = self.children[pair]
        parent = self.known[pair[0]].histogram
        same_pair = self.known[left].pair == self.known[right].pair == pair
        if parent is None or not same_pair:
            return name
        _, feature, cut = pair
        begin, end = self.offset[feature], self.offset[feature + 1]
        mass = parent[begin:end, : self.n_masses]
        return left if 2 * int(mass[: cut + 1].sum()) <= int(mass.sum()) else right

    def _ask(self, names: list[int]) -> None:
        """Have nodes counted, in one round trip."""
        paths = make_paths([self.known[name].path for name in names])
        for name, histogram in zip(names, self.source.histograms(paths), strict=True):
            self._tell(name, histogram)
        self.asked += len(names)

    def _subtract(self, name: int) -> None:
        """Take a node for what its sibling leaves of their parent."""
        pair = self.known[name].pair
        assert pair is not None, "the root is counted"
        sibling = next(other for other in self.children[pair] if other != name)
        parent, counted = self.known[pair[0]].histogram, self.known[sibling].histogram
        assert parent is not None
        assert counted is not None
        self._tell(name, parent - counted)

    def _tell(self, name: int, histogram: Int64s) -> None:
        node = self.known[name]
        node.histogram = histogram
        if self.offset[-1]:
            there = (histogram != 0).any(axis=1)
            n_codes = np.add.reduceat(there, self.offset[:-1], dtype=np.int64)
            node.can_split = bool((n_codes > 1).any())

    def _total(self, node: Known) -> Int64s:
        """Sums [K] over all rows of a node."""
        assert node.histogram is not None
        return np.asarray(node.histogram[: self.offset[1]].sum(axis=0))

    def _values(self, sums: Int64s) -> Floats:
        """Log m of sums [N, K]."""
        out = np.empty(len(sums))
        log_marginals(sums * self.source.unit, self.table.leaf, out)
        return out


def counted_table(source: HistogramSource, score: Score) -> NodeTable:
    """What compiled loops read of the score; rows there are none."""
    if score.uniform_rules:
        raise ValueError(
            "split_penalty='bcart' asks whether both sides of a split can be split again, which "
            "takes rows at hand; give 'mdl', 'paper' or a number."
        )
    log_stop, log_split = score.prior.node_terms(score.max_depth)
    n_features = len(source.n_codes)
    return NodeTable(
        codes=np.zeros((n_features, 0), dtype=np.uint16),
        target=np.zeros(0),
        weight=np.zeros(0),
        feature=np.arange(n_features, dtype=np.int32),
        leaf=score.leaf.terms(None if source.weight is None else np.array([source.weight])),
        log_stop=log_stop,
        log_split=log_split,
        uniform_rules=False,
        max_depth=score.max_depth,
        n_sums=score.leaf.n_sums,
        temperature=score.temperature,
    )


def slots_at(level: int, particles: Particles) -> tuple[Int64s, ...]:
    """Where nodes of a level are."""
    used = np.arange(particles.feature.shape[1]) < particles.n_nodes[:, None]
    return np.nonzero(used & (particles.depth == level))


def names_at(level: int, particles: Particles) -> UInt64s:
    """Names of the nodes of a level."""
    return particles.name[slots_at(level, particles)]


@dataclass
class Decisions:
    """What M particles have chosen: which choice (-1 stops), and both sides of the cut."""

    chosen: Int32s  # [M]
    cut: Int32s  # [M]
    log_q: Floats  # [M]
    feature: Int32s  # [M]
    name: UInt64s  # [2, M]
    value: Floats  # [2, M]


def room_for_decisions(n: int) -> Decisions:
    """Room for the decisions of so many particles."""
    whole, names = np.zeros((3, n), dtype=np.int32), np.zeros((2, n), dtype=np.uint64)
    return Decisions(whole[0], whole[1], np.zeros(n), whole[2], names, np.zeros((2, n)))


def draw_all(
    choices: Choices,
    n_choices: int,
    largest: float,
    member: Int64s,
    begin: int,
    end: int,
    uniform: Floats,
    decided: Decisions,
) -> None:
    """Let particles ``member[begin:end]`` draw from the choices of their node."""
    out = (decided.chosen, decided.cut, decided.log_q)
    _draw_all(choices, n_choices, largest, member, begin, end, uniform, *out)


@njit(cache=True, nogil=True)
def _draw_all(
    choices: Choices,
    n_choices: int,
    largest: float,
    member: Int64s,
    begin: int,
    end: int,
    uniform: Floats,
    chosen: Int32s,
    cut: Int32s,
    log_q: Floats,
) -> None:
    for m in range(begin, end):
        drawn = draw_choice(choices, n_choices, largest, uniform[member[m]])
        chosen[m], cut[m], log_q[m] = drawn


def write_decisions(
    member: Int64s, decided: Decisions, table: NodeTable, particles: Particles
) -> None:
    """Write decisions into the particles, and move on to their next nodes."""
    made = (decided.chosen, decided.cut, decided.log_q)
    sides = (decided.feature, decided.name, decided.value)
    _write_decisions(member, *made, *sides, table, particles)


@njit(cache=True, nogil=True)
def _write_decisions(
    member: Int64s,
    chosen: Int32s,
    cut: Int32s,
    log_q: Floats,
    feature: Int32s,
    name: UInt64s,
    value: Floats,
    table: NodeTable,
    particles: Particles,
) -> None:
    for m in range(member.shape[0]):
        b = member[m]
        node = particles.next[b]
        gain = 0.0
        if chosen[m] >= 0:
            depth = particles.depth[b, node]
            particles.feature[b, node] = feature[m]
            particles.cut[b, node] = cut[m]
            gain = split_term(depth, 1, 1, table) - particles.value[b, node]
            for side in range(2):
                child = particles.n_nodes[b]
                particles.feature[b, child] = -1
                particles.parent[b, child] = node
                particles.depth[b, child] = depth + 1
                particles.can_split[b, child] = depth + 1 < table.max_depth
                particles.value[b, child] = value[side, m]
                particles.name[b, child] = name[side, m]
                particles.n_nodes[b] += 1
                gain += value[side, m]
        particles.log_reward[b] += gain
        particles.log_weight[b] += gain / table.temperature - log_q[m]
        skip_decided(particles, b)


@njit(cache=True, nogil=True)
def skip_all(particles: Particles) -> None:
    """Move on from nodes that turned out to have no choice."""
    for b in range(particles.next.shape[0]):
        node = particles.next[b]
        if node < particles.n_nodes[b] and not particles.can_split[b, node]:
            skip_decided(particles, b)
