"""Trees that samplers write level by level, as features and cuts only, completed to a batch."""

from __future__ import annotations

import numpy as np

from dtgfn.kernels import Ints
from dtgfn.trees import TreeBatch


def as_batch(feature: Ints, cut: Ints, names: Ints) -> TreeBatch:
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
