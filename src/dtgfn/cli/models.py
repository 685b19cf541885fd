"""Model files that a command reads, and what is wrong with other files."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def load_model(path: Path) -> Any:
    """Read a model; refuse, with the way out, what was not written by ``dtgfn fit``."""
    from dtgfn._support.archive import StorageError
    from dtgfn.storage.model_file import load

    if not path.exists():
        raise ValueError(f"There is no file {str(path)!r}; check the path.")
    if path.is_dir():
        raise ValueError(f"{str(path)!r} is a directory; name a model file in it.")
    try:
        return load(path)
    except StorageError as error:
        foreign = str(error).endswith(("is not a dtgfn model.", "is empty."))
        if not foreign:
            raise
        raise ValueError(
            f"{str(error).rstrip('.')}; give a file that dtgfn fit has written, before any table."
        ) from None


def load_with_posterior(path: Path, purpose: str) -> Any:
    """Read a model that has one posterior over trees; a detector has many."""
    model = load_model(path)
    if not hasattr(model, "posterior_"):
        raise ValueError(
            f"{str(path)!r} is an anomaly detector, whose trees have no one posterior to "
            f"{purpose}; score it on rows you know with: dtgfn report --data."
        )
    return model
