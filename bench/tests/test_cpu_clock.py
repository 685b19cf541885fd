"""Budgets by the processor's clock: waiting costs nothing, work does."""

import time

from dtgfn_bench.cpu_clock import cpu_budgets

from dtgfn._support import clock


def test_budgets_stand_still_while_others_have_the_processor():
    with cpu_budgets():
        begun = clock.monotonic()
        time.sleep(0.2)
        waited = clock.monotonic() - begun
        until = time.process_time() + 0.05  # not of ``begun``, which lacks what was compiled before
        while time.process_time() < until:
            pass
        worked = clock.monotonic() - begun
    assert waited < 0.1
    assert worked >= 0.05
    begun = clock.monotonic()
    time.sleep(0.01)
    assert clock.monotonic() - begun >= 0.01  # the clock on the wall again
