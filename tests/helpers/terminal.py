"""A command run on a terminal, as a person would see it."""

import os
import pty
import subprocess
import sys

DTGFN = [sys.executable, "-m", "dtgfn.cli"]

# A program's first lines: its bar appears soon, and it can wait until that is there.
SOON = """
import sys, threading
from rich.progress import Progress
from dtgfn._support import progress
progress.PATIENCE = 0.01
appeared, start = threading.Event(), Progress.start
Progress.start = lambda bars: (start(bars), appeared.set())
"""


def on_a_terminal(command, **environment):
    """Run a command whose output is a terminal, and return what that was sent."""
    ours, theirs = pty.openpty()
    inherited = {
        k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR", "TERM")
    }
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True,
        env={**inherited, "TERM": "xterm", "COLUMNS": "100", **environment},
    )  # fmt: skip
    os.close(theirs)
    told = b""
    try:
        while piece := os.read(ours, 4096):
            told += piece
    except OSError:  # the other side is closed
        pass
    os.close(ours)
    return process.wait(), told.decode()
