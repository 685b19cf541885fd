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

if TYPE_CHECKING:
    from dtgfn.engines.contract import BudgetExceeded, Engine, Run
    from dtgfn.engines.exact.engine import ExactOptions, ExactSolution, infer_exact
    from dtgfn.engines.gfn.engine import infer_gfn
    from dtgfn.engines.mcmc.engine import McmcOptions, infer_mcmc
    from dtgfn.engines.smc.engine import SmcOptions, infer_smc

# Modules that have the engine as ``ENGINE``; none of them imports torch.
ENGINE_HOMES = {
    "gfn": "dtgfn.engines.gfn_adaptor",
    "exact": "dtgfn.engines.exact.engine",
    "mcmc": "dtgfn.engines.mcmc.engine",
    "smc": "dtgfn.engines.smc.engine",
}

_HOMES = {
    "BudgetExceeded": "dtgfn.engines.contract",
    "Engine": "dtgfn.engines.contract",
    "ExactOptions": "dtgfn.engines.exact.engine",
    "ExactSolution": "dtgfn.engines.exact.engine",
    "McmcOptions": "dtgfn.engines.mcmc.engine",
    "Run": "dtgfn.engines.contract",
    "SmcOptions": "dtgfn.engines.smc.engine",
    "infer_exact": "dtgfn.engines.exact.engine",
    "infer_gfn": "dtgfn.engines.gfn.engine",
    "infer_mcmc": "dtgfn.engines.mcmc.engine",
    "infer_smc": "dtgfn.engines.smc.engine",
}

__all__ = [
    "ENGINES",
    "BudgetExceeded",
    "Engine",
    "ExactOptions",
    "ExactSolution",
    "McmcOptions",
    "Run",
    "SmcOptions",
    "find_engine",
    "infer_exact",
    "infer_gfn",
    "infer_mcmc",
    "infer_smc",
]


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


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'dtgfn.engines' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
