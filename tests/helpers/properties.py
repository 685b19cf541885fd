"""How many examples a property is tried on: what its test says, in long runs five times that."""

from typing import Any

from hypothesis import settings


def examples(n: int, **options: Any) -> settings:
    """Settings of a test with so many examples per hundred of the profile's (see conftest.py)."""
    return settings(max_examples=max(1, n * settings.default.max_examples // 100), **options)
