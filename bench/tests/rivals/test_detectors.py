"""Detectors by other hands: one contract for all, and what each one's paper states."""

import inspect
import itertools
import random as python_random

import numpy as np
import pytest
import torch
from dtgfn_bench.contract import TrainingRows
from dtgfn_bench.rivals import copod, drocc, goad, icl, neighbours, pidforest, rrcf
from dtgfn_bench.rivals.seeding import torch_seed
from hypothesis import given, settings
from hypothesis import strategies as st

FAMILIES = (neighbours, copod, rrcf, pidforest, drocc, goad, icl)
METHODS = [method for family in FAMILIES for method in family.METHODS]
# DROCC learns only of a shell near the data, its network may go either way far beyond that.
NEAR_ONLY = {"drocc", "drocc-printed-step"}


def normal_rows(n=100, d=4, seed=0, table="made"):
    """Rows near a line, so that columns tell of each other, on scales of their own."""
    random = np.random.default_rng(seed)
    along = random.normal(size=(n, 1))
    X = (along + 0.3 * random.normal(size=(n, d))) * np.arange(1, d + 1) + 5
    return TrainingRows(X, np.zeros(n, dtype=np.int64), 1, table)


def global_states():
    numpy_state = np.random.get_state()  # noqa: NPY002
    return repr(numpy_state), repr(torch.get_rng_state().tolist()), python_random.getstate()


def draw_from_global_generators():
    np.random.random()  # noqa: NPY002
    torch.rand(1)
    python_random.random()


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_contract(method):
    rows = normal_rows()
    quick = {**method.settings, **method.quick}
    assert set(quick) == set(inspect.signature(method.fit).parameters) - {"rows", "seed"}
    fitted = method.fit(rows, 3, **quick)
    new = np.vstack([normal_rows(seed=1).X[:20], rows.X[:5], 5 + 40 * np.array([[1, -2, 3, -4.0]])])
    scores, own = fitted.score(new), fitted.training_scores()
    assert scores.shape == (26,)
    assert own.shape == (100,)
    assert scores.dtype == own.dtype == np.float64
    assert np.isfinite(scores).all()
    assert np.isfinite(own).all()
    if method.name not in NEAR_ONLY:
        assert scores[-1] > np.median(own)
    trees = method.name in {"isolation-forest", "rrcf", "rrcf-raw", "pidforest"}
    assert fitted.size() > 1 if trees else fitted.size() is None
    draw_from_global_generators()  # only now: a library's first import may draw too
    before = global_states()
    again = method.fit(rows, 3, **quick)
    np.testing.assert_allclose(again.score(new), scores, rtol=1e-6)  # threads add in any order
    if method.name != "copod-transductive":  # a row's score does not depend on its company
        np.testing.assert_allclose(fitted.score(new[3:4])[0], scores[3], rtol=1e-4, atol=1e-5)
    assert global_states() == before


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_repeated_rows_and_columns_that_never_vary(method):
    rows = normal_rows(n=30)
    X = np.column_stack([np.repeat(rows.X[:15], 2, axis=0), np.full(30, 7.0)])
    quick = {**method.settings, **method.quick}
    fitted = method.fit(TrainingRows(X, rows.y, 1, "made"), 0, **quick)
    assert np.isfinite(fitted.score(X + np.array([0, 0, 0, 0, 1]))).all()
    assert np.isfinite(fitted.training_scores()).all()


# Neighbours


def test_a_training_row_is_not_its_own_neighbour():
    rows = TrainingRows(np.array([[0.0], [1.0], [3.0]]), np.zeros(3, dtype=np.int64), 1, "made")
    fitted = neighbours.fit_knn(rows, 0, k=1, standardise=False)
    assert fitted.training_scores().tolist() == [1, 1, 2]
    assert fitted.score(np.array([[3.0], [7.0]])).tolist() == [0, 4]


def test_standardised_distances_do_not_depend_on_units():
    rows, units = normal_rows(), np.array([1, 1000, 0.01, 1])
    scaled = TrainingRows(rows.X * units, rows.y, 1, "made")
    for fit in (neighbours.fit_knn, neighbours.fit_lof):
        one = fit(rows, 0, k=5, standardise=True).score(rows.X + 1)
        other = fit(scaled, 0, k=5, standardise=True).score((rows.X + 1) * units)
        np.testing.assert_allclose(one, other)


# COPOD


def brute_copod(x, among):
    """The score of one row among rows that include it, by counting."""
    total = 0.0
    for j, column in enumerate(among.T):
        left = -np.log(np.mean(column <= x[j]))
        right = -np.log(np.mean(column >= x[j]))
        skewness = np.mean((column - column.mean()) ** 3)
        total += max(left if skewness < 0 else right, (left + right) / 2)
    return total


def test_copod_by_counting():
    rows, new = normal_rows(n=20), normal_rows(n=7, seed=1).X * 1.5
    together = copod.FittedCopod(rows.X, transductive=True)
    both = np.vstack([rows.X, new])
    np.testing.assert_allclose(together.score(new), [brute_copod(x, both) for x in new])
    own = [brute_copod(x, rows.X) for x in rows.X]
    for fitted in (together, copod.FittedCopod(rows.X, transductive=False)):
        np.testing.assert_allclose(fitted.training_scores(), own)


def test_copod_alone_adds_the_row_to_the_training_rows():
    X = np.array([[0.0], [1.0], [2.0], [9.0]])  # skewed to the right
    fitted = copod.FittedCopod(X, transductive=False)
    np.testing.assert_allclose(fitted.score(np.array([[10.0]])), -np.log(1 / 5))
    np.testing.assert_allclose(fitted.score(np.array([[-1.0]])), -np.log(1 / 5) / 2)


# RRCF


def insertions(tree, node, x):
    """Every way to insert x below a node: (probability, nested tree with x as the leaf "x")."""
    low, high = tree.low[node], tree.high[node]
    added = (np.maximum(low - x, 0) + np.maximum(x - high, 0)).sum()
    whole = (np.maximum(high, x) - np.minimum(low, x)).sum()
    apart = added / whole if whole else 0.0
    if apart:
        yield apart, (nested(tree, node), "x")
    if tree.left[node] < 0:
        yield 1 - apart, ("x", *["row"] * tree.count[node]) if whole == 0 else "nothing"
        return
    left, right = tree.left[node], tree.right[node]
    goes_left = x[tree.feature[node]] <= tree.cut[node]
    child, other = (left, right) if goes_left else (right, left)
    for probability, below in insertions(tree, child, x):
        yield (1 - apart) * probability, (below, nested(tree, other))


def nested(tree, node):
    if tree.left[node] < 0:
        return ("row",) * tree.count[node]
    return nested(tree, tree.left[node]), nested(tree, tree.right[node])


def leaves(node):
    return 1 if isinstance(node, str) else sum(leaves(child) for child in node)


def has_x(node):
    return node == "x" if isinstance(node, str) else any(has_x(child) for child in node)


def brute_codisp(node):
    """Largest (rows beside) / (rows with x) over the subtrees that hold x."""
    if isinstance(node, str) or ("x" in node and "row" in node):
        return 0.0  # x, or a leaf of x and its copies
    inside = next(child for child in node if has_x(child))
    here = leaves(node) / leaves(inside) - 1
    return max(here, brute_codisp(inside))


@given(st.integers(0, 10_000), st.integers(1, 7))
@settings(max_examples=40, deadline=None)
def test_expected_displacement_is_that_of_all_insertions(seed, n):
    random = np.random.default_rng(seed)
    X = random.integers(0, 4, (n, 2)).astype(float)  # repeated rows are likely
    tree = rrcf.grow(X, random)
    new = np.vstack([X, random.normal(1.5, 2, (6, 2))])
    for x, found in zip(new, tree.expected_codisp(new), strict=True):
        ways = [way for way in insertions(tree, 0, x) if way[0] > 0]
        assert sum(probability for probability, _ in ways) == pytest.approx(1)
        assert found == pytest.approx(sum(p * brute_codisp(made) for p, made in ways))


def test_insertion_is_as_good_as_growing_with_the_row():
    """Guha et al., theorem on dynamic maintenance: the two have the same distribution."""
    random = np.random.default_rng(0)
    X = np.array([[0.0, 0], [1, 0.5], [0.2, 2], [3, 1]])
    x = np.array([[1.5, 3.0]])
    with_row = np.vstack([X, x])
    grown = [rrcf.grow(with_row, random).codisp(x)[0] for _ in range(500)]
    inserted = [rrcf.grow(X, random).expected_codisp(x)[0] for _ in range(500)]
    assert np.mean(grown) == pytest.approx(np.mean(inserted), abs=4 * np.std(grown) / 500**0.5)
    assert np.std(inserted) < np.std(grown)


def test_cut_trees_end_at_single_rows():
    X = normal_rows(n=40).X
    tree = rrcf.grow(X, np.random.default_rng(0))
    assert len(tree.feature) == 79
    assert (tree.count[tree.left < 0] == 1).all()


# PIDForest


@given(st.lists(st.tuples(st.floats(0, 10), st.integers(1, 3)), min_size=1, max_size=7))
@settings(deadline=None)
def test_histograms_are_best_of_all(pairs):
    values = np.array([value for value, _ in pairs])
    weights = np.array([float(weight) for _, weight in pairs])

    def error(starts):
        edges, total = [0, *starts, len(values)], 0.0
        for a, b in itertools.pairwise(edges):
            mean = np.average(values[a:b], weights=weights[a:b])
            total += weights[a:b] @ (values[a:b] - mean) ** 2
        return total

    inner = range(1, len(values))
    least = min(error(c) for k in range(3) for c in itertools.combinations(inner, k))
    saving, starts = pidforest.best_histogram(values, weights, 3)
    assert len(starts) <= 2
    slack = 1e-9 * (weights @ values**2) + 1e-300
    assert error(starts.tolist()) <= least + slack
    if error([]) > slack:
        assert saving == pytest.approx(1 - least / error([]), abs=1e-8)


def test_cuts_of_gaps_stand_between_dense_and_sparse():
    column = np.concatenate([np.linspace(0, 1, 50), [9.0, 10.0]])
    saving, cuts = pidforest.gap_histogram(column, -0.01, 10.5, 3)
    assert saving > 0.5
    # Half of a gap belongs to the value before it.
    assert any(0.98 <= cut <= 9 for cut in cuts)


def test_boxes_of_a_tree_fill_the_root_and_hold_their_rows():
    X = normal_rows().X
    low, high = X.min(axis=0) - 1, X.max(axis=0) + 1
    tree = pidforest.grow(X, low, high, 4, 3, np.random.default_rng(0))
    ends = np.array(tree.child) < 0
    volumes = np.exp(np.array(tree.log_volume))
    assert volumes[ends].sum() == pytest.approx(np.prod(high - low))
    assert set(np.unique(tree.leaves(X))) == set(np.flatnonzero(ends))


def test_rows_outside_the_training_box_come_first():
    rows = normal_rows()
    fitted = pidforest.fit_pidforest(rows, 0, n_trees=5, n_rows=30, depth=5, n_buckets=3)
    top = rows.X.max(axis=0)
    near, far = fitted.score(np.array([top + 20, top + 40]))
    assert far > near > max(own.max() for own in fitted.sparsity)


def test_scores_do_not_depend_on_units():
    rows, units = normal_rows(), 2.0 ** np.array([0, 10, -7, 3])
    scaled = TrainingRows(rows.X * units, rows.y, 1, "made")
    sizes = {"n_trees": 3, "n_rows": 30, "depth": 5, "n_buckets": 3}
    one = pidforest.fit_pidforest(rows, 0, **sizes).training_scores()
    other = pidforest.fit_pidforest(scaled, 0, **sizes).training_scores()
    np.testing.assert_allclose(other - one, np.log(units).sum())


# DROCC


def test_adversarial_points_climb_and_stay_in_the_shell():
    with torch_seed(0):
        net = torch.nn.Sequential(torch.nn.Linear(3, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
        x = torch.randn(40, 3)
        with torch_seed(1):
            still = x + drocc.to_shell(torch.randn(40, 3), 1.5, 2.0)
        with torch_seed(1):
            found = drocc.adversarial(net, x, drocc.Search(1.5, 2.0, 50, 0.01))
    length = (found - x).norm(dim=1)
    assert (length > 1.5 - 1e-4).all()
    assert (length < 3 + 1e-4).all()
    assert (net(found) - net(still)).mean() > 0


def test_drocc_tells_the_shell_from_the_data():
    rows = normal_rows(n=200)
    fitted = drocc.fit_drocc(rows, 0, 240, 64, 2.0, 10, 0.001)
    random = np.random.default_rng(1)
    way = random.normal(size=rows.X.shape)
    way *= 3 / np.linalg.norm(way, axis=1, keepdims=True)
    around = fitted.scale(rows.X) + way
    shell = fitted.score(around * fitted.scale.spread + fitted.scale.mean)
    assert np.mean(shell) > np.mean(fitted.training_scores())


def test_small_tables_get_as_many_updates_as_the_authors_table():
    """One batch per epoch: in the 100 epochs of their command the network learns nothing."""
    rows = normal_rows(n=100)
    given = {**drocc.METHODS[0].settings, "steps": 10}
    shell = rows.X + 4 * np.sign(np.random.default_rng(1).normal(size=rows.X.shape)) * rows.X.std(0)
    known = {}
    for updates in (100, given["updates"]):
        fitted = drocc.fit_drocc(rows, 0, **{**given, "updates": updates})
        known[updates] = np.mean(fitted.training_scores() < 0) + np.mean(fitted.score(shell) > 0)
    assert known[100] < 1.3 < 1.6 < known[800]


def test_drocc_in_a_column_that_never_varied_any_change_is_large():
    rows = normal_rows()
    X = np.column_stack([rows.X, np.full(100, 7.0)])
    quick = {**drocc.METHODS[0].settings, "updates": 200, "steps": 10}
    fitted = drocc.fit_drocc(TrainingRows(X, rows.y, 1, "made"), 0, **quick)
    moved = fitted.score(X + np.array([0, 0, 0, 0, 0.1]))
    assert abs(moved - fitted.training_scores()).min() > 10


# GOAD


def test_distances_by_the_long_way():
    with torch_seed(0):
        z, centres = torch.randn(3, 5, 4), torch.randn(5, 4)
    long_way = ((z[:, :, None] - centres) ** 2).sum(dim=3)
    torch.testing.assert_close(goad.squared_distances(z, centres), long_way)


def test_triplet_loss_by_the_long_way():
    with torch_seed(0):
        z = torch.randn(6, 5, 4, requires_grad=True)
    distance = ((z[:, :, None] - z.mean(dim=0)) ** 2).sum(dim=3)
    other = (distance + torch.diag(torch.full((5,), 1e6))).amin(dim=2)
    loss = (distance.diagonal(dim1=1, dim2=2) + goad.MARGIN - other).clamp_min(0).mean()
    torch.testing.assert_close(goad.triplet_loss(z), loss)
    slopes = [torch.autograd.grad(own, z)[0] for own in (goad.triplet_loss(z), loss)]
    torch.testing.assert_close(*slopes)


def test_triplet_loss_of_maps_far_apart_is_zero():
    apart = torch.eye(4).expand(6, 4, 4) * 10
    assert goad.triplet_loss(apart) == 0
    assert goad.triplet_loss(torch.ones(6, 4, 4)) == pytest.approx(goad.MARGIN)


def test_goad_score_is_how_badly_maps_are_recognised():
    with torch_seed(0):
        network = goad.train(torch.randn(128, 3), n_maps=8, epochs=5, batch=32)
        x = torch.randn(2, 3)
    z = torch.stack([x @ one @ network.trunk for one in network.maps], dim=1)
    z = torch.where(z > 0, z, goad.SLOPE * z)
    chance = torch.softmax(-((z[:, :, None] - network.centres) ** 2).sum(dim=3), dim=2)
    expected = [-sum(torch.log(row[m, m]) for m in range(8)) for row in chance]
    torch.testing.assert_close(
        network.score(x), torch.stack(expected).double(), rtol=1e-5, atol=1e-5
    )


def test_goad_centres_are_those_of_an_activation_in_place():
    """A twin of the authors' arrangement: the head overwrites what the trunk returned."""
    with torch_seed(0):
        x, maps, trunk = torch.randn(16, 3), torch.randn(5, 3, goad.OUTPUT), torch.randn(32, 8)
    returned = torch.stack([x @ one @ trunk for one in maps], dim=1)
    torch.nn.LeakyReLU(goad.SLOPE, inplace=True)(returned)
    torch.testing.assert_close(goad.embed(x, maps, trunk), returned)


def test_activated_centres_of_symmetric_rows_tell_the_maps_spread():
    with torch_seed(0):
        x, maps, trunk = torch.randn(20, 3), torch.randn(5, 3, goad.OUTPUT), torch.randn(32, 8)
    linear = torch.einsum("nd,mde->nme", x, maps @ trunk).abs().mean(dim=0)
    centres = goad.embed(torch.cat([x, -x]), maps, trunk).mean(dim=0)
    torch.testing.assert_close(centres, (1 - goad.SLOPE) / 2 * linear, rtol=1e-4, atol=1e-4)


def test_goad_sees_even_when_one_batch_holds_all_rows():
    rows = normal_rows(n=50)
    fitted = goad.fit_goad(rows, 0, n_maps=64, updates=10, batch=64)
    far = rows.X.mean(axis=0) + 6 * rows.X.std(axis=0) * np.array([1, -1, 1, -1])
    assert fitted.score(far[None])[0] > fitted.training_scores().max()


# ICL


def test_windows_and_rests_are_the_row():
    inside, outside = icl.windows(5, 2)
    assert inside.tolist() == [[0, 1], [1, 2], [2, 3], [3, 4]]
    for window, rest in zip(inside, outside, strict=True):
        assert sorted([*window, *rest]) == [0, 1, 2, 3, 4]


def test_matching_loss_knows_right_from_wrong():
    right = torch.eye(4)[None]
    assert icl.matching_loss(right, right).item() < 1e-6
    assert icl.matching_loss(right, right.flip(1)).item() > 10
    same = torch.ones(2, 4, 3)
    np.testing.assert_allclose(icl.matching_loss(same, same).numpy(), np.log(4), rtol=1e-6)


def test_matching_loss_is_that_of_torchs_own_norms():
    from torch.nn.functional import normalize

    with torch_seed(3):
        rest, window = torch.randn(5, 4, 7), torch.randn(5, 4, 7)
    rest[0, :, 2] = 0.0  # a vector without a length stays
    a, b = (normalize(normalize(z, dim=1), dim=2) for z in (rest, window))
    likeness = a @ b.transpose(1, 2) / icl.TEMPERATURE
    slow = -likeness.log_softmax(dim=2).diagonal(dim1=1, dim2=2).mean(dim=1)
    np.testing.assert_allclose(icl.matching_loss(rest, window).numpy(), slow.numpy(), rtol=1e-4)


def test_icl_finds_rows_whose_columns_do_not_match():
    rows = normal_rows(n=200)
    fitted = icl.fit_icl(rows, 0, orders=1, epochs=60, batch=64)
    random = np.random.default_rng(1)
    shuffled = np.column_stack([random.permutation(column) for column in rows.X.T])
    assert fitted.score(shuffled).mean() > 2 * fitted.training_scores().mean()


def test_icl_takes_the_authors_number_of_orders():
    assert [icl.n_orders(1839, 6), icl.n_orders(164, 7), icl.n_orders(200, 300)] == [8, 9, 1]
    rows = normal_rows(n=40, d=30)  # few orders, for speed
    fitted = icl.fit_icl(rows, 0, orders=None, epochs=1, batch=64)
    assert len(fitted.matchers) == icl.n_orders(40, 30) == 3


def test_icl_stops_at_the_authors_loss():
    with torch_seed(0):
        x = torch.as_tensor(normal_rows(n=60).X, dtype=torch.float32)
        matcher = icl.train(x, np.arange(4), epochs=2000, batch=256)
        loss = matcher.networks.train()[0](x[:, matcher.outside])
        loss = icl.matching_loss(loss, matcher.networks[1](x[:, matcher.inside]))
    assert loss.mean().item() < 2e-3
