"""The one tree that stands for a model, against a search of all trees on small tables."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_diabetes, load_iris
from thoroughness import examples

from dtgfn import DTGFNClassifier, DTGFNRegressor
from dtgfn.explain.tree_search import Taught, leaf_loss, search_tree
from dtgfn.trees.batch import from_splits, route


def loss_of(tree, taught: Taught) -> float:
    """The loss by its definition: sums over the leaves."""
    leaves = route(tree, taught.codes)[0]
    parts = (taught.sums[leaves == leaf].sum(axis=0) for leaf in np.unique(leaves))
    return sum(float(leaf_loss(part, taught.classes)) for part in parts)


def all_trees(taught: Taught, n_splits: int, max_depth: int):
    """Every tree of at most so many splits, by brute force."""
    cuts = [(f, c) for f in range(taught.codes.shape[1]) for c in range(int(taught.codes.max()))]
    paths = [p for d in range(max_depth) for p in itertools.product((0, 1), repeat=d)]
    for n in range(n_splits + 1):
        for chosen in itertools.combinations(paths, n):
            if all(path[:-1] in chosen for path in chosen if path):
                for rules in itertools.product(cuts, repeat=n):
                    yield from_splits([dict(zip(chosen, rules, strict=True))])


@examples(25)
@given(st.integers(0, 10**6), st.booleans(), st.sampled_from([1, 2, 3]))
def test_the_search_finds_the_best_of_all_small_trees(seed, classes, n_splits):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 3, size=(int(rng.integers(2, 12)), 2)).astype(np.uint16)
    if classes:
        sums = rng.dirichlet([0.5, 0.5], len(codes))
    else:
        y = rng.normal(size=len(codes))
        sums = np.column_stack([np.ones(len(codes)), y, y**2])
    taught = Taught(codes, sums, classes)
    found = search_tree(taught, n_splits, 2)
    best = min(loss_of(tree, taught) for tree in all_trees(taught, n_splits, 2))
    assert found.tree.n_splits[0] <= n_splits
    assert found.loss == pytest.approx(loss_of(found.tree, taught), abs=1e-9)
    assert found.loss == pytest.approx(best, abs=1e-9)
    assert found.complete == (n_splits <= 2)


def test_an_interaction_that_no_single_split_shows_is_seen():
    codes = np.array(list(itertools.product((0, 1), repeat=4)) * 4, dtype=np.uint16)
    yes = (codes[:, 1] ^ codes[:, 3]).astype(float)
    taught = Taught(codes, np.column_stack([1 - yes, yes]), True)
    found = search_tree(taught, 3, 3)
    assert found.loss == pytest.approx(0.0, abs=1e-9)
    assert found.tree.n_splits.tolist() == [3]


@pytest.fixture(scope="module")
def models():
    X, y = load_iris(return_X_y=True, as_frame=True)
    few = {"random_state": 0, "n_jobs": 1}
    D, z = load_diabetes(return_X_y=True, as_frame=True)
    return {
        "exact": DTGFNClassifier(inference="exact", max_depth=3, **few).fit(X, y),
        "bags": DTGFNClassifier(
            ensemble="bags", n_trees=40, max_depth=3, options={"n_bags": 8}, **few
        ).fit(X, y),
        "sum": DTGFNClassifier(time_budget=2, **few).fit(X, y),
        "numbers": DTGFNRegressor(inference="exact", max_depth=1, **few).fit(D, z),
    }


@pytest.mark.filterwarnings("ignore::dtgfn.diagnostics.UntrustworthyFit")
def test_it_predicts_most_like_the_model(models):
    X = load_iris(as_frame=True).data
    for name in ("exact", "bags", "sum"):
        model = models[name]
        said = model.predict_proba(X)
        costs = []
        for n in (1, 2, 4):
            one = model.tree(n)
            assert one.n_splits <= n
            mine = one.predict_proba(X)
            agree = (mine.argmax(axis=1) == said.argmax(axis=1)).mean()
            assert one.fidelity == pytest.approx(agree)
            tiny = 1e-300
            kl = (said * np.log((said + tiny) / (mine + tiny))).sum(axis=1).mean()
            assert one.cost_nats == pytest.approx(kl, abs=1e-9)
            costs.append(one.cost_nats)
            told = "more than 99%" if 0.995 <= one.fidelity < 1.0 else f"{one.fidelity:.0%}"
            assert f"{told} of the training rows" in str(one)
        assert costs == sorted(costs, reverse=True)
        assert one.of == ("posterior" if name == "exact" else "ensemble")
    exact = models["exact"]
    likely = exact.tree(by="probability")
    near = exact.tree(likely.n_splits)
    assert near.cost_nats <= likely.cost_nats
    assert near.probability <= likely.probability == exact.posterior_.best_probability
    drawn = {exact.tree(k).cost_nats for k in (3, 3)}
    assert len(drawn) == 1  # no chance in it


def test_numbers_are_taught_by_their_means(models):
    model, X = models["numbers"], load_diabetes(as_frame=True).data
    one, said = model.tree(2), model.predict(X)
    off = ((one.predict(X) - said) ** 2).mean()
    assert one.fidelity == pytest.approx(1 - off / said.var())
    assert "of the variance" in repr(one)
    with pytest.raises(AttributeError, match="predicts numbers; use predict"):
        one.predict_proba(X)


def test_it_can_be_exported(models):
    one, X = models["sum"].tree(3), load_iris(as_frame=True).data
    assert one.export("text") == one.describe()
    assert one.export("mermaid").startswith("flowchart")
    again = one.export("sklearn")
    np.testing.assert_allclose(again.predict_proba(X), one.predict_proba(X), atol=1e-9)


def test_what_cannot_be_asked_is_refused(models):
    with pytest.raises(ValueError, match="a sum of trees gives single trees no probability"):
        models["sum"].tree(by="probability")
    with pytest.raises(ValueError, match="of='posterior' is for single trees"):
        models["sum"].tree(of="posterior")
    with pytest.raises(ValueError, match="max_splits=0 is out of range"):
        models["exact"].tree(0)
    with pytest.raises(ValueError, match="by='vote' is not known"):
        models["exact"].tree(by="vote")
    with pytest.raises(ValueError, match=r"none of the .* most probable trees is so small"):
        models["bags"].tree(1, by="probability")
