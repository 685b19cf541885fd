"""What goes to the terminal: words, notes, colours and JSON."""

from __future__ import annotations

import json
import math
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

import typer

from dtgfn._support.printable import visible, visible_json, visible_lines


def open_streams() -> None:
    """Put something in the place of closed streams, else the next files would take it.

    A result that nobody can read is refused before the work; notes just go unread.
    """
    closed = [name for name in ("stdin", "stdout", "stderr") if getattr(sys, name) is None]
    for name in closed:
        mode = "r" if name == "stdin" else "w"
        instead = Path(os.devnull).open(mode, encoding="utf-8")  # noqa: SIM115
        setattr(sys, name, instead)
    if "stdout" in closed:
        raise ValueError("Standard output is closed; send it to a file, or to /dev/null.")


def say(text: str, end: str = "\n", head: str = "") -> None:
    """Print lines on standard output; ``head``, which may be painted, stands before them as it is.

    A reader that went away, as ``head`` does, is no failure and no reason not to write files.
    """
    _print(_writable(head + visible_lines(text) + end, sys.stdout))


def say_data(text: str) -> None:
    """Print data as they are, but on a terminal; where nobody reads them any more, all is done."""
    if not _print(visible_lines(text) if sys.stdout.isatty() else text):
        raise typer.Exit(0)


def _print(text: str) -> bool:
    """Whether there is still a reader."""
    try:
        print(text, end="", flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    except UnicodeEncodeError as error:
        raise ValueError(
            f"Standard output cannot hold {error.object[error.start]!r} (it is {error.encoding}); "
            "set PYTHONIOENCODING=utf-8 in the environment."
        ) from None
    except OSError as error:  # a full disk, say
        why = error.strerror or str(error)
        raise ValueError(f"Standard output cannot be written: {why}; send it elsewhere.") from None
    return True


def note(sentence: str) -> None:
    """Tell on standard error, in one line, what is no part of the result."""
    tell(f"dtgfn: {' '.join(sentence.split())}")


def tell(line: str) -> None:
    """Print a line on standard error."""
    with suppress(OSError):  # a full disk, say: the exit code still tells
        print(_writable(visible(line), sys.stderr), file=sys.stderr, flush=True)


def _writable(text: str, stream: TextIO) -> str:
    """Spell out letters that a stream of ASCII, say, cannot hold."""
    encoding = stream.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def print_json(value: dict[str, Any]) -> None:
    """Print one JSON object; JSON has no NaN and no infinity, so they are null."""
    text = json.dumps(_plain(value), indent=2, ensure_ascii=False, allow_nan=False, default=float)
    _print(visible_json(text) + "\n")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value.item() if hasattr(value, "item") else value


def shows_colours(stream: TextIO) -> bool:
    """Whether escape codes are welcome: FORCE_COLOR and NO_COLOR first, then what is there."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def paint(text: str, colour: str) -> str:
    """Colour words for standard output, where that shows colours."""
    return typer.style(text, fg=colour) if shows_colours(sys.stdout) else text
