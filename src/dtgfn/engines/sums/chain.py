"""One chain over sums of trees: its memory, its steps in chunks, and the draws it leaves behind."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from dtgfn._support import clock
from dtgfn._support.arrays import Floats, Int32s, Int64s
from dtgfn._support.parallel import ChunkSize, Flag
from dtgfn.engines.sums.node_choice import Choice, SumTable
from dtgfn.engines.sums.sweep import (
    NOISE,
    VARIANCE,
    Forest,
    Moves,
    Prior,
    RowState,
    Target,
    Workspace,
    advance,
)
from dtgfn.engines.sums.tree_draw import LEAF, GrownTree, Scratch

MOST_NODES = 255  # of a tree; one that would grow beyond is not accepted
MOST_RECORDED = 2000  # draws of a chain; then every other one is dropped
WATCHED = 50  # rows whose fit is recorded in every draw


@dataclass(frozen=True)
class Setup:
    """What all chains of a fit share."""

    table: SumTable
    target: Target
    prior: Prior
    moves: Moves
    n_sums: int
    n_summed: int
    most_active: int  # features that a proposal may look at

    @property
    def n_rows(self) -> int:
        """Training rows n."""
        return int(self.table.codes.shape[0])


@dataclass
class Draw:
    """One state of a chain: trees [S, M, N], their leaves' values, and numbers [2]."""

    size: Int32s
    feature: Int32s
    cut: Int32s
    left: Int32s
    value: Floats
    numbers: Floats
    watched: Floats  # [S, W] fit at the watched rows


@dataclass
class SumChain:
    """A chain with the draws it has recorded, one every ``interval`` sweeps."""

    setup: Setup
    forest: Forest
    position: Int64s
    rng: np.random.Generator
    watched: Int64s
    draws: list[Draw] = field(default_factory=list)
    interval: int = 1
    chunk: ChunkSize = field(default_factory=ChunkSize)

    @property
    def sweeps(self) -> int:
        """Sweeps done."""
        return int(self.position[2])

    def chunks(self, n_sweeps: int | None, halted: Flag) -> Iterator[bool]:
        """Run to ``n_sweeps`` (for ever if None), yielding now and then."""
        work = make_workspace(self.setup)
        setup, per_sweep = self.setup, self.setup.n_sums * self.setup.n_summed
        while (n_sweeps is None or self.sweeps < n_sweeps) and not halted[0]:
            begun, left, before = clock.monotonic(), self.chunk.size, self._trees_done(per_sweep)
            while left > 0 and (n_sweeps is None or self.sweeps < n_sweeps):
                sweeps, done = self.sweeps, self._trees_done(per_sweep)
                advance(
                    self.forest, self.position, left, setup.target, setup.prior, setup.moves,
                    setup.table, work, self.rng,
                )  # fmt: skip
                left -= self._trees_done(per_sweep) - done
                if self.sweeps > sweeps and self.sweeps % self.interval == 0:
                    self.record()
            self.chunk.adapt(self._trees_done(per_sweep) - before, clock.monotonic() - begun)
            yield True

    def _trees_done(self, per_sweep: int) -> int:
        s, m, sweeps = (int(number) for number in self.position)
        return sweeps * per_sweep + s * self.setup.n_summed + m

    def record(self) -> None:
        """Keep a copy of the present state."""
        forest = self.forest
        used = slice(0, int(forest.size.max()))
        self.draws.append(
            Draw(
                size=forest.size.copy(),
                feature=forest.feature[:, :, used].copy(),
                cut=forest.cut[:, :, used].copy(),
                left=forest.left[:, :, used].copy(),
                value=forest.value[:, :, used].copy(),
                numbers=forest.numbers.copy(),
                watched=forest.fit[:, self.watched].copy(),
            )
        )
        if len(self.draws) >= MOST_RECORDED:
            self.draws = self.draws[1::2]
            self.interval *= 2

    def kept(self, warm_up: float) -> list[Draw]:
        """Draws after the first part of the chain, at least the last one."""
        return self.draws[min(int(warm_up * len(self.draws)), len(self.draws) - 1) :]


def start_chain(setup: Setup, seed: int) -> SumChain:
    """Return a chain of trees without splits."""
    n, shape = setup.n_rows, (setup.n_sums, setup.n_summed)
    nodes = (*shape, min(2 * min(2**setup.table.max_depth, n) - 1, MOST_NODES))
    variance = setup.prior.scale**2
    forest = Forest(
        size=np.ones(shape, dtype=np.int32),
        feature=np.full(nodes, LEAF, dtype=np.int32),
        cut=np.zeros(nodes, dtype=np.int32),
        left=np.full(nodes, -1, dtype=np.int32),
        value=np.zeros(nodes),
        fit=np.zeros((setup.n_sums, n)),
        numbers=np.zeros(2),
        counts=np.zeros((2, 2), dtype=np.int64),
    )
    forest.numbers[[NOISE, VARIANCE]] = 1.0, variance
    watched = np.unique(np.linspace(0, n - 1, WATCHED).astype(np.int64))
    return SumChain(
        setup, forest, np.zeros(3, dtype=np.int64), np.random.default_rng(seed), watched
    )


def make_workspace(setup: Setup) -> Workspace:
    """Return the memory of one chain's steps."""
    n, width = setup.n_rows, int(setup.table.n_codes.max(initial=1))
    n_nodes = min(2 * min(2**setup.table.max_depth, n) - 1, MOST_NODES)
    n_slots, active = setup.table.max_depth + 4, setup.most_active

    def tree() -> GrownTree:
        feature, cut, left, depth, begin, end = np.zeros((6, n_nodes), dtype=np.int32)
        return GrownTree(
            size=np.ones(1, dtype=np.int32),
            feature=feature,
            cut=cut,
            left=left,
            depth=depth,
            begin=begin,
            end=end,
            sums=np.zeros((n_nodes, 3)),
            order=np.arange(n, dtype=np.int32),
        )

    def choice() -> Choice:
        power = np.zeros(width)
        return Choice(
            weight=np.zeros((active, width)),
            exponent=np.zeros(width),
            factor=np.zeros(width),
            power=power,
            bits=power.view(np.int64),
            log_feature=np.zeros(active),
            total=np.zeros(1),
        )

    scratch = Scratch(
        histogram=np.zeros((n_slots, active, width, 3)),
        root_histogram=np.zeros((active, width, 3)),
        root_choice=choice(),
        choice=choice(),
        active=np.zeros(len(setup.table.column), dtype=np.int32),
        waiting=np.zeros(n_slots, dtype=np.int32),
        slot=np.zeros(n_slots, dtype=np.int32),
        free=np.zeros(n_slots, dtype=np.int32),
        flag=np.zeros(int(setup.table.column.max(initial=0)) + 1, dtype=np.int32),
    )
    return Workspace(RowState(*(np.zeros(n) for _ in range(5))), tree(), tree(), scratch)


def memory_of(setup: Setup, n_chains: int) -> int:
    """Bytes that chains take: their fits, trees and workspaces."""
    n, width = setup.n_rows, int(setup.table.n_codes.max(initial=1))
    histograms = (setup.table.max_depth + 5) * setup.most_active * width * 3 * 8
    nodes = setup.n_sums * setup.n_summed * MOST_NODES * 20
    per_chain = 8 * n * setup.n_sums + nodes
    return n_chains * (per_chain + n * (5 * 8 + 2 * 4) + histograms)


def likely_active(per_column: Int64s, share: float) -> int:
    """Features that a proposal looks at at most, but for one in many millions."""
    if share >= 1:
        return int(per_column.sum())
    mean = share * per_column.sum()
    spread = math.sqrt(share * (1 - share) * float((per_column.astype(float) ** 2).sum()))
    most = mean + 8 * spread + 8 * per_column.max(initial=1)
    return int(min(per_column.sum(), math.ceil(most)))
