"""The replay buffer against a sorted list."""

import numpy as np
import pytest
from enumeration import Case, Enumeration, to_batch
from hypothesis import given
from hypothesis import strategies as st
from thoroughness import examples

from dtgfn.engines.gfn.state import ReplayBuffer, buffer_from_arrays
from dtgfn.trees.batch import TreeBatch, canonical_keys

CODES = np.random.default_rng(0).integers(0, 3, (8, 2))
EVERYTHING = Enumeration(Case(CODES, np.arange(8) % 2, 2))
TREES = to_batch(EVERYTHING.trees)
REWARD = EVERYTHING.log_rewards + 1e-9 * np.arange(len(TREES))  # no ties


def renumbered(trees: TreeBatch, rng: np.random.Generator) -> TreeBatch:
    """Write the same trees with pairs of children in another order."""
    batch = TreeBatch(*(a.copy() for a in (trees.feature, trees.cut, trees.left, trees.n_nodes)))
    for b in range(len(trees)):
        pending, used = [(0, 0)], 1
        batch.feature[b], batch.left[b] = -1, -1
        while pending:
            old, new = pending.pop(int(rng.integers(len(pending))))
            batch.feature[b, new], batch.cut[b, new] = trees.feature[b, old], trees.cut[b, old]
            if trees.feature[b, old] >= 0:
                batch.left[b, new] = used
                child = int(trees.left[b, old])
                pending += [(child, used), (child + 1, used + 1)]
                used += 2
    return batch


@examples(60)
@given(
    capacity=st.integers(1, 30),
    sizes=st.lists(st.integers(0, 40), max_size=5),
    seed=st.integers(0, 99),
)
def test_it_keeps_the_best_distinct_trees(capacity, sizes, seed):
    rng = np.random.default_rng(seed)
    buffer, seen = ReplayBuffer(capacity), set()
    for size in sizes:
        drawn = rng.integers(0, len(TREES), size)
        before = set(buffer.log_reward.tolist())
        batch = renumbered(TREES[drawn], rng)
        width = int(batch.n_nodes.max(initial=1))  # batches need not be equally wide
        batch = TreeBatch(
            batch.feature[:, :width], batch.cut[:, :width], batch.left[:, :width], batch.n_nodes
        )
        added = buffer.add(batch, REWARD[drawn])
        seen |= set(drawn.tolist())
        expected = sorted(seen, key=lambda i: -REWARD[i])[:capacity]
        assert buffer.log_reward.tolist() == REWARD[expected].tolist()
        assert canonical_keys(buffer.trees) == canonical_keys(TREES[np.array(expected, int)])
        assert added == len(set(buffer.log_reward.tolist()) - before)


def test_keys_are_the_canonical_ones():
    rng = np.random.default_rng(0)
    assert canonical_keys(renumbered(TREES, rng)) == canonical_keys(TREES)


def test_a_tree_without_reward_is_not_kept():
    buffer = ReplayBuffer(5)
    assert buffer.add(TREES[:3], np.array([-np.inf, np.nan, -1.0])) == 1
    assert buffer.best[1] == -1.0


def test_trees_are_drawn_uniformly_and_without_repetition():
    buffer = ReplayBuffer(10)
    rng = np.random.default_rng(0)
    assert len(buffer.sample(4, rng)) == 0
    assert buffer.best is None
    buffer.add(TREES[:10], REWARD[:10])
    count = dict.fromkeys(canonical_keys(TREES[:10]), 0)
    for _ in range(1000):
        keys = canonical_keys(buffer.sample(4, rng))
        assert len(set(keys)) == 4
        for key in keys:
            count[key] += 1
    assert min(count.values()) > 320
    assert max(count.values()) < 480
    assert len(buffer.sample(99, rng)) == 10


def test_arrays_there_and_back():
    buffer = ReplayBuffer(20)
    buffer.add(TREES[:50], REWARD[:50])
    back = buffer_from_arrays(buffer.arrays(), 20, np.full(2, 3), 5)
    for name, array in buffer.arrays().items():
        assert np.array_equal(back.arrays()[name], array)
    assert back.add(TREES[:50], REWARD[:50]) == 0


@pytest.mark.parametrize(
    "damage",
    [
        {"left": np.zeros((20, 7), dtype=np.int32)},
        {"log_reward": np.zeros(3)},
        {"log_reward": np.arange(20.0)},
        {"log_reward": np.full(20, np.nan)},
        {"feature": np.full((20, 7), 5, dtype=np.int32)},
    ],
    ids=lambda damage: next(iter(damage)),
)
def test_arrays_that_are_no_buffer_are_refused(damage):
    buffer = ReplayBuffer(20)
    buffer.add(TREES, REWARD)
    with pytest.raises(ValueError, match=r"\w"):
        buffer_from_arrays(buffer.arrays() | damage, 20, np.full(2, 3), 5)
