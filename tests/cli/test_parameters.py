"""The flags of ``dtgfn fit`` are the estimators' parameters: all, by name, with their defaults."""

import inspect

import pytest
import typer

import dtgfn
from dtgfn.cli.app import app
from dtgfn.cli.options import MisuseError
from dtgfn.cli.parameters import (
    BY_NAME,
    ENGINES,
    ENSEMBLES,
    FLAGS,
    LEFT_OUT,
    TASKS,
    as_parameters,
    read_parameters,
)
from dtgfn.engines.gfn.settings import PRESETS, Settings, make_settings
from dtgfn.engines.registry import ENGINES as KNOWN_ENGINES
from dtgfn.engines.sums.settings import SumOptions, sums_to_keep, trees_in_a_sum
from dtgfn.inference.method import ENSEMBLE_OPTIONS
from dtgfn.inference.method import ENSEMBLES as KNOWN_ENSEMBLES
from dtgfn.inference.resampling import BagOptions

ESTIMATORS = {task: getattr(dtgfn, name) for task, name in TASKS.items()}
DEFAULTS = {
    task: {
        name: place.default
        for name, place in inspect.signature(estimator.__init__).parameters.items()
        if name != "self"
    }
    for task, estimator in ESTIMATORS.items()
}


def test_every_parameter_has_a_flag_of_its_name_or_a_reason_to_have_none():
    parameters = {name for defaults in DEFAULTS.values() for name in defaults}
    assert {flag.name for flag in FLAGS if not flag.option_of} == parameters - set(LEFT_OUT)
    assert set(LEFT_OUT) <= parameters
    fit = typer.main.get_command(app).commands["fit"]
    typed = {option for parameter in fit.params for option in parameter.opts}
    for flag in FLAGS:
        assert flag.typed == "--" + flag.name.replace("_", "-")
        assert flag.typed in typed


def text_of(default):
    return {None: "none", False: "no"}.get(default, str(default))


def test_other_flags_are_options_of_an_engine_or_of_the_classifier():
    for flag in FLAGS:
        engines = [e for e in KNOWN_ENGINES.values() if flag.name in e.option_names]
        own = flag.name in (*dtgfn.DTGFNClassifier._own_options, *ENSEMBLE_OPTIONS)
        assert bool(flag.option_of) == bool(engines or own), flag.name


def test_the_help_tells_the_defaults_of_options():
    settings = Settings()
    told = {flag.name: flag.default for flag in FLAGS if flag.option_of}
    assert told.pop("device") == settings.device
    assert told.pop("preset") == inspect.signature(make_settings).parameters["preset"].default
    assert told.pop("leaf_draws") == "no"
    assert told.pop("n_bags") == str(BagOptions().n_bags)
    for name in ("n_chains", "n_sweeps"):
        assert told.pop(name) == str(getattr(SumOptions(), name))
    of_classes, of_numbers = (trees_in_a_sum(SumOptions(), flag) for flag in (True, False))
    assert told.pop("n_summed") == f"{of_classes}; {of_numbers} for numbers"
    kept = [sums_to_keep(SumOptions(), n_summed) for n_summed in (of_classes, of_numbers)]
    assert told.pop("n_draws") == f"{kept[0]}; {kept[1]} for numbers"
    assert set(told.values()) == {"none"}  # what the preset says


@pytest.mark.parametrize(
    "flag", [flag for flag in FLAGS if not flag.option_of], ids=lambda flag: flag.name
)
def test_the_help_tells_the_defaults(flag):
    told = {
        task: text_of(known[flag.name]) for task, known in DEFAULTS.items() if flag.name in known
    }
    usual = told.get("classify") or told.get("regress") or told["anomalies"]
    others = {task: text for task, text in told.items() if text != usual}
    expected = "; ".join([usual, *(f"{text} for {task}" for task, text in others.items())])
    if flag.name == "ensemble":  # a command shows a tree, if nothing else is asked for
        assert (flag.default, expected) == ("none", "auto")
        return
    assert flag.default == expected
    if flag.default != "none" and flag.read is not bool:
        value = flag.read(flag.default.split(";")[0])
        assert value == next(known[flag.name] for known in DEFAULTS.values() if flag.name in known)


def test_choices_are_those_of_the_estimators():
    assert tuple(KNOWN_ENGINES) == ENGINES
    assert tuple(KNOWN_ENSEMBLES) == ENSEMBLES
    documented = dtgfn.DTGFNClassifier.__doc__
    for name in ("binning", "weighting"):
        listed = ", ".join(f'"{choice}"' for choice in BY_NAME[name].choices)
        assert f"{name} : {{{listed}}}" in documented
    assert BY_NAME["preset"].choices == tuple(PRESETS)
    for name in ("leaf_order", "objective", "loss"):
        with pytest.raises(ValueError, match="is not known; give one of ") as refusal:
            make_settings(**{name: "other"})
        listed = str(refusal.value).partition("one of ")[2].partition(", or a ")[0]
        listed = listed.rstrip(".").split(", ")
        assert sorted(listed) == sorted(BY_NAME[name].choices)


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        ({"max_depth": "3", "time_budget": "none"}, {"max_depth": 3, "time_budget": None}),
        ({"split_penalty": "bcart:0.95,0.5"}, {"split_penalty": ("bcart", 0.95, 0.5)}),
        ({"split_penalty": "1.5"}, {"split_penalty": 1.5}),
        ({"ensemble": "bags", "n_bags": "5"}, {"ensemble": "bags", "options": {"n_bags": 5}}),
        ({"ensemble": "sum", "n_summed": "5", "n_sweeps": "30"},
         {"ensemble": "sum", "options": {"n_summed": 5, "n_sweeps": 30}}),
        ({"class_weight": "a=b=2,c=1"}, {"class_weight": {"a=b": 2.0, "c": 1.0}}),
        ({"class_weight": "balanced", "loss": None}, {"class_weight": "balanced"}),
        ({"options": ["n-particles=50", "hidden=[8,8]", "loss=cosh", "patience=null"]},
         {"options": {"n_particles": 50, "hidden": (8, 8), "loss": "cosh", "patience": None}}),
        ({"contamination": "0.1"}, {"contamination": 0.1}),
        ({"device": "cuda:1", "leaf_draws": True},
         {"options": {"device": "cuda:1", "leaf_draws": True}}),
        ({"n_steps": "none", "n_trees": "5"}, {"n_trees": 5}),
        ({"n_steps": "9", "loss": "huber", "options": ["n_steps=7"]},
         {"options": {"n_steps": 7, "loss": "huber"}}),
    ],
    ids=range(12),
)  # fmt: skip
def test_texts_become_what_python_would_be_given(texts, values):
    assert as_parameters(read_parameters(texts), values, "classify") == values


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("max_depth", "two"), ("n_trees", "1e3"), ("time_budget", "1m"), ("n_jobs", "all"),
        ("leaf_concentration", "a"), ("class_weight", "a=1,b"), ("class_weight", "a=x"),
        ("options", ["n_chains"]), ("inference", "exat"), ("binning", "even"), ("loss", "l2"),
        ("random_state", "0.5"), ("n_bags", "ten"), ("noise_shape", "x"), ("preset", "papr"),
    ],
    ids=str,
)  # fmt: skip
def test_a_text_that_is_no_value_is_misuse_that_names_the_flag(name, text):
    with pytest.raises(MisuseError, match=BY_NAME[name].typed):
        read_parameters({name: text})
