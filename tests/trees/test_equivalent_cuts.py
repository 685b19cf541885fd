"""Variants of a tree, counted by trying every cut."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from thoroughness import examples

from dtgfn.trees.batch import from_splits, route
from dtgfn.trees.equivalent_cuts import equivalence_keys, equivalent_cuts, log_n_equivalent

CUTS = range(6)
SHAPES = ({(): 0}, {(): 0, (0,): 1}, {(): 0, (0,): 1, (1,): 0}, {(): 1, (1,): 1})


@given(
    rows=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=2, max_size=9),
    shape=st.sampled_from(SHAPES),
    data=st.data(),
)
@examples(60)
def test_variants_are_the_trees_that_send_every_row_the_same_way(rows, shape, data):
    codes = np.array(rows, dtype=np.uint16)
    every = [
        {path: (feature, cut) for (path, feature), cut in zip(shape.items(), cuts, strict=True)}
        for cuts in itertools.product(CUTS, repeat=len(shape))
    ]
    trees = from_splits(every)
    leaves = route(trees, codes)
    sensible = [b for b in range(len(trees)) if len(set(leaves[b])) == len(shape) + 1]
    if not sensible:
        return
    one = data.draw(st.sampled_from(sensible))
    same = [b for b in sensible if (leaves[b] == leaves[one]).all()]
    alike = equivalent_cuts(trees, codes)
    assert round(np.exp(log_n_equivalent(alike)[one])) == len(same)
    keys = equivalence_keys(trees, alike)
    assert [b for b in sensible if keys[b] == keys[one]] == same
