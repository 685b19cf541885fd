"""Many trees laid over one another: what stands at each place, how probable, and what follows it.

A place is a path of turns from the root (0: the rule holds, 1: it does not). Trees agree at a place
if they all end there, or if they ask about the same column with thresholds that part most training
rows alike.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from dtgfn._support.arrays import Codes, Floats
from dtgfn.data.binning import Feature, rule
from dtgfn.data.thresholds import threshold_text
from dtgfn.explain.column_labels import label_and_unit
from dtgfn.explain.tree_set import TreeSet

Path = tuple[int, ...]
Key = tuple[str, int, int]  # what is there: ("split", feature, first cut of its group) or a leaf
LEAF_KEY: Key = ("leaf", -1, 0)
REST_KEY: Key = ("rest", -1, 0)
LEAST = 0.03  # less probable options of a place are put together
MOST_OPTIONS = 5
ALIKE = 0.1  # share of the training rows that thresholds of one rule may differ in


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


class Cuts:
    """Groups of a feature's cuts that part nearly the same training rows."""

    def __init__(self, chosen: TreeSet, codes: Codes, weight: Floats) -> None:
        self._group: dict[tuple[int, int], int] = {}
        trees, features = chosen.trees, chosen.binner.features
        inner = trees.feature >= 0
        for feature in np.unique(trees.feature[inner]).tolist():
            used = np.unique(trees.cut[trees.feature == feature]).tolist()
            count = np.bincount(codes[:, feature], weights=weight, minlength=max(used) + 1)
            below = np.cumsum(count) / count.sum()
            first = used[0]
            for cut in used:
                asks_missing = cut == len(features[feature].thresholds)
                if asks_missing or below[cut] - below[first] > ALIKE:
                    first = cut
                self._group[feature, cut] = first

    def key(self, feature: int, cut: int) -> Key:
        """What a split is, in words of its group."""
        return "split", feature, self._group[feature, cut]


Places = dict[Path, list[Option]]
Links = dict[tuple[Path, Key, Key], float]  # to a place, from the parent's option to its own


def lay_over(chosen: TreeSet, codes: Codes, weight: Floats, least: float) -> tuple[Places, Links]:
    """Find what weighted trees have at each place, given training rows [n, d] and weights [n].

    Places less probable than ``least`` are left out.
    """
    cuts = Cuts(chosen, codes, weight)
    found: dict[Path, dict[Key, Option]] = defaultdict(dict)
    trees = chosen.trees
    visits: list[dict[Path, Key]] = []
    for b, share in enumerate(chosen.weight.tolist()):
        visit: dict[Path, Key] = {}
        stack: list[tuple[int, Path]] = [(0, ())]
        while stack:
            node, path = stack.pop()
            feature, cut = int(trees.feature[b, node]), int(trees.cut[b, node])
            key = LEAF_KEY
            if feature >= 0:
                key = cuts.key(feature, cut)
                child = int(trees.left[b, node])
                stack += [(child, (*path, 0)), (child + 1, (*path, 1))]
            option = found[path].setdefault(key, Option(key))
            option.probability += share
            option.cuts[cut] += share
            value = share * chosen.value[b, node]
            option.value = value if option.value is None else option.value + value
            visit[path] = key
        visits.append(visit)
    places = {path: _merged(list(options.values())) for path, options in found.items()}
    places = {
        path: places[path]
        for path, options in found.items()
        if sum(option.probability for option in options.values()) >= least
    }
    return places, _links(visits, chosen.weight, places)


def _merged(options: list[Option]) -> list[Option]:
    """The probable options, rules first; the others as one."""
    ordered = sorted(options, key=lambda option: -option.probability)
    n_large = sum(option.probability >= LEAST for option in ordered[:MOST_OPTIONS])
    large, small = ordered[: max(n_large, 1)], ordered[max(n_large, 1) :]
    large.sort(key=lambda option: option.key == LEAF_KEY)
    total = sum(option.probability for option in small)
    if total >= LEAST / 2:
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
    return {
        (path, before, key): chance
        for (path, before, key), chance in links.items()
        if before in known[path[:-1]] and key in known[path]
    }


def option_text(option: Option, features: tuple[Feature, ...]) -> str:
    """Words for an option: a rule with the middle 90 % of its thresholds, or a leaf."""
    if option.key == LEAF_KEY:
        return "leaf"
    if option.key == REST_KEY:
        return f"{option.n_merged} others" if option.n_merged > 1 else "1 other"
    feature = features[option.key[1]]
    cuts = sorted(option.cuts)
    if feature.kind != "number" or cuts[0] == len(feature.thresholds):
        return rule(feature, cuts[0])[0]
    upto = np.cumsum([option.cuts[cut] for cut in cuts]) / option.probability
    low, high = (cuts[min(int(np.searchsorted(upto, t)), len(cuts) - 1)] for t in (0.05, 0.95))
    ends = [threshold_text(feature.thresholds, cut) for cut in (low, high)]
    name, unit = label_and_unit(feature.name, feature.meaning)
    behind = f" {unit}" if unit else ""
    return f"{name} ≤ {ends[0]}" + ("" if low == high else f"…{ends[1]}") + behind
