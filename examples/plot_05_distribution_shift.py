"""
When the rows change
====================

*Trained on one kind of tumour, asked about another. What breaks, does the model notice, and what
helps?*

We train on the tumours with an even texture and ask about those with an uneven one, of the same
table. Two things change at once: rows lie elsewhere, and malignant ones are far more frequent.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import accuracy_score, log_loss

from dtgfn import DataHint, DTGFNClassifier

tumours = load_breast_cancer(as_frame=True)
X, y = tumours.data, tumours.target_names[tumours.target]


def split_by(column):
    """Rows up to the median of a column to train with, the others to be asked about."""
    low = X[column] <= X[column].median()
    return X[low], y[low], X[~low], y[~low]


X_train, y_train, X_new, y_new = split_by("mean texture")
for name, labels in {"training": y_train, "new rows": y_new}.items():
    print(f"{name}: {np.mean(labels == 'malignant'):.0%} malignant")

model = DTGFNClassifier(inference="exact", max_depth=3, n_thresholds=19, random_state=0)
model.fit(X_train, y_train)

# %%
# Does it notice?
# ---------------
# The part of the doubt that is about the model should be larger on rows unlike those of training.
# It is:

for name, rows in {"training": X_train, "new rows": X_new}.items():
    doubt = model.predict_uncertainty(rows).model.mean()
    print(f"{name}: mean doubt about the model {doubt:.3f} nats")

texture = X["mean texture"]
told = pandas.DataFrame({"texture": texture, "wrong": model.predict(X) != y})
told["doubt"] = model.predict_uncertainty(X).model
curve = told.groupby(pandas.qcut(texture, 10), observed=True).mean()

figure, ax = plt.subplots(figsize=(8, 3.8), layout="constrained")
ax.plot(curve["texture"], curve["doubt"], "o-", label="doubt about the model (nats)")
ax.plot(curve["texture"], curve["wrong"], "s--", label="share of wrong answers")
ax.axvspan(texture.min(), texture.median(), color="grey", alpha=0.2, label="training rows")
ax.set(xlabel="mean texture (each point is a tenth of the rows)", ylim=(0, None))
legend = ax.legend()

# %%
# What helps
# ----------
# Of the two changes one can be mended without a new fit. If we know (or assume) how frequent the
# classes are where the new rows come from, ``class_prior`` says so: leaves then weigh their rows
# accordingly. ``"uniform"`` is for when nothing is known. A forest can be told something similar
# in training, so it shall have it, too.

few = {"n_bags": 50}
bags = DTGFNClassifier(inference="smc", ensemble="bags", n_trees=250, random_state=0, options=few)
forests = {
    "forest": RandomForestClassifier(200, random_state=0),
    "forest, balanced": RandomForestClassifier(200, class_weight="balanced", random_state=0),
}


def judge(X_train, y_train, X_new, y_new):
    """Accuracy and log loss on the new rows, of each method with and without a prior."""
    told = {}
    for name, ours in {"posterior": model, "bags": bags}.items():
        ours.fit(X_train, y_train)
        told[name] = ours.predict_proba(X_new)
        told[f"{name}, uniform"] = ours.predict_proba(X_new, class_prior="uniform")
    for name, forest in forests.items():
        told[name] = forest.fit(X_train, y_train).predict_proba(X_new).clip(0.001, 0.999)
    return pandas.DataFrame(
        {
            name: (
                accuracy_score(y_new, model.classes_[probability.argmax(axis=1)]),
                log_loss(y_new, probability),
            )
            for name, probability in told.items()
        },
        index=["accuracy", "log loss"],
    ).T.round(3)


print(judge(*split_by("mean texture")).to_string())

# %%
# The prior helps the posterior, and bags of posteriors, each of which knows only some of the rows
# and columns, help more: they spread their bets. So does a forest, which is at least as good here.
#
# Limits
# ------
# No prior helps where the new rows need rules that the old ones could not teach. If we train on
# tumours of low *concavity* instead, hardly any malignant one is left to learn from. A single
# posterior then keeps to the few rules it has evidence for, and is mostly wrong on the new rows.
# A plain forest is far better, a balanced one is not; bags need the prior to be of use. That one
# class is rare is also told as a warning, ``dtgfn.DataHint``, which we know by now.

warnings.simplefilter("ignore", DataHint)
print(judge(*split_by("mean concavity")).to_string())

# %%
# What did it think of its own answers? It doubted more than on the rows it had learned from, but
# nowhere near as much as it should have:

X_train, y_train, X_new, y_new = split_by("mean concavity")
probability = model.predict_proba(X_new)
right = np.mean(model.classes_[probability.argmax(axis=1)] == y_new)
expected = probability.max(axis=1).mean()
print(f"it expected {expected:.0%} right answers and gave {right:.0%}")

# %%
# A posterior knows how sure it may be *if* new rows are like the old. When they are not, spread
# your bets, and watch the doubt about the model.
#
# **Next:** :doc:`/prediction` on ``class_prior``, :doc:`/ensembles` on bags,
# :doc:`/results/shift` for the paper's experiment on shifted tables, with more splits and rivals
# than this page.
