"""Training settings: presets, and a sentence for every bad value."""

import numpy as np
import pytest
import torch

from dtgfn.engines.gfn.engine import ENGINE
from dtgfn.engines.gfn.making import find_device
from dtgfn.engines.gfn.objectives import OBJECTIVES, SHAPES
from dtgfn.engines.gfn.settings import _LOSSES, _OBJECTIVES, Settings, make_settings


def test_the_paper_preset_holds_the_published_table():
    paper = make_settings("paper")
    assert paper.hidden == (256, 256, 256)
    assert (paper.architecture, paper.leaf_order, paper.objective) == ("mlp", "free", "tb")
    assert (paper.learning_rate, paper.n_steps) == (0.01, 100)
    assert (paper.n_forward, paper.n_replay, paper.replay_capacity) == (90, 10, 100)
    assert (paper.epsilon, paper.epsilon_steps) == (0.1, None)
    assert (paper.log_z_start, paper.grad_clip) == (16 * 150 / 64, None)


def test_one_log_z_moves_as_the_sum_of_the_releases_sixteen():
    """Adam scales each gradient to its own size, so sixteen equal ones make sixteen equal steps."""
    target = -40.0
    paper = make_settings("paper")
    one = torch.nn.Parameter(torch.tensor(paper.log_z_start, dtype=torch.float64))
    many = torch.nn.Parameter(torch.full((16,), 150 / 64, dtype=torch.float64))
    optimizers = [
        torch.optim.Adam([one], lr=paper.log_z_learning_rate),
        torch.optim.Adam([many], lr=100 * paper.learning_rate),
    ]
    for _ in range(100):
        for optimizer, log_z in zip(optimizers, (one, many), strict=True):
            optimizer.zero_grad()
            ((log_z.sum() - target) ** 2).backward()
            optimizer.step()
        assert one.item() == pytest.approx(many.sum().item(), abs=1e-5)
    assert abs(one.item() - target) < 20


def test_overrides_may_be_lists_and_numpy_numbers():
    settings = make_settings(
        hidden=[32, np.int64(16)], n_steps=np.int32(5), epsilon=np.float64(0.5)
    )
    assert settings == make_settings(hidden=(32, 16), n_steps=5, epsilon=0.5)
    assert type(settings.n_steps) is int
    assert type(settings.epsilon) is float


BAD = [
    {"leaf_order": "random"},
    {"objective": "tbb"},
    {"loss": ["squared"]},
    {"architecture": "cnn"},
    {"hidden": 256},
    {"hidden": (0,)},
    {"hidden": (True,)},
    {"learning_rate": 0},
    {"learning_rate": float("nan")},
    {"learning_rate": "fast"},
    {"learning_rate": None},
    {"log_z_learning_rate": -1},
    {"log_z_start": float("inf")},
    {"grad_clip": 0},
    {"n_forward": 0},
    {"n_forward": True},
    {"n_forward": 3.0},
    {"n_replay": -1},
    {"replay_capacity": 0},
    {"epsilon": 1.5},
    {"epsilon": 0.1, "epsilon_end": 0.2},
    {"epsilon_steps": 0},
    {"n_steps": -1},
    {"row_batch": 0, "leaf_order": "free"},
    {"row_batch": 10, "leaf_order": "fixed"},
    {"architecture": "set_transformer", "leaf_order": "fixed"},
    {"evaluate_every": 0},
    {"n_evaluate": 1},
    {"patience": 0},
    {"plateau_window": 0},
    {"plateau_tolerance": -1.0},
    {"device": "gpu"},
    {"device": None},
]


@pytest.mark.parametrize("values", BAD, ids=str)
def test_a_bad_value_is_named_and_the_way_out_said(values):
    with pytest.raises(ValueError, match=r"give|exploration") as refusal:
        make_settings(**values)
    sentence = str(refusal.value)
    assert any(f"{name}=" in sentence for name in values)
    assert sentence.endswith(".")
    assert "\n" not in sentence


def test_unknown_names_are_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"did you mean 'learning_rate'\?.*n_forward"):
        make_settings(learning_rat=0.1)
    with pytest.raises(ValueError, match=r"'zzz' is not a setting; there are leaf_order"):
        make_settings(zzz=0.1)
    with pytest.raises(ValueError, match="give one of default, paper"):
        make_settings("papers")


def test_settings_made_directly_are_checked_too():
    with pytest.raises(ValueError, match="n_steps=-3"):
        Settings(n_steps=-3)


def test_a_device_that_is_not_here_is_refused():
    assert find_device("cpu") == "cpu"
    assert find_device("auto") in ("cpu", "cuda")
    with pytest.raises(ValueError, match=r"device='cuda:999' is not here"):
        find_device("cuda:999")


# The engine's options.


def test_every_objective_and_loss_is_known_without_torch():
    assert tuple(OBJECTIVES) == _OBJECTIVES
    assert tuple(SHAPES) == _LOSSES
    with pytest.raises(ValueError, match=f"give one of {', '.join(OBJECTIVES)}."):
        make_settings(objective="zzz")
    with pytest.raises(ValueError, match=f"give one of {', '.join(SHAPES)}."):
        make_settings(loss="zzz")


def test_options_are_read_from_keywords():
    def watch(state):
        pass

    options = ENGINE.read_options({"preset": "paper", "n_steps": 7, "callbacks": iter([watch])})
    assert options.settings == make_settings("paper", n_steps=7)
    assert options.callbacks == (watch,)
    assert (options.checkpoint, options.policy, options.warm_start) == (None, None, None)
    assert ENGINE.read_options({}).settings == Settings()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"n_forward": 0}, "n_forward=0 is out of range; give a whole number from 1"),
        ({"preset": "papers"}, "preset='papers' is not known; give one of default, paper."),
        ({"callbacks": 3}, "callbacks=3 is not usable; give a list of functions"),
        ({"checkpoint": 3}, "checkpoint=3 is not usable; give a file name, or None."),
        ({"checkpoint": "no/such/folder/c"}, "there is no folder .*; make it, or name another"),
        ({"zzz": 1}, "'zzz' is not a setting; there are leaf_order"),
    ],
)
def test_options_that_are_not_usable_are_refused_in_a_sentence(given, sentence):
    with pytest.raises(ValueError, match=sentence):
        ENGINE.read_options(given)
