"""Every method of the benchmark by name: ours, and the rivals."""

from __future__ import annotations

from dtgfn_bench.contract import Method
from dtgfn_bench.names import find
from dtgfn_bench.ours import OURS
from dtgfn_bench.rivals import RIVALS

METHODS: dict[str, Method] = {method.name: method for method in (*OURS, *RIVALS)}


def find_method(name: str) -> Method:
    """The method of a name; an unknown one is refused in a sentence."""
    return find(METHODS, name, "method")
