"""The command line: one file per command, and what they share.

Exit codes: 0 done, 1 refused or failed, 2 misuse, 130 interrupted, 143
terminated (nothing is half-written).
"""

import os
import sys


def main() -> None:
    """Run the command line; an interrupt while it is being read ends it as quietly as later."""
    # Arrow's own pool reserves a GB of addresses, which ``ulimit -v`` counts.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    try:
        from dtgfn.cli.app import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    run()
