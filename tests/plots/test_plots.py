"""Plots: the numbers they draw, text that fits, and pictures as they were when last looked at.

Pictures are compared with those in ``tests/baseline``; after a change on purpose, write them anew
with ``DTGFN_NEW_BASELINES=1 pytest tests/test_plots.py`` and look at each one.
"""

import io
import itertools
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas
import pytest
from masses import single_trees
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from thoroughness import diagonal, long_but

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

from matplotlib import image, patheffects, pyplot  # noqa: E402
from matplotlib.colors import to_hex  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402
from matplotlib.patches import FancyBboxPatch, Rectangle  # noqa: E402

from dtgfn import DTGFNAnomalyDetector, DTGFNClassifier, DTGFNRegressor, plots  # noqa: E402
from dtgfn.evaluation import evaluate  # noqa: E402
from dtgfn.explain import importances  # noqa: E402
from dtgfn.explain.tree_set import take_trees  # noqa: E402
from dtgfn.plots.overlay import lay_over  # noqa: E402
from dtgfn.trees.batch import from_splits  # noqa: E402
from dtgfn.trees.equivalent_cuts import group_equivalent  # noqa: E402

BASELINE = Path(__file__).parent / "baseline"
SMALL = {"inference": "exact", "random_state": 0, "n_jobs": 1}
BLOCK = 8  # pixels
TOLERANCE = 9.0  # of 255: how far the mean of a block may be off


def iris():
    X, y = load_iris(return_X_y=True, as_frame=True)
    return X, load_iris().target_names[y]


@pytest.fixture(scope="module")
def model():
    """The exact posterior of Iris, its draws replaced by its most probable trees: no chance."""
    fitted = DTGFNClassifier(max_depth=2, n_thresholds=9, **SMALL).fit(*iris())
    trees, probability = single_trees(fitted.posterior_, 40)
    log_prob = np.log(probability)
    fitted.posterior_ = replace(
        fitted.posterior_,
        trees=trees,
        log_reward=log_prob + fitted.posterior_.log_evidence,
        log_prob=log_prob,
        log_weight=log_prob,
    )
    return fitted


@pytest.fixture(scope="module")
def sampled(model):
    """A sampler that draws the 12 best trees 2, 4, 6, ... times, and kept a history."""
    exact = model.posterior_
    trees = exact.trees[np.repeat(np.arange(12), 2 * np.arange(1, 13))]
    step = np.arange(0, 100, 10)
    history = [
        {
            "step": int(s),
            "seconds": s / 10,
            "elbo": -60 - 200 * float(np.exp(-s / 8)),
            "elbo_error": 1.0,
            "log_evidence": -55 - 50 * float(np.exp(-s / 8)),
            "loss": 10 / (1 + float(s)),
        }
        for s in step
    ]
    return replace(
        exact,
        trees=trees,
        log_reward=np.repeat(exact.log_reward[:12], 2 * np.arange(1, 13)),
        log_prob=np.full(len(trees), np.nan),
        log_weight=np.zeros(len(trees)),
        log_evidence_error=0.1,
        solution=None,
        engine="gfn",
        history=history,
    )


@pytest.fixture(scope="module")
def mixed():
    """A classifier of columns of every kind, with long names and text that looks like math."""
    rng = np.random.default_rng(1)
    n_rows = 120
    X = pandas.DataFrame(
        {
            "a very long name of a measured quantity that does not end (kg/m²)": rng.random(n_rows),
            "price in $ and $ again": rng.random(n_rows) * 1e6,
            "unbreakable_" * 5: rng.random(n_rows) * 1e-6,
            "colour": rng.choice(["red", "green", "blue"], n_rows),
            "smoker": rng.random(n_rows) < 0.5,
        }
    )
    X.iloc[::7, 1] = np.nan
    y = np.array([f"kind {k} of very many kinds" for k in np.arange(n_rows) % 11])
    return DTGFNClassifier(max_depth=1, n_thresholds=3, n_trees=50, **SMALL).fit(X, y)


@pytest.fixture(scope="module")
def regressor():
    X, _ = iris()
    y = X["petal width (cm)"] * 100
    columns = X[["petal length (cm)", "sepal width (cm)"]]
    fitted = DTGFNRegressor(max_depth=2, n_thresholds=5, n_trees=50, **SMALL).fit(columns, y)
    trees, probability = single_trees(fitted.posterior_, 20)
    log_prob = np.log(probability)
    fitted.posterior_ = replace(
        fitted.posterior_, trees=trees, log_reward=log_prob, log_prob=log_prob, log_weight=log_prob
    )
    return fitted


def axes(inches=(6.0, 4.0)):
    return Figure(figsize=inches, dpi=80).add_subplot()


def full_tree(depth):
    """A tree of every split down to a depth, on all kinds of features of the mixed table."""
    rules = itertools.cycle([(0, 1), (1, 0), (2, 2), (3, 0), (6, 0)])
    paths = [path for d in range(depth) for path in itertools.product((0, 1), repeat=d)]
    return from_splits([dict(zip(paths, rules, strict=False))])


# --- the numbers that are drawn ---------------------------------------------------------------


def test_bars_are_the_probabilities_of_sizes(model):
    ax = plots.plot_sizes(model, ax=axes())
    heights = [bar.get_height() for bar in ax.patches]
    assert heights == pytest.approx(model.posterior_.size_probability)
    assert ax.lines[0].get_xdata()[0] == pytest.approx(model.posterior_.mean_splits)


@pytest.mark.parametrize("measure", ["share", "inclusion", "gain"])
def test_importances_are_drawn_most_important_first(model, measure):
    ax = plots.plot_importances(model, measure=measure, level=0.8, ax=axes())
    told = importances(model, 0.8).sort_values(measure, ascending=False, kind="stable")
    assert [label.get_text() for label in ax.get_yticklabels()] == list(told.index)
    assert [bar.get_width() for bar in ax.patches] == pytest.approx(told[measure].tolist())
    (ends,) = ax.collections
    drawn = [(line[0, 0], line[1, 0]) for line in ends.get_segments()]
    wanted = told[[f"{measure}_low", f"{measure}_high"]].to_numpy()
    assert np.array(drawn) == pytest.approx(wanted)


def test_importances_say_how_many_columns_are_left_out(model):
    ax = plots.plot_importances(model, n_columns=1, ax=axes())
    assert len(ax.get_yticklabels()) == 1
    assert ax.get_ylabel() == "3 more not shown"


def test_a_tree_shows_rules_rows_votes_and_class_mixes(model):
    ax = plots.plot_tree(model, ax=axes())
    texts = [text.get_text() for text in ax.texts]
    chosen = take_trees(model, "best")
    assert "petal length ≤ 2.18 cm" in texts
    for node in range(int(chosen.trees.n_nodes[0])):
        assert f"{chosen.rows[0, node]:.0f} rows" in texts
    assert set(chosen.outputs) <= set(texts)
    best = chosen.value[0][chosen.trees.feature[0] < 0].max(axis=1)
    assert {f"{value:.3f}" for value in best} <= set(texts)
    # The bar of the root has a third of each class.
    widths = {}
    for bar in ax.patches:
        if isinstance(bar, Rectangle) and bar.get_height() == 7.0:
            widths.setdefault(bar.get_y(), []).append(bar.get_width())
    root = widths[max(widths)]
    assert root == pytest.approx([sum(root) / 3] * 3)


def test_the_forest_adds_up_the_trees_at_every_place(model):
    posterior = model.posterior_
    chosen = take_trees(model, "all")
    places, links = lay_over(chosen, posterior.rows.codes, posterior.rows.weight, 0.0)
    root = places[()]
    rare = 0.015  # options that are so rare, all together, are left out
    assert 1 - rare <= sum(option.probability for option in root) <= 1 + 1e-9
    stops = posterior.weights[posterior.trees.feature[:, 0] < 0].sum()
    leaf = [option.probability for option in root if option.key[0] == "leaf"]
    assert sum(leaf) == pytest.approx(stops)
    # Both children are there exactly as often as their parent splits.
    splits = posterior.weights[posterior.trees.feature[:, 0] >= 0].sum()
    for path in ((0,), (1,)):
        arriving = sum(chance for link, chance in links.items() if link[0] == path)
        assert arriving == pytest.approx(splits, abs=2 * rare)
    texts = [text.get_text() for text in plots.plot_forest(model, ax=axes()).texts]
    assert f"{root[0].probability:.2f}" in texts


def test_rules_of_the_forest_are_told_apart_by_the_rows_they_part(model):
    posterior = model.posterior_
    places, _ = lay_over(take_trees(model, "all"), posterior.rows.codes, posterior.rows.weight, 0.0)
    n_rows = len(posterior.rows.codes)
    for option in itertools.chain(*places.values()):
        if option.key[0] == "split":
            code = posterior.rows.codes[:, option.key[1]]
            low, high = min(option.cuts), max(option.cuts)
            assert ((code > low) & (code <= high)).sum() <= 0.1 * n_rows


def test_the_forest_of_one_tree_is_that_tree(model):
    ax = plots.plot_forest(model, 1, ax=axes())
    shares = [text.get_text() for text in ax.texts if text.get_text()[:2] in ("0.", "1.")]
    heaviest = take_trees(model, "all").trees[:1]
    assert shares == ["1.00"] * int(heaviest.n_nodes[0])
    assert ax.get_title().startswith("the most frequent tree of the posterior")


def test_history_draws_what_was_kept_and_the_exact_evidence(sampled, model):
    ax = plots.plot_history(sampled, exact=model.posterior_, ax=axes())
    lines = {line.get_label(): line for line in ax.lines}
    assert lines["ELBO"].get_ydata() == pytest.approx([e["elbo"] for e in sampled.history])
    assert lines["ELBO"].get_xdata() == pytest.approx([e["step"] for e in sampled.history])
    assert lines["exact log evidence"].get_ydata()[0] == model.posterior_.log_evidence
    loss = next(other for other in ax.figure.axes if other is not ax)
    assert loss.lines[0].get_ydata() == pytest.approx([e["loss"] for e in sampled.history])
    by_time = plots.plot_history(sampled, exact=-50.0, x="seconds", ax=axes())
    assert by_time.get_xlabel() == "seconds"
    assert by_time.lines[0].get_xdata()[-1] == sampled.history[-1]["seconds"]


def test_sampled_frequencies_stand_against_exact_probabilities(sampled, model):
    ax = plots.plot_exact_vs_sampled(sampled, model, ax=axes())
    exact = model.posterior_
    known = group_equivalent(exact.trees[:12], exact.rows.codes)  # those that were drawn
    n_drawn = len(known.leader)
    assert 1 < n_drawn < 12
    (dots,) = [line for line in ax.lines if line.get_label() == f"{n_drawn} sampled trees"]
    frequency = np.bincount(known.member, weights=2 * np.arange(1, 13)) / len(sampled.trees)
    probability = np.exp(exact.log_prob[known.leader] + known.log_number)
    assert np.asarray(dots.get_ydata()) == pytest.approx(frequency)
    assert np.asarray(dots.get_xdata()) == pytest.approx(probability)
    missed = [line for line in ax.lines if "never sampled" in str(line.get_label())]
    assert missed[0].get_label() == f"{100 - n_drawn} of the top 100 never sampled"
    assert len(missed[0].get_xdata()) == 100 - n_drawn


def test_calibration_draws_the_bins_of_the_held_out_scores(model):
    X, y = iris()
    ax = plots.plot_calibration(model, X, y, n_bins=5, ax=axes())
    bins = evaluate(model, X, y, n_bins=5)["reliability"]
    dots = ax.lines[1]
    assert dots.get_xdata() == pytest.approx([each["mean_probability"] for each in bins])
    assert dots.get_ydata() == pytest.approx([each["share_right"] for each in bins])
    counts = [text.get_text() for text in ax.texts]
    assert counts == [str(each["rows"]) for each in bins]


def test_calibration_of_numbers_is_the_coverage_of_intervals(regressor):
    X, _ = iris()
    y = X["petal width (cm)"] * 100
    rows = X[["petal length (cm)", "sepal width (cm)"]]
    ax = plots.plot_calibration(regressor, rows, y, ax=axes())
    low, high = regressor.predict_interval(rows, 0.5).T
    assert ax.lines[1].get_ydata()[4] == pytest.approx(((low <= y) & (y <= high)).mean())


def test_dependence_draws_the_partial_dependence(model):
    ax = plots.plot_dependence(model, "petal width (cm)", of="virginica", ax=axes())
    told = model.partial_dependence("petal width (cm)")
    told = told[told.output == "virginica"]
    (line,) = [line for line in ax.lines if line.get_label() == "virginica"]
    assert line.get_ydata() == pytest.approx(np.repeat(told["mean"], 2))
    assert line.get_xdata()[1:-1:2] == pytest.approx(told["up_to"].to_numpy()[:-1])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("petal width (cm)", "P(virginica)")


def test_dependence_on_categories_and_truths_has_a_dot_for_each(mixed):
    ax = plots.plot_dependence(mixed, "colour", of="kind 3 of very many kinds", ax=axes())
    assert [label.get_text() for label in ax.get_xticklabels()] == ["blue", "green", "red"]
    told = mixed.partial_dependence("colour")
    told = told[told.output == "kind 3 of very many kinds"]
    assert [line.get_ydata()[0] for line in ax.lines] == pytest.approx(told["mean"].tolist())
    ax = plots.plot_dependence(mixed, "smoker", ax=axes())
    assert [label.get_text() for label in ax.get_xticklabels()] == ["false", "true"]
    assert len(ax.get_legend().get_texts()) == 5  # of eleven classes


# --- text that fits ---------------------------------------------------------------------------


def over(one, other):
    """Whether boxes [n, 4] and [m, 4] of x0, y0, x1, y1 share more than an edge [n, m]."""
    low = np.maximum(one[:, None, :2], other[None, :, :2])
    high = np.minimum(one[:, None, 2:], other[None, :, 2:])
    return ((high - low) > 0.5).all(axis=2)


def check_text_fits(ax):
    """No text lies over another one, none is cut off, and those in boxes stay there."""
    # Fine pixels, since letters are set to whole ones; a large figure has them anyway.
    ax.figure.set_dpi(300 if max(ax.figure.get_size_inches()) < 10 else 150)
    matplotlib.backends.backend_agg.FigureCanvasAgg(ax.figure).draw()
    shown = [text for text in ax.texts if text.get_text()]
    texts = np.array([text.get_window_extent().extents for text in shown])
    names = np.array([text.get_text() for text in shown])
    whole = ax.figure.bbox.extents
    cut_off = (texts[:, :2] < whole[:2]) | (texts[:, 2:] > whole[2:])
    assert not cut_off.any(), names[cut_off.any(axis=1)]
    pairs = np.argwhere(np.triu(over(texts, texts), 1))
    assert not len(pairs), names[pairs]
    boxes = [p.get_window_extent().extents for p in ax.patches if isinstance(p, FancyBboxPatch)]
    boxes = np.array(boxes[::2]).reshape(-1, 4)  # each is drawn twice, outline and inside
    assert not np.triu(over(boxes, boxes), 1).any()
    for text, box in np.argwhere(over(texts, boxes)):
        beside = names[text] in ("yes", "no")
        held = boxes[box, 0] <= texts[text, 0] and texts[text, 2] <= boxes[box, 2]
        assert held or beside, names[text]


@pytest.mark.parametrize(
    ("depth", "inches"), diagonal([0, 1, 3, 5], [None, [6.4, 4.8], [3.0, 9.0]])
)
def test_text_of_a_tree_fits_whatever_the_names_the_depth_and_the_axes(mixed, depth, inches):
    ax = None if inches is None else axes(inches)
    ax = plots.plot_tree(mixed, full_tree(depth), ax=ax)
    check_text_fits(ax)
    if depth < 5:
        ax.figure.set_size_inches(5.0, 5.0)  # also after the window has been resized
        check_text_fits(ax)
    pyplot.close("all")


@pytest.mark.parametrize("inches", [None, (6.4, 4.8)])
def test_text_of_a_forest_fits(mixed, model, inches):
    for source in (mixed, model):
        check_text_fits(plots.plot_forest(source, ax=None if inches is None else axes(inches)))
    pyplot.close("all")


def test_names_are_never_read_as_math(mixed):
    ax = plots.plot_tree(mixed, from_splits([{(): (1, 0)}]), ax=axes())
    assert not any(text.get_parse_math() for text in ax.texts)
    for ax in (
        plots.plot_dependence(mixed, "price in $ and $ again", ax=axes()),
        plots.plot_importances(mixed, ax=axes()),
    ):
        ax.figure.savefig(io.BytesIO())  # "$ and $" would be an error


def test_long_names_beside_an_axis_are_shortened(mixed):
    ax = plots.plot_importances(mixed, ax=axes())
    assert max(len(label.get_text()) for label in ax.get_yticklabels()) <= 32


# --- pictures ---------------------------------------------------------------------------------


def pictures(model, sampled, mixed, regressor):
    X, y = iris()
    colour = "colour"
    return {
        "tree": lambda ax: plots.plot_tree(model, ax=ax),
        "tree_of_numbers": lambda ax: plots.plot_tree(regressor, ax=ax),
        "tree_without_splits": lambda ax: plots.plot_tree(model, from_splits([{}]), ax=ax),
        "deep_tree": lambda ax: plots.plot_tree(mixed, full_tree(4), ax=ax),
        "forest": lambda ax: plots.plot_forest(model, ax=ax),
        "sizes": lambda ax: plots.plot_sizes(model, ax=ax),
        "importances": lambda ax: plots.plot_importances(model, ax=ax),
        "history": lambda ax: plots.plot_history(sampled, exact=-57.0, ax=ax),
        "exact_vs_sampled": lambda ax: plots.plot_exact_vs_sampled(sampled, model, ax=ax),
        "calibration": lambda ax: plots.plot_calibration(model, X, y, ax=ax),
        "dependence": lambda ax: plots.plot_dependence(model, "petal width (cm)", ax=ax),
        "dependence_of_numbers": lambda ax: plots.plot_dependence(regressor, 0, ax=ax),
        "dependence_on_categories": lambda ax: plots.plot_dependence(mixed, colour, ax=ax),
    }


NAMES = sorted(pictures(None, None, None, None))


def render(figure):
    """Pixels [height, width, 3] from 0 to 255."""
    file = io.BytesIO()
    figure.savefig(file, format="png", facecolor="white", dpi=80)
    file.seek(0)
    return 255 * image.imread(file)[..., :3]


def blocks(pixels):
    """Means of blocks: glyphs may be drawn a little otherwise, ink must be where it was."""
    height, width = (BLOCK * (side // BLOCK) for side in pixels.shape[:2])
    cut = pixels[:height, :width]
    return cut.reshape(height // BLOCK, BLOCK, width // BLOCK, BLOCK, 3).mean(axis=(1, 3))


def difference(one, other):
    """How far the worst block is off, a shift of two pixels forgiven: letters' widths differ."""
    assert one.shape == other.shape
    wanted = blocks(one)
    shifts = itertools.product((0, -1, 1, -2, 2), repeat=2)
    moved = (np.abs(blocks(np.roll(other, by, axis=(0, 1))) - wanted).max(axis=2) for by in shifts)
    return float(np.min(list(moved), axis=0).max())


@pytest.fixture
def drawn(request, model, sampled, mixed, regressor):
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # one's own style file must not change a picture
        # Letters as outlines, unhinted, in axes of a given size: so FreeType's versions agree.
        outlines = {"path.effects": [patheffects.Normal()], "text.hinting": "none"}
        matplotlib.rcParams.update({"backend": "Agg", **outlines})
        wide = "tree" in request.param or "forest" in request.param
        ax = Figure(figsize=(8.0, 4.5) if wide else (5.0, 4.0)).add_axes(
            (0.02, 0.02, 0.96, 0.86) if wide else (0.28, 0.16, 0.6, 0.6)
        )
        pictures(model, sampled, mixed, regressor)[request.param](ax)
        yield request.param, ax


@pytest.mark.parametrize("drawn", NAMES, indirect=True)
def test_pictures_are_as_they_were(drawn, tmp_path):
    name, ax = drawn
    pixels = render(ax.figure)
    path = BASELINE / f"{name}.png"
    if os.environ.get("DTGFN_NEW_BASELINES"):
        image.imsave(path, pixels.astype(np.uint8))
    off = difference(pixels, 255 * image.imread(path)[..., :3])
    if off > TOLERANCE:
        image.imsave(tmp_path / f"{name}.png", pixels.astype(np.uint8))
    assert off <= TOLERANCE, f"{tmp_path / name}.png differs from {path.name} by {off:.0f}"


@pytest.mark.parametrize("drawn", long_but(["history", "tree"], NAMES), indirect=True)
def test_a_lost_element_would_be_seen(drawn):
    _, ax = drawn
    whole = render(ax.figure)
    assert difference(whole, render(ax.figure)) < 1
    bars = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
    bars.sort(key=lambda patch: np.prod(patch.get_window_extent().size))
    lines = sorted(ax.lines, key=lambda line: line.get_linewidth())
    seen = 0
    for artist in [*ax.texts[:1], *bars[-1:], *lines[-1:], *ax.get_yticklabels()[1:2]]:
        artist.set_visible(False)
        lost = difference(whole, render(ax.figure))
        artist.set_visible(True)
        if lost:  # what was never in sight cannot be lost
            assert lost > TOLERANCE, artist
            seen += 1
    assert seen


# --- axes, state and refusals -----------------------------------------------------------------


def test_given_axes_are_returned_and_pyplot_is_left_alone(model):
    pyplot.close("all")
    ax = axes()
    assert plots.plot_sizes(model, ax=ax) is ax
    assert plots.plot_tree(model, ax=ax.figure.add_subplot()).figure is ax.figure
    assert pyplot.get_fignums() == []


def test_without_axes_a_new_figure_is_made(model):
    pyplot.close("all")
    mine = pyplot.figure()
    ax = plots.plot_sizes(model)
    assert ax.figure is not mine
    assert pyplot.get_fignums() == [1, 2]
    assert pyplot.gca() is ax
    pyplot.close("all")


def test_colours_of_classes_are_the_same_in_tree_and_dependence(model):
    tree = plots.plot_tree(model, ax=axes())
    edges = {to_hex(p.get_facecolor()) for p in tree.patches if isinstance(p, FancyBboxPatch)}
    lines = plots.plot_dependence(model, 3, ax=axes()).lines
    colours = {line.get_color() for line in lines if not line.get_label().startswith("_")}
    assert colours <= edges


def test_without_matplotlib_one_sentence_says_what_to_install():
    code = (
        "import sys, importlib.machinery as m\n"
        "find = m.PathFinder.find_spec\n"
        "m.PathFinder.find_spec = classmethod(\n"
        "    lambda cls, name, *rest: None if name == 'matplotlib' else find(name, *rest))\n"
        "try:\n"
        "    from dtgfn import plots\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "Plots need matplotlib: pip install 'dtgfn[plots]'.\n"


def test_what_is_not_fitted_is_refused():
    empty = DTGFNClassifier()
    for draw in (plots.plot_tree, plots.plot_forest, plots.plot_sizes, plots.plot_importances):
        with pytest.raises(NotFittedError, match="not fitted"):
            draw(empty, ax=axes())
    with pytest.raises(NotFittedError, match="not fitted"):
        plots.plot_dependence(empty, 0, ax=axes())
    with pytest.raises(NotFittedError, match="not fitted"):
        plots.plot_calibration(empty, [[1.0]], [0], ax=axes())


def test_bad_input_gets_a_sentence(model, sampled):
    with pytest.raises(TypeError, match="ax is a Figure, not matplotlib axes"):
        plots.plot_sizes(model, ax=Figure())
    with pytest.raises(TypeError, match="A list has no trees"):
        plots.plot_sizes([1, 2], ax=axes())
    with pytest.raises(ValueError, match="There is no column 'petals'"):
        plots.plot_dependence(model, "petals", ax=axes())
    with pytest.raises(ValueError, match="of='tulip' is no class; the classes are 'setosa'"):
        plots.plot_dependence(model, 0, of="tulip", ax=axes())
    with pytest.raises(ValueError, match="engine 'exact' has no history"):
        plots.plot_history(model, ax=axes())
    with pytest.raises(ValueError, match="x='hours' is not in this history; give one of seconds"):
        plots.plot_history(sampled, x="hours", ax=axes())
    with pytest.raises(ValueError, match="measure='size' is not known"):
        plots.plot_importances(model, measure="size", ax=axes())
    with pytest.raises(ValueError, match="n_trees=0 is out of range"):
        plots.plot_forest(model, 0, ax=axes())
    with pytest.raises(ValueError, match="tree=99999 is out of range"):
        plots.plot_tree(model, 99999, ax=axes())
    with pytest.raises(
        ValueError, match="tree='worst' names no tree; give 'best', 'consensus', 'p"
    ):
        plots.plot_tree(model, "worst", ax=axes())


def test_only_certainty_is_called_one(model):
    """Two classes far apart: nearly all mass is on one tree, and its leaves are nearly sure."""
    X, y = [[1.0], [2.0], [8.0], [9.0]] * 500, ["no", "no", "yes", "yes"] * 500
    sure = DTGFNClassifier(inference="exact", max_depth=1, n_thresholds=1, n_jobs=1).fit(X, y)
    assert sure.posterior_.best_probability > 0.9995
    ax = plots.plot_tree(sure, ax=axes())
    assert sum(text.get_text() == ">0.999" for text in ax.texts) == 2
    posterior = model.posterior_
    nearly = replace(posterior, log_evidence=posterior.best_log_mass + 1e-4)
    assert plots.plot_tree(nearly, ax=axes()).get_title().endswith("probability >0.999")
    certain = replace(posterior, log_evidence=posterior.best_log_mass)
    assert plots.plot_tree(certain, ax=axes()).get_title().endswith("probability 1.000")


def test_one_distinct_tree_is_not_called_trees(model):
    posterior = model.posterior_
    one = replace(posterior, trees=posterior.trees[[0] * len(posterior.trees)])
    title = plots.plot_forest(one, 5, ax=axes()).get_title()
    assert title.startswith("the most frequent tree of the posterior")


def test_the_exact_posterior_of_another_problem_is_refused(sampled, model):
    X, y = iris()
    other = DTGFNClassifier(max_depth=2, n_thresholds=9, **SMALL).fit(X[::2], y[::2])
    with pytest.raises(ValueError, match="different training rows"):
        plots.plot_exact_vs_sampled(sampled, other, ax=axes())
    with pytest.raises(ValueError, match="different training rows"):
        plots.plot_history(sampled, exact=other, ax=axes())
    with pytest.raises(ValueError, match="is not the exact one"):
        plots.plot_exact_vs_sampled(model, sampled, ax=axes())
    with pytest.raises(ValueError, match="give one of the exact engine"):
        plots.plot_history(sampled, exact=sampled, ax=axes())


def test_of_numbers_no_class_can_be_asked_for(regressor):
    with pytest.raises(ValueError, match="the model predicts numbers"):
        plots.plot_dependence(regressor, 0, of="yes", ax=axes())


def test_a_detector_is_refused():
    detector = DTGFNAnomalyDetector(inference="smc", random_state=0, n_jobs=1)
    detector.fit(np.random.default_rng(0).normal(size=(40, 2)))
    with pytest.raises(TypeError, match="no single posterior"):
        plots.plot_tree(detector, ax=axes())
    with pytest.raises(TypeError, match="predicts no probabilities"):
        plots.plot_calibration(detector, [[0.0, 0.0], [9.0, 9.0]], [1, -1], ax=axes())
