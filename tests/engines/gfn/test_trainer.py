"""The training loop on a GFlowNet that can be known exactly, and on the real one."""

import json

import numpy as np
import pytest
import torch
from clocks import tick
from short_training import CASE, facts, run, short
from tabular import TabularSampler
from thoroughness import diagonal

from dtgfn.engines.gfn.callbacks import Callback
from dtgfn.engines.gfn.free.free_sampler import FreeSampler
from dtgfn.engines.gfn.objectives import OBJECTIVES, SHAPES, Residuals, join_residuals
from dtgfn.engines.gfn.settings import make_settings
from dtgfn.engines.gfn.trainer import epsilon_at, plateaued, train
from dtgfn.trees.batch import canonical_keys

# It learns.


@pytest.mark.parametrize(
    ("objective", "tree_form", "shape"),
    diagonal([*((name, False) for name in OBJECTIVES), ("subtb", True)], SHAPES),
)
def test_every_objective_and_shape_reaches_the_posterior(objective, tree_form, shape):
    sampler = TabularSampler(CASE, tree_form)
    settings = make_settings(
        objective=objective,
        loss=shape,
        n_steps=300,
        n_forward=64,
        n_replay=10,
        replay_capacity=10,
        learning_rate=0.05,
        epsilon=0.2,
        epsilon_steps=None,
        evaluate_every=100,
        patience=None,
    )
    training = run(sampler, settings)
    assert sampler.total_variation() < 0.05
    assert sampler.log_z.item() == pytest.approx(sampler.exact_log_z, abs=0.1)
    last = training.history[-1]
    assert last["log_evidence"] == pytest.approx(sampler.exact_log_z, abs=0.05)
    assert last["elbo"] <= last["log_evidence"] + 1e-9
    assert last["ess"] > 0.95
    assert training.best_log_reward == pytest.approx(sampler.log_reward.max())
    assert canonical_keys(training.best_tree) == canonical_keys(
        sampler.trees[[int(np.argmax(sampler.log_reward))]]
    )


def test_the_target_is_tempered():
    case = CASE.but(temperature=3.0)
    sampler = TabularSampler(case)
    settings = make_settings(objective="tb", n_steps=300, learning_rate=0.05, patience=None)
    train(sampler, case.rows, case.score, settings, random_state=0)
    assert sampler.total_variation() < 0.05


def test_the_paper_gflownet_gets_better():
    case = CASE.but(max_depth=2)
    sampler = FreeSampler(case.rows, case.score, hidden=(32, 32))
    settings = short(leaf_order="free", objective="tb", n_steps=60, learning_rate=0.01)
    history = train(sampler, case.rows, case.score, settings, random_state=0).history
    assert history[-1]["elbo"] > history[0]["elbo"] + 1


# What it tells.


def test_history_is_plain_json_from_the_untrained_policy_on():
    training = run()
    assert [entry["step"] for entry in training.history] == [0, 5, 10]
    assert json.loads(json.dumps(training.history, allow_nan=False)) == training.history
    first, last = training.history[0], training.history[-1]
    assert first["loss"] is None
    names = {"loss", "log_z", "elbo", "elbo_error", "log_evidence", "ess", "best_log_reward"}
    assert names | {"epsilon", "seconds", "n_trajectories", "n_skipped"} <= set(last)
    assert last["n_trajectories"] == 12
    assert all(last[name] is not None for name in names)


def test_log_z_starts_from_the_draws_or_as_told():
    assert run(settings=short(n_steps=0)).state.sampler.log_z.item() == pytest.approx(
        run().history[0]["log_evidence"], abs=1e-4
    )
    told = run(settings=short(n_steps=0, log_z_start=-3.5))
    assert told.state.sampler.log_z.item() == -3.5


def test_trees_that_stand_for_others_are_replayed_but_are_not_the_best():
    sampler = TabularSampler(CASE)
    sampler.complete_trees = False
    drawn = []
    draw = sampler.draw

    def noting(n_trees, rng):
        drawn.append(draw(n_trees, rng))
        return drawn[-1]

    sampler.draw = noting
    training = run(sampler, short(n_evaluate=2))
    assert training.best_log_reward == max(draws.log_reward.max() for draws in drawn)


def test_progress_says_how_it_goes():
    seen = []
    run(progress=lambda stage, share, detail="": seen.append((stage, share, detail)))
    assert {stage for stage, _, _ in seen} == {"training"}
    shares = [share for _, share, _ in seen]
    assert shares == sorted(shares)
    assert shares[-1] == 1
    for word in ("loss", "log Z", "ELBO", "ESS", "best log R"):
        assert word in seen[-1][2]


def test_no_global_random_state_is_touched():
    before = torch.get_rng_state(), np.random.get_state()[1].tolist()  # noqa: NPY002
    run()
    after = torch.get_rng_state(), np.random.get_state()[1].tolist()  # noqa: NPY002
    assert torch.equal(before[0], after[0])
    assert before[1] == after[1]


def test_equal_seeds_make_equal_runs_and_others_do_not():
    assert facts(run()) == facts(run())
    assert facts(run())["network"] != facts(run(random_state=1))["network"]
    seeded = [run(random_state=np.random.Generator(np.random.MT19937(5))) for _ in range(2)]
    assert facts(seeded[0]) == facts(seeded[1])


@pytest.mark.parametrize(("n_done", "expected"), [(0, 0.5), (50, 0.3), (100, 0.1), (999, 0.1)])
def test_epsilon_falls_in_a_line_and_stays(n_done, expected):
    settings = make_settings(epsilon=0.5, epsilon_end=0.1, epsilon_steps=101, n_steps=20)
    assert epsilon_at(settings, n_done, 0.9) == pytest.approx(expected)
    by_time = make_settings(epsilon=0.5, epsilon_end=0.1, epsilon_steps=None)
    assert epsilon_at(by_time, n_done, 0.5) == pytest.approx(0.3)


# When it ends.


def test_steps_end_it():
    training = run()
    assert (training.stopped_because, training.n_steps) == ("steps", 12)


def test_time_ends_it(monkeypatch):
    tick(monkeypatch, 0.1)
    training = run(settings=short(n_steps=None, epsilon_steps=None), time_budget=10.0)
    assert training.stopped_because == "time"
    assert 0 < training.n_steps < 100  # each step looks at the clock
    assert 10.0 <= training.seconds < 12.0
    assert run(settings=short(n_steps=None), time_budget=0).n_steps == 0


def test_a_sampler_that_has_finished_ends_it():
    sampler = TabularSampler(CASE)
    sampler.finish_after = 7
    training = run(sampler)
    assert (training.stopped_because, training.n_steps) == ("finished", 7)
    assert training.history[-1]["step"] == 7
    assert run(sampler, state=training.state).n_steps == 7


def test_a_plateau_ends_it():
    settings = make_settings(
        objective="tb", learning_rate=0.1, evaluate_every=5, patience=5, n_steps=5000, n_forward=16
    )
    training = run(settings=settings)
    assert training.stopped_because == "plateau"
    assert training.n_steps < 2000
    assert training.state.sampler.total_variation() < 0.1


@pytest.mark.parametrize(
    ("elbo", "error", "expected"),
    [
        (np.zeros(40), 0.0, True),
        (np.zeros(20), 0.0, False),  # not long enough to say
        (np.arange(40) * 0.1, 1.0, False),  # small steps, but they add up
        (np.arange(40) * -1.0, 1.0, True),
        (np.minimum(np.arange(60), 30), 0.1, True),
        (np.minimum(np.arange(45), 30), 0.1, False),
    ],
)
def test_plateau_rule(elbo, error, expected):
    history = [{"elbo": float(value), "elbo_error": error} for value in elbo]
    history.insert(3, {"elbo": None, "elbo_error": None})
    assert plateaued(history, make_settings(patience=20, plateau_window=5)) is expected
    assert not plateaued(history, make_settings(patience=None))


def test_training_without_an_end_is_refused():
    with pytest.raises(ValueError, match="never end; give n_steps, patience or a time_budget"):
        run(settings=short(n_steps=None))
    with pytest.raises(ValueError, match="time_budget=nan"):
        run(time_budget=float("nan"))


class Notes(Callback):
    def __init__(self, stop_in="", at=0):
        self.events, self.stop_in, self.at = [], stop_in, at

    def note(self, event, state):
        self.events.append((event, state.step))
        return not (event == self.stop_in and state.step >= self.at)

    def on_start(self, state):
        return self.note("start", state)

    def on_step(self, state):
        return self.note("step", state)

    def on_end(self, state):
        return self.note("end", state)


def test_callbacks_are_told_and_may_end_it():
    notes = Notes("step", 3)
    training = run(callbacks=[notes])
    assert (training.stopped_because, training.n_steps) == ("callback", 3)
    assert notes.events == [("start", 0), ("step", 1), ("step", 2), ("step", 3), ("end", 3)]
    assert run(callbacks=[Notes("start")]).n_steps == 0
    assert run(callbacks=[lambda state: state.step < 4]).n_steps == 4
    assert run(callbacks=[lambda state: np.bool_(state.step < 4)]).n_steps == 4
    assert run(callbacks=[lambda state: None]).stopped_because == "steps"
    with pytest.raises(TypeError, match="callback 3 is not usable"):
        run(callbacks=[3])


def test_ctrl_c_keeps_what_was_learned():
    def interrupt(state):
        if state.step == 6:
            raise KeyboardInterrupt

    notes = Notes()
    training = run(callbacks=[notes, interrupt])
    assert (training.stopped_because, training.n_steps) == ("interrupted", 6)
    assert notes.events[-1] == ("end", 6)
    assert len(training.replay) > 0
    assert training.history[-1]["step"] == 5
    assert facts(run(training.state.sampler, state=training.state)) == facts(run())


def test_other_errors_get_out_and_trackers_still_close():
    notes = Notes()

    def fail(state):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(callbacks=[notes, fail])
    assert notes.events[-1] == ("end", 1)


# Odd gradients.


class Exact(TabularSampler):
    """Nothing is left to learn: residuals without a gradient, or no residuals at all."""

    n_columns = 2

    def part_residuals(self, trajectories, with_flows):
        shape = (len(trajectories.action), self.n_columns)
        return Residuals(torch.zeros(shape), torch.ones(shape, dtype=torch.bool))


@pytest.mark.parametrize("n_columns", [0, 2])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_nothing_to_learn_is_no_error(objective, n_columns):
    sampler = Exact(CASE)
    sampler.n_columns = n_columns
    training = run(sampler, short(objective=objective))
    assert training.n_steps == 12
    assert training.state.n_skipped == 0
    assert sampler.network.logit.abs().max() == 0


class Broken(TabularSampler):
    """Every third step has a loss, or a gradient, that is not finite."""

    infinite_loss = True

    def residuals(self, trajectories, with_flows, n_update=0):
        residuals = super().residuals(trajectories, with_flows, n_update)
        if self.n_learned % 3:
            return residuals
        if self.infinite_loss:
            return Residuals(residuals.delta / 0.0, residuals.mask)
        zero = self.network.logit[0] - self.network.logit[0].detach()
        return Residuals(residuals.delta + torch.sqrt(zero.abs()), residuals.mask)


@pytest.mark.parametrize("infinite_loss", [True, False])
def test_what_is_not_finite_is_skipped(infinite_loss):
    sampler = Broken(CASE)
    sampler.infinite_loss = infinite_loss
    training = run(sampler, short(n_updates=1))
    assert training.n_steps == 12
    assert training.history[-1]["n_skipped"] == 4
    assert torch.isfinite(sampler.network.logit).all()
    assert training.history[-1]["loss"] is not None


def test_joined_residuals_keep_their_parts():
    def part(n_rows, n_columns):
        delta = torch.arange(n_rows * n_columns, dtype=torch.float32).reshape(n_rows, n_columns)
        end = torch.arange(n_columns).repeat(n_rows, 1) + 1
        return Residuals(delta, torch.ones_like(delta, dtype=torch.bool), end)

    both = join_residuals([part(2, 3), part(1, 5)])
    assert both.delta.tolist() == [[0, 1, 2, 0, 0], [3, 4, 5, 0, 0], [0, 1, 2, 3, 4]]
    assert both.mask.sum(dim=1).tolist() == [3, 3, 5]
    assert both.end.tolist() == [[1, 2, 3, 3, 4], [1, 2, 3, 3, 4], [1, 2, 3, 4, 5]]


# Going on.


@pytest.mark.parametrize("cut", [3, 5, 10])
def test_warm_start_is_one_long_run(cut):
    first = run(settings=short(n_steps=cut))
    second = run(first.state.sampler, short(), state=first.state, random_state=77)
    assert facts(second) == facts(run())


def test_a_state_goes_on_only_with_its_own():
    first = run()
    with pytest.raises(ValueError, match="another sampler"):
        run(TabularSampler(CASE), state=first.state)
    with pytest.raises(ValueError, match=r"learning_rate=0.05, not 0.01"):
        run(first.state.sampler, short(learning_rate=0.01), state=first.state)


def test_a_second_time_budget_is_a_new_one(monkeypatch):
    tick(monkeypatch, 0.1)
    settings = short(n_steps=None)
    first = run(settings=settings, time_budget=10.0)
    n_steps, seconds = first.n_steps, first.seconds
    second = run(first.state.sampler, settings, state=first.state, time_budget=10.0)
    assert second.n_steps > n_steps > 0
    assert second.seconds >= seconds + 10.0 >= 20.0
