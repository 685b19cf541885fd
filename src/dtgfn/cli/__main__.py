"""``python -m dtgfn.cli`` is ``dtgfn``."""

from dtgfn.cli.app import main

main()
