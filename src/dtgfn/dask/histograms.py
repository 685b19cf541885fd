"""Histograms of nodes, counted by the workers that have the rows and added up on the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from distributed import Future

from dtgfn._support.arrays import Floats, Int64s
from dtgfn.dask.cluster import Cluster
from dtgfn.engines.smc.histograms import CodedPart, Paths, count_part

MOST_BYTES = 2**28  # of an answer; a level that needs more is asked for in several


@dataclass
class ClusterHistograms:
    """Coded partitions on workers; ``level_bytes`` is how large each level's histograms were."""

    cluster: Cluster
    parts: Sequence[Future]
    n_codes: Int64s
    unit: Floats
    weight: float | None
    most_bytes: int = MOST_BYTES
    level_bytes: list[int] = field(default_factory=list)

    def histograms(self, paths: Paths) -> Int64s:
        """See ``HistogramSource``: one round trip for all nodes, unless they are very many."""
        per_node = 8 * len(self.unit) * int(self.n_codes.sum())
        n_nodes, at_once = len(paths.length), max(self.most_bytes // max(per_node, 1), 1)
        self.level_bytes.append(n_nodes * per_node)
        answers = []
        for begin in range(0, n_nodes, at_once):
            some = Paths._make(each[begin : begin + at_once] for each in paths)
            question = (some, self.n_codes, len(self.unit))
            answers.append(self.cluster.merge(count_asked, self.parts, add_arrays, question))
        return np.concatenate(answers)


def count_asked(part: CodedPart, question: tuple[Paths, Int64s, int]) -> Int64s:
    """Count a part's rows at the nodes that are asked for."""
    return count_part(part, *question)


def add_arrays(several: list[Int64s]) -> Int64s:
    """Add whole numbers up."""
    total = several[0].copy()
    for each in several[1:]:
        total += each
    return total
