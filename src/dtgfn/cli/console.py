"""What goes to the terminal: words, notes, colours and JSON."""

from __future__ import annotations

import json
import math
import os
import sys
from typing import Any, TextIO

import typer


def say(text: str, end: str = "\n") -> None:
    """Print on standard output; a reader that went away, as ``head`` does, is no failure."""
    try:
        print(text, end=end, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None
    except OSError as error:  # a full disk, say
        why = error.strerror or str(error)
        raise ValueError(f"Standard output cannot be written: {why}; make room for it.") from None


def note(sentence: str) -> None:
    """Tell on standard error, in one line, what is no part of the result."""
    print(f"dtgfn: {' '.join(sentence.split())}", file=sys.stderr, flush=True)


def print_json(value: dict[str, Any]) -> None:
    """Print one JSON object; JSON has no NaN and no infinity, so they are null."""
    say(json.dumps(_plain(value), indent=2, ensure_ascii=False, allow_nan=False, default=float))


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
