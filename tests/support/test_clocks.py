"""The clock of one call."""

from __future__ import annotations

import math

from dtgfn._support.budgets import EXTRA, EXTRA_SHARE, Allowance


def test_what_is_done_while_the_clock_stands_does_not_count():
    clock = [100.0]
    allowance = Allowance(10.0, now=lambda: clock[0])
    clock[0] += 2
    with allowance.paused():
        clock[0] += 50
    assert allowance.used == 2
    assert allowance.deadline() == clock[0] + 8
    assert allowance.deadline(0.5) == clock[0] + 3
    clock[0] += 20
    assert allowance.deadline(at_least=0.3) == clock[0] + 0.3
    assert allowance.last_word() == EXTRA + EXTRA_SHARE * 10


def test_without_a_budget_there_is_no_end():
    allowance = Allowance(None)
    assert allowance.deadline() == math.inf
    assert allowance.last_word() == math.inf
