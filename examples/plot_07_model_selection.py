"""
Choosing a model by its evidence
================================

*How deep may trees be, and what should a split cost? Ask the training rows, without setting any
aside.*

The evidence P(labels | rows, settings) is an average over all trees that settings allow: too
small trees do not explain the labels, too many trees spread their bets. So it can be compared
between settings, with one fit for each instead of one for each fold. ``dtgfn.select`` does the
sums.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris
from sklearn.model_selection import cross_val_score

from dtgfn import DTGFNClassifier, select
from dtgfn.plots import plot_tree

exact = {"n_thresholds": 9, "random_state": 0}

# %%
# A table whose answer we know
# ----------------------------
# Labels come from a tree of depth 2 with three splits, and one in ten is flipped. A third column
# says nothing.

rng = np.random.default_rng(0)
X = rng.uniform(0, 1, (800, 3)).round(2)
y = np.where(X[:, 0] <= 0.5, X[:, 1] <= 0.3, X[:, 1] > 0.6) ^ (rng.random(800) < 0.1)

settings = {"max_depth": [1, 2, 3, 4], "split_penalty": ["mdl", "paper", "bcart"]}
found = select(X, y, **settings, engine="exact", **exact)
shown = ["max_depth", "split_penalty", "log_evidence", "log_score", "mean_splits"]
print(found.table[shown].round(3).to_string(index=False))

# %%
# The depth of the truth wins, narrowly. Deeper trees could say the same and more, but have to
# share their bets among more trees; where a split is dear ("mdl"), hardly any deeper tree is a
# bet at all, so allowing them changes nothing. Depth 1 is far below the picture.

behind = found.table["log_evidence"] - found.table["log_evidence"].max()
figure, ax = plt.subplots(figsize=(7, 3.8), layout="constrained")
for name, marker in {"mdl": "o", "paper": "s", "bcart": "^"}.items():
    chosen = (found.table["split_penalty"] == name) & (found.table["max_depth"] > 1)
    line = found.table[chosen].sort_values("max_depth")
    ax.plot(line["max_depth"], behind[line.index], marker + "-", label=name)
ax.set(xlabel="max_depth", ylabel="log evidence, from the best (nats)", xticks=[2, 3, 4])
legend = ax.legend(title="split_penalty")

# %%
# The winner comes with its posterior:

ax = plot_tree(found.posterior)

# %%
# A real table, and a second opinion
# ----------------------------------
# On Iris no depth is the true one. Next to the evidence we put what it does not look at, minus
# the log loss of ten-fold cross-validation.

X, y = load_iris(return_X_y=True, as_frame=True)


def cross_validate(depth, penalty):
    model = DTGFNClassifier(inference="exact", max_depth=depth, split_penalty=penalty, **exact)
    return cross_val_score(model, X, y, cv=10, scoring="neg_log_loss").mean()


settings = {"max_depth": [1, 2, 3, 4], "split_penalty": ["mdl", "paper"]}
found = select(X, y, **settings, engine="exact", **exact)
table = found.table[shown].copy()
table["cross-validated"] = [
    cross_validate(depth, penalty)
    for depth, penalty in zip(table["max_depth"], table["split_penalty"], strict=True)
]
print(table.round(3).to_string(index=False))

# %%
# Limits
# ------
# Both discard depth 1, and beyond that they need not agree: the evidence asks which settings
# explain *all* labels from the start, a score which of them predict the *next* one. ``select(...,
# by="score")`` chooses by leave-one-out score instead. Differences of less than a nat are nothing
# to act on, and the evidence of a sampler is as good as the sampler: the table marks settings
# whose evidence is not known to a nat.
#
# **Next:** :doc:`/evidence` says what exactly is compared, :doc:`/posterior` what the penalties
# mean.
