"""What goes to the terminal: JSON, and whether to show progress."""

from __future__ import annotations

import json
import sys
from typing import Any

import typer


def print_json(value: dict[str, Any]) -> None:
    """Print one JSON object on standard output."""
    typer.echo(json.dumps(value, indent=2, default=float))


def show_progress(as_json: bool) -> bool:
    """Whether there is somebody to look at a bar."""
    return not as_json and sys.stderr.isatty()
