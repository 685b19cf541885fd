"""Parts of one's own: each is really used, and what comes out is right against every tree."""

from __future__ import annotations

import copy
import math
import warnings

import numpy as np
import pytest
import torch
from enumeration import Case, Enumeration, from_batch
from free_histories import all_histories, follow, log_pf
from scipy.special import logsumexp
from torch import nn

import dtgfn
from dtgfn import infer, load, save
from dtgfn._support.archive import StorageError
from dtgfn.engines import LeafPaths, NodePaths, Objective, Sizes, View
from dtgfn.engines.gfn.free.free_sampler import FreeSampler
from dtgfn.inference.prior_mass import log_prior_mass
from dtgfn.trees.score import DepthPrior

pytestmark = pytest.mark.filterwarnings("ignore::dtgfn.diagnostics.UntrustworthyFit")

RNG = np.random.default_rng(4)
X = RNG.integers(0, 3, (14, 3)).astype(float)
Y = ((X[:, 0] > 0) ^ (X[:, 1] > 1)).astype(int)
TABLE = {
    "max_depth": 2,
    "n_thresholds": 9,
    "binning": "midpoint",
    "random_state": 0,
    "time_budget": None,
}
FREE = {**TABLE, "leaf_order": "free", "hidden": (16,), "n_trees": 1500}


def trained(**options):
    usual = {
        "objective": "tb",
        "n_steps": 40,
        "n_forward": 40,
        "evaluate_every": 20,
        "learning_rate": 0.03,
        "split_penalty": 1.5,
    }
    return infer(X, Y, **{**FREE, **usual, **options})


def case_of(posterior) -> Case:
    rows, score = posterior.rows, posterior.score
    codes = rows.codes.astype(int)
    penalty = getattr(score.prior, "penalty", 0.0)
    return Case(
        codes, rows.target, 2, rows.weight, max_depth=score.max_depth, split_penalty=penalty
    )


def assert_right(posterior, log_z=None):
    """Weighted trees, of whatever policy, are the posterior's: log Z and the shares of trees."""
    case = case_of(posterior)
    every = Enumeration(case)
    log_z = every.log_z if log_z is None else log_z
    assert abs(posterior.log_evidence - log_z) < 4 * posterior.log_evidence_error + 0.01
    assert posterior.log_evidence_error < 0.25
    found = [from_batch(posterior.trees, b) for b in range(len(posterior.trees))]
    np.testing.assert_allclose(posterior.log_reward, [every.log_reward(t) for t in found])


# Objective and shape.


def own_balance(residuals, shape):
    own_balance.calls += 1
    return shape(residuals.delta.sum(dim=1)).mean()


def own_squares(residual):
    own_squares.calls += 1
    return 0.5 * residual.square()


def lines(history):
    return [{k: v for k, v in entry.items() if k != "seconds"} for entry in history]


def test_an_objective_and_a_shape_like_ours_train_like_ours():
    own_balance.calls = own_squares.calls = 0
    ours = trained(n_steps=6)
    theirs = trained(
        n_steps=6, objective=Objective(own_balance, with_flows=False), loss=own_squares
    )
    assert own_balance.calls == own_squares.calls - 1 == 7  # with the rehearsals
    assert lines(ours.history) == lines(theirs.history)


@pytest.mark.parametrize("order", ["free", "fixed"])
def test_others_lead_to_the_posterior_too(order):
    def spread(residuals, shape):
        total = residuals.delta.sum(dim=1)
        return shape(total - total.median()).mean()

    own = Objective(spread, with_flows=False, learns_log_z=False)
    assert_right(trained(objective=own, loss=lambda x: x.abs() ** 1.5, leaf_order=order))


# Networks.


class Rule(nn.Module):
    def __init__(self, sizes: Sizes, width: int) -> None:
        super().__init__()
        self.feature = nn.Linear(width, sizes.n_features)
        self.cut = nn.Linear(width, sizes.n_features * sizes.n_cuts)
        self.shape = (sizes.n_features, sizes.n_cuts)

    def features(self, hidden):
        return self.feature(hidden)

    def cuts(self, hidden, feature):
        logits = self.cut(hidden).view(-1, *self.shape)
        return logits[torch.arange(len(logits)), feature]


class Summed(nn.Module):
    """A state is the sum of its leaves."""

    def __init__(self, sizes: Sizes, hidden) -> None:
        super().__init__()
        width, self.calls = hidden[-1], 0
        self.feature = nn.Embedding(sizes.n_features + 1, 4)
        self.path = nn.Sequential(nn.Linear(7 * sizes.path_length, width), nn.SiLU())
        self.leaf, self.state = nn.Linear(width, 1), nn.Linear(width, 2)
        self.rule = Rule(sizes, width)

    def embed(self, paths: LeafPaths):
        self.calls += 1
        x = torch.cat([self.feature(paths.feature), paths.value], dim=2).flatten(1)
        return (self.path(x),)

    def view(self, embeddings, leaves) -> View:
        h = embeddings[0][leaves.clamp(min=0)] * (leaves >= 0)[:, :, None]
        state = self.state(h.sum(dim=1))
        return View(state[:, 0], state[:, 1], self.leaf(h).squeeze(2), lambda s, k: h[s, k])


def test_a_network_of_ones_own_is_trained_and_its_draws_are_right():
    posterior = trained(architecture=Summed)
    network = posterior.solution.network
    assert type(network) is Summed
    assert network.calls > 40
    assert_right(posterior)


def sizes_of_table() -> Sizes:
    posterior = infer(X, Y, engine="exact", n_trees=1, **TABLE)
    codes = posterior.rows.codes
    return Sizes(codes.shape[1], int(codes.max()), 2)


def test_a_policy_of_ones_own_is_taken_as_it_is_and_only_a_copy_trained():
    mine = Summed(sizes_of_table(), (16,))
    with torch.no_grad():
        mine.state.bias[0] = 50.0  # stops at once
    before = copy.deepcopy(mine.state_dict())
    untrained = infer(X, Y, policy=mine, n_steps=0, **{**FREE, "n_trees": 50})
    assert (untrained.trees.n_splits == 0).all()
    with torch.no_grad():
        mine.state.bias[0] = before["state.bias"][0] = -0.5
    posterior = trained(policy=mine)
    assert_right(posterior)
    assert all(torch.equal(before[k], v) for k, v in mine.state_dict().items())
    assert not torch.equal(posterior.solution.network.state.weight, mine.state.weight)
    more = trained(policy=posterior.solution, n_steps=45)  # trained on
    assert more.diagnostics["n_steps"] == 45


@pytest.mark.parametrize("n_steps", [0, 2])
def test_a_policy_of_the_fixed_order_is_asked_and_its_draws_are_right(n_steps):
    asked = []

    class Hopeful:
        def guess(self, views):
            asked.append(len(views))
            return np.full(len(views), 0.5, np.float32)

    deep = {**TABLE, "max_depth": 4, "split_penalty": 1.5}
    posterior = infer(X, Y, policy=Hopeful(), n_steps=n_steps, n_scouts=0, **deep)
    truth = infer(X, Y, engine="exact", **deep).log_evidence
    assert sum(asked) > 0
    assert abs(posterior.log_evidence - truth) < 4 * posterior.log_evidence_error + 1e-9


# Exploration.


def test_an_exploration_rule_decides_what_is_tried_but_not_what_is_drawn():
    asked, tried = set(), []

    def only_the_first(choice, log_p, n_actions, epsilon):
        asked.add(choice)
        assert np.exp(log_p).sum(axis=1) == pytest.approx(1.0)
        assert (np.isneginf(log_p) == (n_actions == 0)).all()
        weight = np.zeros(log_p.shape)
        weight[np.arange(len(weight)), (n_actions > 0).argmax(axis=1)] = 1.0
        return weight

    def watch(state):
        tried.append(len(state.replay))

    posterior = trained(exploration=only_the_first, n_steps=3, callbacks=[watch])
    assert asked == {"stop"}  # the first option there
    assert tried == [1, 1, 1]
    assert posterior.trees.n_splits.max() > 0
    assert_right(posterior)


def test_a_wider_policy_finds_the_posterior():
    asked = set()

    def wider(choice, log_p, n_actions, epsilon):
        asked.add(choice)
        return np.exp(0.5 * log_p)

    assert_right(trained(exploration=wider))
    assert asked == {"stop", "leaf", "feature", "cut"}


# An MDP variant.


def each_column_once(paths: NodePaths):
    used = np.zeros((len(paths.feature), len(paths.column)), dtype=bool)
    for k in range(paths.feature.shape[1]):
        there = paths.feature[:, k] >= 0
        column = paths.column[paths.feature[there, k]]
        used[there] |= column[:, None] == paths.column
    return ~used


def repeats(tree, above=()) -> bool:
    return bool(tree) and (
        tree[0] in above or any(repeats(below, (*above, tree[0])) for below in tree[2:])
    )


def test_each_column_once_is_the_posterior_over_such_trees():
    posterior = trained(allowed=each_column_once)
    every = Enumeration(case_of(posterior))
    kept = [not repeats(tree) for tree in every.trees]
    assert 10 < sum(kept) < len(kept)
    log_z = float(logsumexp(every.log_rewards[kept]))
    assert log_z < every.log_z - 1e-3
    assert_right(posterior, log_z)
    found = [from_batch(posterior.trees, b) for b in range(len(posterior.trees))]
    assert not any(map(repeats, found))
    truth = dict(zip(every.trees, np.exp(every.log_rewards - log_z), strict=True))
    for tree in sorted(set(found), key=lambda t: -truth[t])[:5]:
        share = posterior.weights[[t == tree for t in found]].sum()
        assert share == pytest.approx(truth[tree], abs=0.08)


@pytest.mark.parametrize("column", [(0, 1, 2), (0, 1, 1)], ids=["alone", "two features of one"])
@pytest.mark.parametrize("actor", [None, "torch"])
def test_probabilities_of_all_allowed_ways_to_grow_sum_to_one(column, actor):
    codes = np.array([[0, 1, 0], [1, 0, 1], [2, 2, 0], [2, 0, 1]])
    case = Case(codes, np.array([0, 1, 1, 0]), 2, max_depth=2)
    rule = None if actor is None else lambda choice, log_p, n, epsilon: np.exp(log_p)
    sampler = FreeSampler(
        case.rows,
        case.score,
        hidden=(8,),
        allowed=each_column_once,
        column=np.array(column, dtype=np.int32),
        exploration=rule,
    )

    def keeps(history) -> bool:
        at = {path: column[feature] for path, feature, _ in history}
        return all(at[path[:k]] != at[path] for path in at for k in range(len(path)))

    histories = [history for history in all_histories(case) if keeps(history)]
    assert len(histories) < len(all_histories(case))
    trajectories = follow(sampler, histories)
    assert np.exp(log_pf(sampler, trajectories)).sum() == pytest.approx(1.0, rel=1e-5)
    drawn = sampler.rollout(2000, 1.0, np.random.default_rng(0))
    reached = {from_batch(drawn.trees, b) for b in range(2000)}
    assert reached == {from_batch(trajectories.trees, b) for b in range(len(histories))}


def test_a_rule_is_told_the_path():
    seen = []

    def watch(paths):
        seen.append(paths)
        return np.ones((len(paths.feature), 3), dtype=bool)

    codes = np.array([[0, 5, 0], [1, 7, 1], [2, 9, 0], [2, 11, 1]])
    case = Case(codes, np.array([0, 1, 1, 0]), 2, max_depth=2)
    sampler = FreeSampler(case.rows, case.score, hidden=(8,), allowed=watch)
    follow(sampler, [(((), 1, 7), ((0,), 0, 0))])
    root, first, second = seen
    assert root.depth.tolist() == [0]
    assert (root.feature == -1).all()
    assert first.feature.tolist() == [[1, -1]] * 2
    assert first.cut.tolist() == [[7, -1]] * 2
    assert first.side.tolist() == [[-1, 0], [1, 0]]
    assert second.feature.tolist() == [[1, 0]] * 2
    assert second.cut.tolist() == [[7, 0]] * 2
    assert second.side.tolist() == [[-1, -1], [-1, 1]]


# A prior over structures.


class Geometric:
    """A split at depth k is taken with 1 / (k + 3), its rule is one of all."""

    def __init__(self, uniform_rules=False, last_stop=0.0) -> None:
        self.uniform_rules = uniform_rules
        self.last_stop = last_stop

    def node_terms(self, max_depth):
        p = 1 / (3 + np.arange(max_depth + 1.0))
        stop = np.log1p(-p)
        stop[max_depth] = self.last_stop
        return stop, np.log(p) - (0.0 if self.uniform_rules else math.log(30))


def own_log_reward(every: Enumeration, tree, prior: Geometric) -> float:
    stop, split = prior.node_terms(every.case.max_depth)

    def walk(tree, rows, depth):
        valid = every.valid_splits(rows)
        if not tree:
            last = depth == every.case.max_depth
            forced = prior.uniform_rules and (last or not valid)
            return every.log_marginal(rows) + (0.0 if forced else stop[depth])
        left, right = every.sides(rows, tree[0], tree[1])
        rules = 0.0
        if prior.uniform_rules:
            rules = math.log(len({f for f, _ in valid}))
            rules += math.log(sum(f == tree[0] for f, _ in valid))
        below = walk(tree[2], left, depth + 1) + walk(tree[3], right, depth + 1)
        return split[depth] - rules + below

    return walk(tree, every.everything, 0)


ENGINES = {
    "exact": {},
    "gfn": {"n_steps": 30},
    "free": {"engine": "gfn", "leaf_order": "free", "hidden": (16,), "objective": "tb"},
    "smc": {"n_particles": 200, "n_sweeps": 4},
    "mcmc": {"n_steps": 4000},
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("uniform_rules", [False, True])
@pytest.mark.parametrize("last_stop", [0.0, -1.5])  # what a stop costs where no split is allowed
def test_a_prior_of_ones_own_is_that_of_every_engine(engine, uniform_rules, last_stop):
    prior = Geometric(uniform_rules, last_stop)
    options = {"engine": engine, "n_steps": 40, **ENGINES[engine]}
    if engine in ("exact", "smc"):
        options.pop("n_steps")
    posterior = infer(X, Y, split_penalty=prior, n_trees=1500, **TABLE, **options)
    every = Enumeration(case_of(posterior))
    found = [from_batch(posterior.trees, b) for b in range(len(posterior.trees))]
    wanted = [own_log_reward(every, tree, prior) for tree in found]
    np.testing.assert_allclose(posterior.log_reward, wanted, atol=1e-9)
    log_r = np.array([own_log_reward(every, tree, prior) for tree in every.trees])
    log_z = logsumexp(log_r)
    if engine == "mcmc":  # its shares, as it has no evidence
        size = [np.exp(log_r[[len_of(t) == n for t in every.trees]] - log_z).sum() for n in (0, 1)]
        ours = [posterior.weights[posterior.trees.n_splits == n].sum() for n in (0, 1)]
        assert ours == pytest.approx(size, abs=0.08)
    else:
        error = 4 * posterior.log_evidence_error + 1e-9
        assert posterior.log_evidence == pytest.approx(log_z, abs=error)


def len_of(tree) -> int:
    return 0 if not tree else 1 + len_of(tree[2]) + len_of(tree[3])


def test_a_prior_of_ones_own_is_kept_in_a_file_and_has_a_mass(tmp_path):
    model = dtgfn.DTGFNClassifier(inference="exact", split_penalty=Geometric(), **TABLE).fit(X, Y)
    save(model, tmp_path / "m.dtgfn")
    again = load(tmp_path / "m.dtgfn")
    assert isinstance(again.posterior_.score.prior, DepthPrior)
    assert again.posterior_.score == model.posterior_.score
    posterior = model.posterior_
    every = Enumeration(case_of(posterior))
    flat = Enumeration(every.case.but(split_penalty=0.0))
    log_prior = [own_log_reward(every, t, Geometric()) - flat.log_reward(t) for t in every.trees]
    mass, _ = log_prior_mass(posterior.rows, posterior.score, exact=True)
    assert mass == pytest.approx(logsumexp(log_prior), abs=1e-9)


# What does not fit.


class Bent(Summed):
    def __init__(self, sizes, hidden) -> None:
        super().__init__(sizes, hidden)
        self.leaf = nn.Linear(hidden[-1], 2)


class Short(Rule):
    def features(self, hidden):
        return super().features(hidden)[:, :-1]


class Shortened(Summed):
    def __init__(self, sizes, hidden) -> None:
        super().__init__(sizes, hidden)
        self.rule = Short(sizes, hidden[-1])


class Priors:
    def __init__(self, terms) -> None:
        self.terms = terms

    def node_terms(self, max_depth):
        return self.terms


def ones(*shape):
    return lambda *_: np.ones(shape)


REFUSED = [
    ({"objective": "tbb"}, "objective='tbb' is not known; give one of tb, .*, or a function"),
    (
        {"objective": lambda r, s: s(r.delta).mean(dim=1)},
        r"a loss \[2\]; .* of shape \[\], for all",
    ),
    ({"objective": lambda r, s: 3.0}, "gives a loss as float; it must be a tensor"),
    ({"loss": lambda x: x.mean()}, r"a loss \[\]; it must be a tensor of shape \[2, 2\], as its"),
    ({"loss": lambda x: x.detach()}, "that no gradient flows through"),
    ({"loss": lambda x: x / 0}, "gives a loss that is not finite"),
    ({"architecture": Bent}, r"view's leaf_logit gives \[2, 2, 2\] where \[2, 2\] is needed"),
    ({"architecture": Shortened}, r"rule.features gives \[2, 2\] where \[2, 3\] is needed"),
    ({"architecture": lambda sizes, hidden: 3}, "builtins.int is no torch module"),
    ({"architecture": Summed, "leaf_order": "fixed"}, "Summed needs leaf_order='free'"),
    ({"exploration": 0.3}, "exploration=0.3 is not usable; give a function, or None"),
    ({"exploration": ones(30, 1)}, r"weights \[30, 1\] at the choice of a stop; .*, \[2, 2\]"),
    ({"exploration": lambda c, p, n, e: -n}, "that are negative, endless, above 0 where"),
    ({"allowed": ones(30, 3)}, r"gives float64 \[30, 3\]; it must give bool \[2, 3\], a row"),
    ({"allowed": each_column_once, "split_penalty": "bcart"}, "how many there are; give a split"),
    ({"allowed": each_column_once, "leaf_order": "fixed"}, "once needs leaf_order='free'"),
    ({"policy": 3}, "policy=builtins.int is not usable: it lacks embed and view and rule"),
    ({"policy": Summed(Sizes(9, 9, 9), (8,))}, "does not fit this table"),
    ({"split_penalty": Priors(([0.0], [0.0]))}, r"shapes \[\(1,\), \(1,\)\]; for max_depth=2 it"),
    ({"split_penalty": Priors(([0.0] * 3, [1.0] * 3))}, "not finite, or above 0; give logs"),
    ({"split_penalty": Geometric(), "max_depth": "auto"}, "max_depth='auto' tries depths"),
]


@pytest.mark.parametrize(("given", "sentence"), REFUSED)
def test_what_has_another_shape_is_refused_in_a_sentence(given, sentence):
    with pytest.raises(ValueError, match=sentence) as refusal:
        trained(**given)
    assert "\n" not in str(refusal.value)
    assert str(refusal.value).endswith(".")


def test_a_checkpoint_knows_parts_by_their_names(tmp_path):
    own_balance.calls = own_squares.calls = 0
    path = tmp_path / "run.dtgfn"
    own = {"objective": Objective(own_balance, with_flows=False), "loss": own_squares}
    whole = trained(n_steps=6, **own)
    trained(n_steps=3, checkpoint=path, epsilon_steps=10, **own)
    resumed = trained(n_steps=6, checkpoint=path, epsilon_steps=10, **own)
    assert resumed.diagnostics["n_steps"] == 6
    assert len(whole.history) == len(resumed.history)
    with pytest.raises(StorageError, match=r"was trained with loss='.*test_hooks\.own_squares'"):
        trained(n_steps=6, checkpoint=path, epsilon_steps=10, **{**own, "loss": "squared"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="cannot be told from others by a checkpoint"):
            trained(n_steps=6, checkpoint=path, loss=lambda x: x.square())
