"""The bagged posterior: where its trees come from, and what it says of rows it did not see."""

import math
from dataclasses import replace

import numpy as np
import pytest
from enumeration import Case, Enumeration

from dtgfn.bagging import Bags, best_sharpness, infer_bagged, out_of_bag, sharpened
from dtgfn.engines.exact import infer_exact
from dtgfn.engines.smc import infer_smc
from dtgfn.leaves import NormalLeaf
from dtgfn.predict import average_outputs, average_trees
from dtgfn.trees import canonical_keys, node_sums, route

RNG = np.random.default_rng(0)
CODES = RNG.integers(0, 5, (40, 6)).astype(np.uint16)
LABELS = (CODES[:, 0] + CODES[:, 3] > 4).astype(np.int64)
CASE = Case(CODES, LABELS, 2, max_depth=2, column=(0, 0, 1, 2, 3, 3))


def bag(case=CASE, engine=infer_exact, **options):
    given = {"n_bags": 8, "n_trees": 80, "random_state": 0, **options}
    return infer_bagged(
        engine, case.rows, case.score, column=case.columns, n_columns=case.n_columns, **given
    )


def test_trees_of_a_bag_split_on_its_columns_only():
    posterior = bag(column_share=0.5)
    bags = posterior.solution
    assert isinstance(bags, Bags)
    used = [set() for _ in range(8)]
    for b, tree in zip(bags.bag, posterior.trees.feature, strict=True):
        used[b] |= {CASE.column[f] for f in tree if f >= 0}
    assert max(map(len, used)) <= 2
    assert len(set.union(*used)) > 2


def test_bags_share_the_trees_and_hold_as_many_rows_as_there_are():
    bags = bag(n_trees=83).solution
    assert np.bincount(bags.bag).tolist() == [10, 10, 11, 10, 10, 11, 10, 11]
    assert (bags.copies.sum(axis=1) == 40).all()
    assert len(set(map(bytes, bags.copies))) == 8


def test_every_leaf_holds_training_rows():
    posterior = bag(engine=infer_smc, n_particles=20, n_sweeps=1)
    assert np.isfinite(posterior.log_reward).all()
    rows, leaf = CASE.rows, CASE.score.leaf
    _, n_rows = node_sums(posterior.trees, rows.codes, rows.target, rows.weight, leaf)
    reached = route(posterior.trees, CASE.rows.codes)
    assert (np.take_along_axis(n_rows, reached, axis=1) > 0).all()


def test_each_bag_is_the_posterior_of_its_rows():
    """With all columns, frequencies of trees in a bag are their probabilities given its rows."""
    case = Case(CODES[:12, :2], LABELS[:12], 2, max_depth=1)
    posterior = bag(case, n_bags=2, n_trees=8000, column_share=1.0)
    bags = posterior.solution
    for b in range(2):
        copies = bags.copies[b]
        inside = copies > 0
        mine = case.but(codes=case.codes[inside], labels=case.labels[inside], weight=copies[inside])
        listed = Enumeration(mine)
        by_splits = np.bincount(posterior.trees[bags.bag == b].n_splits, minlength=2) / 4000
        np.testing.assert_allclose(by_splits, listed.size_probability, atol=0.04)


def test_fewer_columns_pay_less_for_a_split():
    seen = []

    def engine(rows, score, **given):
        seen.append(score.prior.penalty)
        return infer_exact(rows, score, **given)

    bag(engine=engine, column_share=0.5)
    assert seen[0] == pytest.approx(CASE.score.prior.penalty - math.log(2))


def test_out_of_bag_is_the_average_of_trees_that_never_saw_the_row():
    posterior = bag()
    bags = posterior.solution
    found = out_of_bag(posterior)
    everyone = np.arange(40)
    for i in (0, 7, 23):
        blind = bags.copies[bags.bag, i] == 0
        others = everyone != i
        leaf = route(posterior.trees[blind], CASE.rows.codes)
        told = []
        for at in leaf:
            together = others & (at == at[i])
            same = (LABELS[together] == LABELS[i]).sum()
            told.append((same + 0.1) / (together.sum() + 0.2))
        right, wrong = np.mean(told) ** bags.sharpness, (1 - np.mean(told)) ** bags.sharpness
        assert found.log_prob[i] == pytest.approx(math.log(right / (right + wrong)))
        assert found.effective[i] == pytest.approx(blind.mean())
    assert posterior.diagnostics["out_of_bag_log_score"] == pytest.approx(found.score)


def test_the_best_sharpness_mends_what_was_blunted():
    rng = np.random.default_rng(3)
    truth = rng.dirichlet([0.5, 0.5, 0.5], 20_000)
    target = np.array([rng.choice(3, p=p) for p in truth], dtype=np.int32)
    blunt = sharpened(truth, 0.4)
    assert best_sharpness(blunt, target, np.ones(20_000)) == pytest.approx(2.5, rel=0.05)
    assert best_sharpness(blunt[:0], target[:0], np.ones(0)) == 1.0


def test_predictions_are_the_sharpened_average():
    posterior = bag()
    bags = posterior.solution
    even = np.full(len(posterior.trees), 1 / len(posterior.trees))
    plain = average_trees(posterior.trees, even, CASE.rows, CASE.score, CASE.rows.codes)
    told = average_outputs(posterior, CASE.rows.codes)
    np.testing.assert_allclose(told, sharpened(plain, bags.sharpness))
    assert (told.argmax(axis=1) == plain.argmax(axis=1)).all()


def test_a_row_in_every_bag_has_no_weight():
    posterior = bag(n_bags=2, n_trees=4)
    bags = posterior.solution
    always = (bags.copies > 0).all(axis=0)
    assert always.any()
    found = out_of_bag(posterior)
    assert (found.weight[always] == 0).all()
    assert math.isfinite(found.score)


def test_the_same_seed_gives_the_same_trees_and_more_can_be_drawn():
    first, second = bag(), bag()
    assert canonical_keys(first.trees) == canonical_keys(second.trees)
    more = first.solution.sample(200, np.random.default_rng(0))
    assert set(canonical_keys(more)) <= set(canonical_keys(first.trees))


def test_constant_columns_are_not_counted_and_a_constant_table_works():
    case = Case(np.zeros((10, 2), np.uint16), np.arange(10) % 2, 2, max_depth=2)
    posterior = bag(case)
    assert posterior.trees.n_splits.max() == 0


def test_weights_of_rows_multiply_their_copies():
    light = bag(CASE.but(weight=np.full(40, 0.25)), engine=infer_smc, n_particles=50, n_sweeps=1)
    heavy = bag(CASE.but(weight=np.full(40, 4.0)), engine=infer_smc, n_particles=50, n_sweeps=1)
    assert light.mean_splits < heavy.mean_splits


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_bags": 1}, "n_bags=1 is out of range"),
        ({"column_share": 0.0}, "column_share=0.0 is out of range"),
        ({"column_share": 1.5}, "column_share=1.5 is out of range"),
        ({"column_share": (0.8, 0.2)}, "two such, ascending"),
        ({"n_trees": 1}, "n_trees=1 leaves nothing to average"),
    ],
)
def test_bad_arguments_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        bag(**options)


def test_numbers_cannot_be_bagged():
    score = replace(CASE.score, leaf=NormalLeaf())
    with pytest.raises(TypeError, match="NormalLeaf, not classes"):
        infer_bagged(infer_exact, CASE.rows, score, column=CASE.columns, n_columns=4)


def test_a_posterior_without_bags_is_refused():
    posterior = infer_exact(CASE.rows, CASE.score, column=CASE.columns, n_columns=4, n_trees=5)
    with pytest.raises(ValueError, match="not bagged"):
        out_of_bag(posterior)
