"""The GFlowNet engine from outside: seeds, budgets, callbacks, checkpoints, odd tables."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import torch
from clocks import tick
from enumeration import Case, Enumeration, from_batch, to_batch
from keyword_engines import infer_exact, infer_gfn
from sklearn.datasets import load_iris

import dtgfn
from dtgfn import DTGFNClassifier
from dtgfn.diagnostics import UntrustworthyFit
from dtgfn.engines.gfn.callbacks import Callback
from dtgfn.engines.gfn.objectives import OBJECTIVES, SHAPES
from dtgfn.leaves import NormalLeaf
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.trees.batch import canonical_keys
from dtgfn.trees.score import log_reward

RNG = np.random.default_rng(0)
CODES = RNG.integers(0, 6, size=(40, 3))
LABELS = ((CODES[:, 0] > 2) ^ (CODES[:, 1] > 2) ^ (RNG.random(40) < 0.1)).astype(int)
HARD = Case(CODES, LABELS, 2, max_depth=5, split_penalty=1.0)
FEW = {
    "n_trees": 60,
    "random_state": 0,
    "n_steps": 6,
    "time_budget": None,
    "n_jobs": 1,
    "n_forward": 8,
    "n_replay": 3,
    "n_scouts": 2,
    "evaluate_every": 3,
    "n_evaluate": 20,
    "hidden": (8,),
    "patience": None,
}


def infer(case: Case, **changes) -> TreePosterior:
    given = {"column": case.columns, "n_columns": case.n_columns}
    return infer_gfn(case.rows, case.score, **given, **(FEW | changes))


def exact(case: Case) -> TreePosterior:
    given = {"column": case.columns, "n_columns": case.n_columns}
    return infer_exact(case.rows, case.score, **given, n_trees=5, random_state=0)


def same(one: TreePosterior, other: TreePosterior) -> bool:
    """Whether two posteriors are equal bit by bit."""
    entries = [
        [{k: v for k, v in entry.items() if k != "seconds"} for entry in posterior.history]
        for posterior in (one, other)
    ]
    return (
        canonical_keys(one.trees) == canonical_keys(other.trees)
        and np.array_equal(one.log_prob, other.log_prob, equal_nan=True)
        and np.array_equal(one.log_weight, other.log_weight)
        and entries[0] == entries[1]
        and one.best_log_reward == other.best_log_reward
    )


# Randomness and threads.


@pytest.mark.parametrize("objective", ["db", "subtb"])
def test_a_seed_gives_the_same_trees_on_one_thread_or_two(objective):
    one = infer(HARD, objective=objective, n_steps=25)
    assert one.diagnostics["stopped_because"] == "steps"
    assert same(one, infer(HARD, objective=objective, n_steps=25))
    assert same(one, infer(HARD, objective=objective, n_steps=25, n_jobs=2))
    other = infer(HARD, objective=objective, n_steps=25, random_state=1)
    assert canonical_keys(one.trees) != canonical_keys(other.trees)


def test_global_seeds_and_torch_threads_are_left_alone():
    torch_before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        posterior = infer(HARD)
        posterior.solution.sample(5, np.random.default_rng(0))
        assert torch.get_num_threads() == 2

        def fail(state):
            assert torch.get_num_threads() == 1
            raise OSError("the disk is gone")

        with pytest.raises(OSError, match="disk"):
            infer(HARD, callbacks=[fail])
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(torch_before, torch.get_rng_state())
    np.testing.assert_array_equal(numpy_before, np.random.get_state()[1])  # noqa: NPY002


# What comes out.


@pytest.mark.parametrize("loss", SHAPES)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_objective_and_loss_gives_a_weighted_posterior(objective, loss):
    posterior = infer(HARD, objective=objective, loss=loss)
    assert np.isfinite(posterior.log_prob).all()
    np.testing.assert_allclose(
        posterior.log_reward, log_reward(posterior.trees, HARD.rows, HARD.score)
    )
    np.testing.assert_allclose(posterior.log_weight, posterior.log_reward - posterior.log_prob)
    np.testing.assert_array_equal(posterior.solution.log_prob(posterior.trees), posterior.log_prob)
    assert posterior.diagnostics["n_steps"] == 6
    assert posterior.diagnostics["elbo"] <= posterior.log_evidence + 1e-9
    assert len(posterior.history) == 3
    assert posterior.history[-1]["n_skipped"] == 0
    highest = log_reward(posterior.paper_tree, HARD.rows, HARD.score)[0]
    assert highest >= posterior.log_reward.max() - 1e-9
    assert posterior.best_log_mass >= highest - 1e-9
    best = log_reward(posterior.best_tree, HARD.rows, HARD.score)[0]
    assert best == pytest.approx(posterior.best_log_reward)
    # Only remembered flows can be looked at or not.
    assert ("open" in posterior.diagnostics) == (objective == "db")


@pytest.mark.parametrize("order", ["fixed", "free"])
def test_an_evidence_that_misses_trees_is_never_certain(order):
    """Draws that are all alike say nothing of what nobody has looked at."""
    rng = np.random.default_rng(3)
    X, weight = rng.normal(size=(40, 4)), rng.choice([1e-9, 1000.0], 40)
    y = 5.0 * (X[:, 3] > 0) + 0.3 * rng.normal(size=40)
    how = {"leaf": NormalLeaf(), "sample_weight": weight, "max_depth": 4, "n_thresholds": 9}
    how |= {"random_state": 0, "n_jobs": 1, "time_budget": None}
    options = {"leaf_order": "free", "objective": "tb", "hidden": (8,)} if order == "free" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UntrustworthyFit)
        sampled = dtgfn.infer(X, y, n_steps=2, n_trees=50, **how, **options)
    truth = dtgfn.infer(X, y, engine="exact", n_trees=1, **how).log_evidence
    assert not sampled.solution.sampler.exact
    assert sampled.log_evidence_error > 1e-4
    best = sampled.best_log_reward / sampled.score.temperature
    assert sampled.log_evidence >= best - 1e-9 * abs(best)
    if order == "fixed":
        assert abs(sampled.log_evidence - truth) <= 3 * sampled.log_evidence_error


def test_a_finished_run_is_the_exact_posterior():
    case = HARD.but(max_depth=3)
    posterior, answer = infer(case, n_steps=500), exact(case)
    assert posterior.diagnostics["stopped_because"] == "finished"
    assert posterior.solution.sampler.exact
    assert posterior.log_evidence == pytest.approx(answer.log_evidence, abs=1e-9)
    assert posterior.log_evidence_error == pytest.approx(0, abs=1e-9)
    assert posterior.diagnostics["log_z"] == pytest.approx(answer.log_evidence, rel=1e-6)
    assert posterior.best_log_mass == pytest.approx(answer.best_log_mass, abs=1e-9)
    np.testing.assert_allclose(
        posterior.solution.log_prob(answer.trees), answer.log_prob, atol=1e-9
    )


@pytest.mark.parametrize("objective", ["db", "tb"])
def test_weights_are_right_however_little_was_learned(objective):
    easy = HARD.but(labels=(CODES[:, 0] > 2).astype(int), max_depth=4)
    for case in (easy, HARD.but(max_depth=4)):
        answer = exact(case)
        policy = infer(case, objective=objective, n_steps=2).solution
        trees = answer.solution.sample(5000, np.random.default_rng(1))
        log_posterior = log_reward(trees, case.rows, case.score) - answer.log_evidence
        ratio = np.exp(policy.log_prob(trees) - log_posterior)  # its mean is the sum of P_F
        assert abs(ratio.mean() - 1) < 5 * ratio.std() / math.sqrt(ratio.size)
        if case is easy and objective == "tb":  # else weights are too heavy to be averaged
            draws = policy.sampler.draw(5000, np.random.default_rng(0))
            ratio = np.exp(draws.log_weight(1.0) - answer.log_evidence)
            assert abs(ratio.mean() - 1) < 5 * ratio.std() / math.sqrt(ratio.size)


def test_the_paper_preset_works_on_a_tiny_table():
    X, y = load_iris(return_X_y=True)
    model = DTGFNClassifier.paper(
        max_depth=2, n_thresholds=5, n_trees=50, random_state=0, n_jobs=1, options={"n_steps": 3}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UntrustworthyFit)
        model.fit(X, y)
    assert model.posterior_.diagnostics["n_steps"] == 3
    assert np.isnan(model.posterior_.log_prob).all()  # many ways lead to a tree
    found = model.posterior_
    np.testing.assert_allclose(
        found.log_reward, log_reward(found.trees, found.rows, found.score), rtol=1e-9
    )
    assert np.isfinite(found.log_weight).all()
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)


def test_a_saved_posterior_predicts_the_same(tmp_path):
    X, y = load_iris(return_X_y=True)
    model = DTGFNClassifier(max_depth=3, n_thresholds=5, n_trees=100, random_state=0, n_jobs=1)
    model.fit(X, y)
    assert model.posterior_.diagnostics["stopped_because"] == "finished"
    assert model.score(X, y) > 0.9
    dtgfn.save(model, tmp_path / "m.dtgfn")
    loaded = dtgfn.load(tmp_path / "m.dtgfn")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert loaded.log_evidence_ == model.log_evidence_
    assert loaded.describe() == model.describe()
    sure = DTGFNClassifier(inference="exact", max_depth=3, n_thresholds=5, n_trees=1).fit(X, y)
    assert model.log_evidence_ == pytest.approx(sure.log_evidence_, abs=1e-6)
    assert np.abs(model.predict_proba(X) - sure.predict_proba(X)).max() < 0.15


def test_a_fit_that_time_ends_early_warns_with_a_number():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(150, 8)), rng.integers(0, 2, 150)
    with pytest.warns(UntrustworthyFit, match=r"may be off: .*[0-9]"):
        model = DTGFNClassifier(
            max_depth=5, split_penalty="paper", n_thresholds=20, time_budget=0.2, n_trees=100
        ).fit(X, y)
    assert model.posterior_.diagnostics["stopped_because"] == "time"


# Watching, ending, going on.


def test_callbacks_watch_and_end_training():
    seen = []

    class Watcher(Callback):
        def on_start(self, state):
            seen.append("start")

        def on_step(self, state):
            seen.append(state.step)

        def on_end(self, state):
            seen.append("end")

    posterior = infer(HARD, callbacks=[Watcher(), lambda state: state.step < 4])
    assert seen == ["start", 1, 2, 3, 4, "end"]
    assert posterior.diagnostics["stopped_because"] == "callback"
    assert posterior.diagnostics["n_steps"] == 4


def interrupt(state):
    if state.step == 4:
        raise KeyboardInterrupt


def test_ctrl_c_keeps_the_result():
    posterior = infer(HARD, callbacks=[interrupt])
    assert posterior.diagnostics["stopped_because"] == "interrupted"
    assert posterior.diagnostics["n_steps"] == 4
    reward = log_reward(posterior.trees, HARD.rows, HARD.score)
    np.testing.assert_allclose(posterior.log_reward, reward)
    np.testing.assert_allclose(posterior.log_weight, reward - posterior.log_prob, atol=1e-9)


@pytest.mark.parametrize("prior", [1.0, "bcart"])
@pytest.mark.parametrize("calls", range(1, 6))
def test_ctrl_c_in_the_middle_of_a_loop_leaves_nothing_half_done(prior, calls):
    left = [calls]

    def arm(state):
        graph = state.sampler.graph
        run = graph.run

        def bomb(work, n_items):
            left[0] -= 1
            if left[0] == 0:
                graph.run = run
                work(0, n_items // 2)
                raise KeyboardInterrupt
            run(work, n_items)

        if state.step == 3:
            graph.run = bomb

    posterior = infer(HARD.but(split_penalty=prior), callbacks=[arm])
    assert posterior.diagnostics["stopped_because"] == "interrupted"
    assert np.isfinite(posterior.log_prob).all()
    again = posterior.solution.sample(300, np.random.default_rng(0))
    assert np.isfinite(posterior.solution.log_prob(again)).all()
    sampler = posterior.solution.sampler
    for level in sampler.graph.levels[:-1]:
        for node in np.flatnonzero(~np.isnan(level.flow[: len(level)])):
            cuts = slice(level.start[node], level.start[node] + level.n_cuts[node])
            total = np.logaddexp.reduce([level.stop[node], *level.cuts.logit[cuts]])
            assert total == pytest.approx(level.flow[node], abs=1e-9)


@pytest.mark.parametrize("objective", ["db", "tb"])
@pytest.mark.parametrize("killed", [3, 5])
def test_a_checkpoint_is_taken_up_as_if_nothing_had_happened(tmp_path, objective, killed):
    path = tmp_path / "c.dtgfn"
    whole = infer(HARD, n_steps=12, objective=objective)
    infer(HARD, n_steps=killed, objective=objective, checkpoint=path)
    again = infer(HARD, n_steps=12, objective=objective, checkpoint=path)
    assert again.diagnostics["n_steps"] == 12
    assert same(whole, again)


def test_a_warm_start_goes_on_and_another_table_starts_anew():
    X, y = CODES.astype(float), LABELS
    options = {"n_scouts": 1, "n_forward": 5, "evaluate_every": 2, "n_evaluate": 20}
    model = DTGFNClassifier(
        max_depth=4,
        n_thresholds=5,
        n_trees=50,
        random_state=0,
        n_jobs=1,
        warm_start=True,
        options={**options, "n_steps": 3},
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UntrustworthyFit)
        sampler = model.fit(X, y).posterior_.solution.sampler
        assert model.posterior_.diagnostics["n_steps"] == 3
        model.set_params(options={**options, "n_steps": 8}).fit(X, y)
        assert model.posterior_.diagnostics["n_steps"] == 8
        assert model.posterior_.solution.sampler is sampler
        assert [entry["step"] for entry in model.posterior_.history] == [0, 2, 4, 6, 8]
        model.fit(X, 1 - y)
        assert model.posterior_.solution.sampler is not sampler
        assert model.posterior_.history[0]["step"] == 0


def test_a_policy_cannot_go_on_with_other_settings():
    posterior = infer(HARD)
    with pytest.raises(ValueError, match="set it back, or start anew"):
        infer(HARD, policy=posterior.solution, objective="tb")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is one")
def test_a_device_that_is_not_there_is_named_in_a_sentence():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=r"device='cuda' is not here; give 'cpu', or 'auto'.*\.$"):
        DTGFNClassifier(options={"device": "cuda"}).fit(X, y)
    assert infer(HARD, device="auto", n_steps=1).diagnostics["n_steps"] == 1


# Odd tables.

ODD = {
    "one class": Case(RNG.integers(0, 4, (10, 2)), np.zeros(10, dtype=int), 1, max_depth=4),
    "one row": Case(np.array([[1, 2]]), np.array([0]), 1, max_depth=4),
    "one row of two classes": Case(np.array([[1, 2]]), np.array([1]), 2, max_depth=4),
    "constant columns": Case(np.full((6, 2), 3), np.array([0, 1] * 3), 2, max_depth=4),
    "constant columns, bcart": Case(
        np.full((6, 2), 3), np.array([0, 1] * 3), 2, max_depth=4, split_penalty="bcart"
    ),
    "two rows": Case(np.array([[0], [9]]), np.array([0, 1]), 2, max_depth=5),
    "two rows, fractional": Case(
        np.array([[0], [9]]), np.array([0, 1]), 2, np.array([0.3, 1.7]), max_depth=5
    ),
    "depth 0": HARD.but(max_depth=0),
    "depth 1": HARD.but(max_depth=1),
    "depth 2": HARD.but(max_depth=2),
    "no leaf table": Case(
        RNG.integers(0, 4, (1200, 2)), np.arange(1200) % 2, 2, max_depth=3, split_penalty="paper"
    ),
    "many classes": Case(RNG.integers(0, 4, (600, 2)), np.arange(600) % 300, 300, max_depth=3),
    "deep": Case(RNG.integers(0, 9, (12, 2)), np.arange(12) % 2, 2, max_depth=30),
}


@pytest.mark.parametrize("objective", ["db", "tb"])
@pytest.mark.parametrize("name", ODD)
def test_odd_tables(name, objective):
    case = ODD[name]
    long = objective == "db" and name not in ("many classes", "deep")
    posterior = infer(case, objective=objective, n_steps=400 if long else 3)
    assert np.isfinite(posterior.log_prob).all()
    assert len(posterior.trees) == 60
    np.testing.assert_allclose(
        posterior.log_reward, log_reward(posterior.trees, case.rows, case.score)
    )
    np.testing.assert_allclose(
        posterior.solution.log_prob(posterior.trees), posterior.log_prob, atol=1e-9
    )
    told = posterior.diagnostics
    if long or posterior.solution.sampler.exact:
        answer = exact(case)
        assert told["stopped_because"] == "finished"
        # Training may end before the last row set, once little is proven to be left.
        off = {"rel": 1e-9, "abs": 1e-9} if told["exact"] else {"abs": 1e-3}
        assert told["exact"] or told["open_most"] <= 1e-3
        assert posterior.log_evidence == pytest.approx(answer.log_evidence, **off)
        assert posterior.best_log_mass == pytest.approx(answer.best_log_mass, abs=1e-6)
    if name == "no leaf table":
        assert posterior.solution.sampler.graph.tail_levels == 1


def test_a_tiny_table_by_enumeration():
    case = Case(
        np.array([[0, 1], [1, 0], [3, 2], [3, 0], [1, 2]]),
        np.array([0, 1, 1, 0, 2]),
        3,
        max_depth=3,
        split_penalty=1.0,
        temperature=2.0,
        column=(0, 0),
        n_columns=2,
    )
    every = Enumeration(case)
    posterior = infer(case, n_steps=100)
    assert posterior.log_evidence == pytest.approx(every.log_z, abs=1e-9)
    assert posterior.best_log_mass == pytest.approx(every.best_log_mass)
    known = set(every.trees)
    assert all(from_batch(posterior.trees, b) in known for b in range(60))
    np.testing.assert_allclose(
        np.exp(posterior.solution.log_prob(to_batch(every.trees))), every.probability
    )


@pytest.mark.filterwarnings("ignore::dtgfn.diagnostics.UntrustworthyFit")
@pytest.mark.parametrize("policy", ["fresh", "shipped"])
def test_what_torch_imports_with_its_first_optimizer_takes_no_time_of_the_first_fit(
    monkeypatch, policy
):
    now, make = tick(monkeypatch, 0.0), torch.optim.Adam.__init__
    waited = []

    def slow_once(self, *args, **options):
        if not waited:
            now.time += 1000.0
            waited.append(now.time)
        make(self, *args, **options)

    monkeypatch.setattr(torch.optim.Adam, "__init__", slow_once)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    options = {"max_depth": 4, "n_thresholds": 9, "n_trees": 20, "patience": None}
    found = dtgfn.infer(X, X[:, 0] > 0, policy=policy, n_steps=2, time_budget=10.0, **options)
    assert waited
    assert found.diagnostics["seconds"] < 10.0
