"""Every method of the benchmark, by family."""

from __future__ import annotations

from dtgfn.bench.contract import Method
from dtgfn.bench.names import find

_FAMILIES: tuple[tuple[Method, ...], ...] = ()

METHODS: dict[str, Method] = {method.name: method for family in _FAMILIES for method in family}


def find_method(name: str) -> Method:
    """The method of a name; an unknown one is refused in a sentence."""
    return find(METHODS, name, "method")
