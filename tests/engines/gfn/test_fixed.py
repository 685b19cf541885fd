"""The fixed-order GFlowNet against the enumeration of all trees and plain recursions."""

from __future__ import annotations

import math
from functools import cache
from itertools import product

import numpy as np
import pytest
import torch
from enumeration import LEAF, Case, Enumeration, depth, from_batch, n_splits, to_batch
from hypothesis import given
from hypothesis import strategies as st
from keyword_engines import infer_exact
from masses import log_mass
from scipy.special import logsumexp
from thoroughness import diagonal, examples

from dtgfn._support.parallel import run_at_once
from dtgfn.engines.gfn.fixed import estimates, residuals
from dtgfn.engines.gfn.fixed.estimates import fill_residuals, promising_cuts
from dtgfn.engines.gfn.fixed.fixed_sampler import REPLAYED_NODES, FixedSampler
from dtgfn.engines.gfn.fixed.paths import UNSEEN, choose_cuts, follow_trees
from dtgfn.engines.gfn.objectives import OBJECTIVES, SHAPES, Residuals
from dtgfn.engines.gfn.settings import Checkpoint, make_settings
from dtgfn.engines.gfn.state import start_state
from dtgfn.engines.gfn.trainer import step, train
from dtgfn.engines.rowsets.partial.graph import WIDEST_PAIRED, PartialGraph
from dtgfn.engines.rowsets.partial.levels import known_nodes
from dtgfn.engines.rowsets.partial.scouts import send_scouts
from dtgfn.engines.rowsets.problem import make_problem
from dtgfn.trees.batch import TreeBatch, canonical_keys, check_trees, empty_batch
from dtgfn.trees.leaf_models import DirichletLeaf
from dtgfn.trees.score import Rows, log_reward, make_score, merge_rows

TWO_COLUMNS = np.array([[0, 1], [1, 0], [3, 2], [3, 0], [1, 2]])
ONE_COLUMN = np.array([[0], [1], [1], [3], [4]])
LABELS = np.array([0, 1, 1, 0, 2])
MOST_EQUAL = 9  # thresholds of a column in these cases
WEIGHT = np.array([1.5, 0.3, 2.0, 1.0, 0.7])
# Name: the case and how many of its last levels are summed.
CASES = {
    "two tails": (Case(TWO_COLUMNS, LABELS, 3, max_depth=3, split_penalty=1.0), 2),
    "two tails, deeper": (Case(ONE_COLUMN, LABELS, 3, max_depth=4, split_penalty=0.0), 2),
    "a weight per class": (
        Case(TWO_COLUMNS, LABELS, 3, np.array([0.7, 1.3, 0.4])[LABELS], 3, temperature=2.0),
        2,
    ),
    "one tail asked for": (Case(ONE_COLUMN, LABELS, 3, max_depth=3, split_penalty=0.5), 1),
    "fractional weights": (Case(ONE_COLUMN, LABELS, 3, WEIGHT, 3, split_penalty="paper"), 1),
    "branching prior": (
        Case(TWO_COLUMNS, LABELS, 3, max_depth=3, split_penalty="bcart", temperature=2.0),
        1,
    ),
    "branching prior, deeper": (
        Case(ONE_COLUMN, LABELS, 3, WEIGHT, 4, split_penalty=("bcart", 0.7, 0.3)),
        1,
    ),
}


@pytest.fixture(autouse=True)
def one_thread():
    """Networks this small only wait for a second thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@cache
def truth(name: str) -> Enumeration:
    return Enumeration(CASES[name][0])


def make(case: Case, **options) -> FixedSampler:
    rows = merge_rows(case.rows)
    problem = make_problem(rows, case.score, case.columns, case.n_columns)
    return FixedSampler(problem, rows, **({"hidden": (16,), "seed": 3} | options))


def make_named(name: str, **options) -> FixedSampler:
    case, tails = CASES[name]
    sampler = make(case, **({"exact_tails": tails} | options))
    assert sampler.graph.tail_levels == tails
    assert sampler.graph.n_upper > 0
    return sampler


def hard_case(seed: int = 0, **changes) -> Case:
    """Return a table whose graph a few steps do not exhaust."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 6, size=(40, 3))
    labels = (codes[:, 0] > 2) ^ (codes[:, 1] > 2) ^ (rng.random(40) < 0.1)
    return Case(codes, labels.astype(int), 2, max_depth=4, split_penalty=1.0).but(**changes)


def steps(sampler: FixedSampler, n_steps: int, case: Case, **changes) -> None:
    """Do some training steps, however little is left to learn."""
    objective = {} if sampler.remember else {"objective": "tb"}
    few = {"n_forward": 4, "n_replay": 2, "learning_rate": 0.05, **objective}
    state = start_state(sampler, case.score, make_settings(**(few | changes)), 0)
    state.epsilon = 0.1
    for _ in range(n_steps):
        step(state)


def shake(sampler: FixedSampler, size: float = 0.5) -> None:
    """Give the network an opinion, and let all flows know it."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in sampler.network.parameters():
            parameter += size * torch.randn(parameter.shape, generator=generator)
    sampler.flows.step += 1
    sampler.finish()


# P_F is a probability distribution, and what is drawn follows it.


@pytest.mark.parametrize(
    ("name", "remember", "n_steps"), diagonal(CASES, [True, False], [0, 3, 30])
)
def test_the_policy_sums_to_one_over_all_trees(name, remember, n_steps, monkeypatch):
    monkeypatch.setattr(estimates, "WARM_UP", 2)
    monkeypatch.setattr(estimates, "REFRESH", 1)
    sampler = make_named(name, remember=remember, n_scouts=1)
    steps(sampler, n_steps, CASES[name][0])
    trees = to_batch(truth(name).trees)
    log_prob = sampler.log_prob(trees)
    assert math.isclose(np.exp(log_prob).sum(), 1.0, rel_tol=1e-9)
    np.testing.assert_array_equal(sampler.log_prob(trees), log_prob)  # asking changes nothing
    draws = sampler.draw(200, np.random.default_rng(1))
    np.testing.assert_allclose(draws.log_pf, sampler.log_prob(draws.trees), atol=1e-9)
    np.testing.assert_allclose(
        draws.log_reward, [truth(name).log_reward(from_batch(draws.trees, b)) for b in range(200)]
    )


@pytest.mark.parametrize("remember", [True, False])
@pytest.mark.parametrize("name", ["two tails", "branching prior", "two tails, deeper"])
def test_draws_are_as_frequent_as_their_probability(name, remember):
    sampler, n_draws = make_named(name, remember=remember), 20_000
    shake(sampler)
    draws = sampler.draw(n_draws, np.random.default_rng(2))
    known = dict.fromkeys(truth(name).trees, 0)
    for b in range(n_draws):
        known[from_batch(draws.trees, b)] += 1
    count = np.array(list(known.values()))
    p = np.exp(sampler.log_prob(to_batch(truth(name).trees)))
    assert math.isclose(p.sum(), 1.0, rel_tol=1e-9)
    assert (np.abs(count - n_draws * p) < 5.5 * np.sqrt(n_draws * p * (1 - p)) + 3).all()
    often = n_draws * p > 5
    statistic = ((count - n_draws * p) ** 2 / (n_draws * p))[often].sum()
    assert statistic < often.sum() + 6 * math.sqrt(2 * often.sum())
    check_trees(draws.trees, np.full(CASES[name][0].codes.shape[1], 5))


def test_uniform_actions_are_uniform_over_stop_and_cuts():
    sampler = make_named("two tails", remember=False)
    root = sampler.graph.levels[0]
    cut = sampler.rollout(8000, 1.0, np.random.default_rng(0)).visits[0].cut
    share = np.bincount(cut + 1, minlength=root.n_cuts[0] + 1) / 8000
    p = 1 / (root.n_cuts[0] + 1)
    assert (np.abs(share - p) < 5 * math.sqrt(p * (1 - p) / 8000)).all()


def test_a_choice_follows_its_flows_for_every_node_of_a_batch():
    sampler = make(hard_case(), remember=False)
    sampler.rollout(50, 0.5, np.random.default_rng(0))
    level = sampler.graph.levels[1]
    known = np.flatnonzero(~np.isnan(level.flow[: len(level)]))[:4]
    nodes = np.tile(known, 5000)
    given = (level.start, level.n_cuts, level.cuts, level.stop, level.rest, level.flow)
    uniform = np.random.default_rng(1).random((nodes.size, 2))
    chosen = choose_cuts(nodes, np.argsort(nodes, kind="stable"), *given, 0.0, uniform)
    for node in known:
        mine = chosen[nodes == node]
        first, number = level.start[node], level.n_cuts[node]
        p = np.exp([level.stop[node], *level.cuts.logit[first : first + number]])
        p /= p.sum()
        assert math.isclose(math.log(p.sum()), 0.0, abs_tol=1e-9)
        count = np.bincount(np.where(mine < 0, 0, mine - first + 1), minlength=number + 1)
        assert (np.abs(count - mine.size * p) < 5 * np.sqrt(mine.size * p) + 3).all()


# What is known of a row set.


class Twin:
    """A row set of the graph by brute force."""

    def __init__(self, sampler: FixedSampler, case: Case) -> None:
        self.every, self.case, self.graph = Enumeration(case), case, sampler.graph
        distinct, member = np.unique(case.codes, axis=0, return_inverse=True)
        self.members = [np.flatnonzero(member.ravel() == i) for i in range(len(distinct))]
        self._z: dict = {}

    def rows(self, level: int, node: int) -> tuple[int, ...]:
        bits = self.graph.levels[level].sets.bits[node]
        inside = np.unpackbits(bits.view(np.uint8), bitorder="little")[: len(self.members)]
        chosen = [self.members[i] for i in np.flatnonzero(inside)]
        return tuple(sorted(int(i) for part in chosen for i in part))

    def stop(self, rows: tuple[int, ...], at: int) -> float:
        value = self.every.log_marginal(rows) + self.every.log_stop(rows, at)
        return value / self.case.temperature

    def values(self, rows: tuple[int, ...], at: int, levels: int) -> tuple[float, float]:
        """Log Z and the best log weight, equal cuts together, with so many levels left."""
        if (rows, at, levels) not in self._z:
            z, best = [self.stop(rows, at)], self.stop(rows, at)
            together: dict[tuple, int] = {}
            for feature, cut in self.every.valid_splits(rows) if levels else ():
                sides = self.every.sides(rows, feature, cut)
                prior = self.every.log_split(rows, feature, at) / self.case.temperature
                below = [self.values(side, at + 1, levels - 1) for side in sides]
                z.append(prior + below[0][0] + below[1][0])
                alike = together[feature, sides] = together.get((feature, sides), 0) + 1
                best = max(best, math.log(alike) + prior + below[0][1] + below[1][1])
            self._z[rows, at, levels] = float(logsumexp(z)), best
        return self._z[rows, at, levels]

    def cuts(self, rows: tuple[int, ...], at: int) -> dict:
        """(feature, low): high, prior of all its thresholds, and the sides' rows."""
        found: dict = {}
        for feature, cut in self.every.valid_splits(rows):
            sides = self.every.sides(rows, feature, cut)
            same = [key for key, value in found.items() if key[0] == feature and value[2] == sides]
            key = same[0] if same else (feature, cut)
            low = key[1]
            prior = self.every.log_split(rows, feature, at) / self.case.temperature
            found[key] = (cut + 1, prior + math.log(cut + 1 - low), sides)
        return found

    def look(self, rows: tuple[int, ...], at: int) -> tuple[float, float]:
        """What a parent sees of a child: one level with two tails, else a stop that is paid for."""
        if self.graph.tail_levels == 2:
            return self.values(rows, at, 1)
        leaf = self.every.log_marginal(rows)
        if self.case.score.uniform_rules:
            leaf += math.log(1 - self.every.split_probability(at))
        return leaf / self.case.temperature, leaf / self.case.temperature

    def check_cuts(self, at: int, node: int) -> None:
        level, rows = self.graph.levels[at], self.rows(at, node)
        listed = range(level.start[node], level.start[node] + level.n_cuts[node])
        expected, cuts = self.cuts(rows, at), level.cuts
        name = self.graph.problem.feature
        assert [(int(name[cuts.feature[e]]), int(cuts.low[e])) for e in listed] == list(expected)
        for e, (high, prior, sides) in zip(listed, expected.values(), strict=True):
            assert cuts.high[e] == high
            assert cuts.prior[e] == pytest.approx(prior, abs=1e-9)
            for side, part in enumerate(sides):
                z, best = self.look(part, at + 1)
                assert cuts.lookahead[e, side] == pytest.approx(z, rel=1e-5, abs=1e-5)
                self.check_best(cuts.best[e, side], best)
                if self.graph.tail_levels == 2:
                    seen = self.one_level_best(rows, part, at)
                    assert cuts.best[e, side] == pytest.approx(seen, rel=1e-5, abs=1e-5)
                np.testing.assert_allclose(
                    cuts.sums[e, side], self.every.class_counts(part), rtol=1e-5, atol=1e-5
                )
                if cuts.child[e, side] >= 0:
                    assert self.rows(at + 1, cuts.child[e, side]) == part
        np.testing.assert_allclose(level.sums[node], self.every.class_counts(rows), atol=1e-9)
        assert level.stop[node] == pytest.approx(self.stop(rows, at), abs=1e-9)

    def tail_best(self, rows: tuple[int, ...], at: int) -> float:
        """Best log weight of two tails, second cuts counted as on all of these rows."""
        best = self.stop(rows, at)
        for _, prior, sides in self.cuts(rows, at).values():
            best = max(best, prior + sum(self.one_level_best(rows, side, at) for side in sides))
        return best

    def one_level_best(self, rows: tuple[int, ...], side: tuple[int, ...], at: int) -> float:
        """Best log weight of one side with one level left, as two tails on all rows see it."""
        best = self.stop(side, at + 1)
        for feature, cut in self.cuts(rows, at):
            high, _, _ = self.cuts(rows, at)[feature, cut]
            parts = self.every.sides(side, feature, cut)
            if all(parts):
                prior = self.every.log_split(side, feature, at + 1) / self.case.temperature
                leaves = sum(self.stop(part, at + 2) for part in parts)
                best = max(best, math.log(high - cut) + prior + leaves)
        return best

    def check_best(self, found: float, best: float) -> None:
        """What is known of the best tree; two tails see fewer equal cuts than there are.

        They count second cuts as on the rows above the first, where fewer part the rows alike.
        """
        if self.graph.tail_levels == 2:
            assert best - 2 * math.log(MOST_EQUAL) <= found <= best + 1e-5 * (1 + abs(best))
        else:
            assert found == pytest.approx(best, rel=1e-5, abs=1e-5)

    def check_all_cuts(self) -> None:
        for at, level in enumerate(self.graph.levels[:-1]):
            for node in np.flatnonzero(~np.isnan(level.flow[: len(level)])):
                self.check_cuts(at, int(node))

    def check_all_flows(self) -> None:
        """All flows are those of the exact recursion."""
        for at, level in enumerate(self.graph.levels):
            for node in range(len(level)):
                left = self.case.max_depth - at
                z, best = self.values(self.rows(at, node), at, left)
                assert level.flow[node] == pytest.approx(z, abs=1e-9)
                self.check_best(level.best[node], best)
                if at == self.graph.n_upper and self.graph.tail_levels == 2 and left == 2:
                    seen = self.tail_best(self.rows(at, node), at)
                    assert level.best[node] == pytest.approx(seen, rel=1e-9, abs=1e-9)
                assert level.open[node] == 0


PRIORS = (0.0, 1.3, "mdl", "paper", "bcart", ("bcart", 0.4, 2.0))


@st.composite
def tables(draw) -> Case:
    """Small tables with equal rows, constant columns, gaps between codes and odd weights."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_rows, n_features = draw(st.integers(1, 9)), draw(st.integers(1, 3))
    n_classes = draw(st.sampled_from([1, 2, 3, 25]))
    codes = rng.choice(draw(st.sampled_from([(0, 1), (0, 3, 7), (1, 2, 4)])), (n_rows, n_features))
    if draw(st.booleans()):
        codes[:, rng.integers(n_features)] = 4
    if draw(st.booleans()):
        codes[rng.integers(n_rows, size=n_rows // 2)] = codes[0]
    labels = rng.integers(n_classes, size=n_rows)
    weight = {
        "ones": np.ones(n_rows),
        "whole": rng.integers(1, 4, n_rows).astype(float),
        "fractional": rng.uniform(0.1, 3.0, n_rows),
        "large": rng.uniform(100.0, 3000.0, n_rows),
        "per class": rng.uniform(0.1, 3.0, n_classes)[labels],
    }[draw(st.sampled_from(["ones", "whole", "fractional", "large", "per class"]))]
    return Case(
        codes,
        labels,
        n_classes,
        weight,
        max_depth=draw(st.integers(0, 5)),
        leaf_concentration=draw(st.sampled_from([0.1, 2.0])),
        split_penalty=draw(st.sampled_from(PRIORS)),
        temperature=draw(st.sampled_from([1.0, 2.0])),
    )


@examples(60)
@given(case=tables(), exact_tails=st.sampled_from([1, 2]), n_scouts=st.sampled_from([1, 3, 40]))
def test_a_table_is_looked_at_until_everything_is_exact(case, exact_tails, n_scouts):
    sampler = make(case, exact_tails=exact_tails, n_scouts=n_scouts)
    twin, rng, root = Twin(sampler, case), np.random.default_rng(0), sampler.graph.levels[0]
    untouched = sampler.graph.n_upper > 0 and root.n_cuts[0] > 0
    splits = 1.0 - math.exp(root.stop[0] - root.flow[0]) if untouched else 0.0
    assert root.open[0] == pytest.approx(splits, abs=1e-12)
    twin.check_all_cuts()
    for _ in range(3000):
        if sampler.exact:
            break
        frontier, _ = send_scouts(sampler.graph, n_scouts, np.random.default_rng(1))
        check_frontier(sampler, frontier)
        sampler.learn([sampler.rollout(2, 0.1, rng)])
        assert 0 <= root.open[0] <= 1
    assert sampler.exact
    assert sampler.finished
    twin.check_all_cuts()
    twin.check_all_flows()
    assert sampler.log_z.item() == pytest.approx(root.flow[0], rel=1e-6)
    best = log_mass(sampler.best_known(), case.rows, case.score)
    assert best >= sampler.best_log_mass - 1e-9 * (1 + abs(best))
    answer = infer_exact(
        case.rows,
        case.score,
        column=case.columns,
        n_columns=case.n_columns,
        n_trees=5,
        random_state=0,
    )
    if sampler.graph.tail_levels == 1:
        assert best == pytest.approx(sampler.best_log_mass, rel=1e-9, abs=1e-9)
    highest = twin.values(twin.every.everything, 0, case.max_depth)[1]
    assert answer.best_log_mass == pytest.approx(highest, rel=1e-9, abs=1e-9)
    ours, theirs = sampler.most_probable(7), answer.most_probable(7)
    masses = [log_mass(ours[b : b + 1], case.rows, case.score) for b in range(len(ours))]
    wanted = theirs.log_reward / case.temperature + np.log(theirs.n_equivalent)
    np.testing.assert_allclose(masses, wanted[: len(masses)], rtol=1e-9, atol=1e-8)
    assert len(masses) == min(len(theirs), 7)
    assert root.flow[0] == pytest.approx(answer.log_evidence, rel=1e-9, abs=1e-9)
    np.testing.assert_allclose(sampler.log_prob(answer.trees), answer.log_prob, atol=1e-7)
    draws = sampler.draw(10, rng)
    np.testing.assert_allclose(draws.log_weight(case.temperature), answer.log_evidence, atol=1e-7)


def check_frontier(sampler: FixedSampler, frontier) -> None:
    """Scouts find cuts of the nodes they say, each once, none of them known."""
    total = 0
    for at, nodes, cuts in frontier:
        level, below = sampler.graph.levels[at], sampler.graph.levels[at + 1]
        assert len(set(cuts.tolist())) == cuts.size
        total += cuts.size
        for node, cut in zip(nodes, cuts, strict=True):
            assert level.start[node] <= cut < level.start[node] + level.n_cuts[node]
            child = level.cuts.child[cut]
            assert (child < 0).any() or np.isnan(below.flow[child]).any()
    assert total <= sampler.n_scouts


@pytest.mark.parametrize("name", CASES)
def test_the_exact_policy_is_the_posterior(name):
    sampler = make_named(name)
    steps(sampler, 30, CASES[name][0])
    assert sampler.exact
    np.testing.assert_allclose(
        np.exp(sampler.log_prob(to_batch(truth(name).trees))), truth(name).probability, atol=1e-12
    )
    assert sampler.graph.levels[0].flow[0] == pytest.approx(truth(name).log_z, abs=1e-9)
    assert sampler.best_log_mass == pytest.approx(truth(name).best_log_mass, abs=1e-9)
    best = truth(name).parting(from_batch(sampler.best_known(), 0))
    assert truth(name).log_masses[best] == pytest.approx(truth(name).best_log_mass, abs=1e-9)


def test_open_mass_falls_from_one_to_zero_and_never_lies():
    case = hard_case(n_classes=2, max_depth=3)
    sampler = make(case, n_scouts=2)
    rng, seen = np.random.default_rng(0), []
    for _ in range(400):
        seen.append(float(sampler.graph.levels[0].open[0]))
        if sampler.exact:
            break
        sampler.learn([sampler.rollout(1, 0.0, rng)])
    assert seen[0] > 0.9
    assert seen[-1] == 0
    assert all(0 <= value <= 1 for value in seen)
    assert np.mean(np.diff(seen) <= 1e-9) > 0.8  # it may rise where a child is worth more
    twin = Twin(sampler, case)
    assert sampler.graph.levels[0].flow[0] == pytest.approx(
        twin.values(twin.every.everything, 0, 3)[0], abs=1e-9
    )


def test_a_child_beyond_the_range_of_a_double_is_not_taken_for_known():
    # The first cut is thousands of nats better than the others, as far as one can see.
    codes = np.array([[0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 1], [1, 0, 0], [1, 1, 1]])
    labels = np.array([0, 1, 1, 0, 1, 1])
    case = Case(codes, labels, 2, np.full(6, 5000.5), max_depth=3, split_penalty=1.0)
    sampler = make(case, n_scouts=1)
    rng, root = np.random.default_rng(0), sampler.graph.levels[0]
    while not sampler.exact:
        known = [~np.isnan(level.flow[: len(level)]) for level in sampler.graph.levels]
        children = root.cuts.child[: root.n_cuts[0]]
        if (children < 0).any() or not known[1][children].all():
            assert root.open[0] > 0
        sampler.learn([sampler.rollout(1, 0.0, rng)])
        assert sampler.flows.step < 200
    assert root.flow[0] == pytest.approx(Enumeration(case).log_z, abs=1e-6)


def test_many_cuts_are_shortlisted_and_the_rest_get_the_mean(monkeypatch):
    monkeypatch.setattr(estimates, "SHORTLIST", 4)
    sampler = make(hard_case(), remember=False)
    shake(sampler)
    root, cuts = sampler.graph.levels[0], sampler.graph.levels[0].cuts
    number = int(root.n_cuts[0])
    value = cuts.prior[:number] + cuts.lookahead[:number].sum(axis=1)
    nodes, said = np.zeros(1, np.int64), np.arange(8, dtype=np.float32).reshape(4, 2)
    chosen, of_node = promising_cuts(nodes, root.start, root.n_cuts, cuts, 4, math.inf)
    assert (of_node == 0).all()
    assert set(chosen) == set(np.argsort(-value, kind="stable")[:4])
    fill_residuals(nodes, root.start, root.n_cuts, chosen, said, cuts)
    others = np.setdiff1d(np.arange(number), chosen)
    np.testing.assert_allclose(cuts.residual[others], [[3, 4]] * others.size)
    np.testing.assert_allclose(cuts.residual[chosen], said)
    sampler.finish()
    rng = np.random.default_rng(0)
    draws = sampler.draw(100, rng)
    np.testing.assert_allclose(draws.log_pf, sampler.log_prob(draws.trees), atol=1e-9)


# Residuals.


@pytest.mark.parametrize("name", CASES)
def test_residuals_add_up_to_trajectory_balance(name):
    sampler = make_named(name, remember=False)
    shake(sampler)
    with torch.no_grad():
        sampler.log_z.fill_(1.25)
    paths = follow_trees(sampler.flows, to_batch(truth(name).trees))
    sampler.finish()
    paths = follow_trees(sampler.flows, paths.trees)
    residuals = sampler.residuals([paths], with_flows=False)
    assert residuals.delta.shape == paths.trees.feature.shape
    expected = 1.25 + paths.log_pf - paths.log_reward / CASES[name][0].temperature
    np.testing.assert_allclose(residuals.delta.sum(dim=1).detach(), expected, atol=2e-4)
    # A path stands for all its trees: thresholds that cut alike, and all tails.
    log_pf = sampler.log_prob(paths.trees) - paths.log_pf
    target = (truth(name).log_rewards - paths.log_reward) / CASES[name][0].temperature
    np.testing.assert_allclose(log_pf, target, atol=1e-9)
    assert (residuals.delta[~residuals.mask] == 0).all()


def test_gradients_of_the_residuals_are_those_of_the_policy(monkeypatch):
    case = hard_case()
    sampler = make(case, remember=False, hidden=(8,))
    shake(sampler)
    paths = sampler.rollout(20, 0.2, np.random.default_rng(0))
    weights = torch.linspace(-1, 1, 20)

    def total() -> torch.Tensor:
        return (weights * sampler.residuals([paths], False).delta.sum(dim=1)).sum()

    for width in (64, 3):  # of few cuts only, where there are many
        monkeypatch.setattr(residuals, "TOP_CUTS", width)
        sampler.network.zero_grad()
        sampler.log_z.grad = None
        total().backward()
        assert sampler.log_z.grad.item() == pytest.approx(weights.sum().item(), abs=1e-5)
        for parameter in sampler.network.parameters():
            assert torch.isfinite(parameter.grad).all()
            flat, slope = parameter.data.view(-1), parameter.grad.view(-1)
            i = int(slope.abs().argmax())
            before, values = flat[i].item(), []
            for shift in (1e-2, -1e-2):
                flat[i] = before + shift
                values.append(total().item())
            flat[i] = before
            numeric = (values[0] - values[1]) / 2e-2
            assert numeric == pytest.approx(slope[i].item(), rel=0.05, abs=0.02)


def test_a_step_down_the_gradient_lowers_every_loss_by_as_much_as_it_says():
    for remember in (True, False):
        sampler = make(hard_case(), remember=remember)
        paths = sampler.rollout(30, 0.3, np.random.default_rng(0))
        for objective, shape in product(OBJECTIVES.values(), SHAPES.values()):

            def loss_of(objective=objective, shape=shape, sampler=sampler, paths=paths):
                return objective.loss(sampler.residuals([paths], objective.with_flows), shape)

            sampler.network.zero_grad()
            loss = loss_of()
            loss.backward()
            slope = math.sqrt(sum(float(p.grad.square().sum()) for p in parameters_of(sampler)))
            assert 0 < slope < math.inf
            assert 0 <= loss.item() < math.inf
            if remember:
                continue  # what is remembered is drawn anew for each loss
            before = [p.data.clone() for p in parameters_of(sampler)]
            with torch.no_grad():
                for p in parameters_of(sampler):
                    p -= 0.01 * p.grad / slope
                assert loss_of().item() - loss.item() == pytest.approx(-0.01 * slope, rel=0.1)
                for p, value in zip(parameters_of(sampler), before, strict=True):
                    p.copy_(value)


def parameters_of(sampler):
    return list(sampler.network.parameters())


def subtree_sizes(tree, levels: int) -> list[int]:
    """Sizes of the parts of a tree down to a depth, in preorder."""
    if tree == LEAF or levels == 0:
        return [1]
    left, right = subtree_sizes(tree[2], levels - 1), subtree_sizes(tree[3], levels - 1)
    return [1 + len(left) + len(right), *left, *right]


def depths_in_preorder(tree, levels: int, at: int = 0) -> list[int]:
    if tree == LEAF or at == levels:
        return [at]
    left, right = (depths_in_preorder(part, levels, at + 1) for part in tree[2:])
    return [at, *left, *right]


@pytest.mark.parametrize("name", ["two tails", "one tail asked for", "branching prior, deeper"])
def test_parts_of_a_path_are_its_subtrees(name):
    sampler = make_named(name, remember=False)
    shake(sampler)
    trees, n_upper = truth(name).trees, sampler.graph.n_upper
    paths = follow_trees(sampler.flows, to_batch(trees))
    residuals = sampler.residuals([paths], with_flows=True)
    depths = sampler.depths(paths)
    for b, tree in enumerate(trees):
        sizes = subtree_sizes(tree, n_upper)
        n = len(sizes)
        assert residuals.mask[b].sum() == n
        assert residuals.mask[b, :n].all()
        ends = [i + size for i, size in enumerate(sizes)]
        assert residuals.end[b, :n].tolist() == ends
        assert depths[b].tolist()[:n] == depths_in_preorder(tree, n_upper)
        assert (depths[b, n:] == -1).all()
    # A part that is also a whole path's: its sum does not depend on the rest of the tree.
    delta = residuals.delta.detach().numpy()
    seen: dict = {}
    for b, tree in enumerate(trees):
        if tree != LEAF and n_upper > 0:
            key = (tree[:2], tree[2])
            value = delta[b, 1 : int(residuals.end[b, 1])].sum()
            assert seen.setdefault(key, value) == pytest.approx(value, abs=1e-5)


def test_remembered_nodes_follow_the_paths_and_are_balanced_one_by_one():
    case = hard_case()
    sampler = make(case, n_scouts=20)
    paths = sampler.rollout(7, 0.1, np.random.default_rng(0))
    residuals = sampler.residuals([paths], True)
    width = paths.trees.feature.shape[1]
    n_replayed = REPLAYED_NODES
    assert residuals.delta.shape == (7 + math.ceil(n_replayed / width), width)
    assert residuals.mask[7:].sum() == n_replayed
    graph, known = sampler.graph, []
    for at, level in enumerate(graph.levels[1:], 1):
        nodes = np.flatnonzero(~np.isnan(level.flow[: len(level)]))
        added = sampler.network.predict(sampler.network.see_nodes(graph, at, nodes))
        known.append(level.lookahead[nodes] + added - level.flow[nodes])
    every = np.sort(np.concatenate(known))
    alone = residuals.delta[7:][residuals.mask[7:]].detach().numpy()
    nearest = np.abs(every[np.searchsorted(every, alone).clip(0, every.size - 1)] - alone)
    before = np.abs(every[(np.searchsorted(every, alone) - 1).clip(0)] - alone)
    assert np.minimum(nearest, before).max() < 1e-4
    again = sampler.residuals([paths], True, n_update=1)
    torch.testing.assert_close(again.delta[:7], residuals.delta[:7])
    assert not torch.equal(again.delta[7:], residuals.delta[7:])  # others of them
    same = sampler.residuals([paths], True)
    assert torch.equal(same.delta, residuals.delta)  # asking has changed nothing


@pytest.mark.parametrize("max_depth", [0, 1, 2])
def test_a_root_that_is_a_tail_has_a_lookahead_too(max_depth):
    sampler = make(hard_case(max_depth=max_depth))
    assert sampler.graph.n_upper == 0
    root = sampler.graph.levels[0]
    assert root.lookahead[0] == root.stop[0] < 0  # not what happened to be in memory


def test_paths_that_all_stop_at_once_have_residuals():
    for remember in (True, False):
        sampler = make(hard_case(), remember=remember)
        paths = follow_trees(sampler.flows, to_batch([LEAF, LEAF]))
        delta = sampler.residuals([paths], True).delta
        of_loss = sampler.residuals([paths], False).delta.sum(dim=1)
        torch.testing.assert_close(delta.sum(dim=1), of_loss)  # flows in between cancel
        assert delta[0, 0] == delta[1, 0]
        assert (delta[:2, 1:] == 0).all()


def test_paths_end_where_nobody_may_look():
    case = hard_case(max_depth=6)
    sampler = make(case, n_scouts=1)
    rng = np.random.default_rng(0)
    for _ in range(5):
        before = sum(int((~np.isnan(v.flow[: len(v)])).sum()) for v in sampler.graph.levels)
        paths = sampler.rollout(30, 0.3, rng)
        known = sum(int((~np.isnan(v.flow[: len(v)])).sum()) for v in sampler.graph.levels)
        assert known - before <= 3  # two of a scout, one of the paths
        residuals, depths = sampler.residuals([paths], True), sampler.depths(paths)
        assert torch.isfinite(residuals.delta).all()
        assert np.isfinite(paths.log_reward).all()
        assert any((here.cut == UNSEEN).any() for here in paths.visits)
        for b in range(30):
            seen = []  # depths of the known row sets of a path
            for at, here in enumerate(paths.visits):
                nodes = here.node[here.tree == b]
                seen += [at] * int((~np.isnan(sampler.graph.levels[at].flow[nodes])).sum())
            assert residuals.mask[b].sum() == len(seen)
            assert sorted(depths[b][depths[b] >= 0].tolist()) == seen
            assert (residuals.mask[b].numpy() == (depths[b] >= 0)).all()
            # The part below each position is a stretch of deeper ones.
            for i in range(len(seen)):
                part = depths[b, i + 1 : int(residuals.end[b, i])]
                assert (part > depths[b, i]).all()
                after = depths[b, int(residuals.end[b, i])] if residuals.end[b, i] < 30 else -1
                assert after <= depths[b, i]
        sampler.learn([paths])
        draws = sampler.draw(20, rng)
        np.testing.assert_allclose(draws.log_pf, sampler.log_prob(draws.trees), atol=1e-9)


def test_paths_of_several_parts_have_the_residuals_of_each():
    sampler = make(hard_case(), remember=False)
    parts = [sampler.rollout(n, 0.3, np.random.default_rng(n)) for n in (5, 3)]
    parts.append(follow_trees(sampler.flows, to_batch([LEAF, (0, 2, LEAF, LEAF)])))
    together = sampler.residuals(parts, True)
    first = 0
    for part in parts:
        alone = sampler.residuals([part], True)
        rows, width = slice(first, first + len(part)), alone.delta.shape[1]
        torch.testing.assert_close(together.delta[rows, :width], alone.delta)
        assert torch.equal(together.mask[rows, :width], alone.mask)
        assert (together.delta[rows, width:] == 0).all()
        assert torch.equal(together.end[rows, :width][alone.mask], alone.end[alone.mask])
        first += len(part)
    assert len(together.delta) == first


# Given trees.


@pytest.mark.parametrize("name", ["two tails", "branching prior", "fractional weights"])
def test_impossible_trees_have_no_probability(name):
    case = CASES[name][0]
    last = case.codes.shape[1] - 1
    far = (last, 4, LEAF, LEAF)
    good = (last, 0, LEAF, LEAF)
    wrong = [
        far,
        (last, 0, far, LEAF),
        (last, 0, LEAF, far),
        (last, 0, (last, 0, LEAF, LEAF), LEAF),
        (last + 3, 0, LEAF, LEAF),
        (last, 0, LEAF, (last, 1, LEAF, far)),
        (last, 0, LEAF, (last, 1, far, LEAF)),
    ]
    sampler = make_named(name)
    batch = to_batch([good, *wrong[:4], wrong[5], wrong[6]])
    value = sampler.log_prob(batch)
    assert np.isfinite(value[0])
    assert np.isneginf(value[1:]).all()
    paths = follow_trees(sampler.flows, to_batch([wrong[4], good]))  # a feature that is not there
    assert np.isneginf(paths.log_pf[0])
    assert np.isfinite(paths.log_pf[1])


def test_trees_that_are_too_deep_have_no_probability():
    case = Case(np.arange(8)[:, None], np.arange(8) % 2, 2, max_depth=3, split_penalty=0.0)
    deep = Enumeration(case.but(max_depth=5))
    chosen = [tree for i, tree in enumerate(deep.all_trees(deep.everything, 0)) if i % 97 == 0]
    for remember in (True, False):
        sampler = make(case, remember=remember)
        value = sampler.log_prob(to_batch(chosen))
        possible = np.array([depth(tree) <= 3 for tree in chosen])
        assert possible.any()
        assert not possible.all()
        np.testing.assert_array_equal(np.isfinite(value), possible)


def residuals_of(sampler: FixedSampler, trees: TreeBatch) -> Residuals:
    return sampler.residuals([follow_trees(sampler.flows, trees)], True)


def test_batches_with_room_to_spare_and_mixed_order_of_nodes():
    sampler = make_named("two tails, deeper")
    trees = to_batch(truth("two tails, deeper").trees)
    wide = empty_batch(len(trees), trees.feature.shape[1] + 9)
    for name in ("feature", "cut", "left"):
        getattr(wide, name)[:, : trees.feature.shape[1]] = getattr(trees, name)
    wide.n_nodes[:] = trees.n_nodes
    np.testing.assert_array_equal(sampler.log_prob(wide), sampler.log_prob(trees))
    residuals, others = (
        sampler.residuals([follow_trees(sampler.flows, t)], True) for t in (wide, trees)
    )
    width, n = trees.feature.shape[1], len(trees)
    assert torch.equal(residuals.delta[:n, :width], others.delta[:n])
    assert torch.equal(residuals.end[:n, :width], others.end[:n])
    # The same trees, their nodes numbered depth first instead of level by level.
    deep_first = [tree for tree in truth("two tails, deeper").trees if n_splits(tree) == 3]
    batch = numbered_depth_first(deep_first)
    np.testing.assert_allclose(sampler.log_prob(batch), sampler.log_prob(to_batch(deep_first)))
    one, two = (
        sampler.residuals([follow_trees(sampler.flows, t)], True)
        for t in (batch, to_batch(deep_first))
    )
    torch.testing.assert_close(one.delta[: len(batch)], two.delta[: len(batch)])
    assert torch.equal(one.end[: len(batch)], two.end[: len(batch)])


def numbered_depth_first(trees: list) -> TreeBatch:
    batch = empty_batch(len(trees), 7)

    def write(b: int, tree, slot: int, used: int) -> int:
        if tree == LEAF:
            return used
        batch.feature[b, slot], batch.cut[b, slot], batch.left[b, slot] = *tree[:2], used
        after = write(b, tree[3], used + 1, used + 2)
        return write(b, tree[2], used, after)

    for b, tree in enumerate(trees):
        batch.n_nodes[b] = write(b, tree, 0, 1)
    check_trees(batch, np.full(2, 6))
    return batch


def test_trees_of_the_exact_engine_can_be_weighed():
    case = hard_case(max_depth=3)
    answer = infer_exact(
        case.rows,
        case.score,
        column=case.columns,
        n_columns=case.n_columns,
        n_trees=1,
        random_state=0,
    )
    trees = answer.solution.sample(300, np.random.default_rng(0))
    for remember in (True, False):
        value = make(case, remember=remember).log_prob(trees)
        assert np.isfinite(value).all()
        # EUBO: on posterior samples the mean of log R - log P_F is above log Z.
        eubo = (log_reward(trees, case.rows, case.score) - value).mean()
        assert eubo >= answer.log_evidence - 1e-9


def test_deep_trees_take_no_more_room_than_their_rows_allow():
    rng = np.random.default_rng(0)
    case = Case(rng.integers(0, 9, (8, 2)), np.arange(8) % 2, 2, max_depth=30, split_penalty=0.0)
    for remember in (True, False):
        sampler = make(case, remember=remember, n_scouts=5)
        paths = sampler.rollout(20, 0.5, rng)
        assert paths.trees.feature.shape[1] <= 15
        sampler.residuals([paths], True).delta.square().sum().backward()
        sampler.learn([paths])
        draws = sampler.draw(20, rng)
        np.testing.assert_allclose(draws.log_pf, sampler.log_prob(draws.trees), atol=1e-9)


def test_the_best_tree_leaves_the_graph_as_usable_as_it_was():
    case = hard_case(max_depth=5)
    for remember in (True, False):
        sampler = make(case, remember=remember, n_scouts=0)
        best = log_mass(sampler.best_known(), case.rows, case.score)
        assert best >= sampler.best_log_mass - 1e-4
        for level in sampler.graph.levels[:-1]:
            n = len(level)
            assert ((level.start[:n] < 0) == np.isnan(level.flow[:n])).all()
        draws = sampler.draw(300, np.random.default_rng(3))
        assert np.isfinite(draws.log_pf).all()
        np.testing.assert_allclose(draws.log_pf, sampler.log_prob(draws.trees), atol=1e-9)


# Memory.


def facts(training) -> dict:
    """Everything that two equal runs must agree in, bit by bit."""
    state, sampler = training.state, training.state.sampler
    return {
        "network": {k: v.tolist() for k, v in sampler.network.state_dict().items()},
        "log_z": sampler.log_z.item(),
        "history": [{k: v for k, v in e.items() if k != "seconds"} for e in training.history],
        "replay": {k: v.tolist() for k, v in training.replay.arrays().items()},
        "rng": state.rng.bit_generator.state,
        "memory": {k: v.tobytes() for k, v in sampler.memory().items()},
        "losses": state.losses,
    }


@pytest.mark.parametrize("killed", [5, 8])
@pytest.mark.parametrize("objective", ["db", "tb"])
def test_a_run_taken_up_ends_like_one_that_was_not_ended(tmp_path, objective, killed, monkeypatch):
    monkeypatch.setattr(estimates, "WARM_UP", 4)
    case, path = hard_case(max_depth=5), tmp_path / "c.dtgfn"
    few = {
        "objective": objective,
        "n_forward": 3,
        "n_replay": 2,
        "n_scouts": 1,
        "evaluate_every": 5,
        "n_evaluate": 20,
        "patience": None,
        "hidden": (8,),
    }

    def run(n_steps: int, seed: int, used: bool = False, **options):
        remember = objective == "db"
        sampler = make(case, remember=remember, n_scouts=1, hidden=(8,), seed=seed)
        if used:  # as by a run that only compiles; nothing of it may stay
            sampler.residuals([sampler.rollout(30, 0.9, np.random.default_rng(5))], True)
        options = {"random_state": 0} | options
        given = make_settings(**few, n_steps=n_steps)
        return train(sampler, case.rows, case.score, given, **options)

    whole = run(20, 3)
    run(killed, 3, checkpoint=Checkpoint(path, every_steps=1))
    again = run(20, 4, used=True, checkpoint=path, random_state=9)
    assert facts(again) == facts(whole)
    assert whole.n_steps == 20


def test_what_is_restored_is_all_there_is():
    case = hard_case()
    small, large = make(case, n_scouts=3), make(case, n_scouts=200)
    small.learn([small.rollout(2, 0.0, np.random.default_rng(0))])
    kept = {name: array.copy() for name, array in small.memory().items()}
    for _ in range(3):
        large.rollout(100, 0.5, np.random.default_rng(1))
    large.restore(kept)
    large.n_scouts = small.n_scouts
    assert large.memory().keys() == kept.keys()
    for name, array in large.memory().items():
        np.testing.assert_array_equal(array, kept[name])
    one, two = (s.rollout(60, 0.3, np.random.default_rng(2)) for s in (small, large))
    assert small.graph.n_nodes == large.graph.n_nodes
    np.testing.assert_array_equal(one.log_pf, two.log_pf)
    assert canonical_keys(one.trees) == canonical_keys(two.trees)


def test_a_cleared_graph_starts_anew():
    case = hard_case()
    sampler = make(case, remember=False)
    before = sampler.draw(50, np.random.default_rng(0))
    assert sampler.graph.n_nodes > 1
    sampler.graph.clear()
    assert sampler.graph.n_nodes == 1
    sampler.flows.forget_touched()
    after = sampler.draw(50, np.random.default_rng(0))
    np.testing.assert_array_equal(before.log_pf, after.log_pf)


def _set(arrays: dict, name: str, value: float) -> None:
    arrays[name] = arrays[name].copy()
    arrays[name].reshape(-1)[-1] = value


@pytest.mark.parametrize(
    "damage",
    [
        lambda a: _set(a, "level.0.cuts.feature", 99),
        lambda a: _set(a, "level.0.cuts.feature", -1),
        lambda a: _set(a, "level.0.cuts.child", 10**6),
        lambda a: _set(a, "level.0.cuts.child", -7),
        lambda a: _set(a, "level.0.n_cuts", 10**6),
        lambda a: _set(a, "level.0.start", -1),
        lambda a: _set(a, "level.1.bits", 2**63),
        lambda a: a.update({"level.1.bits": a["level.1.bits"][:-1]}),
        lambda a: a.update({"level.1.flow": a["level.1.flow"][:1]}),
        lambda a: a.update({"level.0.cuts.sums": a["level.0.cuts.sums"][:, :, :1]}),
        lambda a: a.pop("level.2.lookahead"),
    ],
)
def test_a_damaged_memory_is_refused(damage):
    sampler = make(hard_case(), n_scouts=3)
    sampler.learn([sampler.rollout(5, 0.1, np.random.default_rng(0))])
    arrays = dict(sampler.memory())
    damage(arrays)
    with pytest.raises((ValueError, KeyError)):
        make(hard_case(), n_scouts=3).restore(arrays)


def test_a_listing_that_was_broken_off_is_done_again():
    for name in ("two tails", "branching prior"):
        case = CASES[name][0]
        sampler = make_named(name, n_scouts=2)
        graph = sampler.graph
        children = graph.reach(0, np.zeros(1, np.int64), np.zeros(1, np.int64))[0]
        if graph.n_upper > 1:
            graph.expand(1, np.unique(children))  # and no word of the network
        while not sampler.exact:
            sampler.learn([sampler.rollout(2, 0.0, np.random.default_rng(0))])
        Twin(sampler, case).check_all_flows()


# It learns.


@pytest.mark.parametrize(
    ("objective", "loss"),
    [*((name, "squared") for name in OBJECTIVES), ("tb", "huber"), ("tb", "cosh"), ("tb", "linex")],
)
def test_every_objective_and_shape_improves(objective, loss):
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 5, size=(60, 3))
    labels = ((codes[:, 0] > 2) & (codes[:, 1] > 1)).astype(int) ^ (rng.random(60) < 0.1)
    case = Case(codes, labels, 2, max_depth=4, split_penalty=1.0)
    truth = infer_exact(
        case.rows,
        case.score,
        column=case.columns,
        n_columns=case.n_columns,
        n_trees=1,
        random_state=0,
    )
    given = make_settings(
        objective=objective,
        loss=loss,
        n_steps=120,
        n_forward=20,
        n_scouts=2,
        evaluate_every=60,
        patience=None,
        learning_rate=0.003,
        log_z_learning_rate=0.01,
    )
    sampler = make(case, remember=given.remembers, n_scouts=2, hidden=(64, 64))
    history = train(sampler, case.rows, case.score, given, random_state=0).history
    first, middle, last = history[0], history[1], history[-1]
    gap = [truth.log_evidence - entry["elbo"] for entry in (first, last)]
    assert gap[0] > 0
    assert last["loss"] <= middle["loss"]
    assert gap[1] > -3 * last["elbo_error"] - 1e-9
    if loss == "squared":  # the others need longer
        assert gap[1] < 0.8 * gap[0]
    assert last["n_skipped"] == 0


def test_a_trained_network_is_never_done():
    case = CASES["two tails"][0]
    sampler = make(case, remember=False)
    steps(sampler, 70, case)
    assert sampler.graph.levels[0].open[0] == 0
    assert not sampler.exact
    assert not sampler.finished


@pytest.mark.parametrize("remember", [True, False])
def test_tails_alone_need_no_training(remember):
    for max_depth in (0, 1, 2):
        case = CASES["two tails"][0].but(max_depth=max_depth)
        sampler = make(case, remember=remember)
        assert sampler.exact
        assert sampler.finished
        every = Enumeration(case)
        log_prob = sampler.log_prob(to_batch(every.trees))
        np.testing.assert_allclose(np.exp(log_prob), every.probability)
        paths = sampler.rollout(5, 0.1, np.random.default_rng(0))
        residuals = sampler.residuals([paths], with_flows=True)
        np.testing.assert_allclose(residuals.delta.detach(), 0, atol=1e-5)


# What is drawn for the user rests on what is known, however much the network promises.


def wild_sampler(monkeypatch) -> FixedSampler:
    """Return a sampler whose network promises tens of nats wherever nobody looked."""
    monkeypatch.setattr(estimates, "WARM_UP", 2)
    monkeypatch.setattr(estimates, "REFRESH", 1)
    case = hard_case()
    sampler = make(case, n_scouts=1)
    steps(sampler, 4, case)
    with torch.no_grad():
        sampler.network.layers[-1].bias.fill_(3.0)
    for level in sampler.graph.levels[:-1]:
        sampler.flows.refresh(level, known_nodes(level))
    sampler.graph.update_all(True)
    return sampler


def test_promises_do_not_reach_the_trees_that_are_drawn(monkeypatch):
    sampler = wild_sampler(monkeypatch)
    promised = float(sampler.graph.levels[0].flow[0])
    sampler.finish()
    # Without promises the root's flow is what known and looked-ahead trees are worth: below log Z.
    case = hard_case()
    exact = infer_exact(case.rows, case.score, column=case.columns, n_columns=3)
    assert float(sampler.graph.levels[0].flow[0]) < exact.log_evidence + 1.0 < promised


def test_finishing_twice_changes_nothing_and_training_is_optimistic_again(monkeypatch):
    sampler = wild_sampler(monkeypatch)
    sampler.finish()
    flow = sampler.graph.levels[0].flow.copy()
    sampler.finish()
    np.testing.assert_array_equal(sampler.graph.levels[0].flow, flow)
    assert sampler.flows.optimism.shrunk
    steps(sampler, 1, hard_case())
    assert not sampler.flows.optimism.shrunk


def test_indicators_are_summed_like_other_features():
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 2, (60, 4)).astype(np.uint16)
    codes[:, 3] = rng.integers(0, 5, 60)
    target = rng.integers(0, 3, 60).astype(np.int32)
    score = make_score(DirichletLeaf(3, 0.1), n_features=4, n_thresholds=4, max_depth=3)
    rows = Rows(codes, target, np.ones(60))
    problem = make_problem(rows, score, np.arange(4, dtype=np.int32), 4)
    graph = PartialGraph(problem, 1, run_at_once)
    held = {0: np.ones(60, dtype=bool)}  # rows of each node of a level
    for at in range(2):
        level, below = graph.levels[at], {}
        nodes = np.array(sorted(held))
        graph.expand(at, nodes)
        for node in nodes:
            start, n_cuts = level.start[node], level.n_cuts[node]
            varying = [np.unique(codes[held[node], f]) for f in range(4)]
            assert n_cuts == sum(len(seen) - 1 for seen in varying)
            for e in range(start, start + n_cuts):
                feature = problem.feature[level.cuts.feature[e]]
                goes_left = codes[:, feature] <= level.cuts.low[e]
                children = graph.reach(at, np.array([node]), np.array([e]))[0]
                for side, rows_there in enumerate(
                    (held[node] & goes_left, held[node] & ~goes_left)
                ):
                    counts = np.bincount(target[rows_there], minlength=3)
                    assert level.cuts.sums[e, side].tolist() == counts.tolist()
                    below[int(children[side])] = rows_there
        held = below


def test_cuts_of_a_very_wide_table_are_not_paired():
    rng = np.random.default_rng(0)
    score = make_score(DirichletLeaf(2, 0.1), n_features=90, n_thresholds=99, max_depth=3)
    for n_columns, tail_levels in ((20, 2), (90, 1)):
        codes = rng.integers(0, 100, (300, n_columns)).astype(np.uint16)
        rows = Rows(codes, (codes[:, 0] > 50).astype(np.int32), np.ones(300))
        column = np.arange(n_columns, dtype=np.int32)
        problem = make_problem(rows, score, column, n_columns)
        assert (problem.max_cuts > WIDEST_PAIRED) == (tail_levels == 1)
        assert PartialGraph(problem, 2, run_at_once).tail_levels == tail_levels
