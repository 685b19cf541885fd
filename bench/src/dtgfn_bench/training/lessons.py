"""Lessons: views of row sets with what deeper trees add to their look-ahead, by exact sums.

A table's graph of row sets is opened at some of its nodes until all below them is summed; every
node whose flow is exact then is a lesson. Lesson i depends on i and the seed alone, so what was
broken off goes on where it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dtgfn._support.arrays import Float32s, Floats, Int64s
from dtgfn._support.parallel import run_at_once
from dtgfn.data.tables import as_table
from dtgfn.data.thresholds import Binning
from dtgfn.engines.gfn.fixed.kept_views import view_nodes
from dtgfn.engines.rowsets.partial.graph import Limits, PartialGraph
from dtgfn.engines.rowsets.partial.levels import known_nodes
from dtgfn.engines.rowsets.problem import make_problem
from dtgfn.inference.training_data import make_training_data
from dtgfn.trees.leaf_models import DirichletLeaf, NormalLeaf
from dtgfn.trees.score import make_score, merge_rows
from dtgfn_bench.training.made_tables import Table, make_table
from dtgfn_bench.training.real_tables import draw_real_table

MOST_OF_A_LEVEL = 400  # lessons of one table with the same number of levels left
REAL = 0.35  # share of lessons on real tables
DEPTHS = (2, 3, 3, 4, 4, 5, 5, 5, 6)
MOST_WORK = 1.5e10  # pairs of cuts and cells of the table that are looked at for a lesson
MOST_NODES = 60_000
ROUNDS = 40  # walks down
GRIDS = (1, 3, 9, 9, 19, 49, 99, 99)


@dataclass(frozen=True)
class Lesson:
    """Views [M, V], nats [M] to be added, levels left [M], and how likely a tree passes [M]."""

    views: Float32s
    nats: Float32s
    levels_left: Int64s
    share: Float32s


def draw_lesson(seed: int, index: int) -> Lesson | None:
    """Draw a table, a score and lessons; None where the table has nothing to teach."""
    rng = np.random.default_rng([seed, index])
    table = draw_real_table(rng) if rng.random() < REAL else make_table(rng)
    if table is None:
        return None
    graph = draw_graph(table, rng)
    if graph.n_upper == 0:
        return None
    open_graph(graph, rng)
    return read_lesson(graph, rng)


def draw_graph(table: Table, rng: np.random.Generator) -> PartialGraph:
    """A table's graph under a random prior, depth, temperature and grid."""
    n_thresholds = int(rng.choice(GRIDS))
    leaf = (
        DirichletLeaf(1, float(rng.choice([0.05, 0.1, 0.1, 0.5, 1.0])))
        if table.is_classes
        else NormalLeaf()
    )
    y = table.y.astype(int) if table.is_classes else table.y
    binning: Binning = "uniform" if rng.random() < 0.6 else "quantile"
    data = make_training_data(
        as_table(table.X), y, leaf, binning=binning, n_thresholds=n_thresholds
    )
    numbers = "mdl", "paper", float(rng.uniform(1.0, 10.0)), "bcart"
    score = make_score(
        data.leaf,
        n_features=table.X.shape[1],
        n_thresholds=n_thresholds,
        max_depth=int(rng.choice(DEPTHS)),
        split_penalty=numbers[int(rng.choice(4, p=[0.4, 0.4, 0.15, 0.05]))],
        temperature=float(rng.choice([1.0, 1.0, 1.0, 1.0, 2.0, 4.0, 0.5])),
    )
    column = np.arange(data.rows.codes.shape[1], dtype=np.int32)
    problem = make_problem(merge_rows(data.rows), score, column, column.size)
    tails = 1 if rng.random() < 0.2 else 2
    return PartialGraph(problem, tails, run_at_once, limits=Limits(linked=False))


def open_graph(graph: PartialGraph, rng: np.random.Generator) -> None:
    """Sum all below some nodes: walk down until what is below can be afforded, then sum it."""
    most = affordable_nodes(graph)
    graph.expand(0, np.zeros(1, np.int64))
    graph.update(0, np.zeros(1, np.int64), remember=True)
    for _ in range(ROUNDS):
        depth, node = 0, 0
        while depth < graph.n_upper:
            n_cuts = graph.levels[depth].n_cuts[node]
            expected = float(2 * n_cuts) ** (graph.n_upper - depth)
            if n_cuts == 0 or expected < most / 8:
                break
            depth, node = step_down(graph, depth, node, rng)
        close(graph, depth, np.array([node]), 2 * most)
        if graph.levels[0].open[0] == 0.0 or graph.n_nodes > most:
            break


def affordable_nodes(graph: PartialGraph) -> int:
    """How many row sets of a table may be met: the same however fast the machine is."""
    problem = graph.problem
    pairs = problem.max_cuts**2 if graph.tail_levels == 2 else 20 * problem.max_cuts
    work = pairs + 5 * problem.n_rows * problem.feature.size
    return int(np.clip(MOST_WORK / max(work, 1), 50, MOST_NODES))


def step_down(
    graph: PartialGraph, depth: int, node: int, rng: np.random.Generator
) -> tuple[int, int]:
    """Go to a child, by the look-ahead, evened out; it is expanded."""
    level = graph.levels[depth]
    first, number = int(level.start[node]), int(level.n_cuts[node])
    logit = level.cuts.logit[first : first + number]
    weight = np.exp((logit - logit.max()) * rng.choice([1.0, 0.3, 0.0]))
    cut = first + int(rng.choice(number, p=weight / weight.sum()))
    children = graph.reach(depth, np.array([node]), np.array([cut]))[0]
    child = int(children[int(rng.integers(2))])
    graph.expand(depth + 1, np.array([child]))
    graph.update(depth + 1, np.array([child]), remember=True)
    return depth + 1, child


def close(graph: PartialGraph, depth: int, nodes: Int64s, most: int) -> None:
    """Sum all below nodes of a depth that are expanded, while not too many have been met."""
    if depth < graph.n_upper:
        level = graph.levels[depth]
        starts, counts = level.start[nodes], level.n_cuts[nodes].astype(np.int64)
        owner = np.repeat(nodes, counts)
        offset = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        below = np.unique(graph.reach(depth, owner, np.repeat(starts, counts) + offset))
        for first in range(0, below.size, 200):
            if graph.n_nodes > most:
                break
            some = below[first : first + 200]
            graph.expand(depth + 1, some)
            graph.update(depth + 1, some, remember=True)
            close(graph, depth + 1, some, most)
    for above in range(depth, -1, -1):
        level = graph.levels[above]
        graph.update(above, nodes if above == depth else known_nodes(level), remember=True)


def read_lesson(graph: PartialGraph, rng: np.random.Generator) -> Lesson | None:
    """Read off what is exact: at each depth half by how likely a tree passes, half alike."""
    parts = []
    for depth in range(1, graph.n_upper + 1):
        level, above = graph.levels[depth], graph.levels[depth - 1]
        known = known_nodes(level)
        known = known[level.open[known] == 0.0]
        if known.size == 0:
            continue
        cut, parent = level.origin[known] >> 1, level.parent[known]
        log_share = above.cuts.logit[cut] - above.flow[parent]
        chosen = choose(log_share, rng)
        some = known[chosen]
        nats = np.maximum(level.flow[some] - level.lookahead[some], 0.0)
        left = np.full(some.size, graph.problem.score.max_depth - depth)
        share = np.exp(np.minimum(log_share[chosen], 0.0)).astype(np.float32)
        parts.append((view_nodes(graph, depth, some), nats.astype(np.float32), left, share))
    if not parts:
        return None
    return Lesson(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def choose(log_share: Floats, rng: np.random.Generator) -> Int64s:
    """Choose nodes: half by their share in their parent, evened out, half alike."""
    if log_share.size <= MOST_OF_A_LEVEL:
        return np.arange(log_share.size)
    noise = rng.gumbel(size=log_share.size)
    likely = np.argsort(-(0.5 * log_share + noise))[: MOST_OF_A_LEVEL // 2]
    return np.union1d(likely, rng.choice(log_share.size, MOST_OF_A_LEVEL // 2, replace=False))


def write_lessons(folder: Path, seed: int, first: int, last: int, step: int) -> Iterator[int]:
    """Write lessons first, first + step, ... below last that are not there; yields each number."""
    for index in range(first, last, step):
        path = folder / f"{index:06d}.npz"
        if not path.exists():
            lesson = draw_lesson(seed, index)
            arrays = {} if lesson is None else vars(lesson)
            part = path.with_suffix(".part")
            with part.open("wb") as file:
                np.savez(file, **arrays)
            part.rename(path)
        yield index
