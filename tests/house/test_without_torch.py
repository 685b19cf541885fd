"""What needs no PyTorch works where there is none."""

from __future__ import annotations

import subprocess
import sys

import pytest

BLOCKED = """
import sys
class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, NoTorch())
import warnings; warnings.simplefilter("ignore")
import numpy as np
from dtgfn import DTGFNClassifier, DTGFNAnomalyDetector, load, save
rng = np.random.default_rng(0)
X = rng.normal(size=(60, 2)); y = (X[:, 0] > 0).astype(int)
single = {"ensemble": None, "max_depth": 2, "n_thresholds": 5, "random_state": 0}
"""


def run(code: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED + code, *arguments],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_default_and_the_exact_engine_work_and_the_gflownet_says_how_to_get_it(tmp_path):
    out = run(
        """
path = sys.argv[1]
few = {"n_summed": 10, "n_sweeps": 20, "n_draws": 20}
model = DTGFNClassifier(random_state=0, options=few).fit(X, y)
save(model, path)
again = load(path)
print((again.predict_proba(X) == model.predict_proba(X)).all())
model = DTGFNClassifier(inference="exact", **single).fit(X, y)
print(model.predict(X[:1]).size, len(model.export("text")) > 0)
print("torch" in sys.modules)
for inference in (None, "gfn"):
    try:
        DTGFNClassifier(inference=inference, **single).fit(X, y)
    except ImportError as error:
        print(error)
""",
        str(tmp_path / "model.dtgfn"),
    )
    worked, exported, torch, *refusals = out.splitlines()
    assert (worked, exported, torch) == ("True", "1 True", "False")
    assert len(refusals) == 2
    for line in refusals:
        assert "pip install 'dtgfn[gfn]'" in line
        assert "CPU build" in line
        assert "inference='exact'" in line


@pytest.mark.long
@pytest.mark.parametrize("engine", ["mcmc", "smc"])
def test_engines_but_the_gflownet(engine):
    out = run(
        f"model = DTGFNClassifier(inference={engine!r}, **single, time_budget=2.0).fit(X, y)\n"
        "print(model.predict(X[:1]).size, len(model.export('text')) > 0)"
    )
    assert out.split() == ["1", "True"]
