"""Method: an engine as a user asks for it, alone or as an ensemble of its posteriors.

An ensemble is a line in ``ENSEMBLES`` with the options that are its own, whatever the engine; what
``read_method`` makes of these is a field of ``Method``, and ``Method.infer`` is where it is run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from dtgfn._support.checks import check_choice
from dtgfn._support.memory import available_memory, gigabytes
from dtgfn.data.thresholds import AnyBinning, Binning
from dtgfn.engines.contract import BudgetExceeded, Engine, Run
from dtgfn.engines.registry import ENGINES, check_option_names, find_engine
from dtgfn.engines.sums.settings import OPTION_NAMES
from dtgfn.inference.bagging import BAG_DEFAULTS, infer_bagged
from dtgfn.inference.resampling import BagOptions
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.trees.score import Rows, Score

ENSEMBLES: dict[str, tuple[str, ...]] = {
    "bags": ("n_bags", "column_share"),
    "sum": OPTION_NAMES,
}
ENSEMBLE_OPTIONS = tuple(name for names in ENSEMBLES.values() for name in names)


@dataclass(frozen=True)
class Method:
    """An engine with its options, as they were read; and the bags, if the posterior is bagged."""

    engine: Engine[Any]
    options: Any
    bags: BagOptions | None = None

    def infer(self, rows: Rows, score: Score, run: Run) -> TreePosterior:
        """Infer the posterior, or the average of the posteriors of bags."""
        if self.bags is None:
            return self.engine.infer(rows, score, run, self.options)
        return infer_bagged(self.engine, rows, score, run, self.options, self.bags)


@contextmanager
def enough_memory(n_rows: int | None, n_columns: int | None) -> Iterator[None]:
    """Say in a sentence that memory is too small: numpy tells only the shape of an array."""
    try:
        yield
    except MemoryError as error:
        known = n_rows is not None and n_columns is not None
        size = f"{n_rows:,} rows with {n_columns:,} columns" if known else "this table"
        raise BudgetExceeded(
            f"There is not enough memory for {size}; "
            f"{gigabytes(available_memory())} are free. Use fewer rows, columns or n_thresholds, "
            "or a memory_budget below that."
        ) from error


def resolve_binning(binning: AnyBinning, ensemble: str | None) -> Binning:
    """Where thresholds lie: "auto" is the paper's choice for single trees, else quantiles."""
    if binning != "auto":
        return binning
    return "uniform" if ensemble is None else "quantile"


def check_ensemble(
    ensemble: str | None, options: Mapping[str, Any], of_engine: Collection[str] = ()
) -> None:
    """Refuse an ensemble that is not known, and options of one that was not asked for.

    ``of_engine`` are options that the engine has itself, which a sum of trees has no use for.
    """
    check_choice("ensemble", ensemble, (None, *ENSEMBLES))
    own = {*ENSEMBLES.get(ensemble or "", ()), *(() if ensemble == "sum" else of_engine)}
    of_engines = {name for engine in ENGINES.values() for name in engine.option_names}
    for other, names in ENSEMBLES.items():
        for name in names:
            if name in options and name not in own | of_engines:  # which the engine refuses
                raise ValueError(
                    f"{name}={options[name]!r} is for ensemble={other!r}; leave it out, or choose "
                    "that ensemble."
                )


def read_method(
    engine: str,
    options: Mapping[str, Any],
    ensemble: str | None = None,
    *,
    parameter: str = "engine",
    parameters: Collection[str] = (),
) -> Method:
    """Read what a user says of the engine; refuse what it does not have or cannot use.

    ``parameter`` is the name under which the user gave the engine, ``parameters`` are what the
    caller takes by itself. The ensemble has passed ``check_ensemble``.
    """
    found = find_engine(engine, parameter)
    its = () if ensemble is None else ENSEMBLES[ensemble]
    check_option_names(found, options, parameters, also=its)
    own = {name: value for name, value in options.items() if name not in its}
    if ensemble is None:
        return Method(found, found.read_options(own))
    of_bags = {name: options[name] for name in its if name in options}
    own = {**BAG_DEFAULTS.get(engine, {}), **own}
    return Method(found, found.read_options(own), BagOptions(**of_bags))
