"""Tables from public sources into the cache: checked, and written complete or not at all."""

from __future__ import annotations

import hashlib
import http.client
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from dtgfn._support.atomic_write import write_atomically
from dtgfn.data.tables import TableError
from dtgfn.datasets.convert import convert
from dtgfn.datasets.registry import Entry, Source
from dtgfn.datasets.values import Dataset, csv_text

Tell = Callable[[str], None]

_SECONDS = 30.0
_LARGEST = 20_000_000  # bytes; the largest of the files has 0.3 million
_CHUNK = 1 << 16


def tell_on_stderr(line: str) -> None:
    """Say one line on standard error, where it mixes with no result."""
    print(f"dtgfn: {line}", file=sys.stderr, flush=True)


def cache_folder() -> Path:
    """DTGFN_CACHE_DIR, or the folder that the platform has for what can be fetched again."""
    chosen = os.environ.get("DTGFN_CACHE_DIR")
    if chosen:
        return Path(chosen)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "dtgfn"
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "dtgfn" / "Cache"
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "dtgfn"


def fetch(entry: Entry, folder: Path, tell: Tell = tell_on_stderr) -> Dataset:
    """Download a table from the first source that has it, and keep its CSV form in a folder."""
    reasons = []
    for source in entry.sources:
        tell(f"fetching {entry.name} from {source.url} ...")
        try:
            content = _download(source)
            _check(content, source)  # before a parser sees a byte of it
            data = convert(entry, source, content)
        except (OSError, http.client.HTTPException, TableError) as error:
            reasons.append(f"{source.url}: {_reason(error, source)}")
            continue
        path = folder / entry.file
        _keep(path, csv_text(entry, data))
        tell(f"{entry.name}: {len(content):,} bytes, checksum right, kept as {path}")
        return data
    raise TableError(
        f"{entry.file} could not be fetched ({'; '.join(reasons)}); get it by other means and set "
        "DTGFN_DATA_DIR to the folder that holds it."
    )


def _download(source: Source) -> bytes:
    """All bytes of a source; what is cut short is refused."""
    request = urllib.request.Request(source.url, headers={"User-Agent": "dtgfn"})
    with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
        stated = answer.headers.get("Content-Length")
        content = bytearray()
        while piece := answer.read(_CHUNK):
            content += piece
            if len(content) > _LARGEST:
                raise TableError(f"more than {_LARGEST:,} bytes came, so it is another file")
    if stated is not None and len(content) != int(stated):
        raise TableError(f"cut short, {len(content):,} of {int(stated):,} bytes came")
    return bytes(content)


def _check(content: bytes, source: Source) -> None:
    """Refuse any other bytes than those that the source is known to hold."""
    if hashlib.sha256(content).hexdigest() != source.sha256:
        raise TableError(f"{len(content):,} bytes came, whose checksum differs: another file")


def _reason(error: Exception, source: Source) -> str:
    """Why a source failed, as a part of a sentence that names the source already."""
    if isinstance(error, urllib.error.HTTPError):
        error.close()
        return f"answered {error.code}"
    if isinstance(error, http.client.IncompleteRead):
        return f"cut short, {len(error.partial):,} bytes came"
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    text = " ".join(str(reason).split()).removeprefix(source.url).strip().rstrip(".")
    return text or type(error).__name__


def _keep(path: Path, text: str) -> None:
    """Write a table into a folder, which is made if need be."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text.encode())
    except OSError as error:
        raise TableError(
            f"{path.name} cannot be kept in {str(path.parent)!r} ({error.strerror}); set "
            "DTGFN_CACHE_DIR to a folder that can be written to."
        ) from None
