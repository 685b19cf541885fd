"""
A leaf model of one's own
=========================

*Leaves hold class counts, or numbers. Could they hold survival times, more than half of which
nobody has seen yet?*

Pumps fail. We know when each was installed and whether it has failed by today; of those that still
run we know only that they have lasted *at least* so long. A tree whose leaves hold a failure rate
deals with that, and it takes four small functions to say so.
"""

import math

import matplotlib.pyplot as plt
import numpy as np
import pandas

from dtgfn import average_outputs, infer, tree_text
from dtgfn.leaves import CustomLeaf
from dtgfn.plots import plot_importances

# %%
# The table
# ---------
# The rate of failures is low up to 70 % load. Beyond that it depends on the temperature. The age
# of the seal and the line do not matter.

rng = np.random.default_rng(0)
n_pumps = 500
pumps = pandas.DataFrame(
    {
        "load (%)": rng.uniform(20, 100, n_pumps).round(1),
        "temperature (°C)": rng.uniform(10, 60, n_pumps).round(1),
        "age of seal (years)": rng.integers(0, 11, n_pumps),
        "line": rng.choice(["north", "south"], n_pumps),
    }
)
hot = np.where(pumps["temperature (°C)"] <= 40, 0.15, 0.6)
true_rate = np.where(pumps["load (%)"] <= 70, 0.05, hot)  # failures a year
life = rng.exponential(1 / true_rate)
watched = rng.uniform(1, 10, n_pumps)  # years since it was installed
years = np.minimum(life, watched)
failed = life <= watched
print(f"{failed.sum()} of {n_pumps} pumps have failed")

# %%
# The leaf
# --------
# Lifetimes are exponential with an unknown rate, which has a gamma prior. Then all a leaf must
# know are its rows, its failures and the years its pumps have run; the rate can be integrated out
# in closed form. A target is one number, so we write the years of a pump that still runs as a
# negative number.


def add_row(sums, target, weight, numbers):
    sums[0] += weight
    sums[1] += weight * (target > 0)
    sums[2] += weight * abs(target)


def log_marginal(sums, numbers):
    shape, rate = numbers[0] + sums[1], numbers[1] + sums[2]
    prior = numbers[0] * math.log(numbers[1]) - math.lgamma(numbers[0])
    return prior + math.lgamma(shape) - shape * math.log(rate)


def write_outputs(sums, numbers, out):
    out[0] = (numbers[0] + sums[1]) / (numbers[1] + sums[2])


def row_mass(sums, numbers):
    return sums[0]


prior = (1.0, 5.0)  # as if one failure in five years had been seen
lifetimes = CustomLeaf(3, 1, add_row, log_marginal, write_outputs, row_mass, numbers=prior)

target = np.where(failed, years, -years)
settings = {"engine": "exact", "max_depth": 2, "n_thresholds": 19, "random_state": 0}
posterior = infer(pumps, target, leaf=lifetimes, **settings)
print(tree_text(posterior))

# %%
# An engine asks a leaf for its log marginal likelihood and nothing else, so the sum over all trees
# is as exact as it is for classes. The most probable tree has found the rule, with its rates in
# failures a year, and there is hardly a doubt about which columns matter:

ax = plot_importances(posterior, measure="inclusion")

# %%
# Predicted rates
# ---------------
# The average over all trees gives each pump its rate. We know the true ones, which the model
# never saw. Candidate thresholds are a few per cent of load apart, so some pumps of the low rate
# are counted with those that fail often, and lower their rate.

# sphinx_gallery_thumbnail_number = 2
rate = average_outputs(posterior, posterior.encode(pumps))[:, 0]

figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained", sharey=True)
for ax, name, shown in zip(axes, ("true", "predicted"), (true_rate, rate), strict=True):
    dots = ax.scatter(pumps["load (%)"], pumps["temperature (°C)"], s=14, c=shown, vmin=0, vmax=0.7)
    ax.set(title=f"{name} rate", xlabel="load (%)")
axes[0].set_ylabel("temperature (°C)")
colours = figure.colorbar(dots, ax=axes, label="failures a year")

# %%
# Had we counted the pumps that still run as if they had failed today, or left them out, every
# rate would be too high:

groups = pumps.assign(truth=true_rate, posterior=rate, failed=failed, years=years)
means = groups.groupby("truth")[["posterior"]].mean()
means["as if all had failed"] = 1 / groups.groupby("truth")["years"].mean()
means["only those that have"] = 1 / groups[groups["failed"]].groupby("truth")["years"].mean()
print(means.round(3).to_string())

# %%
# Limits
# ------
# A leaf may only know *sums* over its rows, so a median is out. The functions are compiled by
# numba, so they must be plain arithmetic. Such a model has no estimator class around it, and is
# not written to model files.
#
# **Next:** :doc:`/leaves` has the two leaf models that are built in, and what a third one must
# fulfil.
