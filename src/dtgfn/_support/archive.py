"""The archive format, JSON and numpy arrays in a zip, and how to read one in distrust.

Inside are header.json (kind, version, names of the arrays), meta.json and an arrays/NAME.npy for
each array, so that any zip tool and ``numpy.load`` can open them too. Nothing read is trusted;
``archive_writing`` writes it.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
import stat
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from dtgfn._support.arrays import Array

MAX_ENTRIES = 10_000
MAX_JSON_BYTES = 16 << 20  # parsed, JSON takes up to thirty times its length in memory
MAX_JSON_DEPTH = 100

VERSIONS = range(1, 10**9)
CHUNK = 1 << 20
_MAX_READ = 4 << 20  # more than the zip directory of MAX_ENTRIES names of ours can take
_MAX_NPY_HEADER = 4096  # enough for 64 dimensions of 19 digits
# Numbers of a model hardly shrink to a hundredth; what does is small, or is not compressed at all.
_MOST_INFLATED, _HARMLESS = 100, 64 << 20
_DEFLATE_RATIO = 1032  # 258 bytes out of two bits: deflate cannot do better
_ENCRYPTED = 0x1 | 0x40 | 0x2000
DTYPE_CODES = ("|b1", "|i1", "|u1", "<i2", "<u2", "<f2", "<i4", "<u4", "<f4", "<i8", "<u8", "<f8")
_LENGTH_BYTES = {b"\x01\x00": 2, b"\x02\x00": 4, b"\x03\x00": 4}  # by version of the npy format
# Dots stand between words only, so that no entry's name can hold "..".
ARRAY_NAME = re.compile(r"(?=.{1,100}\Z)[a-z0-9_]+(\.[a-z0-9_]+)*")
# Exactly what numpy's writer writes. Matched, not evaluated: numpy's reader uses literal_eval,
# which may warn, exhaust memory or overflow the C stack on a hostile header.
_NPY_HEADER = re.compile(
    r"\{'descr': (.+), 'fortran_order': (True|False), 'shape': \(([0-9, ]*)\), \} *\n"
)


class StorageError(ValueError):
    """A file cannot be written or is not what it should be: one sentence that names it."""


@dataclass(frozen=True, eq=False)
class Contents:
    """What an archive holds."""

    version: int  # of the format it was written in
    meta: dict[str, Any]
    arrays: dict[str, Array]  # owned, C-contiguous, of native byte order


def read_archive(
    path: str | Path, kind: str, version: int, *, max_bytes: int = 2 << 30
) -> Contents:
    """Read a file of that kind, up to that version; no byte of it is executed or trusted.

    Whatever is wrong with it, the exception is a StorageError.  A file whose content would take
    more than ``max_bytes`` of memory is refused before it does.

    >>> import tempfile
    >>> from dtgfn._support.archive_writing import write_archive
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_archive(f"{folder}/a.dtgfn", "model", 1, {"depth": 3}, {"cuts": np.arange(4)})
    ...     read_archive(f"{folder}/a.dtgfn", "model", 1)
    Contents(version=1, meta={'depth': 3}, arrays={'cuts': array([0, 1, 2, 3])})
    """
    with (
        one_sentence(path, "read"),
        _open_file(Path(path)) as stream,
        zipfile.ZipFile(stream) as archive,
    ):
        entries = _check_directory(archive, os.fstat(stream.fileno()).st_size, max_bytes)
        require("header.json" in entries, "is not a dtgfn model: it has no header.json")
        header = _read_json(archive, entries["header.json"])
        names = _check_header(header, kind, version)
        expected = {"header.json", "meta.json", *(f"arrays/{name}.npy" for name in names)}
        for entry in sorted(expected ^ entries.keys()):
            which = "an unexpected" if entry in entries else "no"
            raise StorageError(f"is damaged: it has {which} entry {_quote(entry)}")
        meta = _read_json(archive, entries["meta.json"])
        arrays = {name: _read_array(archive, entries[f"arrays/{name}.npy"]) for name in names}
        return Contents(header["version"], meta, arrays)


@contextmanager
def one_sentence(path: str | Path, verb: str) -> Iterator[None]:
    """Let nothing out but a StorageError; one raised inside is what follows the path."""
    try:
        yield
    except StorageError as fault:
        raise StorageError(f"{str(path)!r} {fault}.") from None
    except OSError as error:
        raise StorageError(f"{str(path)!r} cannot be {verb}: {error.strerror or error}.") from error
    except MemoryError as error:
        raise StorageError(f"{str(path)!r} cannot be {verb}: not enough memory.") from error
    except Exception as error:  # hostile bytes can make a parser raise nearly anything
        verdict = "is damaged" if verb == "read" else "cannot be written"
        reason = _quote(str(error) or type(error).__name__)
        raise StorageError(f"{str(path)!r} {verdict}: {reason}.") from error


def require(condition: bool, fault: str) -> None:
    """Refuse a file by words that follow its name."""
    if not condition:
        raise StorageError(fault)


def _quote(text: str) -> str:
    """Quote what a file says, or an error says of it: short and without control characters."""
    return ascii(text if len(text) <= 90 else text[:90] + "...")


def is_sane(shape: tuple[int, ...]) -> bool:
    """Tell whether the sides of an empty array, which no amount of data backs, are modest."""
    return 0 not in shape or max(shape) < 1 << 31


def most_bytes(file_size: int) -> int:
    """How much a file of this size may hold."""
    return max(_HARMLESS, _MOST_INFLATED * file_size)


class _ShortReads(io.BufferedReader):
    """A file that keeps zipfile from reading a directory of millions of entries."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or size < 0:
            size = _MAX_READ
        require(size <= _MAX_READ, f"has more than {MAX_ENTRIES} entries or endless names")
        return super().read(size)


@contextmanager
def _open_file(path: Path) -> Iterator[_ShortReads]:
    status = path.stat()
    require(not stat.S_ISDIR(status.st_mode), "is a directory")
    require(stat.S_ISREG(status.st_mode), "is not a regular file")  # a pipe would block
    require(status.st_size > 0, "is empty")
    with _ShortReads(io.FileIO(path)) as stream:
        require(stream.read(4) == b"PK\x03\x04", "is not a dtgfn model")
        require(zipfile.is_zipfile(stream), "is damaged: its end is missing")
        yield stream


def _check_directory(
    archive: zipfile.ZipFile, file_size: int, max_bytes: int
) -> dict[str, zipfile.ZipInfo]:
    """Return the entries by name if nothing about them is odd; none is opened yet."""
    infos = archive.infolist()
    require(len(infos) <= MAX_ENTRIES, f"has {len(infos)} entries, more than {MAX_ENTRIES}")
    entries: dict[str, zipfile.ZipInfo] = {}
    for info in infos:
        name = info.orig_filename  # zipfile shortens and rewrites the other one
        entry = f"has an entry {_quote(name)}"
        odd = name != info.filename or re.search(r"^/|\.\.|[\\:\x00-\x1f]", name)
        require(not odd, f"{entry}, which is an unsafe name")
        require(name not in entries, f"{entry} twice")
        mode = stat.S_IFMT(info.external_attr >> 16)
        require(mode in (0, stat.S_IFREG), f"{entry}, which is not a regular file")
        require(not info.flag_bits & _ENCRYPTED, f"{entry}, which is encrypted")
        ratio = {zipfile.ZIP_STORED: 1, zipfile.ZIP_DEFLATED: _DEFLATE_RATIO}
        require(info.compress_type in ratio, f"{entry}, compressed by an unknown method")
        # What an entry declares will be allocated, so it must at least be possible.
        most = min(info.compress_size, file_size) * ratio[info.compress_type]
        require(info.file_size <= most, f"{entry}, which declares an impossible size")
        entries[name] = info
    total = sum(info.file_size for info in infos)
    require(total <= max_bytes, f"holds {total} bytes, more than the limit of {max_bytes}")
    swollen = (
        f"holds {total} bytes in a file of {file_size}, more than a model's numbers can shrink"
    )
    require(total <= most_bytes(file_size), swollen)
    return entries


def _check_header(header: dict[str, Any], kind: str, version: int) -> list[str]:
    """Return the names of the arrays if the file is one that the caller can read."""
    found, written, names = (header.get(key) for key in ("kind", "version", "arrays"))
    if not isinstance(found, str) or type(written) is not int or written not in VERSIONS:
        raise StorageError("is damaged: its header does not say what it holds")
    require(found == kind, f"holds a dtgfn {_quote(found)}, not a {kind!r}")
    newer = f"(format {written}, this one reads up to {version})"
    require(written <= version, f"was written by a newer dtgfn {newer}; upgrade dtgfn")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise StorageError("is damaged: its header does not list its arrays")
    distinct = len(set(names)) == len(names) and all(ARRAY_NAME.fullmatch(name) for name in names)
    require(distinct, "is damaged: its header lists an array twice or under a wrong name")
    return names


def _open_entry(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> IO[bytes]:
    """Open an entry so that a byte more than declared shows up instead of being cut off."""
    longer = copy(info)
    longer.file_size += 1
    return archive.open(longer)


def _fill(target: memoryview, stream: IO[bytes], what: str) -> None:
    """Read just what the target holds, in chunks, up to the entry's end and its checksum."""
    for start in range(0, len(target), CHUNK):
        wanted = min(CHUNK, len(target) - start)
        chunk = stream.read(wanted)
        require(len(chunk) == wanted, f"{what} is shorter than it declares")
        target[start : start + wanted] = chunk
    require(not stream.read(1), f"{what} is longer than it declares")


def _read_json(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> dict[str, Any]:
    what = f"is damaged: {info.filename}"
    require(info.file_size <= MAX_JSON_BYTES, f"{what} declares {info.file_size} bytes")
    text = bytearray(info.file_size)
    with _open_entry(archive, info) as stream:
        _fill(memoryview(text), stream, what)
    decoder = json.JSONDecoder(
        object_pairs_hook=_unique_keys, parse_float=_finite, parse_constant=_finite
    )
    try:
        value = decoder.decode(text.decode())
    except (ValueError, RecursionError) as error:
        raise StorageError(f"{what} is not strict JSON ({_quote(str(error))})") from error
    if not isinstance(value, dict):
        raise StorageError(f"{what} is not a JSON object")
    check_nesting(value, what)
    return value


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key occurs twice")
    return value


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):  # 1e999 is good JSON, but infinite
        raise ValueError(f"{text} is not a finite number")
    return value


def check_nesting(value: object, what: str) -> None:
    """Refuse deep nesting, and keys that JSON would turn into strings, level by level."""
    level = [value]
    for _ in range(MAX_JSON_DEPTH):
        below: list[object] = []
        for parent in level:
            if isinstance(parent, dict):
                require(all(isinstance(key, str) for key in parent), f"{what} has odd keys")
                below.extend(parent.values())
            elif isinstance(parent, list | tuple):
                below.extend(parent)
        level = below
    require(not level, f"{what} is nested too deeply")


def _read_array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Array:
    what = f"is damaged: {info.filename}"
    with _open_entry(archive, info) as stream:
        dtype, fortran, shape, length = _read_npy_header(stream, what)
        # Before anything is allocated or inflated: the two sizes in the file must agree.
        size = length + math.prod(shape) * dtype.itemsize
        require(size == info.file_size, f"{what} does not have the size its shape needs")
        array: Array = np.empty(shape[::-1] if fortran else shape, dtype)
        data = array.reshape(-1).view(np.uint8)
        _fill(data.data, stream, what)
    # numpy takes for granted that a boolean is 0 or 1.
    require(dtype.kind != "b" or data.max(initial=0) <= 1, f"{what} has odd booleans")
    if fortran:  # never by our writer
        array = array.T.copy(order="C")
    return array.astype(dtype.newbyteorder("="), copy=False)


def _read_npy_header(
    stream: IO[bytes], what: str
) -> tuple[np.dtype[Any], bool, tuple[int, ...], int]:
    """Return the type, whether columns come first, the shape, and the length of all this."""
    prefix, length_bytes = stream.read(6), _LENGTH_BYTES.get(stream.read(2), 0)
    require(prefix == b"\x93NUMPY" and length_bytes > 0, f"{what} is not a numpy array")
    length = int.from_bytes(stream.read(length_bytes), "little")
    require(length <= _MAX_NPY_HEADER, f"{what} has a header of {length} bytes")
    match = _NPY_HEADER.fullmatch(stream.read(length).decode("latin-1"))
    if match is None:
        raise StorageError(f"{what} has a header that is not numpy's")
    code, fortran, sizes = match.groups()
    require(code in map(repr, DTYPE_CODES), f"{what} is of the type {_quote(code)}")
    shape = tuple(int(size) for size in sizes.split(",") if size.strip())
    require(str(shape) == f"({sizes})" and is_sane(shape), f"{what} has an odd shape")
    return np.dtype(code.strip("'")), fortran == "True", shape, 8 + length_bytes + length
