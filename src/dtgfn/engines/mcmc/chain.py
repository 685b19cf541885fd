"""One chain from its start to its end: steps in chunks, and a record of the trees it passed.

How long a chain will be may not be known before. So every tree is recorded until the record is
full; then every other entry is dropped and only every second tree recorded from there on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from dtgfn._support import clock
from dtgfn._support.arrays import Floats, Int32s, Int64s
from dtgfn._support.compiled import njit
from dtgfn._support.parallel import ChunkSize, Flag
from dtgfn._support.splitmix import draw_below
from dtgfn.engines.mcmc.moves import MOVES, make_move
from dtgfn.engines.mcmc.tree_state import SPLIT, Chain, enlarge, make_chain, sum_values, write_tree
from dtgfn.trees.node_terms import NodeTable, most_nodes

STEP, INTERVAL, RECORDED = 0, 1, 2  # indices in Record.at
REFRESH = 4096  # steps after which log R is summed afresh
START_SPLITS = 16  # a start has fewer splits than this, and they always find room
MARGIN = 1e-9  # by which a tree must be better, lest rounding makes every visit a new best


class Record(NamedTuple):
    """Up to M trees of a chain, one every ``at[INTERVAL]`` steps, with room for K nodes each."""

    feature: Int32s  # [M, K] level by level, -1 at leaves
    cut: Int32s  # [M, K]
    n_splits: Int32s  # [M]
    log_reward: Floats  # [M]
    best_log_reward: Floats  # [M] best until then
    best_feature: Int32s  # [K]
    best_cut: Int32s  # [K]
    best: Floats  # [1]
    at: Int64s  # [3] steps done, interval, trees recorded
    tally: Int64s  # [4, 2] proposals and acceptances per move


def make_record(length: int, width: int) -> Record:
    """Return an empty record."""
    return Record(
        feature=np.empty((length, width), dtype=np.int32),
        cut=np.empty((length, width), dtype=np.int32),
        n_splits=np.empty(length, dtype=np.int32),
        log_reward=np.empty(length),
        best_log_reward=np.empty(length),
        best_feature=np.full(width, -1, dtype=np.int32),
        best_cut=np.zeros(width, dtype=np.int32),
        best=np.full(1, -np.inf),
        at=np.array([0, 1, 0]),
        tally=np.zeros((len(MOVES), 2), dtype=np.int64),
    )


def resize(record: Record, length: int, width: int) -> Record:
    """Return the same record with room for more, or more trees, or both."""
    larger = make_record(length, width)
    used, old = record.at[RECORDED], record.feature.shape[1]
    larger.feature[:used] = -1
    larger.feature[:used, :old], larger.cut[:used, :old] = record.feature[:used], record.cut[:used]
    for name in ("n_splits", "log_reward", "best_log_reward"):
        getattr(larger, name)[:used] = getattr(record, name)[:used]
    larger.best_feature[:old], larger.best_cut[:old] = record.best_feature, record.best_cut
    return larger._replace(best=record.best, at=record.at, tally=record.tally)


def thin(record: Record) -> None:
    """Drop every other tree, in place."""
    half = record.at[RECORDED] // 2
    for name in ("feature", "cut", "n_splits", "log_reward", "best_log_reward"):
        entries = getattr(record, name)
        entries[:half] = entries[1 : 2 * half : 2].copy()
    record.at[RECORDED] = half
    record.at[INTERVAL] *= 2


@njit(cache=True, nogil=True)
def run_steps(
    chain: Chain, table: NodeTable, record: Record, until: int, most: int, halted: Flag
) -> None:
    """Make steps up to number ``until``, fewer if nodes or record are full or ``halted`` is set.

    ``most`` is the number of nodes that no tree exceeds.
    """
    at = record.at
    if at[STEP] == 0:
        # Growths whatever they cost, so that chains start far apart.
        for _ in range(draw_below(chain.random, START_SPLITS)):
            if not halted[0]:
                make_move(chain, table, True)
    while at[STEP] < until and not halted[0]:
        if chain.n_free[0] == 0 and chain.nodes.shape[0] < most:
            return
        if at[RECORDED] == record.n_splits.shape[0]:
            return
        kind, accepted = make_move(chain, table, False)
        record.tally[kind, 0] += 1
        record.tally[kind, 1] += accepted
        at[STEP] += 1
        if at[STEP] % REFRESH == 0:
            chain.log_reward[0] = sum_values(chain)
        if chain.log_reward[0] > record.best[0] + MARGIN:
            record.best[0] = chain.log_reward[0]
            write_tree(chain, record.best_feature, record.best_cut)
        if at[STEP] % at[INTERVAL] == 0:
            k = at[RECORDED]
            write_tree(chain, record.feature[k], record.cut[k])
            record.n_splits[k] = chain.size[SPLIT]
            record.log_reward[k] = chain.log_reward[0]
            record.best_log_reward[k] = record.best[0]
            at[RECORDED] += 1


@dataclass
class Walk:
    """A chain with its record.

    ``length`` is the largest (even) number of trees that the record may hold.
    """

    table: NodeTable
    chain: Chain
    record: Record
    length: int
    chunk: ChunkSize = field(default_factory=ChunkSize)

    @property
    def steps(self) -> int:
        """Steps done."""
        return int(self.record.at[STEP])

    @property
    def has_answer(self) -> bool:
        """Whether a step was made."""
        return self.steps > 0

    def chunks(self, n_steps: int | None, halted: Flag) -> Iterator[bool]:
        """Run to ``n_steps`` (for ever if None), yielding now and then."""
        most = most_nodes(self.table)
        while n_steps is None or self.steps < n_steps:
            first, begun = self.steps, clock.monotonic()
            until = first + self.chunk.size
            until = until if n_steps is None else min(until, n_steps)
            self.make_room()
            run_steps(self.chain, self.table, self.record, until, most, halted)
            self.chunk.adapt(self.steps - first, clock.monotonic() - begun)
            yield True

    def make_room(self) -> None:
        """Enlarge what is full: the chain's nodes, the record, or both."""
        length, width = self.record.feature.shape
        if self.chain.n_free[0] == 0 and width < most_nodes(self.table):
            self.chain = enlarge(self.chain, self.table)
            self.record = resize(self.record, length, len(self.chain.nodes))
        if self.record.at[RECORDED] == length:
            if length < self.length:
                length = min(2 * length, self.length)
                self.record = resize(self.record, length, self.record.feature.shape[1])
            else:
                thin(self.record)

    def second_half(self, n_draws: int | None = None) -> Int64s:
        """Return indices in the record after burn-in: all, or ``n_draws`` evenly spread."""
        recorded, interval = int(self.record.at[RECORDED]), int(self.record.at[INTERVAL])
        # Entry k was recorded after step (k + 1) * interval.
        first = min(self.steps // (2 * interval), recorded - 1)
        if n_draws is None:
            return np.arange(first, recorded)
        share = (np.arange(n_draws) + 0.5) / n_draws
        return np.asarray(first + np.floor(share * (recorded - first)), dtype=np.int64)


def start_walk(table: NodeTable, seed: np.uint64, length: int) -> Walk:
    """Return a chain before its first step."""
    chain = make_chain(table, seed)
    return Walk(table, chain, make_record(min(length, 1024), len(chain.nodes)), length)
