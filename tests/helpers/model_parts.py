"""What is inside a model file, taken out and put back."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

Parts = tuple[dict[str, Any], dict[str, Any], dict[str, Any]]


def read_parts(path: Path) -> Parts:
    """Return header, meta data and arrays of a model file."""
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    arrays = {
        name[7:-4]: np.load(io.BytesIO(data))
        for name, data in entries.items()
        if name.endswith(".npy")
    }
    return json.loads(entries["header.json"]), json.loads(entries["meta.json"]), arrays


def write_parts(
    path: Path, head: dict[str, Any], meta: dict[str, Any], arrays: dict[str, Any]
) -> None:
    """Write a model file of header, meta data and arrays, whatever they say."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps(head | {"arrays": sorted(arrays)}))
        archive.writestr("meta.json", json.dumps(meta))
        for name, array in arrays.items():
            stream = io.BytesIO()
            np.save(stream, np.array(array, order="C"))
            archive.writestr(f"arrays/{name}.npy", stream.getvalue())
