"""The engines by name. To add one, give it a line in ``ENGINE_HOMES``.

An engine is a package with an object ``ENGINE`` that keeps ``contract.Engine``; it is imported on
first use.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from dtgfn._support.checks import check_choice
from dtgfn.engines.contract import Engine

# Modules that have the engine as ``ENGINE``; none of them imports torch before it infers.
ENGINE_HOMES = {
    "gfn": "dtgfn.engines.gfn.engine",
    "exact": "dtgfn.engines.exact.engine",
    "mcmc": "dtgfn.engines.mcmc.engine",
    "smc": "dtgfn.engines.smc.engine",
}


class _Engines(Mapping[str, Engine[Any]]):
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
        Which has a name, names of options, and ``infer``.

    Examples
    --------
    >>> find_engine("smc").option_names
    ('n_particles', 'n_sweeps', 'by_level', 'memory_budget')

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
