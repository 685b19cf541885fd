"""Plots of a posterior over trees, on matplotlib axes (extra ``plots``).

Each function draws on the ``ax`` it is given and returns it. Given axes, nothing else of pyplot's
state is touched; without them a new pyplot figure is made, as scikit-learn's displays do. Nothing
is shown: call ``matplotlib.pyplot.show()``, or ``ax.figure.savefig(...)``.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from dtgfn._support.lazy_exports import lazy_exports

if find_spec("matplotlib") is None:
    raise ImportError("Plots need matplotlib: pip install 'dtgfn[plots]'.")

if TYPE_CHECKING:
    from dtgfn.plots.calibration import plot_calibration as plot_calibration
    from dtgfn.plots.dependence import plot_dependence as plot_dependence
    from dtgfn.plots.exact_vs_sampled import plot_exact_vs_sampled as plot_exact_vs_sampled
    from dtgfn.plots.forest import plot_forest as plot_forest
    from dtgfn.plots.history import plot_history as plot_history
    from dtgfn.plots.importances import plot_importances as plot_importances
    from dtgfn.plots.sizes import plot_sizes as plot_sizes
    from dtgfn.plots.tree import plot_tree as plot_tree

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "plots.calibration": ("plot_calibration",),
        "plots.dependence": ("plot_dependence",),
        "plots.exact_vs_sampled": ("plot_exact_vs_sampled",),
        "plots.forest": ("plot_forest",),
        "plots.history": ("plot_history",),
        "plots.importances": ("plot_importances",),
        "plots.sizes": ("plot_sizes",),
        "plots.tree": ("plot_tree",),
    },
)
