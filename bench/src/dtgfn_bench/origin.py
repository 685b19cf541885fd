"""Where and by which code a result was made: machine and commit, without names of hosts."""

from __future__ import annotations

import os
import platform
import subprocess
from functools import cache
from pathlib import Path


def machine_class() -> str:
    """The kind of machine, without its name."""
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"


@cache
def commit() -> str:
    """Commit of the code that runs, "(changed)" after it if files differ; "" outside a clone."""
    folder = Path(__file__).parent
    found = _git(folder, "rev-parse", "--short", "HEAD")
    if not found:
        return ""
    # generated results do not change what is computed
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no", "--", ":/*.py")
    return f"{found} (changed)" if changed else found


def _git(folder: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):  # no git, or no repository
        return ""
    return done.stdout.strip()
