"""Trackers: what is written where, and the sentence when their library is missing."""

import importlib
import importlib.util
import sys
from types import SimpleNamespace

import pytest
from short_training import run, short

from dtgfn.engines.gfn.callbacks import MLflowTracker, TensorBoardTracker, WandbTracker

MAKERS = {
    "tensorboard": lambda: TensorBoardTracker("logs"),
    "mlflow": MLflowTracker,
    "wandb": WandbTracker,
}


@pytest.mark.parametrize("package", MAKERS)
def test_a_missing_library_is_named_with_the_command_that_installs_it(package, monkeypatch):
    module = "torch.utils.tensorboard" if package == "tensorboard" else package
    monkeypatch.setitem(sys.modules, module, None)  # makes its import fail
    with pytest.raises(ImportError, match=f"needs {package}.*pip install {package}$"):
        MAKERS[package]()


class Recorder:
    """Stands in for a library and notes every call."""

    def __init__(self, notes, prefix=""):
        self._notes, self._prefix = notes, prefix

    def __getattr__(self, name):
        def call(*args, **kwargs):
            self._notes.append((self._prefix + name, args, kwargs))
            return Recorder(self._notes, f"{name}.")

        return call


def names(notes):
    return [name for name, _, _ in notes]


def test_mlflow_gets_settings_numbers_and_an_end(monkeypatch):
    notes = []
    monkeypatch.setitem(sys.modules, "mlflow", Recorder(notes))
    training = run(callbacks=[MLflowTracker("trees", "first", "file:somewhere")])
    assert names(notes)[:4] == ["set_tracking_uri", "set_experiment", "start_run", "log_params"]
    assert notes[3][1][0]["n_forward"] == 8
    logged = [(kwargs["step"], args[0]) for name, args, kwargs in notes if name == "log_metrics"]
    assert [step for step, _ in logged] == [0, 5, 10]
    assert logged[-1][1]["elbo"] == training.history[-1]["elbo"]
    assert "loss" not in logged[0][1]  # unknown before the first step
    assert names(notes)[-1] == "end_run"


def test_wandb_gets_settings_numbers_and_an_end(monkeypatch):
    notes = []
    monkeypatch.setitem(sys.modules, "wandb", Recorder(notes))
    run(callbacks=[WandbTracker("trees", group="a")])
    assert notes[0][0] == "init"
    assert notes[0][2]["project"] == "trees"
    assert notes[0][2]["group"] == "a"
    assert notes[0][2]["config"]["n_steps"] == 12
    assert [k["step"] for name, _, k in notes if name == "init.log"] == [0, 5, 10]
    assert names(notes)[-1] == "init.finish"


def test_an_entry_is_written_once_over_two_runs(monkeypatch):
    notes = []
    monkeypatch.setitem(sys.modules, "wandb", Recorder(notes))
    tracker = WandbTracker()
    first = run(settings=short(n_steps=5), callbacks=[tracker])
    run(first.state.sampler, state=first.state, callbacks=[tracker])
    assert [k["step"] for name, _, k in notes if name == "init.log"] == [0, 5, 10]


def test_tensorboard_gets_settings_numbers_and_an_end(monkeypatch):
    notes = []
    stand_in = SimpleNamespace(SummaryWriter=Recorder(notes).SummaryWriter)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", stand_in)
    run(callbacks=[TensorBoardTracker("logs")])
    assert notes[0] == ("SummaryWriter", ("logs",), {})
    assert notes[1][0] == "SummaryWriter.add_text"
    curves = [a for name, a, _ in notes if name.endswith("add_scalar") and a[0] == "elbo"]
    assert [step for _, _, step in curves] == [0, 5, 10]
    assert names(notes)[-1] == "SummaryWriter.close"


@pytest.mark.skipif(
    importlib.util.find_spec("tensorboard") is None, reason="tensorboard is not installed"
)
@pytest.mark.filterwarnings("ignore")  # of TensorBoard's own
def test_real_tensorboard_reads_the_curves_back(tmp_path):
    run(callbacks=[TensorBoardTracker(tmp_path)])
    module = importlib.import_module("tensorboard.backend.event_processing.event_accumulator")
    events = module.EventAccumulator(str(tmp_path))
    events.Reload()
    assert [event.step for event in events.Scalars("elbo")] == [0, 5, 10]
