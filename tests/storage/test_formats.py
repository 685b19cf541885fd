"""A file of every format that was ever written: those from 2 on stay readable."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dtgfn import DTGFNClassifier, StorageError, load
from dtgfn.storage.model_file import OLDEST, VERSION

FORMATS = Path(__file__).parent / "formats"
X = np.column_stack([np.arange(20.0), np.arange(20.0)[::-1] % 7])
Y = (X[:, 0] > 9).astype(int)
TREES_ALONE = [0.06523980191049404, 0.06523959532647267]
SAID_BY_SUMS = {2: TREES_ALONE, 3: TREES_ALONE, 4: [0.07499920858527918, 0.07968626488608603]}


def test_there_is_a_file_of_every_format():
    found = {int(path.name[len("format") :].split("-")[0]) for path in FORMATS.glob("*.dtgfn")}
    assert found == set(range(1, VERSION + 1))


@pytest.mark.parametrize("version", range(OLDEST, VERSION + 1))
def test_exact_posteriors_of_every_format_predict_as_a_new_fit_does(version):
    model = load(FORMATS / f"format{version}-exact.dtgfn")
    new = DTGFNClassifier(inference="exact", max_depth=2, n_thresholds=5, random_state=0).fit(X, Y)
    np.testing.assert_allclose(model.predict_proba(X), new.predict_proba(X), rtol=1e-12)
    assert model.log_evidence_ == pytest.approx(new.log_evidence_)
    assert model.describe() == new.describe()


@pytest.mark.parametrize("version", range(OLDEST, VERSION + 1))
def test_sums_of_every_format_predict_as_when_they_were_written(version):
    model = load(FORMATS / f"format{version}-sum.dtgfn")
    np.testing.assert_allclose(model.predict_proba(X)[:2, 1], SAID_BY_SUMS[version], rtol=1e-12)


def test_format_1_is_refused_in_a_sentence():
    with pytest.raises(StorageError, match="it is of format 1, which no release wrote; fit the"):
        load(FORMATS / "format1-exact.dtgfn")
