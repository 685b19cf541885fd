"""Trees drawn for the user: spread evenly, in time, and worth no less than what is known.

Every tree drawn without optimism weighs at least as much as all known trees together. So if trees
drawn by the network's promises weigh less on average, these are dropped and others are drawn, the
last of them where everything is known already.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from dtgfn._support import clock
from dtgfn._support.arrays import Bools, Int64s, UInt64s
from dtgfn._support.parallel import ChunkSize
from dtgfn.engines.gfn.draws import Draws, join_draws
from dtgfn.engines.gfn.fixed.estimates import FlowEstimates
from dtgfn.engines.gfn.fixed.paths import (
    UNSEEN,
    Paths,
    Visits,
    draw_paths,
    join_paths,
    spread_evenly,
    weigh,
)
from dtgfn.engines.rowsets.draws import (
    draw_first_of_two,
    draw_last,
    draw_splits,
    split_leaves,
)
from dtgfn.engines.rowsets.partial.graph import PartialGraph
from dtgfn.trees.batch import TreeBatch, empty_batch, trim
from dtgfn.trees.score import Rows, log_reward

# New row sets that may be expanded when trees are drawn again. Without any, what is known stays as
# it is, but for links to row sets known already.
DRAWN_AGAIN = (math.inf, 0, 0)
ROWS_AT_ONCE = 10_000_000  # rows times trees that are drawn before looking at the clock again
FEWEST = 10  # trees, then
TRIMMED = 8  # levels above which trees have far more room than nodes
ROUNDING = 1e-6  # of sums of look-aheads, which are single precision


@dataclass(frozen=True)
class Findings:
    """What drawing trees found out.

    Attributes
    ----------
    gain : float
        Nats that the floor of log Z rose by.
    open_most : float
        Share of the posterior that can be unknown at most, afterwards.
    found_open : float
        Share that was open when it began, by the weights of the trees that passed there.

    """

    gain: float = 0.0
    open_most: float = 1.0
    found_open: float = 1.0


def draw_trees(
    flows: FlowEstimates,
    rows: Rows,
    n_trees: int,
    rng: np.random.Generator,
    *,
    deadline: float,
    may_drop: bool,
    most_new: float = math.inf,
) -> tuple[Draws, Findings]:
    """Draw trees until the clock passes ``deadline``, without optimism if it costs (``may_drop``).

    Parameters
    ----------
    flows : FlowEstimates
        Whose policy is drawn from; what trees pass becomes known.
    rows : Rows
        Training rows, equal ones merged.
    n_trees, rng, deadline
        How many, by which randomness, until when.
    may_drop : bool
        Whether the network's promises may be dropped.
    most_new : float
        Row sets that may be expanded at first.

    Returns
    -------
    Draws, Findings
        The trees, fewer if time is up, and what drawing them found out.

    """
    graph = flows.graph
    floor_before, flow = graph.bounds()[0], float(graph.levels[0].flow[0])
    share = max(deadline - clock.monotonic(), 0.0) / (2 + len(DRAWN_AGAIN))
    draws = draw_in_time(flows, rows, n_trees, rng, most_new, clock.monotonic() + 2 * share)
    found_open = open_share(graph, draws, flow, floor_before)
    for again in DRAWN_AGAIN:
        if not (may_drop and below_floor(graph, draws)):
            break
        flows.optimism.drop()
        most_new = again
        draws = draw_in_time(flows, rows, n_trees, rng, most_new, clock.monotonic() + share)
    n_missing = n_trees - len(draws.trees)
    if n_missing > 0 and clock.monotonic() < deadline:
        rest = draw_in_time(flows, rows, n_missing, rng, most_new, deadline)
        more = join_draws([draws, rest])
        draws = draws if may_drop and below_floor(graph, more) else more
    floor, ceiling = graph.bounds()
    open_most = -math.expm1(min(floor - ceiling, 0.0))
    return draws, Findings(floor - floor_before, open_most, found_open)


def draw_in_time(
    flows: FlowEstimates,
    rows: Rows,
    n_trees: int,
    rng: np.random.Generator,
    most_new: float,
    deadline: float,
) -> Draws:
    """Draw trees from P_F as it is now, as many as there is time for.

    Paths are drawn all at once, so that they are spread evenly, unless there are too many rows for
    that; then until half of the time is over, since the tails are drawn after all of them: many
    trees share one.
    """
    graph, score = flows.graph, flows.graph.problem.score
    n_at_once = min(max(ROWS_AT_ONCE // len(rows.target), FEWEST), n_trees)
    half, parts = deadline, list[Paths]()
    if n_at_once < n_trees and deadline < math.inf:
        half = 0.5 * (clock.monotonic() + deadline)
    while n_trees > 0 and (not parts or clock.monotonic() < half):
        size = min(n_at_once, n_trees)
        some = draw_paths(flows, size, rng, most_new=most_new, deadline=half, evenly=True)
        parts.append(some)
        n_trees -= size
    flows.forget_touched()  # what is drawn for the user is no lesson
    paths = weigh_again(graph, parts)
    trees, cut_short, is_done = complete_trees(graph, paths, rng, deadline)
    done = np.flatnonzero(is_done)
    trees = trees[done] if score.max_depth <= TRIMMED else trim(trees[done])
    reward = log_reward(trees, rows, score)
    # What is drawn below a path has the probability that it has among the path's trees.
    log_pf = paths.log_pf[done] + (reward - paths.log_reward[done]) / score.temperature
    return Draws(trees, reward, log_pf, np.zeros(done.size), cut_short[done])


def weigh_again(graph: PartialGraph, parts: list[Paths]) -> Paths:
    """Put paths together; a tail that ended one may be known by now, and counts as it is."""
    if len(parts) == 1:
        return parts[0]
    paths = join_paths(parts)
    return weigh(graph, paths.trees, paths.visits)


def open_share(graph: PartialGraph, draws: Draws, flow: float, floor: float) -> float:
    """Share of the posterior that was open when trees were drawn, two standard errors up.

    ``flow`` is that of the root, which every tree weighs that passes known row sets alone; the
    others' weights estimate what the open part holds, however wild the network's promises.
    """
    log_weight = draws.log_weight(graph.problem.score.temperature)
    passed = np.abs(log_weight - flow) > ROUNDING * max(1.0, abs(flow))
    weight = np.where(passed, np.exp(np.minimum(log_weight - floor, 100.0)), 0.0)
    most = float(weight.mean() + 2 * weight.std() / math.sqrt(weight.size))
    return most / (1.0 + most)


def below_floor(graph: PartialGraph, draws: Draws) -> bool:
    """Whether trees weigh less on average than all known ones together."""
    elbo = float(draws.log_weight(graph.problem.score.temperature).mean())
    floor, _ = graph.bounds()
    return elbo < floor - ROUNDING * max(1.0, abs(floor))


def complete_trees(
    graph: PartialGraph, paths: Paths, rng: np.random.Generator, deadline: float = math.inf
) -> tuple[TreeBatch, Bools, Bools]:
    """Draw one full tree for every path: a threshold for each cut, and the tails.

    Below a row set nobody has expanded a tree is one of those that the look-ahead sums. Returns
    also which trees [B] have such ends, and which [B] are done: some are not, chosen by chance, if
    the clock passes ``deadline``.
    """
    problem, max_depth = graph.problem, graph.problem.score.max_depth
    trees = empty_batch(len(paths), 2 * min(2**max_depth, problem.n_rows) - 1)
    cut_short = np.zeros(len(paths), np.bool_)
    ended = []
    for depth, here in enumerate(paths.visits[:-1]):
        # Splitting in the order of the visits gives the slots that the visits have.
        splits = here.cut >= 0
        cuts, chosen = graph.levels[depth].cuts, here.cut[splits]
        n_alike = cuts.high[chosen] - cuts.low[chosen]
        threshold = cuts.low[chosen] + np.floor(rng.random(chosen.size) * n_alike).astype(np.int32)
        feature = problem.feature[cuts.feature[chosen]]
        split_leaves(trees, here.tree[splits], here.slot[splits], feature, threshold)
        ended.append(leaves_at(graph, depth, here, here.cut == UNSEEN))
    tails = paths.visits[-1]
    unseen = np.isnan(graph.levels[-1].flow[tails.node])
    ended.append(leaves_at(graph, graph.n_upper, tails, unseen))
    leaves, done = leaves_at(graph, graph.n_upper, tails, ~unseen), np.ones(len(paths), np.bool_)
    for levels_left in range(graph.tail_levels, 0, -1):
        leaves, done = draw_level(graph, trees, leaves, levels_left, done, rng, deadline)
        deadline = math.inf  # what is left are few row sets of those that were paid for
    for leaves in ended:
        cut_short[leaves.tree] = True
        if graph.tail_levels == 2:  # the look-ahead has summed one more level
            draw_level(graph, trees, leaves, 1, done, rng)
    return trees, cut_short, done


@dataclass(frozen=True)
class Leaves:
    """Leaves to be drawn on: tree [V], slot [V], and which row set [V] of distinct ones.

    ``bits_of`` returns the rows [N, W] of some of the row sets.
    """

    tree: Int64s
    slot: Int64s
    row_set: Int64s
    bits_of: Callable[[Int64s], UInt64s]


def leaves_at(graph: PartialGraph, depth: int, here: Visits, mask: Bools) -> Leaves:
    """Return the leaves at some of the visits of a depth."""
    nodes, row_set = np.unique(here.node[mask], return_inverse=True)

    def bits_of(sets: Int64s) -> UInt64s:
        return graph.bits_of(depth, nodes[sets])

    return Leaves(here.tree[mask], here.slot[mask], row_set.ravel(), bits_of)


def draw_level(
    graph: PartialGraph,
    trees: TreeBatch,
    leaves: Leaves,
    levels_left: int,
    done: Bools,
    rng: np.random.Generator,
    deadline: float = math.inf,
) -> tuple[Leaves, Bools]:
    """Let leaves stop or split as trees of one or two levels do.

    Returns the new leaves, and which of the trees that were ``done`` [B] still are.
    """
    problem, row_set = graph.problem, leaves.row_set
    uniform = rng.random((row_set.size, 2))
    uniform[:, 0] = spread_evenly(row_set, uniform[:, 0], rng)
    draw = draw_first_of_two if levels_left == 2 else draw_last
    depth = problem.score.max_depth - levels_left
    n_leaves = row_set.size
    feature, threshold = np.full(n_leaves, -1, np.int32), np.zeros(n_leaves, np.int32)
    n_words = problem.n_words if levels_left == 2 else 0  # else the sides are leaves
    sides = np.zeros((n_leaves, 2, n_words), np.uint64)
    drawn = np.zeros(n_leaves, np.bool_)
    in_time = parts_in_time(leaves.tree, row_set, deadline)
    for part in (few for whole in in_time for few in graph.in_parts(whole)):
        here = np.isin(row_set, part)
        sets, member = np.unique(row_set[here], return_inverse=True)
        some = leaves.bits_of(sets)
        given = (problem, draw, depth, some, member.ravel(), uniform[here], graph.run_heavy)
        feature[here], threshold[here], sides[here] = draw_splits(*given)
        drawn |= here
    done = done.copy()
    done[leaves.tree[~drawn]] = False
    split = (feature >= 0) & done[leaves.tree]
    names = problem.feature[feature[split]]
    tree, slot = split_leaves(
        trees, leaves.tree[split], leaves.slot[split], names, threshold[split]
    )
    below = sides[split].reshape(tree.size, n_words)
    bits, row_set = np.unique(below, axis=0, return_inverse=True) if n_words else (below, slot)
    return Leaves(tree, slot, row_set.ravel(), lambda sets: bits[sets]), done


def parts_in_time(tree: Int64s, row_set: Int64s, deadline: float) -> Iterator[Int64s]:
    """Yield row sets in parts until the clock passes ``deadline``, those of a tree together.

    Trees come by chance, so that those done in time are a fair sample; one always is.
    """
    if deadline == math.inf or row_set.size == 0:
        yield np.unique(row_set)
        return
    # Not the draw's own randomness: with time enough, a deadline must change nothing.
    rank = np.random.default_rng(0).permutation(int(tree.max()) + 1)[tree]
    order = np.argsort(rank, kind="stable")
    sets, first = np.unique(row_set[order], return_index=True)
    by_chance = sets[np.argsort(first)]
    at = int(np.unique(row_set[rank == rank.min()]).size)
    yield by_chance[:at]
    chunk = ChunkSize()
    while at < by_chance.size and (begun := clock.monotonic()) < deadline:
        part = by_chance[at : at + chunk.size]
        yield part
        at += part.size
        chunk.adapt(part.size, clock.monotonic() - begun)
