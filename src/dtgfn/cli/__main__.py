"""``python -m dtgfn.cli`` is ``dtgfn``."""

from dtgfn.cli import main

main()
