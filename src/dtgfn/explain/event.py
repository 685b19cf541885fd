"""The event: which of two classes what is shown and scored is about."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from dtgfn.data.tables import label, listing

NATURAL = ({"0", "1"}, {"False", "True"})  # classes of which the second is an event by itself


def named_event(classes: npt.NDArray[Any], positive: Any) -> int | None:
    """Index of the class that was named as the event; None if none was."""
    if positive is None:
        return None
    if len(classes) != 2:
        raise ValueError(
            f"positive={positive!r} is for two classes, but the model has {len(classes)}; leave it "
            "out."
        )
    names = [label(known) for known in classes.tolist()]
    if label(positive) not in names:
        raise ValueError(
            f"positive={positive!r} is no class of the model; it knows {listing(names)}."
        )
    return names.index(label(positive))


def shown_event(source: Any, classes: npt.NDArray[Any] | None) -> int | None:
    """Index of the class whose probability trees tell; None if they tell the likeliest class.

    It is the one that the model's ``positive`` names, else 1 of 0 and 1, and True.

    >>> import numpy as np
    >>> shown_event(None, np.array([0, 1])), shown_event(None, np.array(["no", "yes"]))
    (1, None)
    """
    if classes is None or len(classes) != 2:
        return None
    named = named_event(classes, getattr(source, "positive", None))
    natural = {label(known) for known in classes.tolist()} in NATURAL
    return named if named is not None else 1 if natural else None
