"""What caution is worth: ELBO of drawn trees with the network's guesses shrunk, and as they are.

``python benchmarks/caution.py --out benchmarks/results/caution.md``
"""

from __future__ import annotations

import argparse
import warnings
from contextlib import nullcontext
from pathlib import Path
from unittest import mock

import numpy as np
from problems import Report, training_rows
from sklearn.datasets import make_classification

from dtgfn import infer
from dtgfn.engines.gfn.fixed.estimates import Optimism

warnings.simplefilter("ignore")


def generated() -> tuple[np.ndarray, np.ndarray]:
    return make_classification(
        20_000, 10, n_informative=6, flip_y=0.1, class_sep=0.6, random_state=0
    )


CASES = {
    "generated, 20 000 rows": (generated, 19, 4, "mdl", 45),
    "breast cancer": (lambda: training_rows("breast_cancer"), 99, 5, "mdl", 100),
    "raisin": (lambda: training_rows("raisin"), 99, 5, "paper", 120),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seeds", type=int, default=2)
    arguments = parser.parse_args()
    report = Report("table", "caution", "ELBO by seed", "best log R by seed", "ESS by seed")
    for name, (load, n_thresholds, max_depth, penalty, n_steps) in CASES.items():
        X, y = load()
        for cautious in (True, False):
            found = []
            for seed in range(arguments.seeds):
                hopeful = mock.patch.object(Optimism, "shrink", return_value=None)
                with nullcontext() if cautious else hopeful:
                    posterior = infer(
                        X,
                        y,
                        n_thresholds=n_thresholds,
                        max_depth=max_depth,
                        split_penalty=penalty,
                        n_steps=n_steps,
                        time_budget=None,
                        random_state=seed,
                        n_trees=300,
                    )
                told = posterior.diagnostics
                found.append((told["elbo"], posterior.best_log_reward, told["ess"]))
            cells = [
                ", ".join(f"{value:.2f}" for value in column) for column in zip(*found, strict=True)
            ]
            report.row(name, "yes" if cautious else "no", *cells)
    report.write(arguments.out)


if __name__ == "__main__":
    main()
