"""Engines: what infers a posterior over trees. ``ENGINES`` has them by name.

To add one, write a package here with an object ``ENGINE`` that keeps ``contract.Engine``, and put
its name into ``ENGINE_HOMES``. Engines are loaded on first use, and never import each other.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from dtgfn._support.checks import check_choice
from dtgfn._support.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from dtgfn.engines.contract import Engine as Engine
    from dtgfn.engines.contract import Run as Run
    from dtgfn.engines.exact.engine import ExactOptions as ExactOptions
    from dtgfn.engines.exact.engine import ExactSolution as ExactSolution
    from dtgfn.engines.exact.engine import infer_exact as infer_exact
    from dtgfn.engines.gfn.callbacks import Callback as Callback
    from dtgfn.engines.gfn.settings import Settings as Settings
    from dtgfn.engines.gfn.trackers import MLflowTracker as MLflowTracker
    from dtgfn.engines.gfn.trackers import TensorBoardTracker as TensorBoardTracker
    from dtgfn.engines.gfn.trackers import WandbTracker as WandbTracker
    from dtgfn.engines.mcmc.engine import McmcOptions as McmcOptions
    from dtgfn.engines.mcmc.engine import infer_mcmc as infer_mcmc
    from dtgfn.engines.smc.engine import SmcOptions as SmcOptions
    from dtgfn.engines.smc.engine import infer_smc as infer_smc
    from dtgfn.posterior.prediction import CountedTrees as CountedTrees
    from dtgfn.posterior.prediction import count_trees as count_trees
    from dtgfn.posterior.prediction import make_forest as make_forest
    from dtgfn.trees.batch import TreeBatch as TreeBatch
    from dtgfn.trees.forest import Forest as Forest
    from dtgfn.trees.forest import average as average
    from dtgfn.trees.score import Rows as Rows
    from dtgfn.trees.score import Score as Score
    from dtgfn.trees.score import log_reward as log_reward

# Modules that have the engine as ``ENGINE``; none of them imports torch.
ENGINE_HOMES = {
    "gfn": "dtgfn.engines.gfn_adaptor",
    "exact": "dtgfn.engines.exact.engine",
    "mcmc": "dtgfn.engines.mcmc.engine",
    "smc": "dtgfn.engines.smc.engine",
}


class _Engines(Mapping[str, "Engine[Any]"]):
    """All engines, each imported when it is asked for."""

    def __getitem__(self, name: str) -> Engine[Any]:
        return importlib.import_module(ENGINE_HOMES[name]).ENGINE

    def __iter__(self) -> Iterator[str]:
        return iter(ENGINE_HOMES)

    def __len__(self) -> int:
        return len(ENGINE_HOMES)

    def __contains__(self, name: object) -> bool:
        return name in ENGINE_HOMES


ENGINES: Mapping[str, Engine[Any]] = _Engines()


def find_engine(name: str, parameter: str = "engine") -> Engine[Any]:
    """Return the engine of this name; refuse one that does not exist.

    Parameters
    ----------
    name : {"gfn", "exact", "mcmc", "smc"}
        The engine.
    parameter : str
        What the caller calls it, for the refusal.

    Returns
    -------
    Engine

    Examples
    --------
    >>> find_engine("smc").option_names
    ('n_particles', 'n_sweeps')

    """
    check_choice(parameter, name, tuple(ENGINE_HOMES))
    return ENGINES[name]


def check_option_names(
    engine: Engine[Any],
    options: Iterable[str],
    parameters: Collection[str],
    also: tuple[str, ...] = (),
) -> None:
    """Refuse an option that the engine does not have, with a guess at what was meant.

    ``parameters`` are what the caller takes by itself, ``also`` options of its own.
    """
    known = (*engine.option_names, *also)
    for name in options:
        if name in parameters:
            raise ValueError(
                f"{name} is a parameter, not an option of engine {engine.name!r}; give it by "
                "itself."
            )
        if name not in known:
            similar = difflib.get_close_matches(name, [*known, *parameters], 1)
            way_out = f"did you mean {similar[0]!r}?" if similar else f"it has {', '.join(known)}."
            raise ValueError(f"{name!r} is not an option of engine {engine.name!r}; {way_out}")


__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "engines.contract": (
            "Engine",
            "Run",
        ),
        "engines.exact.engine": (
            "ExactOptions",
            "ExactSolution",
            "infer_exact",
        ),
        "engines.gfn.settings": ("Settings",),
        "engines.gfn.callbacks": ("Callback",),
        "engines.gfn.trackers": (
            "MLflowTracker",
            "TensorBoardTracker",
            "WandbTracker",
        ),
        "engines.mcmc.engine": ("McmcOptions", "infer_mcmc"),
        "engines.smc.engine": ("SmcOptions", "infer_smc"),
        "trees.batch": ("TreeBatch",),
        "trees.score": (
            "Rows",
            "Score",
            "log_reward",
        ),
        "trees.forest": ("Forest", "average"),
        "posterior.prediction": (
            "CountedTrees",
            "count_trees",
            "make_forest",
        ),
    },
    here=("ENGINES", "find_engine"),
)
