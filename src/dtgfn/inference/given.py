"""The posterior given a part of the tree: a column that comes first, or another that never does.

R factorises over subtrees. So given the splits at the top, what follows below each open end is a
posterior of its own, on the rows that come there and with the levels that are left; any engine
infers it, and a tree is the top with a draw at each end::

    Z(given) = prod over splits e^-penalty  x  prod over open ends Z(rows, levels left)

Where a column is demanded and its cut left open, this is summed over the column's cuts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import logsumexp

from dtgfn._support import clock
from dtgfn._support.arrays import Bools, Floats, Int32s
from dtgfn._support.budgets import remaining_budget
from dtgfn._support.compiled import njit
from dtgfn.data.binning import Binner
from dtgfn.data.demands import Demands, Place, place_name, read_demands
from dtgfn.engines.contract import Run
from dtgfn.engines.exact.engine import infer_exact
from dtgfn.inference.kept_demands import kept_demands
from dtgfn.inference.method import Method
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.posterior.weighted_trees import sampled_posterior
from dtgfn.trees.batch import TreeBatch, empty_batch, stack_trees
from dtgfn.trees.score import PenaltyPrior, Rows, Score, log_reward

FEWEST_KEPT = 20  # trees
MOST_CUTS = 12  # of a column, that an engine which samples is asked about
NEGLIGIBLE = 15.0  # nats below the best cut, at one level further down


@dataclass(frozen=True)
class Part:
    """Draws [n] of subtrees on some rows, equally weighted, with what they add up to.

    ``log_z`` and its error are of the tempered target, as is ``best_log_mass``, of the best tree
    and those equivalent to it; ``log_reward`` is not.
    """

    trees: TreeBatch
    log_reward: Floats
    log_z: float
    variance: float
    best: TreeBatch
    best_log_reward: float
    best_log_mass: float


@dataclass
class Conditioning:
    """What the recursion over places carries along."""

    method: Method
    score: Score
    run: Run
    demands: Demands
    rng: np.random.Generator
    n_left: int  # open ends that nobody has asked about yet, as far as is known
    started: float

    def infer(self, rows: Rows, levels: int) -> TreePosterior:
        """Ask the engine about one open end, in its share of the time that is left."""
        left = remaining_budget(self.run.time_budget, clock.monotonic() - self.started)
        share = None if left is None else left / max(self.n_left, 1)
        self.n_left -= 1
        seed = int(self.rng.integers(2**31))
        run = replace(self.run, random_state=seed, time_budget=share, judged=False)
        return self.method.infer(rows, replace(self.score, max_depth=levels), run)


def infer_given(
    method: Method,
    rows: Rows,
    score: Score,
    run: Run,
    binner: Binner,
    given: str | Mapping[str, Any],
) -> TreePosterior:
    """Infer the posterior over the trees that keep all demands.

    Parameters
    ----------
    method : Method
        The engine, alone.
    rows : Rows
        Coded training rows.
    score : Score
        Prior and leaf model; the same as without demands, so evidences can be compared.
    run : Run
        What every engine is told.
    binner : Binner
        The user's columns.
    given : str or dict
        What trees must be like, see ``data.demands``.

    Returns
    -------
    TreePosterior
        ``diagnostics["given"]`` has the demands in words.

    """
    demands = read_demands(given, binner)
    if not isinstance(score.prior, PenaltyPrior):
        raise ValueError(
            "given goes with a penalty per split; leave out a split_penalty, such as 'bcart', "
            "whose cost of a split depends on where it stands."
        )
    deepest = max((len(place) + bool(d.features) for place, d in demands.at.items()), default=0)
    if deepest > score.max_depth:
        raise ValueError(
            f"given demands splits on {deepest} levels, but max_depth={score.max_depth}; give "
            f"max_depth={deepest} or more."
        )
    seen = without_columns(rows, run.column, demands.never)
    state = Conditioning(
        method,
        score,
        run,
        demands,
        np.random.default_rng(run.random_state),
        count_ends(demands),
        clock.monotonic(),
    )
    part = keep_demands(infer_place(state, seen, ()), state, rows, binner)
    tempered = part.log_reward / score.temperature
    found = sampled_posterior(
        part.trees,
        log_reward=part.log_reward,
        log_prob=tempered - part.log_z,
        log_weight=np.zeros(len(part.trees)),
        log_evidence=part.log_z,
        log_evidence_error=math.sqrt(part.variance),
        rows=rows,
        score=score,
        column=run.column,
        n_columns=run.n_columns,
        engine=method.engine.name,
        also_known=part.best,
        diagnostics={"given": demands.words, "seconds": clock.monotonic() - state.started},
    )
    if method.engine.name != "exact" or demands.below or demands.monotone:
        return found  # the share of its draws is all that is known of a tree
    return replace(found, best_tree=part.best, best_log_reward=part.best_log_reward)


def keep_demands(part: Part, state: Conditioning, rows: Rows, binner: Binner) -> Part:
    """Keep of the draws those that keep demands on paths and predictions."""
    demands = state.demands
    if not (demands.below or demands.monotone):
        return part
    # The cut behind the thresholds tells what is missing.
    n_thresholds = np.array([len(feature.thresholds) for feature in binner.features], np.int64)
    given = state.run.column, rows, state.score, n_thresholds
    kept = np.flatnonzero(kept_demands(part.trees, demands, *given))
    n_trees = len(part.trees)
    if kept.size < min(FEWEST_KEPT, n_trees):
        raise ValueError(
            f"given is kept by {kept.size} of {n_trees} drawn trees only, too few to tell more; "
            f"give n_trees={n_trees * FEWEST_KEPT} or more, or demand less."
        )
    share = kept.size / n_trees
    likely = (kept.size + 1) / (n_trees + 2)  # where all are kept, the next one might not be
    best = kept[np.argmax(part.log_reward[kept])]
    chosen = state.rng.choice(kept, n_trees)
    less = replace(
        part,
        trees=part.trees[chosen],
        log_reward=part.log_reward[chosen],
        log_z=part.log_z + math.log(share),
        variance=part.variance + (1 - likely) / kept.size,
    )
    if kept_demands(part.best, demands, *given)[0]:
        return less
    value = float(part.log_reward[best])
    mass = value / state.score.temperature
    return replace(less, best=part.trees[[best]], best_log_reward=value, best_log_mass=mass)


def without_columns(rows: Rows, column: Int32s, never: tuple[int, ...]) -> Rows:
    """Rows in which some columns are constant: no split can use them."""
    if not never:
        return rows
    codes = rows.codes.copy()
    codes[:, np.isin(column, never)] = 0
    return Rows(codes, rows.target, rows.weight)


def count_ends(demands: Demands) -> int:
    """Open ends below the demanded splits."""
    splits = [place for place, demand in demands.at.items() if demand.features]
    return max(len(splits) + 1 - sum(not d.features for d in demands.at.values()), 1)


def infer_place(state: Conditioning, rows: Rows, place: Place) -> Part:
    """Draw subtrees at a place, as it is demanded or free."""
    levels, demand = state.score.max_depth - len(place), state.demands.at.get(place)
    if levels == 0 or (demand is not None and not demand.features):
        leaf = empty_batch(1, 1)
        value = float(log_reward(leaf, rows, replace(state.score, max_depth=levels))[0])
        several = stack_trees([leaf] * state.run.n_trees)
        rewards = np.full(state.run.n_trees, value)
        log_z = value / state.score.temperature
        return Part(several, rewards, log_z, 0.0, leaf, value, log_z)
    if demand is None:
        return as_part(state.infer(rows, levels), state.run.n_trees, state.rng, place)
    every = list(distinct_cuts(rows, demand.features, demand.cut))
    # A single cut leads to the place that cannot be, which is told there.
    cuts = every if len(every) == 1 else possible_cuts(rows, state.demands, place)
    if not cuts:
        raise ValueError(
            f"given demands {demand.words!r} at {place_name(place)}, but it parts no training rows "
            f"there{further_down(state.demands, place)}; give another cut or place."
        )
    kept = shortlist(state, rows, cuts, levels)
    state.n_left += 2 * (len(kept) - 1)
    parts = [infer_split(state, rows, cut, place) for cut in kept]
    return mix(parts, state.run.n_trees, state.rng)


def as_part(found: TreePosterior, n_trees: int, rng: np.random.Generator, place: Place) -> Part:
    """Draw equally weighted trees from what an engine found."""
    if not math.isfinite(found.log_evidence):
        raise ValueError(
            f"given needs the evidence below {place_name(place)}, which engine={found.engine!r} "
            "does not know; give 'exact', 'gfn' or 'smc'."
        )
    chosen = rng.choice(len(found.trees), n_trees, p=found.weights)
    return Part(
        found.trees[chosen],
        found.log_reward[chosen],
        found.log_evidence,
        found.log_evidence_error**2,
        found.best_tree,
        found.best_log_reward,
        found.best_log_mass,
    )


@dataclass(frozen=True)
class Cut:
    """Cuts that part the rows alike: one row set goes left, by any of these (feature, cut)."""

    goes_left: Bools
    rules: tuple[tuple[int, int], ...]


def distinct_cuts(rows: Rows, features: tuple[int, ...], cut: int | None) -> Iterator[Cut]:
    """The cuts of some features that part the rows; equal ones together.

    A cut that is demanded stands for all of its feature that part the rows alike.
    """
    found: dict[bytes, tuple[Bools, list[tuple[int, int]]]] = {}
    for feature in features:
        codes = rows.codes[:, feature]
        lowest, highest = int(codes.min()), int(codes.max())
        for j in range(lowest, highest):
            left = codes <= j
            found.setdefault(np.packbits(left).tobytes(), (left, []))[1].append((feature, j))
    return (
        Cut(left, tuple(rules))
        for left, rules in found.values()
        if cut is None or (features[0], cut) in rules
    )


def possible_cuts(rows: Rows, demands: Demands, place: Place) -> list[Cut]:
    """Cuts that may stand at a place where a split is demanded, with all that is demanded below."""
    demand = demands.at[place]
    return [
        cut
        for cut in distinct_cuts(rows, demand.features, demand.cut)
        if all(
            can_stand(side, demands, (*place, turn))
            for turn, side in enumerate(sides_of(rows, cut))
        )
    ]


def can_stand(rows: Rows, demands: Demands, place: Place) -> bool:
    """Whether some tree on these rows keeps the demands from a place on."""
    demand = demands.at.get(place)
    if demand is None or not demand.features:
        return True
    return bool(possible_cuts(rows, demands, place))


def further_down(demands: Demands, place: Place) -> str:
    """Tell that a split may be ruled out by what is demanded below it."""
    below = any(d.features for at, d in demands.at.items() if at[:-1] == place and at)
    return " with what is demanded below" if below else ""


def shortlist(state: Conditioning, rows: Rows, cuts: list[Cut], levels: int) -> list[Cut]:
    """The cuts that an engine is asked about: all by exact sums, else those that look worth it."""
    if len(cuts) == 1 or state.method.engine.name == "exact":
        return cuts
    shallow = replace(state.score, max_depth=min(levels - 1, 1))
    run = replace(state.run, n_trees=1, time_budget=None, random_state=0)
    value = np.array(
        [
            math.log(len(cut.rules))
            + sum(infer_exact(side, shallow, run).log_evidence for side in sides_of(rows, cut))
            for cut in cuts
        ]
    )
    order = np.argsort(-value, kind="stable")[:MOST_CUTS]
    return [cuts[i] for i in order if value[i] > value[order[0]] - NEGLIGIBLE]


def sides_of(rows: Rows, cut: Cut) -> tuple[Rows, Rows]:
    """The rows that go left and right."""

    def take(chosen: Bools) -> Rows:
        return Rows(rows.codes[chosen], rows.target[chosen], rows.weight[chosen])

    return take(cut.goes_left), take(~cut.goes_left)


def infer_split(state: Conditioning, rows: Rows, cut: Cut, place: Place) -> Part:
    """Draw subtrees that begin with one row set going left, by any of its equal cuts."""
    left, right = (
        infer_place(state, side, (*place, turn)) for turn, side in enumerate(sides_of(rows, cut))
    )
    _, split_terms = state.score.prior.node_terms(state.score.max_depth)
    log_split = float(split_terms[len(place)])
    rules = np.array(cut.rules, np.int32)
    chosen = rules[state.rng.integers(len(rules), size=len(left.trees))]
    of_one = rules[rules[:, 0] == rules[0, 0]]  # splits of other features are other trees
    tempered = log_split / state.score.temperature
    # Draws of both sides are independent, so their order does not matter.
    return Part(
        trees=join_trees(chosen, left.trees, right.trees),
        log_reward=log_split + left.log_reward + right.log_reward,
        log_z=tempered + math.log(len(rules)) + left.log_z + right.log_z,
        variance=left.variance + right.variance,
        best=join_trees(of_one[(len(of_one) - 1) // 2][None], left.best, right.best),
        best_log_reward=log_split + left.best_log_reward + right.best_log_reward,
        best_log_mass=tempered + math.log(len(of_one)) + left.best_log_mass + right.best_log_mass,
    )


def mix(parts: list[Part], n_trees: int, rng: np.random.Generator) -> Part:
    """Draw from several parts in proportion to what each adds up to."""
    log_z = np.array([part.log_z for part in parts])
    total = float(logsumexp(log_z))
    share = np.exp(log_z - total)
    number = rng.multinomial(n_trees, share / share.sum())
    best = max(parts, key=lambda part: part.best_log_mass)
    some = [(part, rng.permutation(n_trees)[:n]) for part, n in zip(parts, number, strict=True)]
    return Part(
        stack_trees([part.trees[chosen] for part, chosen in some if len(chosen)]),
        np.concatenate([part.log_reward[chosen] for part, chosen in some]),
        total,
        float(np.sum(share**2 * [part.variance for part in parts])),
        best.best,
        best.best_log_reward,
        best.best_log_mass,
    )


def join_trees(rules: Int32s, left: TreeBatch, right: TreeBatch) -> TreeBatch:
    """Trees [B] with the splits ``rules`` [B, 2] at their roots and other trees below."""
    width = left.feature.shape[1] + right.feature.shape[1] + 1
    joined = empty_batch(len(left), width)
    _write_joined(rules, tuple_of(left), tuple_of(right), tuple_of(joined))
    return joined


def tuple_of(trees: TreeBatch) -> tuple[Int32s, Int32s, Int32s, Int32s]:
    """The arrays of a batch, for compiled code."""
    return trees.feature, trees.cut, trees.left, trees.n_nodes


@njit(cache=True, nogil=True)
def _write_joined(rules: Int32s, left: Any, right: Any, joined: Any) -> None:
    """Write the left subtree's root to slot 1, the right one's to 2, and the others behind."""
    feature, cut, child, n_nodes = joined
    for b in range(feature.shape[0]):
        feature[b, 0], cut[b, 0], child[b, 0] = rules[b, 0], rules[b, 1], 1
        behind = 2  # slot of the subtree's node 1, less one
        for side in range(2):
            part = left if side == 0 else right
            for node in range(part[3][b]):
                slot = 1 + side if node == 0 else behind + node
                feature[b, slot], cut[b, slot] = part[0][b, node], part[1][b, node]
                child[b, slot] = part[2][b, node] + behind if part[2][b, node] > 0 else -1
            behind += part[3][b] - 1
        n_nodes[b] = behind + 1
