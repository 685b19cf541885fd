"""Pass two: partitions become codes and whole amounts, which stay on their workers."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtgfn._support.arrays import Int64s
from dtgfn.dask.facts import read_part
from dtgfn.dask.learning import Learned
from dtgfn.dask.whole_numbers import in_units, weights_in_units
from dtgfn.data.binning import Binner, distinct_codes, encode
from dtgfn.data.targets import encode_labels
from dtgfn.engines.smc.histograms import CodedPart
from dtgfn.trees.leaf_models import NormalLeaf


def code_part(number: int, x: Any, y: Any, weight: Any, learned: Learned) -> CodedPart:
    """Code a partition; rows that no tree can tell apart become one."""
    read = read_part(number, x, y, weight, learned.numbers)
    if read is None:
        width = 3 if learned.numbers else 1
        empty = np.zeros((0, len(learned.binner.features)), dtype=code_type(learned.binner))
        return CodedPart(empty, np.zeros(0, np.int32), np.zeros((0, width), np.int64))
    table, target, weights = read
    codes = encode(learned.binner, table)
    unit = learned.unit
    mass = weights_in_units(weights, float(unit[0]))
    if isinstance(learned.leaf, NormalLeaf):
        z = (target - learned.leaf.location) / learned.leaf.scale
        first, second = (
            in_units(weights * z, float(unit[1])),
            in_units(weights * z * z, float(unit[2])),
        )
        amount = np.stack([mass, first, second], axis=1)
        slot = np.zeros(len(z), dtype=np.int32)
    else:
        assert learned.classes is not None
        slot, amount = encode_labels(target, learned.classes), mass[:, None]
    merged = merge_part(CodedPart(codes, slot, amount))
    return merged._replace(codes=merged.codes.astype(code_type(learned.binner)))


def code_type(binner: Binner) -> type[np.unsignedinteger[Any]]:
    """The narrowest type that holds all codes."""
    return np.uint8 if int(binner.n_cuts.max(initial=0)) < 256 else np.uint16


def code_counts(binner: Binner) -> Int64s:
    """How many codes each feature has in training [F]."""
    return binner.n_cuts + 1


def merge_part(part: CodedPart) -> CodedPart:
    """Rows of equal codes and slot become one, in ascending order; their amounts are added up."""
    words = np.ascontiguousarray(part.slot).view(np.uint16).reshape(len(part.slot), 2)
    first, member = distinct_codes(np.hstack([part.codes.astype(np.uint16, copy=False), words]))
    amount = np.zeros((len(first), part.amount.shape[1]), dtype=np.int64)
    np.add.at(amount, member, part.amount)
    return CodedPart(np.ascontiguousarray(part.codes[first]), part.slot[first], amount)
