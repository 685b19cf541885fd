"""
Out of Python: ONNX
===================

*The posterior is fitted. Can it run where there is no dtgfn, and does it say the same there?*

ONNX is a file format for models that runtimes in C++, Java, JavaScript or a phone can read. The
whole ensemble of posterior trees goes into one file, thresholds in double precision.
"""

import json

import matplotlib.pyplot as plt
import numpy as np
import onnxruntime
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split

from dtgfn import DTGFNClassifier
from dtgfn.plots import plot_tree

wine = load_wine(as_frame=True)
cultivar = np.array(["Barolo", "Grignolino", "Barbera"])[wine.target]
X, X_test, y, y_test = train_test_split(wine.data, cultivar, test_size=0.3, random_state=0)

model = DTGFNClassifier(
    inference="smc",
    ensemble="bags",
    binning="quantile",
    n_trees=250,
    random_state=0,
    options={"n_bags": 50},
)
model.fit(X, y)
print(f"accuracy {model.score(X_test, y_test):.3f}")

# %%
# Export, and run elsewhere
# -------------------------
# ``trees="all"`` exports what ``predict_proba`` averages, sharpened as bags are; without it only
# the best tree would go.

exported = model.export("onnx", trees="all")
session = onnxruntime.InferenceSession(exported.SerializeToString())
label, probability = session.run(None, {"X": X_test.to_numpy()})

print(f"{len(exported.SerializeToString()) / 1024:.0f} KiB")
print("same labels:", bool((label == model.predict(X_test)).all()))
difference = abs(probability - model.predict_proba(X_test)).max()
print(f"largest difference of a probability: {difference:.1e}")

# %%
# Tests of a row against thresholds are in double precision on both sides, so no row takes another
# branch. Sums of probabilities are in single precision there, which is the difference.

figure, ax = plt.subplots(figsize=(5, 4.6), layout="constrained")
for column, name in enumerate(model.classes_):
    ax.plot(
        model.predict_proba(X_test)[:, column], probability[:, column], "o", alpha=0.5, label=name
    )
ax.axline((0, 0), slope=1, color="grey", linewidth=1, zorder=0)
ax.set(xlabel="P(cultivar) by dtgfn", ylabel="P(cultivar) by onnxruntime", aspect="equal")
legend = ax.legend()

# %%
# One tree to read
# ----------------
# An ensemble is for machines. For people, ``trees="consensus"`` is the tree that predicts most
# like all of them. It goes into any format: text, Graphviz, Mermaid, JSON, scikit-learn.

# sphinx_gallery_thumbnail_number = 2
ax = plot_tree(model, "consensus")

# %%

document = json.loads(model.export("json", trees="consensus"))
test = document["trees"][0]["root"]["test"]
print("first test:", test, "where that column is", document["columns"][test["column"]]["name"])

# %%
# Limits
# ------
# What is exported are trees. The exact engine's own average is a sum over all trees and has none
# to export, so for that engine the file holds its *sampled* trees, and differs from
# ``predict_proba`` a little. Intervals, uncertainty and ``class_prior`` stay here.
#
# **Next:** :doc:`/export` has every format and its promises, :doc:`/files` the model file that
# keeps everything.
