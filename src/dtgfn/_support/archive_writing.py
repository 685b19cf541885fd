"""Writing an archive of JSON and numpy arrays: complete and read back, or not at all."""

from __future__ import annotations

import io
import json
import stat
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from dtgfn._support.archive import (
    ARRAY_NAME,
    CHUNK,
    DTYPE_CODES,
    MAX_ENTRIES,
    MAX_JSON_BYTES,
    VERSIONS,
    Contents,
    StorageError,
    check_nesting,
    is_sane,
    most_bytes,
    one_sentence,
    read_archive,
    require,
)
from dtgfn._support.arrays import Array
from dtgfn._support.atomic_write import replacing


def write_archive(
    path: str | Path,
    kind: str,
    version: int,
    meta: dict[str, Any],
    arrays: dict[str, Array],
    check: Callable[[Contents], object] | None = None,
) -> None:
    """Write a file, or leave everything as it was; equal content makes equal bytes.

    With ``check`` the new file is read back before it takes the place of an old one: what it holds
    is handed to ``check``, which may refuse it by a ValueError.

    ``version`` counts the caller's formats from 1.  ``meta`` is strict JSON: string keys and
    finite numbers, also numpy's; tuples come back as lists.  The arrays hold booleans, integers
    or floats of up to 8 bytes, under names such as "support.0.bits".

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_archive(f"{folder}/a.dtgfn", "model", 1, {"depth": 3}, {"cuts": np.arange(4)})
    ...     print([file.name for file in Path(folder).iterdir()])
    ['a.dtgfn']
    """
    with one_sentence(path, "written"):
        require(isinstance(kind, str), f"cannot be of the kind {kind!r}")
        known = type(version) is int and version in VERSIONS
        require(known, f"cannot have the version {version!r}")
        require(len(arrays) + 2 <= MAX_ENTRIES, f"cannot hold {len(arrays)} arrays")
        codes = {name: _dtype_code(name, array) for name, array in arrays.items()}
        header = {"kind": kind, "version": version, "arrays": sorted(arrays)}
        texts = {"header.json": _to_json(header), "meta.json": _to_json(meta)}
        again = None if check is None else partial(_read_back, kind, version, check)
        with _replacing(Path(path).resolve(), again) as stream:
            total = _write_entries(stream, texts, arrays, codes, zipfile.ZIP_DEFLATED)
            if total > most_bytes(stream.tell()):
                stream.seek(0)
                _write_entries(stream, texts, arrays, codes, zipfile.ZIP_STORED)


def _read_back(kind: str, version: int, check: Callable[[Contents], object], path: Path) -> None:
    """Refuse a file, not yet in its place, that could not be read again."""
    try:
        check(read_archive(path, kind, version))
    except ValueError as error:
        reason = str(error).removeprefix(f"{str(path)!r} ").rstrip(".")
        raise StorageError(f"is left as it was: what was to be written {reason}") from error


@contextmanager
def _replacing(target: Path, check: Callable[[Path], object] | None) -> Iterator[IO[bytes]]:
    """Open a new file that takes the target's place once it is complete and on disk."""
    require(not target.is_dir(), "is a directory")
    new = not target.exists() and not target.is_symlink()  # a link to itself does not exist
    require(new or target.is_file(), "is not a regular file")
    require(target.parent.is_dir(), "cannot be written: its directory does not exist")
    with replacing(target, check) as stream:
        yield stream


def _to_json(value: dict[str, Any]) -> bytes:
    """Return strict JSON that the reader will accept."""
    require(isinstance(value, dict), "cannot be written: its meta is not a dictionary")
    try:
        text = json.dumps(value, allow_nan=False, sort_keys=True, default=_to_python).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise StorageError(f"cannot be written: its meta is not strict JSON ({error})") from error
    require(len(text) <= MAX_JSON_BYTES, f"cannot be written: its meta takes {len(text)} bytes")
    check_nesting(value, "cannot be written: its meta")
    return text


def _to_python(value: object) -> Any:
    if isinstance(value, np.bool_ | np.integer | np.float16 | np.float32):
        return value.item()
    raise TypeError(f"it holds a {type(value).__name__}")


def _dtype_code(name: str, array: Array) -> str:
    """Return the little-endian code of an array's type, or refuse the array or its name."""
    named = isinstance(name, str) and ARRAY_NAME.fullmatch(name)
    require(bool(named), f"cannot hold an array named {name!r}")
    # A masked array would lose its mask without a word.
    plain = isinstance(array, np.ndarray) and not isinstance(array, np.ma.MaskedArray)
    require(plain, f"cannot hold {name}: it is a {type(array).__name__}, not a plain array")
    code = array.dtype.str.replace(">", "<") if array.dtype.isnative else array.dtype.str
    require(code in DTYPE_CODES, f"cannot hold {name}: its type is {array.dtype}")
    require(is_sane(array.shape), f"cannot hold {name}: its shape is {array.shape}")
    return code


def _write_entries(
    stream: IO[bytes],
    texts: dict[str, bytes],
    arrays: dict[str, Array],
    codes: dict[str, str],
    method: int,
) -> int:
    """Write all entries; return how many bytes they hold."""
    with zipfile.ZipFile(stream, "w", method) as archive:
        for entry, text in texts.items():
            _write_entry(archive, entry, b"", memoryview(text))
        for name in sorted(arrays):
            _write_array(archive, name, codes[name], arrays[name])
        return sum(info.file_size for info in archive.infolist())


def _write_array(archive: zipfile.ZipFile, name: str, code: str, array: Array) -> None:
    header = io.BytesIO()
    facts = {"descr": code, "fortran_order": False, "shape": array.shape}
    np.lib.format.write_array_header_1_0(header, facts)
    data = np.ascontiguousarray(array, np.dtype(code)).reshape(-1).view(np.uint8).data
    _write_entry(archive, f"arrays/{name}.npy", header.getvalue(), data)


def _write_entry(archive: zipfile.ZipFile, entry: str, head: bytes, body: memoryview) -> None:
    """Add an entry whose bytes depend on its content only: no time, no platform."""
    info = zipfile.ZipInfo(entry)  # of 1980
    info.create_system = 3
    info.external_attr = (stat.S_IFREG | 0o644) << 16
    info.compress_type = archive.compression
    info.file_size = len(head) + len(body)  # decides whether the entry needs zip64
    with archive.open(info, "w") as stream:
        stream.write(head)
        for start in range(0, len(body), CHUNK):
            stream.write(body[start : start + CHUNK])
