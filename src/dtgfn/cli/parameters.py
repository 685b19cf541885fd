"""The estimators' parameters as flags: one row each, and how their text is read.

What is often set of their ``options`` has a flag, too. ``tests/cli/test_parameters.py`` holds this
table against the estimators' signatures, so that none is forgotten and no default is told wrongly.
It is not derived from them at run time, because
importing the estimators takes longer than a person waits for ``--help``.
"""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from dtgfn.cli.options import MisuseError

ENGINES = ("gfn", "exact", "mcmc", "smc")
ENSEMBLES = ("bags", "sum")
TASKS = {
    "classify": "DTGFNClassifier",
    "regress": "DTGFNRegressor",
    "anomalies": "DTGFNAnomalyDetector",
}
# Parameters without a flag, and why.
LEFT_OUT = {
    "verbose": "progress is shown anyway; --quiet and --json end it",
    "warm_start": "a command fits once; --checkpoint goes on with a training",
}
MODEL, LEAVES, SUMS, RUN, TRAINING, ANOMALIES = (
    "Trees and prior",
    "Leaves and averages",
    "Sums of trees (--ensemble sum)",
    "Engine and run",
    "Training a GFlowNet (--inference gfn)",
    "Anomalies (--task anomalies)",
)


class Flag(NamedTuple):
    """A parameter: its name, how its text is read, its panel, its defaults, and what it is for.

    One of the ``options`` also has the tasks in which it can be set, ``option_of``.
    """

    name: str
    read: Callable[[str], Any]
    panel: str
    default: str
    help: str
    choices: tuple[str, ...] = ()
    option_of: tuple[str, ...] = ()

    @property
    def metavar(self) -> str | None:
        """What stands for its value in the help."""
        kinds: dict[Any, str] = {
            parse_int: "<int>",
            int_or_auto: "<int>|auto",
            number: "<float>",
            Path: "<path>",
        }
        return kinds.get(getattr(self.read, "read", self.read))

    @property
    def typed(self) -> str:
        """What one types."""
        return "--" + self.name.replace("_", "-")


def parse_int(text: str) -> int:
    """Read a whole number."""
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a whole number") from None


def number(text: str) -> float:
    """Read a number."""
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None


def int_or_auto(text: str) -> int | str:
    """Read a whole number, or "auto"."""
    return text if text == "auto" else parse_int(text)


@dataclass(frozen=True)
class OrNone:
    """Reads as another reader, and also "none"."""

    read: Callable[[str], Any]

    def __call__(self, text: str) -> Any:
        """Read a text."""
        return None if text.lower() == "none" else self.read(text)


def number_or_name(text: str) -> float | str:
    """Read a number where there is one; the estimator knows the names."""
    try:
        return float(text)
    except ValueError:
        return text


def penalty(text: str) -> Any:
    """Read a prior over structures.

    >>> penalty("mdl"), penalty("2.5"), penalty("bcart:0.95,0.5")
    ('mdl', 2.5, ('bcart', 0.95, 0.5))
    """
    name, colon, numbers = text.partition(":")
    return (name, *map(number_or_name, numbers.split(","))) if colon else number_or_name(text)


def weights(text: str) -> str | dict[str, float]:
    """Read "balanced", "uniform" or a weight for each class.

    >>> weights("yes=3,no=1")
    {'yes': 3.0, 'no': 1.0}
    """
    if "=" not in text:
        return text
    pairs = [pair.rpartition("=") for pair in text.split(",")]
    names = [name for name, _, _ in pairs]
    for name, equals, _ in pairs:
        if names.count(name) > 1:
            raise ValueError(f"{text!r} has {name!r} twice")
        if not equals or not name:
            raise ValueError(f"{text!r} has no weight for each class, as in yes=3,no=1")
    return {name.strip(): number(weight) for name, _, weight in pairs}


FLAGS = (
    Flag("inference", OrNone(str), RUN, "none; smc for anomalies", "How to infer: gfn trains a "
         "GFlowNet, exact sums over all trees, mcmc and smc are samplers; none is gfn, with bags "
         "smc.", ENGINES),
    Flag("max_depth", int_or_auto, MODEL, "5; 6 for anomalies",
         "Edges on a tree's longest path; auto with --ensemble bags."),
    Flag("n_thresholds", parse_int, MODEL, "99; 31 for anomalies", "Thresholds tried per column."),
    Flag("binning", str, MODEL, "auto", "Where the thresholds lie: evenly over the range, at "
         "quantiles, or between neighbouring values; auto is quantile for ensembles, else uniform.",
         ("auto", "uniform", "quantile", "midpoint")),
    Flag("split_penalty", penalty, MODEL, "mdl", "Prior over trees: mdl, paper, nats per split, "
         "bcart, bcart:base,decay as in bcart:0.95,0.5, or auto, by evidence."),
    Flag("temperature", OrNone(number_or_name), MODEL, "1.0; none for anomalies",
         "Above 1 the posterior is wider; auto chooses it by leaving rows out."),
    Flag("leaf_concentration", number, LEAVES, "0.1; 0.5 for anomalies",
         "Rows of each class that a leaf is given in advance (classes, anomalies)."),
    Flag("mean_strength", number, LEAVES, "0.1",
         "Rows that the guess of a leaf's mean is worth (numbers)."),
    Flag("noise_shape", number, LEAVES, "1.5",
         "How firm the guess of a leaf's variance is, above 1 (numbers)."),
    Flag("noise_share", number, LEAVES, "0.25",
         "That guess, as a share of the variance of all rows (numbers)."),
    Flag("class_weight", OrNone(weights), LEAVES, "none",
         "balanced, or a weight for each class, as in yes=3,no=1 (classes)."),
    Flag("positive", OrNone(str), LEAVES, "none",
         "The event, of two classes, that trees, scores and reports tell the probability of."),
    Flag("ensemble", OrNone(str), LEAVES, "none", "bags averages posteriors of resampled rows and "
         "columns instead, sum samples sums of trees; auto is sum, unless only single trees have "
         "what else is set.", (*ENSEMBLES, "auto")),
    Flag("n_bags", OrNone(parse_int), LEAVES, "200", "Bags of rows and columns (--ensemble bags).",
         option_of=("classify", "regress")),
    Flag("n_summed", parse_int, SUMS, "50; 100 for numbers", "Trees in a sum.",
         option_of=("classify", "regress")),
    Flag("n_chains", parse_int, SUMS, "4", "Chains; of --inference mcmc, too.",
         option_of=tuple(TASKS)),
    Flag("n_sweeps", parse_int, SUMS, "200", "How often each chain draws every tree; of "
         "--inference smc the sweeps.", option_of=tuple(TASKS)),
    Flag("n_draws", parse_int, SUMS, "80; 40 for numbers", "Sums to keep from all chains together.",
         option_of=("classify", "regress")),
    Flag("weighting", str, LEAVES, "importance", "How sampled trees are averaged.",
         ("importance", "uniform", "posterior")),
    Flag("leaf_draws", bool, LEAVES, "no", "Let leaves predict draws, as the paper does, instead "
         "of means (classes).", option_of=("classify",)),
    Flag("dates", OrNone(str), MODEL, "none", "What columns of dates become: number is days since "
         "1970-01-01, none refuses them (classes, numbers).", ("number",)),
    Flag("n_trees", parse_int, RUN, "1000; 300 for anomalies", "Trees to sample and keep."),
    Flag("time_budget", OrNone(number), RUN, "60.0", "Seconds at most, or none."),
    Flag("n_jobs", OrNone(parse_int), RUN, "none", "Threads; none is all cores."),
    Flag("random_state", OrNone(parse_int), RUN, "none", "Seed of everything random."),
    Flag("n_steps", OrNone(parse_int), RUN, "none", "Training steps (gfn) or moves (mcmc) at most.",
         option_of=tuple(TASKS)),
    Flag("options", str, RUN, "none", "What only the engine knows, as name=value, given as often "
         "as needed: n_particles=500 (smc), memory_budget=2GB (all)."),
    Flag("preset", str, TRAINING, "default", "Settings to start from.", ("default", "paper"),
         option_of=tuple(TASKS)),
    Flag("leaf_order", OrNone(str), TRAINING, "none", "Whether open leaves decide at once, or one "
         "by one as in the paper.", ("fixed", "free"), option_of=tuple(TASKS)),
    Flag("objective", OrNone(str), TRAINING, "none", "Which balance is trained.",
         ("db", "tb", "vargrad", "subtb"), option_of=tuple(TASKS)),
    Flag("loss", OrNone(str), TRAINING, "none", "How far from balance is measured.",
         ("squared", "huber", "cosh", "linex"), option_of=tuple(TASKS)),
    Flag("device", str, TRAINING, "cpu", "cpu, cuda or auto.", ("cpu", "cuda", "auto"),
         option_of=tuple(TASKS)),
    Flag("checkpoint", OrNone(Path), TRAINING, "none",
         "File that training is saved to, and taken up from if it exists (classes, numbers).",
         option_of=("classify", "regress")),
    Flag("contamination", number_or_name, ANOMALIES, "two-std", "What counts as an anomaly: two-std"
         " below the mean score, or the share of rows to call so."),
    Flag("columns_per_tree", OrNone(parse_int), ANOMALIES, "none", "Columns a tree may look at."),
)  # fmt: skip
BY_NAME = {flag.name: flag for flag in FLAGS}


def complete(choices: tuple[str, ...]) -> Callable[[str], list[str]]:
    """Offer what can follow, for shells."""
    return lambda incomplete: [choice for choice in choices if choice.startswith(incomplete)]


def check_choice(flag: str, text: str, choices: tuple[str, ...]) -> None:
    """Refuse what is none of the choices."""
    if text not in choices:
        raise MisuseError(f"{flag} {text} is not known; give one of {', '.join(choices)}.")


def with_parameters(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the flags of all parameters; their texts come as ``**parameters``."""
    hints = typing.get_type_hints(command, include_extras=True)
    own = [
        parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)
        for name, parameter in inspect.signature(command).parameters.items()
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    added = [
        inspect.Parameter(
            flag.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_annotation(flag)
        )
        for flag in FLAGS
    ]
    command.__signature__ = inspect.Signature([*own, *added])  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in (*own, *added)}
    return command


def _annotation(flag: Flag) -> Any:
    several = "options" if flag.name == "options" else ""
    kind: Any = bool | None if flag.read is bool else list[str] | None if several else str | None
    option = typer.Option(
        flag.typed,
        help=flag.help if flag.default == "none" else f"{flag.help} Default: {flag.default}.",
        rich_help_panel=flag.panel,
        metavar="|".join(flag.choices) or flag.metavar,
        autocompletion=complete(flag.choices) if flag.choices else None,
        show_default=False,
    )
    return Annotated[kind, option]


def read_parameters(texts: Mapping[str, Any]) -> dict[str, Any]:
    """Read the flags that were given, by their names; what is no value of a flag is misuse."""
    values: dict[str, Any] = {}
    for name, text in texts.items():
        if text is None or text == []:
            continue
        flag = BY_NAME[name]
        if flag.choices and text.lower() != "none" and name != "device":  # which has numbers, too
            check_choice(flag.typed, text, flag.choices)
        values[name] = read_value(
            flag.typed, text, _read_options if name == "options" else flag.read
        )
    return values


def read_value(flag: str, text: Any, read: Callable[[Any], Any]) -> Any:
    """Read what was given for a flag; refuse what is no value of it."""
    try:
        return read(text)
    except ValueError as error:
        raise MisuseError(f"{flag} is wrong: {error}; see --help.") from None


def _read_options(pairs: list[str]) -> dict[str, Any]:
    """Read name=value; values are numbers, true, false, null, lists or else text."""
    options = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise ValueError(f"{pair!r} is no option, as in n_particles=500")
        try:
            value = json.loads(text)
        except json.JSONDecodeError:
            value = text
        options[name.replace("-", "_")] = tuple(value) if isinstance(value, list) else value
    return options


def as_parameters(values: Mapping[str, Any], known: Mapping[str, Any], task: str) -> dict[str, Any]:
    """Return the parameters of the estimator of a task, those of ``options`` among these.

    Flags that it does not have are refused. "none" leaves an option to the engine, and what
    ``--options`` says goes before a flag.

    >>> as_parameters({"max_depth": 2, "n_steps": 9, "loss": None}, {"max_depth": 5}, "classify")
    {'max_depth': 2, 'options': {'n_steps': 9}}
    """
    parameters, options = {}, {}
    for name, value in values.items():
        flag = BY_NAME[name]
        if name not in known and task not in flag.option_of:
            raise MisuseError(f"{flag.typed} is not for --task {task}; leave it out.")
        if not flag.option_of:
            parameters[name] = value
        elif value is not None:
            options[name] = value
    options |= parameters.get("options", {})
    return {**parameters, "options": options} if options else parameters
