"""Every method of the benchmark, by family."""

from __future__ import annotations

from dtgfn_bench.contract import Method
from dtgfn_bench.methods import (
    additive,
    balanced,
    bart,
    boosters,
    copod,
    dcc_tree,
    deep,
    detectors_ours,
    developed,
    dpdt,
    drocc,
    forests,
    goad,
    greedy,
    icl,
    maptree,
    neighbours,
    optimal,
    pidforest,
    posterior,
    pretrained,
    rjhmc,
    rrcf,
    samplers,
    tsallis,
    wu,
)
from dtgfn_bench.names import find

_FAMILIES = (
    posterior,
    developed,
    detectors_ours,
    samplers,
    wu,
    greedy,
    tsallis,
    dpdt,
    optimal,
    maptree,
    forests,
    boosters,
    balanced,
    additive,
    bart,
    deep,
    pretrained,
    rjhmc,
    dcc_tree,
    drocc,
    goad,
    icl,
    copod,
    neighbours,
    pidforest,
    rrcf,
)

METHODS: dict[str, Method] = {
    method.name: method for family in _FAMILIES for method in family.METHODS
}


def find_method(name: str) -> Method:
    """The method of a name; an unknown one is refused in a sentence."""
    return find(METHODS, name, "method")
