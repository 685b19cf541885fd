"""Model files that a command reads, and what is wrong with other files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dtgfn.cli.messages import noted_warnings

if TYPE_CHECKING:
    from dtgfn.data.meanings import Meaning

from dtgfn.cli.options import MisuseError


def with_event(model: Any, positive: str | None) -> Any:
    """Let what is shown be about another class than the model's event."""
    if positive is not None:
        from dtgfn.explain.event import named_event

        classes = getattr(model, "classes_", None)
        if classes is None:
            raise MisuseError(f"--positive {positive} is for models of classes; leave it out.")
        named_event(classes, positive)
        model.positive = positive
    return model


def load_model(path: Path, labels: Path | None = None) -> Any:
    """Read a model; refuse, with the way out, what was not written by ``dtgfn fit``.

    ``labels`` is a data dictionary that it is to speak by.
    """
    from dtgfn._support.archive import StorageError
    from dtgfn.storage.model_file import load

    if not path.exists():
        raise ValueError(f"There is no file {str(path)!r}; check the path.")
    if path.is_dir():
        raise ValueError(f"{str(path)!r} is a directory; name a model file in it.")
    told = read_dictionary(labels)
    try:
        return labelled(load(path), told)
    except StorageError as error:
        foreign = str(error).endswith(("is not a dtgfn model.", "is empty."))
        if not foreign:
            raise
        raise ValueError(
            f"{str(error).rstrip('.')}; give a file that dtgfn fit has written, before any table."
        ) from None


def read_dictionary(path: Path | None) -> dict[str, Meaning] | None:
    """Read a data dictionary, if there is one."""
    if path is None:
        return None
    from dtgfn.data.dictionary import read_labels

    return read_labels(path)


def labelled(model: Any, told: dict[str, Meaning] | None, target: str | None = None) -> Any:
    """Return the model as it speaks by a data dictionary, if there is one."""
    if told is None:
        return model
    from dtgfn.estimators.labelled import with_labels

    with noted_warnings():
        return with_labels(model, told, target)


def load_with_posterior(path: Path, purpose: str, labels: Path | None = None) -> Any:
    """Read a model that has one posterior over trees; a detector has many."""
    model = load_model(path, labels)
    if not hasattr(model, "posterior_"):
        raise ValueError(
            f"{str(path)!r} is an anomaly detector, whose trees have no one posterior to "
            f"{purpose}; score it on rows you know with: dtgfn report --data."
        )
    return model
