"""Finding a thing by the name somebody typed."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TypeVar

Thing = TypeVar("Thing")


def find(things: Mapping[str, Thing], name: str, kind: str) -> Thing:
    """The thing of a name, or one sentence that says which names there are.

    >>> find({"xor": 1, "shift": 2}, "xr", "experiment")
    Traceback (most recent call last):
        ...
    ValueError: There is no experiment 'xr'; did you mean 'xor'? There are: xor, shift.
    """
    if name in things:
        return things[name]
    close = get_close_matches(name, things, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else "."
    raise ValueError(f"There is no {kind} {name!r}{hint} There are: {', '.join(things)}.")
