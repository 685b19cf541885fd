"""The logger "dtgfn" is told what a bar tells; by default nobody listens."""

import logging

from dtgfn import DTGFNClassifier
from dtgfn._support import progress
from dtgfn._support.progress import _logged, progress_bar, silent


def test_stages_are_logged_at_once_and_their_course_now_and_then(caplog):
    caplog.set_level(logging.INFO, "dtgfn")
    seconds = iter([0.0, 0.0, 0.0, 1.0, *[progress.LOG_EVERY + 1] * 9])
    tell = _logged(silent, lambda: next(seconds))
    for share in (0.0, 0.1, 0.9):
        tell("training", share, "loss 2")
    told = [record.getMessage() for record in caplog.records]
    assert told == ["training 0% after 0 s, loss 2", "training 90% after 16 s, loss 2"]


def test_a_quiet_fit_logs_its_stages(caplog, capsys):
    caplog.set_level(logging.INFO, "dtgfn")
    DTGFNClassifier(inference="smc", max_depth=1, n_trees=20, random_state=0).fit(
        [[1.0], [2.0]] * 9, [0, 1] * 9
    )
    assert {record.name for record in caplog.records} == {"dtgfn"}
    assert capsys.readouterr().out == ""


def test_by_default_nothing_is_logged(caplog):
    with progress_bar(False) as tell:
        assert tell is silent
