"""Many trees laid over one another: what stands at each place, how probable, and what follows it.

A place is a path of turns from the root (0: the rule holds, 1: it does not). Trees agree at a place
if they ask about the same column there, whatever the threshold, or if they all end there.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from dtgfn.binning import Feature, rule, threshold_text
from dtgfn.kernels import Floats
from dtgfn.tree_sets import TreeSet

Path = tuple[int, ...]
Key = tuple[str, int, int]  # what is there: ("split", feature, 1 if it asks for missing) or a leaf
LEAF_KEY: Key = ("leaf", -1, 0)
REST_KEY: Key = ("rest", -1, 0)


@dataclass
class Option:
    """What may stand at a place: a rule on one column, or a leaf.

    ``probability`` is that of a tree which has it there; ``cuts`` are a rule's cuts with their
    weights; ``value`` is the weighted sum of what its leaves say [K].
    """

    key: Key
    probability: float = 0.0
    cuts: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    value: Floats | None = None
    n_merged: int = 1


Places = dict[Path, list[Option]]
Links = dict[tuple[Path, Key, Key], float]  # to a place, from the parent's option to its own


def lay_over(chosen: TreeSet, least: float) -> tuple[Places, Links]:
    """Find what weighted trees have at each place; options below ``least`` are put together."""
    found: dict[Path, dict[Key, Option]] = defaultdict(dict)
    trees = chosen.trees
    visits: list[dict[Path, Key]] = []
    for b, weight in enumerate(chosen.weight.tolist()):
        visit: dict[Path, Key] = {}
        stack: list[tuple[int, Path]] = [(0, ())]
        while stack:
            node, path = stack.pop()
            feature, cut = int(trees.feature[b, node]), int(trees.cut[b, node])
            key = LEAF_KEY
            if feature >= 0:
                asks_missing = cut == len(chosen.binner.features[feature].thresholds)
                key = ("split", feature, int(asks_missing))
                child = int(trees.left[b, node])
                stack += [(child, (*path, 0)), (child + 1, (*path, 1))]
            option = found[path].setdefault(key, Option(key))
            option.probability += weight
            option.cuts[cut] += weight
            value = weight * chosen.value[b, node]
            option.value = value if option.value is None else option.value + value
            visit[path] = key
        visits.append(visit)
    places = {path: _merged(list(options.values()), least) for path, options in found.items()}
    places = {path: options for path, options in places.items() if _total(options) >= least}
    return places, _links(visits, chosen.weight, places)


def _total(options: list[Option]) -> float:
    return sum(option.probability for option in options)


def _merged(options: list[Option], least: float) -> list[Option]:
    """The probable options, rules first; the others as one."""
    large = [option for option in options if option.probability >= least]
    small = [option for option in options if option.probability < least]
    large.sort(key=lambda option: (option.key == LEAF_KEY, -option.probability))
    if small:
        total = sum(option.probability for option in small)
        large.append(Option(REST_KEY, total, n_merged=len(small)))
    return large


def _links(visits: list[dict[Path, Key]], weight: Floats, places: Places) -> Links:
    known = {path: {option.key for option in options} for path, options in places.items()}
    links: Links = defaultdict(float)
    for visit, share in zip(visits, weight.tolist(), strict=True):
        for path, key in visit.items():
            if path and path in places:
                before = visit[path[:-1]]
                before = before if before in known[path[:-1]] else REST_KEY
                links[path, before, key if key in known[path] else REST_KEY] += share
    return dict(links)


def option_text(option: Option, features: tuple[Feature, ...]) -> str:
    """Words for an option: a rule with the middle 90 % of its thresholds, or a leaf."""
    if option.key == LEAF_KEY:
        return "leaf"
    if option.key == REST_KEY:
        return f"{option.n_merged} others" if option.n_merged > 1 else "1 other"
    feature = features[option.key[1]]
    cuts = sorted(option.cuts)
    if feature.kind != "number" or option.key[2]:
        return rule(feature, cuts[0])[0]
    upto = np.cumsum([option.cuts[cut] for cut in cuts]) / option.probability
    low, high = (cuts[min(int(np.searchsorted(upto, t)), len(cuts) - 1)] for t in (0.05, 0.95))
    ends = [threshold_text(feature.thresholds, cut) for cut in (low, high)]
    return f"{feature.name} ≤ {ends[0]}" + ("" if low == high else f"…{ends[1]}")
