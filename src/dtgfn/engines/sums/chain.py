"""One chain over sums of trees: its memory, its steps in chunks, and the draws it leaves behind."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dtgfn._support import clock
from dtgfn._support.arrays import Floats, Int32s, Int64s
from dtgfn._support.parallel import ChunkSize, Flag
from dtgfn.engines.sums.lines import LineTable, draw_lines, say_lines, start_lines
from dtgfn.engines.sums.node_choice import Active, Choice, SumTable
from dtgfn.engines.sums.row_precisions import set_class, set_numbers
from dtgfn.engines.sums.scales import NUMBERS, Prior, Target, draw_scales
from dtgfn.engines.sums.sweep import NOISE, VARIANCE, Forest, Moves, Workspace, draw_trees
from dtgfn.engines.sums.tree_draw import LEAF, GrownTree, Scratch
from dtgfn.trees.summed_lines import SummedLines
from dtgfn.trees.summed_trees import SummedTrees, make_fast, stack_draws, sum_draws

MOST_NODES = 255  # of a tree; one that would grow beyond is not accepted
MOST_RECORDED = 2000  # draws of a chain; then every other one is dropped
KNOWN_WORTH = 4  # looks at a feature in a sweep, at least, that make it worth to count it once
WATCHED = 50  # rows whose fit is recorded in every draw


@dataclass(frozen=True)
class Setup:
    """What all chains of a fit share."""

    table: SumTable
    target: Target
    prior: Prior
    lines: LineTable
    moves: Moves
    n_sums: int
    n_summed: int
    most_active: int  # features that a proposal may look at
    most_cells: int  # and their codes

    @property
    def n_rows(self) -> int:
        """Training rows n."""
        return int(self.table.codes.shape[0])


@dataclass
class Draw:
    """One state of a chain: trees [S, M, N], their leaves' values, slopes, and numbers [2]."""

    size: Int32s
    feature: Int32s
    cut: Int32s
    left: Int32s
    value: Floats
    slope: Floats  # [S, D]
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
    most_recorded: int
    draws: list[Draw] = field(default_factory=list)
    interval: int = 1
    recording: bool = True
    chunk: ChunkSize = field(default_factory=ChunkSize)

    @property
    def sweeps(self) -> int:
        """Sweeps done."""
        return int(self.position[2])

    @property
    def has_answer(self) -> bool:
        """Whether a draw was recorded."""
        return bool(self.draws)

    def chunks(self, n_sweeps: int | None, halted: Flag) -> Iterator[bool]:
        """Run to ``n_sweeps`` (for ever if None), yielding now and then."""
        work = make_workspace(self.setup)
        per_sweep = self.setup.n_sums * self.setup.n_summed
        while (n_sweeps is None or self.sweeps < n_sweeps) and not halted[0]:
            begun, left, before = clock.monotonic(), self.chunk.size, self._trees_done(per_sweep)
            while left > 0 and (n_sweeps is None or self.sweeps < n_sweeps):
                sweeps = self.sweeps
                left -= self.advance(left, work)
                if self.sweeps > sweeps and self.sweeps % self.interval == 0 and self.recording:
                    self.record()
            self.chunk.adapt(self._trees_done(per_sweep) - before, clock.monotonic() - begun)
            yield True

    def advance(self, n_trees: int, work: Workspace) -> int:
        """Draw up to so many trees, of one sum at most; return how many.

        ``position`` [3] is the sum and the tree that come next, and the number of sweeps done.
        """
        setup, forest = self.setup, self.forest
        s, first, sweeps = (int(number) for number in self.position)
        if first == 0:
            self._set_precisions(s, work)
            self._draw_lines(s, work)
        last = min(first + n_trees, setup.n_summed)
        draw_trees(forest, s, first, last, setup.moves, setup.table, work, self.rng)
        self.position[:] = s, last, sweeps
        if last == setup.n_summed:
            self.position[:] = s + 1, 0, sweeps
        if self.position[0] == setup.n_sums:
            draw_scales(forest, setup.target, setup.prior, setup.lines, self.rng)
            self.position[:] = 0, 0, sweeps + 1
        return last - first

    def sweep(self, work: Workspace) -> None:
        """Draw every tree once, then noise and scale."""
        sweeps = self.sweeps
        while self.sweeps == sweeps:
            self.advance(self.setup.n_summed, work)

    def _set_precisions(self, s: int, work: Workspace) -> None:
        forest, target = self.forest, self.setup.target
        precision, linear = work.state[0], work.linear
        if target.kind == NUMBERS:
            noise = float(forest.numbers[NOISE])
            set_numbers(target.number, target.weight, noise, precision, linear)
        else:
            set_class(
                forest.fit, s, target.label, target.weight, target.offset, precision, linear,
                self.rng,
            )  # fmt: skip

    def _draw_lines(self, s: int, work: Workspace) -> None:
        setup, forest = self.setup, self.forest
        if len(setup.lines.feature) and self.sweeps % setup.lines.every == 0:
            draw_lines(
                setup.table.codes, setup.lines, forest.lines, s, forest.fit[s], work.state[0],
                work.linear, self.rng,
            )  # fmt: skip

    def _trees_done(self, per_sweep: int) -> int:
        s, m, sweeps = (int(number) for number in self.position)
        return sweeps * per_sweep + s * self.setup.n_summed + m

    def record(self) -> None:
        """Keep a copy of the present state."""
        self.draws.append(draw_of(self.forest, self.watched))
        if len(self.draws) >= self.most_recorded:
            self.draws = self.draws[1::2]
            self.interval *= 2

    def kept(self, warm_up: float) -> list[Draw]:
        """Draws after the first part of the chain, at least the last one."""
        return self.draws[min(int(warm_up * len(self.draws)), len(self.draws) - 1) :]


def draw_of(forest: Forest, watched: Int64s) -> Draw:
    """A copy of a chain's state."""
    used = slice(0, int(forest.size.max()))
    return Draw(
        size=forest.size.copy(),
        feature=forest.feature[:, :, used].copy(),
        cut=forest.cut[:, :, used].copy(),
        left=forest.left[:, :, used].copy(),
        value=forest.value[:, :, used].copy(),
        slope=forest.lines.slope.copy(),
        numbers=forest.numbers.copy(),
        watched=forest.fit[:, watched].copy(),
    )


def stack(draws: list[Draw], table: LineTable) -> SummedTrees:
    """Put draws of trees of different sizes together, and their lines."""
    width = max(draw.feature.shape[2] for draw in draws)

    def padded(name: str, fill: float) -> Any:
        arrays = [getattr(draw, name) for draw in draws]
        room = [(0, 0), (0, 0)]
        return np.stack(
            [
                np.pad(array, [*room, (0, width - array.shape[2])], constant_values=fill)
                for array in arrays
            ]
        )

    size = np.stack([draw.size for draw in draws])
    trees = stack_draws(
        size, padded("feature", -1), padded("cut", 0), padded("left", -1), padded("value", 0.0)
    )
    if not len(table.feature):
        return trees
    slope = np.stack([draw.slope for draw in draws])
    return replace(trees, lines=SummedLines(table.feature, table.score, slope))


def start_chain(setup: Setup, seed: int, most_recorded: int = MOST_RECORDED) -> SumChain:
    """Return a chain of trees without splits."""
    n, shape = setup.n_rows, (setup.n_sums, setup.n_summed)
    nodes = (*shape, most_nodes(setup))
    variance = setup.prior.scale**2
    forest = Forest(
        size=np.ones(shape, dtype=np.int32),
        feature=np.full(nodes, LEAF, dtype=np.int32),
        cut=np.zeros(nodes, dtype=np.int32),
        left=np.full(nodes, -1, dtype=np.int32),
        value=np.zeros(nodes),
        fit=np.zeros((setup.n_sums, n)),
        lines=start_lines(setup.lines, setup.n_sums, n),
        numbers=np.zeros(2),
        counts=np.zeros((2, 2), dtype=np.int64),
    )
    forest.numbers[[NOISE, VARIANCE]] = 1.0, variance
    rng, position = np.random.default_rng(seed), np.zeros(3, dtype=np.int64)
    return SumChain(setup, forest, position, rng, watched_rows(setup), most_recorded)


def watched_rows(setup: Setup) -> Int64s:
    """Rows whose fit is recorded."""
    return np.unique(np.linspace(0, setup.n_rows - 1, WATCHED).astype(np.int64))


def put_on(chain: SumChain, setup: Setup) -> None:
    """Let a chain go on with other rows: its trees stay, its sweeps are counted anew."""
    draw, codes = draw_of(chain.forest, np.empty(0, dtype=np.int64)), setup.table.codes
    summed = stack([draw], setup.lines)
    fit = sum_draws(make_fast(summed), summed, codes, 1)[:, 0].T
    lines = chain.forest.lines._replace(said=np.zeros(fit.shape))
    for slope, said in zip(lines.slope, lines.said, strict=True):
        say_lines(codes, setup.lines, slope, said)
    chain.forest = chain.forest._replace(fit=np.ascontiguousarray(fit), lines=lines)
    chain.setup, chain.chunk, chain.watched = setup, ChunkSize(), watched_rows(setup)
    chain.position[:] = 0


def make_workspace(setup: Setup) -> Workspace:
    """Return the memory of one chain's steps."""
    n, n_cells, n_active = setup.n_rows, setup.most_cells, setup.most_active
    n_nodes, n_slots = most_nodes(setup), setup.table.max_depth + 4

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
            order=np.arange(n, dtype=np.uint32),
        )

    def choice() -> Choice:
        return Choice(weight=np.zeros(n_cells), mass=np.zeros(n_active), total=np.zeros(3))

    scratch = Scratch(
        active=Active(
            used=np.zeros(1, dtype=np.int32),
            feature=np.zeros(n_active, dtype=np.uint32),
            first=np.zeros(n_active + 1, dtype=np.uint32),
            share=np.zeros(n_active),
        ),
        known=np.zeros(most_known(setup)),
        cells=np.zeros((n_slots + 1, 2, n_cells)),
        root_choice=choice(),
        choice=choice(),
        waiting=np.zeros(n_slots, dtype=np.int32),
        slot=np.zeros(n_slots, dtype=np.int32),
        free=np.zeros(n_slots, dtype=np.int32),
        flag=np.zeros(len(setup.table.begin) - 1, dtype=np.int32),
    )
    return Workspace(np.zeros((2, n)), np.zeros(n), np.zeros(n), tree(), tree(), scratch)


def most_nodes(setup: Setup) -> int:
    """Nodes that a tree may have."""
    return min(2 * min(2**setup.table.max_depth, setup.n_rows) - 1, MOST_NODES)


def most_known(setup: Setup) -> int:
    """Cells whose precisions of all rows are kept: none where most would not be looked at."""
    looks, n_features = setup.n_summed * setup.most_active, len(setup.table.column)
    return int(setup.table.first_cell[-1]) if KNOWN_WORTH * n_features <= looks else 0


def memory_of(setup: Setup, n_chains: int) -> int:
    """Bytes that chains take: their fits, trees and workspaces."""
    cells = (2 * (setup.table.max_depth + 5) + 2) * setup.most_cells * 8 + most_known(setup) * 8
    nodes = setup.n_sums * setup.n_summed * most_nodes(setup) * 20
    rows = setup.n_rows * (16 * setup.n_sums + 4 * 8 + 2 * 4)
    return n_chains * (rows + nodes + cells)


def bytes_of_draw(setup: Setup) -> int:
    """Bytes of one recorded draw, of trees as large as they seldom are."""
    return setup.n_sums * setup.n_summed * min(most_nodes(setup), 31) * 20


def likely_sum(per_column: Int64s, share: float) -> int:
    """What chosen columns add up to at most, but for one choice in many millions."""
    if share >= 1:
        return int(per_column.sum())
    mean = share * per_column.sum()
    spread = math.sqrt(share * (1 - share) * float((per_column.astype(float) ** 2).sum()))
    most = mean + 8 * spread + 8 * per_column.max(initial=1)
    return int(min(per_column.sum(), math.ceil(most)))
