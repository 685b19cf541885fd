"""How much a test tries: a little by default, all of it in the long run (see conftest.py)."""

from collections.abc import Collection, Iterable
from itertools import product
from typing import Any

import pytest
from hypothesis import settings


def examples(n: int, **options: Any) -> settings:
    """Settings of a property that is tried on n examples per hundred of the profile's."""
    return settings(max_examples=max(1, n * settings.default.max_examples // 100), **options)


def long_but(quick: Collection[Any], values: Iterable[Any]) -> list[Any]:
    """Give values to parametrise by, of which all but the quick ones are marked as long.

    A tuple stands for several arguments.
    """
    values = list(values)
    assert all(value in values for value in quick), f"not all of {quick} are in {values}"
    rows = [(v, v if isinstance(v, tuple) else (v,)) for v in values]
    return [v if v in quick else pytest.param(*row, marks=pytest.mark.long) for v, row in rows]


def diagonal(*axes: Iterable[Any]) -> list[Any]:
    """Give every combination to parametrise by; all are long but those that cover each value once.

    A tuple of an axis stands for the arguments that it holds.
    """
    lists = [list(axis) for axis in axes]
    longest = max(map(len, lists))
    quick = {tuple(k % len(values) for values in lists) for k in range(longest)}
    params = []
    for places in product(*(range(len(values)) for values in lists)):
        chosen = [values[place] for values, place in zip(lists, places, strict=True)]
        flat = [a for c in chosen for a in (c if isinstance(c, tuple) else (c,))]
        params.append(pytest.param(*flat, marks=() if places in quick else pytest.mark.long))
    return params
