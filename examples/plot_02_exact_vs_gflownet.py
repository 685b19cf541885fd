"""
Exact sums against GFlowNets
============================

*A GFlowNet samples trees. Are they the right ones, in the right proportions?*

On a small problem this is no matter of opinion: the exact engine knows the probability of every
tree. We ask two GFlowNets, the default one and that of the paper, and hold their samples against
it.
"""

import textwrap
import warnings

from sklearn.datasets import load_breast_cancer, load_iris

from dtgfn import BudgetExceeded, infer
from dtgfn.diagnostics import UntrustworthyFit, compare
from dtgfn.plots import plot_exact_vs_sampled, plot_history

X, y = load_iris(return_X_y=True, as_frame=True)
problem = {"max_depth": 3, "n_thresholds": 9, "random_state": 0, "n_jobs": 1}

exact = infer(X, y, engine="exact", **problem)
ours = infer(X, y, engine="gfn", **problem)
print(ours.diagnostics["stopped_because"], "after", ours.history[-1]["step"], "steps")
print(compare(ours, exact))

# %%
# The default GFlowNet lets all open leaves decide at once and computes the last two levels of a
# tree exactly. On a problem of this size little is left to learn: it meets every set of rows that
# matters, knows that it has, and stops. What remains between its samples and the truth is the
# chance of a draw, no larger than that of exact draws.
#
# The paper's GFlowNet
# --------------------
# The policy of the paper grows a tree leaf by leaf, in any order, and has to learn everything
# from rewards. We train it with the paper's settings, but only for 200 steps. It warns us, so let
# us catch what it says.

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always", UntrustworthyFit)
    paper = infer(X, y, preset="paper", n_steps=200, time_budget=None, **problem)
for warning in caught:
    print(textwrap.fill(str(warning.message), 90))

# %%
# The exact evidence, the dash-dotted line below, shows how far it has come.

# sphinx_gallery_thumbnail_number = 2
ax = plot_history(paper, exact=exact)

# %%
# Each point is a tree: its exact probability against how often it was sampled. In the band is
# what chance explains. Of the default GFlowNet:

ax = plot_exact_vs_sampled(ours, exact)

# %%
# And of the paper's, after its 200 steps: points lie farther from the diagonal, and more of the
# probable trees were never met. Its draws are weighted by how probable they *should* have been,
# which mends part of what it has not learned yet, at the price of fewer draws that count.

ax = plot_exact_vs_sampled(paper, exact)

# %%
# Limits
# ------
# The exact answer ends somewhere. With 30 columns, 99 thresholds and depth 5 the engine refuses,
# with its reasons:

large = load_breast_cancer(as_frame=True)
try:
    infer(large.data, large.target, engine="exact", time_budget=10, random_state=0)
except BudgetExceeded as refusal:
    print(textwrap.fill(str(refusal), 90))

# %%
# There the GFlowNet is on its own, and so is its judgement of itself: a warning is to be
# believed, but the lack of one is no proof. Samples cannot show what a sampler never draws.
#
# **Next:** :doc:`/reading-the-diagnostics` explains the numbers above, :doc:`/choosing-an-engine`
# when to use which engine, :doc:`/gfn` how the default one works.
