"""Trees as flat arrays answer like trees one can hold in one's head."""

from __future__ import annotations

import numpy as np
import pytest
from enumeration import LEAF, Tree, depth, from_batch, n_splits, splits_by_path, to_batch
from hypothesis import assume, given
from hypothesis import strategies as st
from thoroughness import examples

from dtgfn.trees.batch import (
    TreeBatch,
    canonical_keys,
    check_trees,
    empty_batch,
    from_splits,
    node_depths,
    node_sums,
    route,
)
from dtgfn.trees.leaf_models import DirichletLeaf

N_FEATURES, N_CODES, N_CLASSES = 3, 6, 3

slow_start = examples(60)
trees = st.recursive(
    st.just(LEAF),
    lambda below: st.tuples(
        st.integers(0, N_FEATURES - 1), st.integers(0, N_CODES - 1), below, below
    ),
    max_leaves=12,
)
batches = st.lists(trees, min_size=1, max_size=6)
split_trees = trees.filter(lambda tree: tree != LEAF)


@st.composite
def tables(draw) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    n_rows = draw(st.integers(0, 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    codes = rng.integers(0, N_CODES + 2, size=(n_rows, N_FEATURES)).astype(np.uint16)
    labels = rng.integers(0, N_CLASSES, size=n_rows).astype(np.int32)
    return codes, labels, rng.uniform(0.1, 3.0, size=n_rows)


def subtree(tree: Tree, path: tuple[int, ...]) -> Tree:
    for turn in path:
        tree = tree[2 + turn]
    return tree


def path_of(tree: Tree, codes: np.ndarray) -> tuple[int, ...]:
    """Turns that a row takes from the root to its leaf."""
    path: tuple[int, ...] = ()
    while (here := subtree(tree, path)) != LEAF:
        path = (*path, int(codes[here[0]] > here[1]))
    return path


def node_at(batch: TreeBatch, b: int, path: tuple[int, ...]) -> int:
    node = 0
    for turn in path:
        node = int(batch.left[b, node]) + turn
    return node


def paths(tree: Tree, path: tuple[int, ...] = ()) -> list[tuple[int, ...]]:
    if tree == LEAF:
        return [path]
    return [path, *paths(tree[2], (*path, 0)), *paths(tree[3], (*path, 1))]


def deep_first_batch(tree: Tree, room: int = 0) -> TreeBatch:
    """Lay out the same tree in another order of nodes, right sides first, with room to spare."""
    batch = empty_batch(1, 2 * n_splits(tree) + 1 + room)

    def place(tree: Tree, node: int) -> None:
        if tree == LEAF:
            return
        batch.feature[0, node], batch.cut[0, node] = tree[:2]
        left = batch.left[0, node] = batch.n_nodes[0]
        batch.n_nodes[0] += 2
        place(tree[3], left + 1)
        place(tree[2], left)

    place(tree, 0)
    return batch


@slow_start
@given(batches)
def test_flat_arrays_hold_the_tree_they_were_given(forest):
    batch = to_batch(forest)
    assert len(batch) == len(forest)
    assert [from_batch(batch, b) for b in range(len(forest))] == forest
    assert [from_batch(deep_first_batch(tree), 0) for tree in forest] == forest


@slow_start
@given(batches, tables())
def test_rows_reach_the_leaf_that_their_turns_lead_to(forest, table):
    codes, _, _ = table
    batch = to_batch(forest)
    leaf = route(batch, codes)
    for b, tree in enumerate(forest):
        expected = [node_at(batch, b, path_of(tree, row)) for row in codes]
        assert leaf[b].tolist() == expected


@slow_start
@given(batches, tables())
def test_every_node_counts_the_rows_that_pass_it(forest, table):
    codes, labels, weight = table
    batch = to_batch(forest)
    counts, n_rows = node_sums(batch, codes, labels, weight, DirichletLeaf(N_CLASSES))
    expected, expected_rows = np.zeros_like(counts), np.zeros_like(n_rows)
    for b, tree in enumerate(forest):
        for row, label, w in zip(codes, labels, weight, strict=True):
            path = path_of(tree, row)
            for end in range(len(path) + 1):
                node = node_at(batch, b, path[:end])
                expected[b, node, label] += w
                expected_rows[b, node] += 1
    np.testing.assert_allclose(counts, expected)
    np.testing.assert_array_equal(n_rows, expected_rows)


@slow_start
@given(batches)
def test_sizes_and_depths_are_those_of_the_tree(forest):
    batch = to_batch(forest)
    assert batch.n_splits.tolist() == [n_splits(tree) for tree in forest]
    assert batch.depth.tolist() == [depth(tree) for tree in forest]
    depths = node_depths(batch)
    for b, tree in enumerate(forest):
        assert (depths[b] >= 0).sum() == len(paths(tree)) == batch.n_nodes[b]
        for path in paths(tree):
            assert depths[b, node_at(batch, b, path)] == len(path)


@slow_start
@given(trees, trees)
def test_keys_are_equal_exactly_when_the_trees_are(one, other):
    first, second = canonical_keys(to_batch([one, other]))
    assert (first == second) == (one == other)


@slow_start
@given(trees, st.integers(0, 3))
def test_keys_do_not_depend_on_the_layout_of_the_nodes(tree, room):
    assert canonical_keys(deep_first_batch(tree, room)) == canonical_keys(to_batch([tree]))


def test_keys_tell_mirrored_and_shifted_trees_apart():
    a, b = (0, 1, LEAF, LEAF), (1, 0, LEAF, LEAF)
    forest = [a, b, (0, 0, a, LEAF), (0, 0, LEAF, a), (0, 0, a, b), (0, 0, b, a), LEAF]
    assert len(set(canonical_keys(to_batch(forest)))) == len(forest)


@slow_start
@given(batches, st.data())
def test_parts_of_a_batch_are_its_trees(forest, data):
    batch = to_batch(forest)
    chosen = data.draw(st.lists(st.integers(0, len(forest) - 1), min_size=1))
    assert [from_batch(batch[chosen], i) for i in range(len(chosen))] == [forest[b] for b in chosen]
    keep = np.array(data.draw(st.lists(st.booleans(), min_size=len(forest), max_size=len(forest))))
    assert len(batch[keep]) == keep.sum()
    assert len(batch[1:]) == len(forest) - 1


@slow_start
@given(batches, st.integers(0, 3))
def test_valid_trees_are_accepted(forest, room):
    check_trees(to_batch(forest), np.full(N_FEATURES, N_CODES))
    for tree in forest:
        check_trees(deep_first_batch(tree, room), np.full(N_FEATURES, N_CODES))


LARGEST, SMALLEST = np.iinfo(np.int32).max, np.iinfo(np.int32).min


@slow_start
@given(split_trees, st.integers(0, 3), st.data())
def test_a_child_that_is_not_a_later_node_is_refused(tree, room, data):
    batch = deep_first_batch(tree, room)
    node = data.draw(st.sampled_from(np.flatnonzero(batch.feature[0] >= 0).tolist()))
    n_nodes = int(batch.n_nodes[0])
    wrong = [*range(-2, node + 1), *range(n_nodes - 1, n_nodes + 3), LARGEST, LARGEST - 1, SMALLEST]
    batch.left[0, node] = data.draw(st.sampled_from(wrong))
    with pytest.raises(ValueError, match="tree"):
        check_trees(batch, np.full(N_FEATURES, N_CODES))


@pytest.mark.parametrize("left", [LARGEST, LARGEST - 1, SMALLEST, -1, 0, 2, 3])
def test_a_stump_with_a_wrong_child_is_refused(left):
    batch = from_splits([{(): (0, 0)}])
    batch.left[0, 0] = left
    with pytest.raises(ValueError, match="child index is out of range"):
        check_trees(batch, np.full(N_FEATURES, N_CODES))


@slow_start
@given(split_trees, st.data())
def test_a_node_with_two_parents_is_refused(tree, data):
    assume(n_splits(tree) > 1)
    batch = to_batch([tree])
    inner = np.flatnonzero(batch.feature[0] >= 0).tolist()
    one = data.draw(st.sampled_from(inner))
    other = data.draw(st.sampled_from(inner))
    assume(batch.left[0, one] != batch.left[0, other])
    batch.left[0, one] = batch.left[0, other] + data.draw(st.sampled_from([-1, 0, 1]))
    with pytest.raises(ValueError, match="tree"):
        check_trees(batch, np.full(N_FEATURES, N_CODES))


@slow_start
@given(trees, st.integers(0, 3), st.sampled_from([-2, SMALLEST, N_FEATURES, LARGEST]), st.data())
def test_a_feature_that_does_not_exist_is_refused(tree, room, feature, data):
    batch = deep_first_batch(tree, room)
    batch.feature[0, data.draw(st.integers(0, batch.feature.shape[1] - 1))] = feature
    with pytest.raises(ValueError, match="tree"):
        check_trees(batch, np.full(N_FEATURES, N_CODES))


@slow_start
@given(split_trees, st.sampled_from([-1, SMALLEST, N_CODES, LARGEST]), st.data())
def test_a_cut_that_does_not_exist_is_refused(tree, cut, data):
    batch = to_batch([tree])
    batch.cut[0, data.draw(st.sampled_from(np.flatnonzero(batch.feature[0] >= 0).tolist()))] = cut
    with pytest.raises(ValueError, match="cut is out of range"):
        check_trees(batch, np.full(N_FEATURES, N_CODES))


@slow_start
@given(trees, st.integers(0, 3), st.sampled_from([LARGEST, SMALLEST, *range(-2, 30)]))
def test_a_wrong_number_of_nodes_is_refused(tree, room, n_nodes):
    batch = deep_first_batch(tree, room)
    assume(n_nodes != batch.n_nodes[0])
    batch.n_nodes[0] = n_nodes
    with pytest.raises(ValueError, match="tree"):
        check_trees(batch, np.full(N_FEATURES, N_CODES))


def test_arrays_that_do_not_fit_together_are_refused():
    good = from_splits([{(): (0, 0)}, {}])
    check_trees(good, np.full(1, 1))
    for name in ("feature", "cut", "left", "n_nodes"):
        parts = {"feature": good.feature, "cut": good.cut, "left": good.left}
        parts["n_nodes"] = good.n_nodes
        parts[name] = parts[name][:1]
        with pytest.raises(ValueError, match="tree arrays"):
            check_trees(TreeBatch(**parts), np.full(1, 1))
    no_room = TreeBatch(*(a[:, :0] for a in (good.feature, good.cut, good.left)), good.n_nodes)
    with pytest.raises(ValueError, match="no nodes"):
        check_trees(no_room, np.full(1, 1))


def chain(depth):
    """A tree that goes left only."""
    return {(0,) * level: (0, level % 2) for level in range(depth)}


@pytest.mark.parametrize("depth", [0, 1, 2, 7, 30])
def test_trees_deeper_than_allowed_are_refused(depth):
    batch = from_splits([{}, chain(depth), chain(min(depth, 1))])
    check_trees(batch, np.array([2]), depth)
    if depth:
        with pytest.raises(ValueError, match=f"deeper than its {depth - 1} levels"):
            check_trees(batch, np.array([2]), depth - 1)


def test_every_feature_has_its_own_cuts():
    check_trees(from_splits([{(): (0, 0), (1,): (1, 4)}]), np.array([1, 5]))
    with pytest.raises(ValueError, match="cut is out of range"):
        check_trees(from_splits([{(): (0, 1), (1,): (1, 4)}]), np.array([1, 5]))


def test_a_bad_tree_beyond_the_first_thousands_is_found(monkeypatch):
    monkeypatch.setattr("dtgfn.trees.batch.NODES_AT_ONCE", 9)
    batch = from_splits([{(): (0, 0)}] * 20)
    check_trees(batch, np.array([1]))
    batch.cut[17, 0] = 1
    with pytest.raises(ValueError, match="cut is out of range"):
        check_trees(batch, np.array([1]))


def test_rows_that_a_loop_would_read_beyond_are_refused():
    batch = from_splits([{(): (2, 0)}])
    for narrow in (np.zeros((4, 2), np.uint16), np.zeros(4, np.uint16)):
        with pytest.raises(ValueError, match="3 columns or more are needed"):
            route(batch, narrow)
        with pytest.raises(ValueError, match="3 columns or more are needed"):
            node_sums(batch, narrow, np.zeros(4, np.int32), np.ones(4), DirichletLeaf(2))
    wide = np.zeros((4, 3), np.uint16)
    with pytest.raises(ValueError, match="give as many of each"):
        node_sums(batch, wide, np.zeros(3, np.int32), np.ones(4), DirichletLeaf(2))
    for wrong in (2, -1):
        with pytest.raises(ValueError, match="whole numbers from 0 to 1"):
            node_sums(batch, wide, np.full(4, wrong, np.int32), np.ones(4), DirichletLeaf(2))
    with pytest.raises(ValueError, match=r"codes go from -1 to 0"):
        route(batch, np.array([[0, 0, -1]]))
    assert route(batch, [[0, 0, 1]]).tolist() == [[2]]


def test_one_bad_tree_among_good_ones_is_refused():
    stump = {(): (0, 0)}
    batch = from_splits([stump, stump, stump])
    batch.feature[1, 0] = 1
    check_trees(batch, np.full(2, 1))
    with pytest.raises(ValueError, match="feature that does not exist"):
        check_trees(batch, np.full(1, 1))


def test_readable_splits_may_come_in_any_order():
    tree = (0, 1, (1, 2, LEAF, (2, 3, LEAF, LEAF)), (1, 4, LEAF, LEAF))
    splits = splits_by_path(tree)
    backwards = dict(reversed(list(splits.items())))
    assert canonical_keys(from_splits([splits])) == canonical_keys(from_splits([backwards]))


def test_an_empty_batch_is_single_leaves():
    batch = empty_batch(3, 5)
    check_trees(batch, np.full(1, 1))
    assert batch.n_splits.tolist() == batch.depth.tolist() == [0, 0, 0]
    assert route(batch, np.zeros((2, 1), np.uint16)).tolist() == [[0, 0]] * 3
