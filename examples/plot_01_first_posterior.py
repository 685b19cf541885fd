"""
A first posterior
=================

*A decision tree explains these flowers. How many other trees explain them as well?*

Iris has 150 flowers of three species, measured in four ways. With 19 candidate thresholds per
column and three levels of splits the sum over **all** trees can be done exactly, in seconds, so
nothing on this page is a matter of luck or of training time.
"""

from sklearn.datasets import load_iris

from dtgfn import DTGFNClassifier
from dtgfn.plots import plot_forest, plot_importances, plot_sizes, plot_tree

iris = load_iris(as_frame=True)
X, species = iris.data, iris.target_names[iris.target]

model = DTGFNClassifier(inference="exact", max_depth=3, n_thresholds=19, random_state=0)
model.fit(X, species)
print(model.posterior_)

# %%
# The most probable tree
# ----------------------
# It is small, and its rules are in the table's own units. Boxes show the mix of species and how
# many flowers arrive.

ax = plot_tree(model)

# %%
# Usually this is where one stops. But how much of the posterior is this one tree?

print(f"probability of the best tree: {model.posterior_.best_probability:.1%}")

# %%
# The others hold the rest. Most are close relatives: the same columns, cut a little to the left or
# right, or in another order. Below they are drawn over one another.

# sphinx_gallery_thumbnail_number = 2
ax = plot_forest(model)

# %%
# What is known for sure
# ----------------------
# No single tree is certain, but *statements* about the tree can be. How many splits does it have?
# Is sepal width needed at all? Each answer is a sum over all trees.

ax = plot_sizes(model)

# %%

ax = plot_importances(model, measure="inclusion")

# %%
# Predictions
# -----------
# A prediction is the average over all trees, too. For a typical flower it agrees with the best
# tree. For one between two species it is more careful, since other good trees send it elsewhere.

chosen = [0, 77, 106, 133]
averaged = model.predict_proba(X.iloc[chosen])
single = model.predict_proba(X.iloc[chosen], tree="best")
for place, mean, best in zip(chosen, averaged.round(2), single.round(2), strict=True):
    print(f"flower {place:3}, {species[place]:<10}  all trees {mean}  best tree {best}")

# %%
# Limits
# ------
# The price of an exact sum grows steeply with depth and thresholds. Where it is out of reach the
# engine says so before it starts, and a GFlowNet samples the same posterior instead.
#
# **Next:** :ref:`sphx_glr_gallery_plot_02_exact_vs_gflownet.py` holds the GFlowNet against the
# exact answer; :doc:`/posterior` has the formula that was summed.
