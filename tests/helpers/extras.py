"""What need not be installed, and is tested where it is."""

from importlib.util import find_spec

import pytest

WITH_BENCH = find_spec("dtgfn_bench") is not None
needs_bench = pytest.mark.skipif(not WITH_BENCH, reason="dtgfn-bench is not installed")


def mark_bench(line: str) -> tuple[pytest.MarkDecorator, ...]:
    """Marks of a test of a command line."""
    return (needs_bench,) if "bench " in f"{line} " else ()
