"""archive: what is written comes back, complete or not at all, and hostile files are refused."""

from __future__ import annotations

import errno
import io
import json
import os
import random
import re
import stat
import struct
import sys
import time
import tracemalloc
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from thoroughness import examples

from dtgfn._support import archive as archive_module
from dtgfn._support import archive_writing
from dtgfn._support.archive import Contents, StorageError, read_archive
from dtgfn._support.archive_writing import write_archive

CODES = ["?", "i1", "u1", "<i2", "<u2", "<f2", "<i4", "<u4", "<f4", "<i8", "<u8", "<f8"]
META = {"depth": 3, "names": ["a", "b"], "scale": 0.1, "nothing": None, "on": True}
ARRAYS = {"x": np.arange(12.0).reshape(3, 4), "support.0.bits": np.array([True, False])}

Entries = list[tuple[str | zipfile.ZipInfo, bytes]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.dtgfn"


def write(path: Path, meta: Any = None, arrays: Any = None, version: int = 1) -> bytes:
    write_archive(
        path, "model", version, META if meta is None else meta, ARRAYS if arrays is None else arrays
    )
    return path.read_bytes()


def read(path: Path, **options: Any) -> Contents:
    return read_archive(path, "model", 1, **options)


def npy(array: Any, version: tuple[int, int] | None = None) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asanyarray(array), version, allow_pickle=True)
    return stream.getvalue()


def header(kind: Any = "model", version: Any = 1, arrays: Any = ("x",)) -> bytes:
    return json.dumps({"kind": kind, "version": version, "arrays": arrays}).encode()


def parts(x: bytes | None = None, meta: bytes = b"{}", head: bytes | None = None) -> Entries:
    """Return the entries of a file with the one array x."""
    head = header() if head is None else head
    x = npy(ARRAYS["x"]) if x is None else x
    return [("header.json", head), ("meta.json", meta), ("arrays/x.npy", x)]


def pack(path: Path, entries: Entries, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # duplicate names
        path.unlink(missing_ok=True)  # many times faster than truncating it
        with zipfile.ZipFile(path, "w", method) as archive:
            for name, data in entries:
                archive.writestr(name, data)
    return path.read_bytes()


def overwrite(path: Path, data: bytes) -> None:
    """Write over a file: many times faster than truncating it first."""
    with path.open("r+b") as stream:
        stream.write(data)
        stream.truncate()


def central(data: bytes, name: bytes, offset: int, code: str, value: int) -> bytes:
    """Overwrite one field of an entry in the zip directory."""
    place = data.index(b"PK\x01\x02")
    while data[place + 46 : place + 46 + len(name)] != name:
        place = data.index(b"PK\x01\x02", place + 1)
    changed = bytearray(data)
    struct.pack_into(code, changed, place + offset, value)
    return bytes(changed)


def refused(path: Path, words: str, **options: Any) -> None:
    """Check that reading fails in one sentence, which names the path and the reason."""
    with pytest.raises(StorageError, match=re.escape(words)) as caught:
        read(path, **options)
    message = str(caught.value)
    assert message.startswith(repr(str(path)) + " ")
    assert message.endswith(".")
    assert "\n" not in message
    assert len(message) < len(str(path)) + 250


def same(left: Contents, meta: Any, arrays: dict[str, np.ndarray]) -> bool:
    return (
        left.meta == meta
        and left.arrays.keys() == arrays.keys()
        and all(
            left.arrays[name].dtype == array.dtype
            and left.arrays[name].shape == array.shape
            and left.arrays[name].tobytes() == array.tobytes()
            for name, array in arrays.items()
        )
    )


# Round trip


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)  # fmt: skip
any_array = st.sampled_from(CODES).flatmap(
    lambda code: hnp.arrays(code, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
)
names = st.from_regex(r"[a-z0-9_]{1,8}(\.[a-z0-9_]{1,8}){0,3}", fullmatch=True)


@examples(60)
@given(
    meta=st.dictionaries(st.text(), json_values, max_size=4),
    arrays=st.dictionaries(names, any_array, max_size=4),
    transpose=st.booleans(),
)
def test_what_is_written_comes_back(
    tmp_path_factory: pytest.TempPathFactory, meta: Any, arrays: Any, transpose: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "round.dtgfn"
    if transpose:
        arrays = {name: array.T for name, array in arrays.items()}
    write(path, meta, arrays)
    contents = read(path)
    assert same(contents, meta, arrays)
    assert contents.version == 1
    for array in contents.arrays.values():
        assert array.flags.owndata
        assert array.flags.c_contiguous
        assert array.dtype.isnative
    with zipfile.ZipFile(path) as archive:  # numpy and zip tools read it too
        assert archive.testzip() is None
        for name, array in arrays.items():
            loaded = np.load(io.BytesIO(archive.read(f"arrays/{name}.npy")), allow_pickle=False)
            assert loaded.tobytes() == array.tobytes()


@pytest.mark.parametrize(
    "array",
    [
        np.array(2.5),
        np.zeros((0, 7), np.uint16),
        np.zeros((2, 0, 3), bool),
        np.ones((1,) * 64),
        np.arange(20)[::-3],
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array([np.nan, np.inf, -0.0]),
        np.arange(3, dtype=np.dtype("f8", metadata={"a": 1})),
        np.random.default_rng(0).integers(0, 256, 3 << 20, dtype=np.uint8),
    ],
    ids=lambda array: f"{array.dtype}-{array.shape[:3]}",
)
def test_special_arrays(path: Path, array: np.ndarray) -> None:
    write(path, arrays={"x": array})
    assert same(read(path), META, {"x": array})


def test_numpy_scalars_and_tuples_in_meta(path: Path) -> None:
    write(path, {"a": np.float32(0.5), "b": (np.int8(1), np.bool_(True)), "c": np.float64(0.1)})
    assert read(path).meta == {"a": 0.5, "b": [1, True], "c": 0.1}
    assert type(read(path).meta["b"][0]) is int
    assert read(path).meta["b"][1] is True


def test_older_versions_are_read_and_say_so(path: Path) -> None:
    write(path, version=2)
    assert read_archive(str(path), "model", 5).version == 2


def test_equal_content_makes_equal_bytes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = write(path)
    monkeypatch.setattr(time, "time", lambda: 1e9)
    monkeypatch.setattr(sys, "platform", "win32")  # zipfile notes the system otherwise
    backwards = {name: np.asfortranarray(ARRAYS[name]) for name in reversed(ARRAYS)}
    assert write(path, dict(reversed(META.items())), backwards) == first


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_other_writers_files_are_read(path: Path, version: tuple[int, int], method: int) -> None:
    array = np.asfortranarray(np.arange(24, dtype=np.int16).reshape(2, 3, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy's, that 2.0 is not needed
        pack(path, parts(npy(array, version)), method)
    found = read(path).arrays["x"]
    assert np.array_equal(found, array)
    assert found.flags.c_contiguous
    assert found.flags.owndata


# Writing


@pytest.mark.parametrize(
    "array",
    [
        np.array([None]), np.array(["a"]), np.array([b"a"]), np.array([1j]), np.zeros(2, "i4,f8"),
        np.zeros(2, "V4"), np.zeros(2, "M8[s]"), np.zeros(2, "m8[s]"), [1, 2], 3.0,
        np.zeros(2, np.dtype("f8").newbyteorder("S")), np.ma.array([1, 2], mask=[0, 1]),
        pytest.param(
            np.zeros(2, np.longdouble),
            marks=pytest.mark.skipif(np.dtype("g").itemsize <= 8, reason="no long double"),
        ),
    ],
    ids=lambda array: str(getattr(array, "dtype", type(array))),
)  # fmt: skip
def test_odd_arrays_are_not_written(path: Path, array: Any) -> None:
    with pytest.raises(StorageError, match=r"cannot hold bad: it"):
        write(path, arrays={"good": np.zeros(2), "bad": array})
    assert not path.exists()


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "a..b", ".a", "a.", "A", "a/b", "a\\b", "ä", "a\n", "a" * 101, 1],
)
def test_odd_names_are_not_written(path: Path, name: Any) -> None:
    with pytest.raises(StorageError, match="cannot hold an array named"):
        write(path, arrays={name: np.zeros(2)})


def nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


def cycle() -> Any:
    value: list[Any] = []
    value.extend([value, value])
    return value


@pytest.mark.parametrize(
    ("meta", "words"),
    [
        ({"a": float("nan")}, "strict JSON"),
        ({"a": np.float32("inf")}, "strict JSON"),
        ({"a": b"x"}, "it holds a bytes"),
        ({"a": np.arange(3)}, "it holds a ndarray"),
        ({"a": np.longdouble(1)}, "it holds a longdouble"),
        ({"a": 1j}, "it holds a complex"),
        ({"a": {1: 2}}, "odd keys"),
        ({"a": [{"b": [{True: 2}]}]}, "odd keys"),
        ({"a": {(1, 2): 2}}, "strict JSON"),
        ({"a": nested(200)}, "too deeply"),
        ({"a": nested(100_000)}, "strict JSON"),
        ({"a": cycle()}, "strict JSON"),
        ({"a": "x" * (17 << 20)}, "takes"),
        ([1], "not a dictionary"),
    ],
    ids=range(14),
)
def test_odd_metas_are_not_written(path: Path, meta: Any, words: str) -> None:
    with pytest.raises(StorageError, match=words):
        write(path, meta)
    assert not path.exists()


def test_the_limits_of_writing_and_reading_agree(path: Path) -> None:
    meta = {"a": nested(archive_module.MAX_JSON_DEPTH - 2)}
    arrays = {f"{i:0100}": np.zeros(0, np.uint8) for i in range(archive_module.MAX_ENTRIES - 2)}
    write(path, meta, arrays)
    assert same(read(path), meta, arrays)
    with pytest.raises(StorageError, match="too deeply"):
        write(path, {"a": nested(archive_module.MAX_JSON_DEPTH - 1)})
    with pytest.raises(StorageError, match="cannot hold 9999 arrays"):
        write(path, arrays={**arrays, "one_more": np.zeros(0)})


@pytest.mark.parametrize(
    ("kind", "version"), [("m", 0), ("m", 10**9), ("m", True), ("m", 1.0), (None, 1)]
)
def test_odd_kinds_and_versions_are_not_written(path: Path, kind: Any, version: Any) -> None:
    with pytest.raises(StorageError, match="cannot"):
        write_archive(path, kind, version, {}, {})


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    os.mkfifo(tmp_path / "pipe")
    for place, words in [
        (tmp_path, "is a directory"),
        (tmp_path / "missing" / "a", "its directory does not exist"),
        (file / "a", "cannot be written"),
        (loop, "cannot be written|is not a regular file"),  # as Python 3.13 says
        (tmp_path / "pipe", "is not a regular file"),
        (tmp_path / "a\0b", "cannot be written"),
        (tmp_path / ("a" * 300), "cannot be written"),
    ]:
        with pytest.raises(StorageError, match=words) as caught:
            write(place)
        assert str(caught.value).startswith(repr(str(place)))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "loop", "pipe"]


@pytest.mark.parametrize("existing", [True, False])
@pytest.mark.parametrize("where", ["fsync", "array", "replace"])
@pytest.mark.parametrize(
    "failure", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt(),
                PermissionError(errno.EACCES, "Permission denied"), MemoryError()],
    ids=["full", "interrupt", "permission", "memory"],
)  # fmt: skip
def test_a_failure_in_the_middle_leaves_no_trace(
    path: Path, monkeypatch: pytest.MonkeyPatch, where: str, failure: BaseException, existing: bool
) -> None:
    before = write(path, {"old": 1}) if existing else None
    original = archive_writing._write_array

    def fail(*arguments: Any) -> None:
        if where == "array" and arguments[1] != "x":
            return original(*arguments)  # not at the first
        assert [p.suffix for p in path.parent.iterdir() if p != path] == [".tmp"]
        raise failure

    owner, name = {
        "fsync": (os, "fsync"),
        "array": (archive_writing, "_write_array"),
        "replace": (Path, "replace"),
    }[where]
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, fail)
        expected = KeyboardInterrupt if isinstance(failure, KeyboardInterrupt) else StorageError
        with pytest.raises(expected) as caught:
            write(path)
    if isinstance(failure, OSError):
        assert str(caught.value) == f"{str(path)!r} cannot be written: {failure.strerror}."
    assert list(path.parent.iterdir()) == ([path] if existing else [])
    assert not existing or path.read_bytes() == before


def test_a_file_system_that_refuses_leaves_no_trace(path: Path) -> None:
    resource = pytest.importorskip("resource")
    before = write(path)
    noise = np.random.default_rng(0).integers(0, 256, 1 << 20, dtype=np.uint8)
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, old[1]))
    try:
        with pytest.raises(StorageError, match="cannot be written: File too large"):
            write(path, arrays={"x": noise})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
    assert list(path.parent.iterdir()) == [path]
    assert path.read_bytes() == before


@pytest.mark.parametrize("umask", [0o022, 0o027, 0o077])
def test_permissions_are_ordinary(path: Path, umask: int) -> None:
    old = os.umask(umask)
    try:
        write(path)
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask


def test_a_link_keeps_pointing_at_the_file(path: Path) -> None:
    link = path.with_name("link")
    link.symlink_to(path)
    write(link)
    assert link.is_symlink()
    assert same(read(path), META, ARRAYS)
    assert same(read(link), META, ARRAYS)


# Reading: the file


def test_places_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    os.mkfifo(tmp_path / "pipe")
    refused(tmp_path / "missing", "cannot be read: No such file or directory")
    refused(tmp_path, "is a directory")
    refused(tmp_path / "empty", "is empty")
    refused(tmp_path / "pipe", "is not a regular file")
    refused(tmp_path / "empty" / "a", "cannot be read: Not a directory")
    with pytest.raises(StorageError, match="null"):
        read(tmp_path / "a\0b")


@pytest.mark.parametrize(
    "data", [b"x", b"PK", b"a,b\n1,2\n", b"\x80\x04N.", b"\0" * 5000, npy(np.zeros(3)), b"PK\5\6"]
)
def test_other_files_are_no_models(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    refused(path, "is not a dtgfn model")


def test_other_zips_are_no_models(path: Path) -> None:
    pack(path, [("word/document.xml", b"<xml/>")])
    refused(path, "is not a dtgfn model: it has no header.json")
    with path.open("wb") as stream:
        np.savez(stream, x=np.zeros(3))
    refused(path, "is not a dtgfn model: it has no header.json")
    path.write_bytes(b"#!/bin/sh\n" + write(path))
    refused(path, "is not a dtgfn model")


def test_truncated_at_any_length(path: Path) -> None:
    data = write(path)
    for length in [*range(4, len(data), 5), len(data) - 1]:
        overwrite(path, data[:length])
        refused(path, "is damaged: its end is missing")


def test_a_wrong_checksum(path: Path) -> None:
    data = pack(path, parts(), zipfile.ZIP_STORED)
    for place in (data.index(b"kind"), data.index(b"{}"), data.index(b"\x93NUMPY") + 200):
        changed = bytearray(data)
        changed[place] ^= 1
        path.write_bytes(changed)
        refused(path, 'is damaged: "Bad CRC-32 for file')


def test_other_kinds_and_newer_versions(path: Path) -> None:
    write_archive(path, "policy", 1, {}, {})
    refused(path, "holds a dtgfn 'policy', not a 'model'")
    write(path, version=3)
    refused(path, "was written by a newer dtgfn (format 3, this one reads up to 1); upgrade dtgfn.")
    # also if a newer format has entries and keys that we do not know
    head = b'{"kind": "model", "version": 2, "new": {}}'
    pack(path, [("header.json", head), ("new/part.bin", b"x")])
    refused(path, "was written by a newer dtgfn")


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (header(kind=1), "does not say what it holds"),
        (header(kind=None), "does not say what it holds"),
        (header(kind="\x1b[2J" + "x" * 1000), "holds a dtgfn '\\x1b[2Jxxx"),
        *((header(version=v), "does not say what") for v in (0, -1, True, 1.0, "1", None, 10**99)),
        *((header(arrays=a), "does not list") for a in (None, "x", {"x": 1}, [1], [["x"]])),
        (header(arrays=["x", "x"]), "lists an array twice"),
        *((header(arrays=["x", a]), "under a wrong name") for a in ("", "../x", "a/b", "X", "a\n")),
        (header(arrays=["x", "y"]), "it has no entry 'arrays/y.npy'"),
        (header(arrays=[]), "it has an unexpected entry 'arrays/x.npy'"),
        (b"{}", "does not say what it holds"),
    ],
)
def test_odd_headers(path: Path, head: bytes, words: str) -> None:
    pack(path, parts(head=head))
    refused(path, words)


# Reading: the zip


@pytest.mark.parametrize("name", ["arrays/y.npy", "readme", "arrays/x.npy.exe", "arrays/x.npy/"])
def test_unknown_entries(path: Path, name: str) -> None:
    pack(path, [*parts(), (zipfile.ZipInfo(name), b"")])
    refused(path, f"is damaged: it has an unexpected entry {name!r}")


def test_missing_entries(path: Path) -> None:
    for missing in ("meta.json", "arrays/x.npy"):
        pack(path, [entry for entry in parts() if entry[0] != missing])
        refused(path, f"is damaged: it has no entry {missing!r}")


@pytest.mark.parametrize(
    "name", ["../x", "arrays/../x.npy", "/etc/passwd", "a\\b", "C:x", "arrays/..", "a\nb", "\x1b"]
)
def test_unsafe_names(path: Path, name: str) -> None:
    pack(path, [*parts(), (name, b"")])
    refused(path, f"has an entry {name!r}, which is an unsafe name")


def test_a_name_with_a_null_byte(path: Path) -> None:
    data = pack(path, [*parts(), ("meta.jsonXabc", b"{}")])
    path.write_bytes(data.replace(b"meta.jsonXabc", b"meta.json\0abc"))
    refused(path, "unsafe name")


def test_duplicate_entries(path: Path) -> None:
    pack(path, [*parts(), ("meta.json", b'{"evil": 1}')])
    refused(path, "has an entry 'meta.json' twice")


@pytest.mark.parametrize("mode", [stat.S_IFLNK, stat.S_IFDIR, stat.S_IFIFO, stat.S_IFCHR])
def test_links_and_other_files_inside(path: Path, mode: int) -> None:
    info = zipfile.ZipInfo("arrays/x.npy")
    info.external_attr = (mode | 0o777) << 16
    pack(path, [*parts()[:2], (info, b"/etc/passwd")])
    refused(path, "has an entry 'arrays/x.npy', which is not a regular file")


@pytest.mark.parametrize("flag", [0x1, 0x40, 0x2000])
def test_encrypted_entries(path: Path, flag: int) -> None:
    path.write_bytes(central(write(path), b"meta.json", 8, "<H", flag))
    refused(path, "has an entry 'meta.json', which is encrypted")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA, 93, 99])
def test_other_compressions(path: Path, method: int) -> None:
    if method > 20:
        path.write_bytes(central(write(path), b"meta.json", 10, "<H", method))
    else:
        pack(path, parts(), method)
    refused(path, "compressed by an unknown method")


def test_too_many_entries(path: Path) -> None:
    pack(path, [*parts(), *((f"arrays/{i}.npy", b"") for i in range(10_000))])
    refused(path, "has 10003 entries, more than 10000")


def test_millions_of_entries_are_not_even_listed(path: Path) -> None:
    entry = struct.pack("<4s4B4HL2L5H2L", b"PK\1\2", 20, 3, 20, *[0] * 15)
    directory = entry * 100_000
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 9, 9, len(directory), 4, 0)
    path.write_bytes(b"PK\3\4" + directory + end)
    with limited(memory=10 << 20):
        refused(path, "has more than 10000 entries")


@contextmanager
def limited(memory: int) -> Iterator[None]:
    """Check the peak memory of a block, and that it inflates no more than that either."""
    inflated, inflate = 0, zipfile.ZipExtFile.read

    def counted(self: zipfile.ZipExtFile, n: int | None = -1) -> bytes:
        nonlocal inflated
        data = inflate(self, n)
        inflated += len(data)
        return data

    tracemalloc.start()
    try:
        with mock.patch.object(zipfile.ZipExtFile, "read", counted):
            yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < memory
    assert inflated < memory


def bomb(path: Path, entry: str, start: bytes = b"", megabytes: int = 30) -> bytes:
    """Write a small file with an entry that inflates to a thousand times its size."""
    zeros = bytes(1 << 20)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in parts():
            if name != entry:
                archive.writestr(name, data)
        with archive.open(entry, "w") as stream:
            stream.write(start)
            for _ in range(megabytes):
                stream.write(zeros)
    assert path.stat().st_size < 400_000
    return path.read_bytes()


def test_zip_bombs(path: Path) -> None:
    shape = {"descr": "|u1", "fortran_order": False, "shape": (200 << 20,)}
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, shape)

    def harmless(words: str, **options: Any) -> None:
        with limited(memory=8 << 20):
            refused(path, words, **options)

    # honest about its size, even in the array's header
    data = bomb(path, "arrays/x.npy", head.getvalue(), megabytes=200)
    harmless("bytes, more than the limit of 100000000", max_bytes=100_000_000)
    # the zip declares less than it inflates to
    path.write_bytes(central(data, b"arrays/x.npy", 24, "<L", 1000))
    harmless("Bad CRC-32")
    # or just what a small array needs, with the checksum of that, or of a byte more
    small = npy(np.zeros(10, np.uint8))
    data = central(bomb(path, "arrays/x.npy", small), b"arrays/x.npy", 24, "<L", len(small))
    for start, words in [(small, "Bad CRC-32"), (small + b"\0", "is longer than it declares")]:
        path.write_bytes(central(data, b"arrays/x.npy", 16, "<L", zipfile.crc32(start)))
        harmless(words)
    # a large entry behind the header of a small array
    bomb(path, "arrays/x.npy", small)
    harmless("does not have the size its shape needs")
    # JSON, declared and not
    data = bomb(path, "meta.json")
    harmless("meta.json declares 31457280 bytes")
    path.write_bytes(central(data, b"meta.json", 24, "<L", 1000))
    harmless("Bad CRC-32")
    bomb(path, "header.json")
    harmless("header.json declares 31457280 bytes")


def test_a_file_that_swells_beyond_what_numbers_shrink_to_is_refused(path: Path) -> None:
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        head, {"descr": "|u1", "fortran_order": False, "shape": (70 << 20,)}
    )
    bomb(path, "arrays/x.npy", head.getvalue(), megabytes=70)
    with limited(memory=8 << 20):
        refused(path, "more than a model's numbers can shrink")


def test_honest_numbers_that_shrink_that_much_are_written_plainly(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays = {"x": np.zeros(100_000), "y": np.arange(5)}
    small = len(write(path, arrays=arrays))
    monkeypatch.setattr(archive_module, "_HARMLESS", 1000)
    assert len(write(path, arrays=arrays)) > 800_000 > 100 * small
    assert same(read(path), META, arrays)


def test_what_cannot_be_read_back_replaces_nothing(path: Path) -> None:
    before = write(path)

    def refuse(contents: Contents) -> None:
        assert contents.meta == {"new": 1}
        raise ValueError("is odd.")

    with pytest.raises(StorageError) as caught:
        write_archive(path, "model", 1, {"new": 1}, {}, check=refuse)
    assert str(caught.value) == f"{str(path)!r} is left as it was: what was to be written is odd."
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_declared_sizes_that_cannot_be(path: Path) -> None:
    data = pack(path, parts(), zipfile.ZIP_DEFLATED)
    for size in (10**6, 0x7FFFFFFF, 0xFFFFFFFE):
        path.write_bytes(central(data, b"arrays/x.npy", 24, "<L", size))
        refused(path, "declares an impossible size")
        huge = central(path.read_bytes(), b"arrays/x.npy", 20, "<L", size)
        path.write_bytes(huge)
        with limited(memory=8 << 20), pytest.raises(StorageError):
            read(path)
    stored = pack(path, parts(), zipfile.ZIP_STORED)
    path.write_bytes(central(stored, b"arrays/x.npy", 24, "<L", 225))
    refused(path, "declares an impossible size")


def test_entries_shorter_than_declared(path: Path) -> None:
    data = pack(path, parts(meta=b"{}"))
    path.write_bytes(central(data, b"meta.json", 24, "<L", 3))
    refused(path, "meta.json is shorter than it declares")


def test_overlapping_entries_count_each_time(path: Path) -> None:
    """One compressed block that hundreds of entries share, as in the bombs without nesting."""
    data = bomb(path, "arrays/x.npy", megabytes=5)
    place = data.rindex(b"PK\1\2")
    end = data.rindex(b"PK\5\6")
    entries = [data[place:end].replace(b"x.npy", b"%05d" % i) for i in range(500)]
    directory = data[data.index(b"PK\1\2") : place] + b"".join(entries)
    tail = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 502, 502, len(directory),
                       data.index(b"PK\1\2"), 0)  # fmt: skip
    path.write_bytes(data[: data.index(b"PK\1\2")] + directory + tail)
    with limited(memory=8 << 20):
        refused(path, "more than the limit of 2147483648")


def test_memory_stays_near_the_declared_size(path: Path) -> None:
    arrays = {f"x{i}": np.full(1 << 20, i, np.float64) for i in range(4)}
    write(path, arrays=arrays)
    with limited(memory=38 << 20):
        assert len(read(path, max_bytes=33 << 20).arrays) == 4
    refused(path, "more than the limit of", max_bytes=32 << 20)


# Reading: arrays


def with_header(text: str | bytes, data: bytes = bytes(96), version: bytes = b"\1\0") -> bytes:
    raw = text.encode("latin-1") if isinstance(text, str) else text
    length = struct.pack("<H" if version == b"\1\0" else "<L", len(raw))
    return b"\x93NUMPY" + version + length + raw + data


def facts(descr: str = "'<f8'", order: str = "False", shape: str = "(3, 4)") -> str:
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}   \n"


def test_the_handmade_header_is_right(path: Path) -> None:
    pack(path, parts(with_header(facts())))
    assert np.array_equal(read(path).arrays["x"], np.zeros((3, 4)))


@pytest.mark.parametrize(
    "shape",
    ["(3, 5)", "(3,)", "()", "(0, 4)", "(-3, -4)", "(-1, 4)", "(3, 4, 0)",
     "(9223372036854775807, 4)", "(18446744073709551616, 1)", f"({'9' * 3000}, 4)", "(3.0, 4)",
     "(True, 12)", "[3, 4]", "(3,4)", "12", "(12)", "(1 2,)", "(,)", "(03, 4)", "(3, 4,)",
     "('3', 4)", "(3, 4", "(12, " + "1, " * 99 + ")", f"(12{', 1' * 64})", "(12, None)"],
)  # fmt: skip
def test_shapes_that_lie(path: Path, shape: str) -> None:
    pack(path, parts(with_header(facts(shape=shape))))
    refused(path, "is damaged")


@pytest.mark.parametrize("shape", [f"(0, {10**18})", f"({2**63}, 0)", f"(0, {2**31})"])
def test_empty_arrays_of_huge_shapes(path: Path, shape: str) -> None:
    pack(path, parts(with_header(facts(shape=shape), b"")))
    refused(path, "is damaged")


@pytest.mark.parametrize(
    "descr",
    ["'|O'", "'O'", "'<c16'", "'<U2'", "'|S8'", "'|V8'", "'<M8[s]'", "'>f8'", "'<f16'", "'f8'",
     "'=f8'", "'<f8,<f8'", "'(2,)<f8'", "[('a', '<f8')]", "('<f8', (2,))", "[]", "float",
     "'<f8'.__class__", "'<f8\\n'", "'|T16'", "'<g'", "''", "'", "\"<f8\"", "'''<f8'''",
     "<f8", "'<f8"],
)  # fmt: skip
def test_types_that_are_not_plain(path: Path, descr: str) -> None:
    pack(path, parts(with_header(facts(descr))))
    refused(path, "is damaged: arrays/x.npy ")


def test_object_arrays_are_not_unpickled(path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (str(path.parent / "owned"),)

    pack(path, parts(npy(np.array([Evil()], dtype=object))))
    refused(path, "is of the type \"'|O'\"")
    assert not (path.parent / "owned").exists()


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\x93", b"\x93NUMPY", b"\x93NUMPY\1\0", b"\x93NUMPX\1\0" + bytes(90),
        npy(np.zeros(3))[:40], npy(np.zeros(3))[:-1], npy(np.zeros(3)) + b"\0",
        with_header(facts(), version=b"\4\0"), with_header(facts(), version=b"\1\1"),
        with_header(facts(), version=b"\0\0"), with_header(facts(), version=b"\xff\xff"),
        with_header(facts().rstrip() + " " * 5000 + "\n"),
        with_header("(" * 4000), with_header("[" * 4000, version=b"\3\0"), with_header("-" * 4000),
        with_header(b"\xff\xfe\0"), with_header(b"\0" * 100), with_header(""), with_header("{}"),
        with_header("__import__('os').getpid()\n"), with_header("'\\d'"), with_header("3L"),
        with_header(facts(shape="(3L, 4L)")), with_header(facts(order="0")),
        with_header(facts(order="None")), with_header(facts().replace(", }", ", 'a': 1, }")),
        with_header(facts().replace(", }", "}")), with_header(facts() + "\n"),
        with_header(facts()[:-4]), with_header("{'descr': '<f8', 'shape': (3, 4), }"),
        b"\x93NUMPY\2\0\xff\xff\xff\xff" + facts().encode(),
    ],
    ids=range(32),
)  # fmt: skip
def test_array_headers_that_are_not_numpys(path: Path, data: bytes) -> None:
    pack(path, parts(data))
    refused(path, "is damaged: arrays/x.npy ")


def test_booleans_are_zero_or_one(path: Path) -> None:
    pack(path, parts(with_header(facts("'|b1'", shape="(3,)"), b"\0\1\2")))
    refused(path, "arrays/x.npy has odd booleans")


# Reading: JSON


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "not strict JSON"), (b"{", "not strict JSON"), (b"{} {}", "not strict JSON"),
        (b"[]", "not a JSON object"), (b"1", "not a JSON object"), (b"null", "not a JSON object"),
        (b'{"a": NaN}', "NaN is not a finite number"), (b'{"a": Infinity}', "not a finite"),
        (b'{"a": [-Infinity]}', "not a finite"), (b'{"a": 1e999}', "1e999 is not a finite"),
        (b'{"a": -1e999}', "not a finite"), (b'{"a": 1, "a": 2}', "a key occurs twice"),
        (b'{"b": [{"a": 1, "\\u0061": 2}]}', "a key occurs twice"),
        (b"\xff\xfe{}", "not strict JSON"), (b'{"a": "\xff"}', "not strict JSON"),
        (b"\xef\xbb\xbf{}", "not strict JSON"), ("{}".encode("utf-16"), "not strict JSON"),
        (b"{'a': 1}", "not strict JSON"), (b'{"a": 1,}', "not strict JSON"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not strict JSON"),
        (b'{"a": "x\ny"}', "not strict JSON"),
        (b'{"a": ' + b"[" * 200 + b"]" * 200 + b"}", "nested too deeply"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "not strict JSON"),
        (b"[" * 1_000_000, "not strict JSON"), (b'{"a":' * 1_000_000, "not strict JSON"),
        (b'{"a": "' + b"x" * (16 << 20) + b'"}', "meta.json declares 16777225 bytes"),
    ],
    ids=range(26),
)  # fmt: skip
def test_odd_json(path: Path, text: bytes, words: str) -> None:
    pack(path, parts(meta=text), zipfile.ZIP_STORED)
    refused(path, words)
    if words == "not a JSON object":
        pack(path, parts(head=text))
        refused(path, f"header.json is {words}")


# Fuzz


def mutations(data: bytes, count: int, seed: int) -> Iterator[bytes]:
    """Flip, overwrite, insert, remove and repeat bytes."""
    dice = random.Random(seed)
    for _ in range(count):
        changed = bytearray(data)
        for _ in range(dice.choice([1, 1, 1, 2, 4, 16])):
            at, length = dice.randrange(len(changed) + 1), dice.choice([1, 1, 2, 4, 8, 40])
            match dice.randrange(6):
                case 0:
                    changed[at : at + 1] = bytes(
                        b ^ 1 << dice.randrange(8) for b in changed[at : at + 1]
                    )
                case 1:
                    changed[at : at + length] = dice.randbytes(length)
                case 2:
                    changed[at : at + length] = bytes([dice.choice([0, 255, 127])]) * length
                case 3:
                    changed[at:at] = dice.randbytes(length)
                case 4:
                    del changed[at : at + length]
                case 5:
                    changed[at:at] = changed[dice.randrange(len(changed) + 1) :][:length]
        if dice.random() < 0.1:
            del changed[dice.randrange(len(changed) + 1) :]
        yield bytes(changed)


def test_damaged_files_are_refused_or_equal(path: Path) -> None:
    data = write(path)
    outcomes = [0, 0]
    for changed in mutations(data, 3000, seed=0):
        overwrite(path, changed)
        try:
            contents = read(path)
        except StorageError:
            outcomes[0] += 1
        else:
            outcomes[1] += 1
            assert same(contents, META, ARRAYS)
    assert min(outcomes) > 10  # both do happen


def test_damaged_zip_directories_are_refused_or_equal(path: Path) -> None:
    data = write(path)
    place = data.index(b"PK\1\2")
    for changed in mutations(data[place:], 3000, seed=1):
        overwrite(path, data[:place] + changed)
        try:
            contents = read(path)
        except StorageError:
            continue
        assert same(contents, META, ARRAYS)


@pytest.mark.parametrize("index", [0, 1, 2])
def test_hostile_content_with_good_checksums_raises_nothing_else(path: Path, index: int) -> None:
    entries = parts(meta=json.dumps(META).encode())
    for changed in mutations(entries[index][1], 500, seed=2 + index):
        hostile = [*entries]
        hostile[index] = (hostile[index][0], changed)
        pack(path, hostile, zipfile.ZIP_STORED)
        try:
            contents = read(path)
        except StorageError:
            continue
        assert contents.arrays["x"].nbytes <= len(changed) + 96


@examples(200)
@given(tail=st.binary(max_size=200))
def test_any_bytes_are_refused(tmp_path_factory: pytest.TempPathFactory, tail: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "noise.dtgfn"
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, 46, 4, 0)
    path.touch()
    for data in (tail, b"PK\3\4" + tail, b"PK\3\4" + tail + end):
        overwrite(path, data)
        with pytest.raises(StorageError):
            read(path)
