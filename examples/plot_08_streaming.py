"""
Rows that come in batches
=========================

*When is enough? Watch a posterior make up its mind.*

Patients arrive in batches. After each batch we want the posterior of all rows so far, and before
it an honest test: the model predicts the batch first, then learns from it.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import log_loss

from dtgfn import DTGFNClassifier

tumours = load_breast_cancer(as_frame=True)
order = np.random.default_rng(0).permutation(len(tumours.data))
X, y = tumours.data.iloc[order, 20:], tumours.target_names[tumours.target[order]]
batches = np.array_split(np.arange(len(X)), 12)

model = DTGFNClassifier(inference="exact", max_depth=2, n_thresholds=19, random_state=0)
model.partial_fit(X.iloc[batches[0]], y[batches[0]], classes=np.unique(y))

n_rows, used = [len(batches[0])], [model.posterior_.column_inclusion]
unknown, loss, standing = [], [], []
for batch in batches[1:]:
    arriving = X.iloc[batch]
    unknown.append(model.predict_uncertainty(arriving).model.mean())
    loss.append(log_loss(y[batch], model.predict_proba(arriving)))
    model.partial_fit(arriving, y[batch])
    n_rows.append(n_rows[-1] + len(batch))
    used.append(model.posterior_.column_inclusion)
    standing.append(model.posterior_.diagnostics["instant"]["ess"])

# %%
# Which columns does it believe in?
# ---------------------------------
# Each line is the probability that the tree uses a column. Early on many would do; then some win,
# and a winner may be overthrown: for a while the posterior is nearly certain of a column that it
# drops later. Its certainty is about trees of *this* depth and these thresholds, and where
# columns say nearly the same, a few rows decide between them.

used = np.array(used)
figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
ever = np.flatnonzero(used.max(axis=0) > 0.25)
for column in ever:
    ax.plot(n_rows, used[:, column], "o-", label=X.columns[column])
ax.set(xlabel="rows so far", ylabel="P(the tree uses it)", ylim=(-0.03, 1.03))
legend = ax.legend(loc="center left", bbox_to_anchor=(1, 0.5))

# %%
# Is it better than it was?
# -------------------------
# The doubt about the model falls on the whole. The loss on rows not yet learned from is noisy,
# since a batch is small, and shows no clear trend: most of what two levels of splits can say was
# learned from the first rows.

figure, ax = plt.subplots(figsize=(8, 3.4), layout="constrained")
ax.plot(n_rows[:-1], unknown, "o-", label="mean doubt about the model (nats)")
ax.plot(n_rows[:-1], loss, "s--", label="log loss on the next batch")
ax.set(xlabel="rows so far", ylim=(0, None))
legend = ax.legend()

# %%
# The answer does not depend on the batches
# -----------------------------------------
# The thresholds stay what the *first* batch made them, so begin with a batch that is like what
# comes. Beyond that the posterior is that of all rows, however they were cut: eleven batches
# after the first, or a single one.

rest = np.concatenate(batches[1:])
other = clone(model).partial_fit(X.iloc[batches[0]], y[batches[0]], classes=np.unique(y))
other.partial_fit(X.iloc[rest], y[rest])
for name, streamed in {"12 batches": model, "2 batches": other}.items():
    print(f"log evidence after {name}: {streamed.log_evidence_:.6f}")

# %%
# How much of it was news?
# ------------------------
# Before any new sum the old trees are weighed for the new rows in closed form. The share of them
# that still counts says how far the batch has moved the posterior:

print("after each batch:", " ".join(f"{share:.0%}" for share in standing))
print(f"and if all of it comes at once: {other.posterior_.diagnostics['instant']['ess']:.0%}")

# %%
# Limits
# ------
# The exact engine does its sums anew for each batch. A GFlowNet carries its network over and
# trains for a tenth of the time, and can fall behind a fit from scratch. Nothing is forgotten: all
# rows count alike, however old, so a drift shows late.
#
# **Next:** :doc:`/streaming` says what is kept and what is not, with measurements.
