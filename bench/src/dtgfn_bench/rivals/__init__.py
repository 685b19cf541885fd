"""Other people's methods: to add a rival, write its file here and name it in the list below."""

from __future__ import annotations

from dtgfn_bench.contract import Method
from dtgfn_bench.rivals import (
    additive,
    balanced,
    bart,
    boosters,
    copod,
    dcc_tree,
    deep,
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
    pretrained,
    rjhmc,
    rrcf,
    samplers,
    tsallis,
    wu,
)

# Files with a tuple ``METHODS``; the others here are what these share.
RIVALS: tuple[Method, ...] = (
    *samplers.METHODS,
    *wu.METHODS,
    *greedy.METHODS,
    *tsallis.METHODS,
    *dpdt.METHODS,
    *optimal.METHODS,
    *maptree.METHODS,
    *forests.METHODS,
    *boosters.METHODS,
    *balanced.METHODS,
    *additive.METHODS,
    *bart.METHODS,
    *deep.METHODS,
    *pretrained.METHODS,
    *rjhmc.METHODS,
    *dcc_tree.METHODS,
    *drocc.METHODS,
    *goad.METHODS,
    *icl.METHODS,
    *copod.METHODS,
    *neighbours.METHODS,
    *pidforest.METHODS,
    *rrcf.METHODS,
)
