"""Plots of a posterior over trees, on matplotlib axes (extra ``plots``).

Each function draws on the ``ax`` it is given and returns it. Given axes, nothing else of pyplot's
state is touched; without them a new pyplot figure is made, as scikit-learn's displays do. Nothing
is shown: call ``matplotlib.pyplot.show()``, or ``ax.figure.savefig(...)``.
"""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("matplotlib") is None:
    raise ImportError("Plots need matplotlib: pip install 'dtgfn[plots]'.")

from dtgfn.plots.calibration import plot_calibration
from dtgfn.plots.dependence import plot_dependence
from dtgfn.plots.exact_vs_sampled import plot_exact_vs_sampled
from dtgfn.plots.forest import plot_forest
from dtgfn.plots.history import plot_history
from dtgfn.plots.importances import plot_importances
from dtgfn.plots.sizes import plot_sizes
from dtgfn.plots.tree import plot_tree

__all__ = [
    "plot_calibration",
    "plot_dependence",
    "plot_exact_vs_sampled",
    "plot_forest",
    "plot_history",
    "plot_importances",
    "plot_sizes",
    "plot_tree",
]
