"""Draw the pictures of the documentation from real fits: ``python docs/pictures.py``.

Each is written twice to ``docs/images``, for light and for dark pages.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from sklearn.datasets import load_iris

from dtgfn import DTGFNClassifier, infer
from dtgfn.export import export
from dtgfn.plots import (
    plot_exact_vs_sampled,
    plot_forest,
    plot_history,
    plot_importances,
    plot_sizes,
    plot_tree,
)
from dtgfn.plots.colours import INK, PAPER, QUIET, class_colour
from dtgfn.plots.forest import BEHIND

IMAGES = Path(__file__).parent / "images"
DARK = {INK: "#e6e8eb", PAPER: "#14181e", QUIET: "#a9b0b8", BEHIND: "#222832"}
ON_MAPS = "#1b1f25"  # ink that stays: maps are pale on dark pages, too
PETALS = ["petal length (cm)", "petal width (cm)"]


def save(figure: Figure, name: str) -> None:
    """Write a figure for light pages, and with other ink for dark ones."""
    path = IMAGES / f"{name}-light.svg"
    figure.savefig(path, transparent=True, metadata={"Date": None})
    plt.close(figure)
    text = "\n".join(line.rstrip() for line in path.read_text().splitlines()) + "\n"
    path.write_text(text)
    for light, dark in DARK.items():
        text = text.replace(light, dark)
    (IMAGES / f"{name}-dark.svg").write_text(text)


def panels(n: int, inches: tuple[float, float], **options: Any) -> tuple[Figure, list[Any]]:
    """Make a figure with axes side by side."""
    figure, axes = plt.subplots(1, n, figsize=inches, layout="constrained", **options)
    return figure, list(np.atleast_1d(axes))


def draw_phone_posterior(model: Any) -> None:
    """Draw the tree above the sizes, as wide as a phone: letters are as large there as here."""
    figure, (above, below) = plt.subplots(
        2, 1, figsize=(3.9, 5.6), height_ratios=[1.9, 1], layout="constrained"
    )
    plot_tree(model, ax=above)
    above.set_title(above.get_title(), fontsize=8.5, color=QUIET)
    plot_sizes(model, ax=below)
    save(figure, "posterior-phone")


def draw_map(ax: Any, title: str, colours: Any, extent: list[float], X: Any, y: Any) -> None:
    """Draw colours [rows, columns, 3] over the two columns, and the training rows on top."""
    ax.imshow(colours, extent=extent, origin="lower", aspect="auto", interpolation="nearest")
    for place, mark in enumerate("os^"):
        of = y == place
        ax.scatter(
            X[of, 0],
            X[of, 1],
            s=11,
            marker=mark,
            color=class_colour(place),
            edgecolors=ON_MAPS,
            lw=0.4,
        )
    ax.set_title(title, fontsize=10, color=INK)
    ax.set_xlabel(PETALS[0], color=INK, fontsize=9)
    ax.tick_params(colors=INK, labelsize=8)
    for spine in ax.spines.values():
        spine.set_visible(False)


def mixed(probability: Any) -> Any:
    """Mix the colours of the classes by their probabilities, paled so that rows stand out."""
    colours = np.array([to_rgb(class_colour(place)) for place in range(probability.shape[-1])])
    return 1 - 0.6 * (1 - probability @ colours)


def shaded(share: Any) -> Any:
    """Shades from near white to deep violet for numbers from 0 to 1."""
    low, high = np.array(to_rgb("#f4f1f8")), np.array(to_rgb("#4b2e83"))
    return low + np.clip(share, 0, 1)[..., None] * (high - low)


def draw_maps(data: Any) -> None:
    """Three trees of the posterior, their average, and where they disagree."""
    X, y = data.data[PETALS].to_numpy(), data.target.to_numpy()
    model = DTGFNClassifier(inference="exact", max_depth=3, n_thresholds=31, random_state=3)
    model.fit(X, y)
    extent = [0.6, 7.2, 0.0, 2.7]
    across, up = np.linspace(*extent[:2], 240), np.linspace(*extent[2:], 160)
    cells = np.stack(np.meshgrid(across, up), axis=-1).reshape(-1, 2)

    def on_map(values: Any) -> Any:
        return np.reshape(values, (len(up), len(across), *values.shape[1:]))

    figure, axes = panels(3, (9.6, 3.0), sharey=True)
    for place, ax in enumerate(axes):
        tree = export(model, "sklearn", trees=place)
        colours = mixed(on_map(tree.predict_proba(cells)))
        draw_map(
            ax, f"tree {place + 1}: {tree.tree_.node_count // 2} splits", colours, extent, X, y
        )
    axes[0].set_ylabel(PETALS[1], color=INK, fontsize=9)
    save(figure, "trees")

    doubt = model.predict_uncertainty(cells)
    maps = {
        "the average of all trees": mixed(on_map(model.predict_proba(cells))),
        "doubt: noise": shaded(on_map(doubt.noise) / np.log(2)),
        "doubt: model": shaded(on_map(doubt.model) / np.log(2)),
    }
    figure, axes = panels(3, (9.6, 3.0), sharey=True)
    for ax, (title, colours) in zip(axes, maps.items(), strict=True):
        draw_map(ax, title, colours, extent, X, y)
    axes[0].set_ylabel(PETALS[1], color=INK, fontsize=9)
    save(figure, "average")


def main() -> None:
    """Fit, draw, write."""
    IMAGES.mkdir(exist_ok=True)
    plt.rcParams["svg.hashsalt"] = "dtgfn"
    for name in ("text.color", "axes.labelcolor", "xtick.color", "ytick.color"):
        plt.rcParams[name] = INK
    data = load_iris(as_frame=True)
    species = data.target_names[data.target]
    draw_maps(data)
    settings: dict[str, Any] = {"max_depth": 3, "random_state": 0}
    exact = DTGFNClassifier(inference="exact", **settings).fit(data.data, species)

    figure, (left, right) = panels(2, (9.0, 4.8), width_ratios=[2.4, 1])
    plot_tree(exact, ax=left)
    plot_sizes(exact, ax=right)
    save(figure, "posterior")
    draw_phone_posterior(exact)

    figure, (ax,) = panels(1, (10.0, 6.0))
    plot_forest(exact, ax=ax)
    save(figure, "forest")

    figure, (left, right) = panels(2, (9.6, 3.4))
    plot_sizes(exact, ax=left)
    plot_importances(exact, ax=right)
    save(figure, "questions")

    small = {"max_depth": 3, "n_thresholds": 9, "split_penalty": "paper", "random_state": 0}
    truth = infer(data.data, species, engine="exact", **small)
    sampled = infer(data.data, species, engine="gfn", **small)
    figure, (ax,) = panels(1, (7.6, 4.4))
    plot_exact_vs_sampled(sampled, truth, ax=ax)
    save(figure, "exact-vs-sampled")

    deep = {"max_depth": 5, "n_thresholds": 31, "split_penalty": "paper", "random_state": 0}
    deep["evaluate_every"] = 4
    trained = infer(data.data, species, **deep)
    figure, (ax,) = panels(1, (7.2, 3.6))
    plot_history(trained, ax=ax)
    save(figure, "history")


if __name__ == "__main__":
    main()
