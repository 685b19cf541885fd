"""
Two kinds of not knowing
========================

*A classifier says "fifty-fifty". Is the coin fair, or has it not seen enough tosses?*

The first kind of doubt, **noise**, stays whatever we do. The second, about the **model**, goes
away with more rows. They call for opposite actions, and a posterior over trees tells them apart.
We make a table in which we know where each of them is.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import RandomForestClassifier

from dtgfn import DTGFNClassifier


def draw_rows(n_rows, seed):
    """Coin tosses at the lower left, hardly any rows for 6 < x < 8.5, clear cases elsewhere."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 10, (n_rows, 2))
    X = X[(X[:, 0] < 6) | (X[:, 0] > 8.5) | (rng.random(n_rows) < 0.02)]
    tossed = (X[:, 0] < 4) & (X[:, 1] < 5)
    share = np.where(tossed, 0.5, np.where(X[:, 0] < 7.25, 0.02, 0.98))
    return X, np.where(rng.random(len(X)) < share, "blue", "orange")


X, y = draw_rows(300, seed=4)
model = DTGFNClassifier(inference="exact", max_depth=3, n_thresholds=39, random_state=0)
model.fit(X, y)
forest = RandomForestClassifier(300, random_state=0).fit(X, y)

# %%
# Where it doubts, and why
# ------------------------
# We ask at every point of the square. Both parts are in nats and add up to the entropy of the
# prediction.

grid = np.linspace(0, 10, 101)
points = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
doubt = model.predict_uncertainty(points)
votes = forest.predict_proba(points)
entropy = -(votes * np.log(np.maximum(votes, 1e-12))).sum(axis=1)

figure, axes = plt.subplots(1, 4, figsize=(13, 3.6), layout="constrained", sharey=True)
axes[0].set_title("the rows")
for colour in ("blue", "orange"):
    axes[0].plot(*X[y == colour].T, ".", color=f"tab:{colour}")
axes[0].set_box_aspect(1)
maps = {"noise": doubt.noise, "model": doubt.model, "a forest's entropy": entropy}
for ax, (name, values) in zip(axes[1:], maps.items(), strict=True):
    shades = ax.pcolormesh(
        grid, grid, values.reshape(101, 101), cmap="magma_r", vmin=0, vmax=np.log(2)
    )
    ax.set_title(name)
    ax.set_box_aspect(1)
colours = figure.colorbar(shades, ax=axes, label="nats", shrink=0.85)

# %%
# The forest is unsure in both places and cannot say why. The posterior calls the tossed coins
# noise, and the gap a matter of the model: trees that cut it anywhere between its edges explain
# the rows about equally well.
#
# Does the promise hold?
# ----------------------
# If "model" is what more rows remove, then more rows must remove it, and leave noise as it is. So
# we draw more and ask at two places, among the tosses and in the gap.

places = {"tossed coins": [2.0, 2.5], "gap": [6.8, 5.0]}
sizes = (100, 300, 1000, 3000, 10000)
noise, unknown = [], []
for size in sizes:
    told = model.fit(*draw_rows(size, seed=4)).predict_uncertainty(list(places.values()))
    noise.append(told.noise)
    unknown.append(told.model)

figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained", sharey=True)
for column, (name, ax) in enumerate(zip(places, axes, strict=True)):
    ax.plot(sizes, np.array(noise)[:, column], "o-", label="noise")
    ax.plot(sizes, np.array(unknown)[:, column], "s--", label="model")
    ax.set(xscale="log", xlabel="rows", title=name)
axes[0].set_ylabel("nats")
legend = axes[0].legend()

# %%
# It holds. (With the fewest rows it is not even settled how many regions there are, so both parts
# are vague.)
#
# Limits
# ------
# Trees are constant beyond their last threshold, so far outside of the training range the doubt
# is that of the edge, however far one goes:

edge, far = model.predict_uncertainty([[10.0, 5.0], [1000.0, 5.0]]).total
print(f"at the edge {edge:.3f} nats, a hundred times as far {far:.3f} nats")

# %%
# Rows that lie outside are the business of an anomaly detector.
#
# **Next:** :ref:`sphx_glr_gallery_plot_04_anomalies.py`; :doc:`/uncertainty` has the equations.
