"""Checkpoints: a killed run goes on as if nothing had happened, and nothing else is taken up."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import short_training as helpers
from clocks import tick
from short_training import CASE, facts, run, short
from tabular import TabularSampler

from dtgfn._support.archive import StorageError, read_archive
from dtgfn._support.archive_writing import write_archive
from dtgfn.engines.gfn.checkpoint import KIND, VERSION
from dtgfn.engines.gfn.free.free_sampler import FreeSampler
from dtgfn.engines.gfn.settings import Checkpoint
from dtgfn.engines.gfn.state import data_fingerprint
from dtgfn.engines.gfn.trainer import train
from dtgfn.trees.score import Rows


def tabular_sampler():
    return TabularSampler(CASE)


def free_sampler():
    return FreeSampler(CASE.rows, CASE.score, hidden=(16, 16))


class Killed(BaseException):
    """What no training loop catches."""


def kill_at(step):
    def callback(state):
        if state.step == step:
            raise Killed

    return callback


@pytest.mark.parametrize("objective", ["tb", "subtb"])
@pytest.mark.parametrize(
    ("make", "killed"),
    [(tabular_sampler, 1), (tabular_sampler, 6), (tabular_sampler, 10), (free_sampler, 7)],
)
def test_a_killed_run_ends_like_one_that_was_not(tmp_path, make, killed, objective):
    settings = short(objective=objective, leaf_order="free")
    plan = Checkpoint(tmp_path / "run.dtgfn", every_steps=3)
    with pytest.raises(Killed):
        run(make(), settings, checkpoint=plan, callbacks=[kill_at(killed)])
    resumed = run(make(), settings, checkpoint=plan, random_state=99)
    assert facts(resumed) == facts(run(make(), settings))
    # And what has ended stays as it is.
    again = run(make(), settings, checkpoint=plan)
    assert facts(again) == facts(resumed)
    assert again.seconds >= resumed.seconds


def test_a_run_ended_by_ctrl_c_or_a_callback_is_saved_to_the_step(tmp_path):
    path = tmp_path / "run.dtgfn"
    stopped = run(checkpoint=path, callbacks=[lambda state: state.step < 7])
    assert stopped.n_steps == 7
    assert read_archive(path, KIND, VERSION).meta["step"] == 7
    assert facts(run(checkpoint=path)) == facts(run())


@pytest.mark.parametrize("where", ["learn", "draw"])
def test_a_step_broken_in_its_middle_is_not_saved(tmp_path, where):
    class Interrupted(TabularSampler):
        def learn(self, trajectories):
            self.break_off("learn")
            return super().learn(trajectories)

        def draw(self, n_trees, rng):
            self.break_off("draw")
            return super().draw(n_trees, rng)

        def break_off(self, now):
            if now == where and self.n_learned == 10 - (where == "learn"):
                raise KeyboardInterrupt

    plan = Checkpoint(tmp_path / "run.dtgfn", every_steps=4)
    assert run(Interrupted(CASE), checkpoint=plan).stopped_because == "interrupted"
    assert read_archive(plan.path, KIND, VERSION).meta["step"] == 8
    assert facts(run(checkpoint=plan)) == facts(run())


def test_more_steps_may_be_asked_for(tmp_path):
    path = tmp_path / "run.dtgfn"
    run(settings=short(n_steps=5), checkpoint=path)
    assert facts(run(checkpoint=path)) == facts(run())


def test_the_time_before_counts(tmp_path, monkeypatch):
    tick(monkeypatch, 0.1)
    path, settings = tmp_path / "run.dtgfn", short(n_steps=None)
    first = run(settings=settings, checkpoint=path, time_budget=10.0)
    assert (first.stopped_because, first.n_steps > 0) == ("time", True)
    again = run(settings=settings, checkpoint=path, time_budget=10.0)
    assert (again.stopped_because, again.n_steps) == ("time", first.n_steps)
    assert run(settings=settings, checkpoint=path, time_budget=20.0).n_steps > first.n_steps


def test_a_state_in_memory_overrules_the_file_but_not_another_table_s(tmp_path):
    path = tmp_path / "run.dtgfn"
    first = run(settings=short(n_steps=5), checkpoint=path)
    run(first.state.sampler, state=first.state, checkpoint=path)
    assert read_archive(path, KIND, VERSION).meta["step"] == 12
    other = CASE.but(leaf_concentration=0.5)
    with pytest.raises(StorageError, match="another table or with another score"):
        train(
            first.state.sampler,
            other.rows,
            other.score,
            short(),
            state=first.state,
            checkpoint=path,
        )


@pytest.mark.long
def test_a_process_that_dies_can_be_resumed(tmp_path):
    path = tmp_path / "run.dtgfn"
    program = f"""
        import os, sys
        sys.path.insert(0, {str(Path(helpers.__file__).parent)!r})
        from short_training import run
        from dtgfn.engines.gfn.settings import Checkpoint
        plan = Checkpoint({str(path)!r}, every_steps=4)
        run(checkpoint=plan, callbacks=[lambda state: os._exit(3) if state.step == 9 else None])
    """
    source = str(Path(helpers.train.__code__.co_filename).parents[3])
    environment = os.environ | {"PYTHONPATH": source}
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], env=environment)
    assert done.returncode == 3
    assert read_archive(path, KIND, VERSION).meta["step"] == 8
    assert facts(run(checkpoint=path)) == facts(run())


# What does not fit.


def test_the_fingerprint_names_table_and_score():
    rows, score = CASE.rows, CASE.score
    name = data_fingerprint(rows, score)
    order = np.random.default_rng(0).permutation(len(rows.target))
    assert data_fingerprint(Rows(rows.codes[order], rows.target[order], rows.weight), score) == name
    others = [
        (Rows(rows.codes + 1, rows.target, rows.weight), score),
        (Rows(rows.codes, 1 - rows.target, rows.weight), score),
        (Rows(rows.codes, rows.target, rows.weight * 2), score),
        (Rows(rows.codes[:, :2], rows.target, rows.weight), score),
        (rows, CASE.but(temperature=2.0).score),
        (rows, CASE.but(split_penalty=2.0).score),
    ]
    assert len({data_fingerprint(*other) for other in others} | {name}) == 7


def test_another_table_is_refused_and_the_file_left_alone(tmp_path):
    path = tmp_path / "run.dtgfn"
    run(checkpoint=path)
    before = path.read_bytes()
    other = CASE.but(labels=1 - CASE.labels)
    with pytest.raises(
        StorageError, match="another table or with another score; give another file"
    ):
        train(TabularSampler(other), other.rows, other.score, short(), checkpoint=path)
    assert path.read_bytes() == before


def test_other_settings_are_refused(tmp_path):
    path = tmp_path / "run.dtgfn"
    run(checkpoint=path)
    with pytest.raises(StorageError, match=r"was trained with n_forward=8, not 9; use the same"):
        run(settings=short(n_forward=9), checkpoint=path)


@pytest.mark.parametrize("keep", [0, 10, 200, -30])
def test_a_damaged_file_is_refused_in_a_sentence(tmp_path, keep):
    path = tmp_path / "run.dtgfn"
    run(checkpoint=path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(StorageError, match=r"run\.dtgfn' is .*\.$") as refusal:
        run(checkpoint=path)
    assert "\n" not in str(refusal.value)


def change_rng(meta, arrays):
    meta["rng"] = {"bit_generator": "MT19937"}


def change_history(meta, arrays):
    meta["history"] = [3]


def drop_replay(meta, arrays):
    del arrays["replay.left"]


def reshape_network(meta, arrays):
    arrays["network.0"] = arrays["network.0"][:2]


def reshape_moment(meta, arrays):
    arrays["adam.0.exp_avg"] = np.zeros(1, dtype=np.float32)


def drop_moment(meta, arrays):
    del arrays["adam.0.exp_avg"]


def loop_tree(meta, arrays):
    arrays["replay.left"] = np.zeros_like(arrays["replay.left"])


@pytest.mark.parametrize(
    "damage",
    [
        change_rng,
        change_history,
        drop_replay,
        reshape_network,
        reshape_moment,
        drop_moment,
        loop_tree,
    ],
)
def test_a_file_with_odd_content_is_refused_in_a_sentence(tmp_path, damage):
    path = tmp_path / "run.dtgfn"
    run(checkpoint=path)
    contents = read_archive(path, KIND, VERSION)
    damage(contents.meta, contents.arrays)
    write_archive(path, KIND, VERSION, contents.meta, contents.arrays)
    with pytest.raises(StorageError, match=r"is damaged or of another sampler \(.*\)\.$"):
        run(checkpoint=path)


def test_a_path_that_cannot_be_written_is_known_before_the_first_step(tmp_path):
    steps = []
    with pytest.raises(StorageError, match="its directory does not exist"):
        run(checkpoint=tmp_path / "no" / "run.dtgfn", callbacks=[lambda s: steps.append(s.step)])
    assert steps == []


def test_a_disk_that_gets_lost_ends_no_training(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()

    def lose(state):
        if state.step == 4:
            (folder / "run.dtgfn").unlink()
            folder.rmdir()

    plan = Checkpoint(folder / "run.dtgfn", every_steps=2)
    with pytest.warns(UserWarning, match="goes on without a checkpoint.*does not exist"):
        training = run(checkpoint=plan, callbacks=[lose])
    assert training.n_steps == 12


def test_a_model_is_not_taken_for_a_checkpoint(tmp_path):
    path = tmp_path / "model.dtgfn"
    write_archive(path, "model", 1, {}, {})
    before = path.read_bytes()
    with pytest.raises(StorageError, match="holds a dtgfn 'model', not a 'training checkpoint'"):
        run(checkpoint=path)
    assert path.read_bytes() == before
