"""Objectives against loops that follow the formulas, and the shapes of the loss."""

import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from thoroughness import examples

import dtgfn
from dtgfn.engines.gfn.objectives import FAR, OBJECTIVES, SHAPES, SUBTB_DECAY, Residuals


def slow_shape(name: str, x: float) -> float:
    """The formulas, with their tangents beyond FAR."""
    if name == "squared":
        return x * x / 2
    if name == "huber":
        return x * x / 2 if abs(x) <= 1 else abs(x) - 0.5
    value = {"cosh": lambda t: math.cosh(t) - 1, "linex": lambda t: math.exp(-t) + t - 1}[name]
    slope = {"cosh": math.sinh, "linex": lambda t: 1 - math.exp(-t)}[name]
    edge = max(-FAR, min(FAR, x))
    return value(edge) + slope(edge) * (x - edge)


def slow_tb(rows, ends, shape):
    return np.mean([shape(sum(row)) for row in rows])


def slow_vargrad(rows, ends, shape):
    totals = [sum(row) for row in rows]
    return np.mean([shape(total - np.mean(totals)) for total in totals])


def slow_db(rows, ends, shape):
    return np.mean([shape(delta) for row in rows for delta in row])


def slow_subtb(rows, ends, shape):
    """Every stretch of a chain, or every decision with all that is below it."""
    value = weight = 0.0
    for b, row in enumerate(rows):
        if ends is None:
            parts = [(i, j) for i in range(len(row)) for j in range(i + 1, len(row) + 1)]
        else:
            parts = list(enumerate(ends[b]))
        for start, stop in parts:
            weight += SUBTB_DECAY ** (stop - start)
            value += SUBTB_DECAY ** (stop - start) * shape(sum(row[start:stop]))
    return value / weight


SLOW = {"tb": slow_tb, "vargrad": slow_vargrad, "db": slow_db, "subtb": slow_subtb}


def tree_ends(n_decisions: int, rng: np.random.Generator) -> list[int]:
    """Where each part ends when a random tree's decisions are listed in preorder."""
    if n_decisions == 0:
        return []
    n_left = int(rng.integers(0, n_decisions))
    left, right = tree_ends(n_left, rng), tree_ends(n_decisions - 1 - n_left, rng)
    shifted = [end + 1 for end in left] + [end + 1 + n_left for end in right]
    return [n_decisions, *shifted]


def as_residuals(rows, ends) -> Residuals:
    width = max(map(len, rows))
    delta = torch.zeros(len(rows), width, dtype=torch.float64)
    mask = torch.zeros(len(rows), width, dtype=torch.bool)
    end = torch.zeros(len(rows), width, dtype=torch.int64)
    for b, row in enumerate(rows):
        delta[b, : len(row)] = torch.tensor(row, dtype=torch.float64)
        mask[b, : len(row)] = True
        end[b, : len(row)] = torch.tensor(ends[b]) if ends else 0
    return Residuals(delta.requires_grad_(), mask, end if ends else None)


@st.composite
def trajectories(draw):
    numbers = st.floats(-9, 9, allow_nan=False)
    return draw(st.lists(st.lists(numbers, min_size=1, max_size=6), min_size=1, max_size=5))


@examples(40)
@given(rows=trajectories(), seed=st.integers(0, 1000), tree_form=st.booleans())
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_objectives_agree_with_their_loops(objective, shape, rows, seed, tree_form):
    rng = np.random.default_rng(seed)
    ends = [tree_ends(len(row), rng) for row in rows] if tree_form else None
    loss = OBJECTIVES[objective].loss(as_residuals(rows, ends), SHAPES[shape])
    expected = SLOW[objective](rows, ends, lambda x: slow_shape(shape, x))
    assert loss.item() == pytest.approx(expected, rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("tree_form", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_balanced_trajectories_have_no_loss_and_no_gradient(objective, shape, tree_form):
    rows = [[0.0] * 4, [0.0], [0.0] * 2]
    rng = np.random.default_rng(0)
    residuals = as_residuals(rows, [tree_ends(len(r), rng) for r in rows] if tree_form else None)
    loss = OBJECTIVES[objective].loss(residuals, SHAPES[shape])
    loss.backward()
    assert loss.item() == 0
    assert residuals.delta.grad.abs().max() == 0


@pytest.mark.parametrize("tree_form", [False, True])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_padding_changes_nothing(objective, tree_form):
    rows = [[1.0, -2.0, 0.5], [3.0]]
    rng = np.random.default_rng(0)
    ends = [tree_ends(len(row), rng) for row in rows] if tree_form else None
    short = as_residuals(rows, ends)
    pad = torch.nn.functional.pad
    wide = Residuals(
        pad(short.delta, (0, 200)),
        pad(short.mask, (0, 200)),
        None if ends is None else pad(short.end, (0, 200)),
    )
    loss = OBJECTIVES[objective].loss
    if objective == "subtb" and not tree_form:
        wide = Residuals(wide.delta[:, :9], wide.mask[:, :9])  # all stretches of 200 are many
    shape = SHAPES["squared"]
    assert loss(wide, shape).item() == pytest.approx(loss(short, shape).item())


@pytest.mark.parametrize("shape", SHAPES)
def test_vargrad_does_not_see_log_z(shape):
    rows = np.random.default_rng(0).normal(0, 2, (7, 3))
    losses = []
    for log_z in (0.0, 40.0):
        shifted = rows.copy()
        shifted[:, 0] += log_z
        residuals = as_residuals(shifted.tolist(), None)
        losses.append(OBJECTIVES["vargrad"].loss(residuals, SHAPES[shape]).item())
    assert losses[0] == pytest.approx(losses[1])


@examples(100)
@given(x=st.floats(-30, 30))
@pytest.mark.parametrize("name", SHAPES)
def test_shapes_have_the_values_and_slopes_of_their_formulas(name, x):
    point = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    value = SHAPES[name](point)
    assert value.item() == pytest.approx(slow_shape(name, x), rel=1e-6, abs=1e-12)
    (slope,) = torch.autograd.grad(value, point)
    h = 1e-5
    numeric = (slow_shape(name, x + h) - slow_shape(name, x - h)) / (2 * h)
    assert slope.item() == pytest.approx(numeric, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("edge", [-FAR, FAR, -1.0, 1.0])
@pytest.mark.parametrize("name", SHAPES)
def test_value_and_slope_are_continuous_where_the_formula_changes(name, edge):
    points = torch.tensor([edge - 1e-6, edge, edge + 1e-6], dtype=torch.float64)
    points.requires_grad_()
    values = SHAPES[name](points)
    (slopes,) = torch.autograd.grad(values.sum(), points)
    steepest = slopes.abs().max()
    assert (values.max() - values.min()).detach() < 1e-5 * (1 + steepest)
    assert slopes.max() - slopes.min() < 1e-5 * (1 + steepest)


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_are_flat_at_zero_positive_elsewhere_and_curved_alike(name):
    x = torch.linspace(-8, 8, 161, dtype=torch.float64)
    values = SHAPES[name](x)
    assert (values[x.abs() > 1e-9] > 0).all()
    assert SHAPES[name](torch.zeros(1)).item() == 0
    near = SHAPES[name](torch.tensor([1e-3, -1e-3], dtype=torch.float64))
    assert near.numpy() == pytest.approx(0.5e-6, rel=1e-3)
    assert (values[1:] - values[:-1])[x[1:] > 0].min() > 0  # and falls before
    assert (values[1:] - values[:-1])[x[1:] <= 0].max() < 0


def test_linex_minds_a_rare_tree_more_than_a_frequent_one():
    assert SHAPES["linex"](torch.tensor(-3.0)) > SHAPES["linex"](torch.tensor(3.0))


def test_a_new_objective_is_a_function_and_a_line(monkeypatch):
    from dtgfn.engines.gfn.objectives import Objective

    def middle(residuals, shape):
        return shape(residuals.delta.sum(dim=1)).median()

    monkeypatch.setitem(OBJECTIVES, "middle", Objective(middle, with_flows=False))
    X, y = [[1.0], [2.0], [3.0], [4.0]] * 5, [0, 1, 1, 0] * 5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = dtgfn.infer(X, y, objective="middle", leaf_order="free", n_steps=2, n_trees=5)
    assert found.diagnostics["n_steps"] == 2
