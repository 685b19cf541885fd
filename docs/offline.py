"""A site that works without a network: whatever asks another host for something is a warning."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)

# Links are followed by people; these are loaded by the browser itself.
LOADED = re.compile(
    r"<(?:script|link|img|iframe|source|video|audio|embed)\b[^>]*?\b(?:src|href)=\"((?:https?:)?//[^\"]+)"
)
STYLED = re.compile(r"(?:@import\s+|url\()[\"']?((?:https?:)?//[^\"')]+)")


def check_site(app: Sphinx, exception: Exception | None) -> None:
    """Look through every page and style sheet of a finished site."""
    if exception is not None or app.builder.name != "html":
        return
    for pattern, suffix in ((LOADED, "*.html"), (STYLED, "*.css")):
        for path in sorted(Path(app.outdir).rglob(suffix)):
            for host in pattern.findall(path.read_text(encoding="utf-8")):
                logger.warning("%s asks %s for something", path.relative_to(app.outdir), host)


def setup(app: Sphinx) -> dict[str, Any]:
    """Look once the site is there."""
    app.connect("build-finished", check_site)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
