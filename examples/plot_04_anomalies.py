"""
Rows unlike the others
======================

*We have seen benign tumours only. Does a malignant one stand out?*

Breast cancer has 569 tumours with 30 measures each. The detector learns from half of the benign
ones, without a single malignant example, and is asked about all the rest. The rivals are
scikit-learn's isolation forest and local outlier factor, as they come.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import IsolationForest
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.neighbors import LocalOutlierFactor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dtgfn import DTGFNAnomalyDetector

tumours = load_breast_cancer(as_frame=True)
benign = tumours.data[tumours.target == 1]
malignant = tumours.data[tumours.target == 0]
normal, unseen = train_test_split(benign, test_size=0.5, random_state=0)
asked = pandas.concat([unseen, malignant])
truth = np.repeat([0, 1], [len(unseen), len(malignant)])

detector = DTGFNAnomalyDetector(random_state=0, time_budget=None).fit(normal)

# %%
# A score is minus the room that a row has to itself, as a length: many narrow leaves around a row
# mean company, one wide leaf means a lonely place. The detector's own rule draws the line two
# standard deviations below the mean of the training rows.

room = -detector.score_samples(asked)
edges = np.geomspace(room.min(), room.max(), 50)
figure, ax = plt.subplots(figsize=(8, 3.6), layout="constrained")
ax.hist(room[truth == 0], edges, alpha=0.6, label="benign, not seen in training")
ax.hist(room[truth == 1], edges, alpha=0.6, label="malignant")
ax.axvline(-detector.offset_, color="black", linestyle="--", label="the two-std rule")
ax.set(xscale="log", xlabel="minus the score: room around the tumour", ylabel="tumours")
legend = ax.legend()

# %%
# Against the rivals
# ------------------
# Two measures need no line: the area under the ROC curve and the average precision. The others
# say what the methods' own lines would do: how many malignant tumours they find, and how many
# benign ones they cry wolf at.

neighbours = make_pipeline(StandardScaler(), LocalOutlierFactor(novelty=True))
rivals = {
    "dtgfn": detector,
    "isolation forest": IsolationForest(random_state=0).fit(normal),
    "local outlier factor": neighbours.fit(normal),
}
lines = {
    name: {
        "AUROC": roc_auc_score(truth, -rival.score_samples(asked)),
        "average precision": average_precision_score(truth, -rival.score_samples(asked)),
        "found": np.mean(rival.predict(malignant) == -1),
        "false alarms": np.mean(rival.predict(unseen) == -1),
    }
    for name, rival in rivals.items()
}
print(pandas.DataFrame(lines).T.round(3).to_string())

# %%
# As rankings the three are nearly equally good here, and their order changes from table to table.
# What differs is the line: fewer false alarms are paid for with tumours that are missed. If you
# know which rate you can afford, say so with ``contamination``.
#
# Which measures give a tumour away?
# ----------------------------------
# Trees see two columns at a time, so the detector can be asked about any pair by itself. Here are
# two, with the border of the rule as a line.

# sphinx_gallery_thumbnail_number = 2
pair = ["worst area", "worst smoothness"]
small = DTGFNAnomalyDetector(random_state=0, time_budget=None).fit(normal[pair])
widths = [np.linspace(asked[name].min(), asked[name].max(), 200) for name in pair]
places = pandas.DataFrame(np.stack(np.meshgrid(*widths), axis=-1).reshape(-1, 2), columns=pair)
room = -small.score_samples(places).reshape(200, 200)

figure, ax = plt.subplots(figsize=(7.5, 4.6), layout="constrained")
shades = ax.pcolormesh(*widths, np.log10(room), cmap="Greys")
border = ax.contour(*widths, room, [-small.offset_], colors="black", linestyles="--")
ax.plot(*unseen[pair].to_numpy().T, ".", label="benign")
ax.plot(*malignant[pair].to_numpy().T, "x", label="malignant")
ax.set(xlabel=pair[0], ylabel=pair[1])
legend = ax.legend(loc="upper right")
colours = figure.colorbar(shades, label="room, log10")

# %%
# Limits
# ------
# An anomaly is a row in empty space, nothing more: a malignant tumour in the middle of the benign
# ones is invisible to every method here. Trees cut along the axes, so a dependence spread thinly
# over many columns is seen better by nearest neighbours.
#
# **Next:** :doc:`/anomaly` has the definition of the score, and the tables on which it wins and
# fails.
