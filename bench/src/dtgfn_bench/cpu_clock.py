"""Time budgets in seconds of the processor, so that a busy machine takes no training from a fit."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from unittest import mock

from dtgfn._support import clock


@contextmanager
def cpu_budgets() -> Iterator[None]:
    """Our engines' budgets count the CPU seconds of this process, of all its threads together.

    On a machine that does nothing else, a fit on one thread has the same time by either clock.
    """
    with mock.patch.object(clock, "time", SimpleNamespace(monotonic=time.process_time)):
        yield
