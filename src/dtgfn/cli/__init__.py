"""The command line: one file per command, and what they share.

Exit codes: 0 done, 1 refused or failed, 2 misuse, 130 interrupted (nothing is half-written).
"""

from dtgfn.cli.app import app, main

__all__ = ["app", "main"]
