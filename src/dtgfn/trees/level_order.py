"""Trees that samplers write level by level, as features and cuts only, completed to a batch."""

from __future__ import annotations

import numpy as np

from dtgfn._support.arrays import Int32s
from dtgfn.trees.batch import TreeBatch


def as_batch(feature: Int32s, cut: Int32s, names: Int32s) -> TreeBatch:
    """Complete trees [B, K] whose children follow in the order of their parents.

    ``names`` [F] is the number, in the user's table, of each feature; leaves are -1.
    """
    inner = feature >= 0
    splits = np.cumsum(inner, axis=1, dtype=np.int32)
    return TreeBatch(
        feature=np.append(names, np.int32(-1))[feature],
        cut=np.where(inner, cut, 0).astype(np.int32),
        left=np.where(inner, 2 * splits - 1, -1).astype(np.int32),
        n_nodes=(2 * splits[:, -1] + 1).astype(np.int32),
    )
