"""Further measurements that the docs quote: each file has a ``run`` that reports one table."""

from __future__ import annotations

FOLDER = "studies"  # within the folder of results

# Name and title; the name, with underscores, is the file's. Nothing is imported until it runs.
STUDIES = {
    "ablation": "What each idea of the fixed order is worth",
    "amortised": "A policy trained once for all tables, next to fresh ones and other samplers",
    "anomaly-rules": "What rules that learn next to nothing find in the anomaly tables",
    "caution": "What shrinking the network's guesses is worth",
    "dask-scale": "What a fit on a Dask cluster costs: CPU seconds per row, bytes, round trips",
    "development": "The tables that defaults are chosen on, next to rivals as they come",
    "ensembles-development": "The choice of the bagged posterior's defaults",
    "exact": "Exact inference on small tables: seconds, memory, log Z",
    "exact-interval": "Where exact is out of reach: how wide the certified interval for log Z is",
    "fidelity": "The GFlowNet against the exact posterior",
    "first-fit": "CPU seconds of a first fit, when nothing is compiled yet",
    "forty": "Forty tables nobody tuned on, next to forests and linear models",
    "hidden-pairs": "A hidden XOR among a thousand columns, within minutes and gigabytes",
    "large": "Where exact is out of reach: best trees and evidence by engine",
    "mixing": "How fast chains over sums of trees come to agree, next to stochtree and bartz",
    "odd-tables": "Odd tables with exact answers: is any engine wrong without saying so?",
    "one-tree": "One tree that stands for a model, next to CART of the same size",
    "overruns": "Is time_budget the whole call? Long, wide and odd tables by every way to fit",
    "paper-choices": "What the choices are worth that the paper leaves open",
    "predict": "Seconds to predict, next to a random forest",
    "regression": "Regression next to rivals, and how far exact sums reach",
    "scale": "Long and wide tables: time, memory and CPU, next to LightGBM",
    "seed-spread": "How far a mean over five seeds can move",
    "shift-ceiling": "What models reach on Pima's shifted rows that were trained on such rows",
    "speed": "Seconds per training step, next to the authors' code",
    "streaming": "A stream of batches: partial fits against cold starts",
    "sums-agreement": "Our posterior over sums of trees against stochtree's, under one prior",
    "sums-scale": "Sums of trees on long and wide tables within a time budget, next to LightGBM",
    "sums-speed": "CPU seconds of sums of trees, next to boosters",
    "temperatures": "What one fit for all temperatures could share",
    "torchgfn": "torchgfn's objectives on trees, held against the sum over all of them",
}
