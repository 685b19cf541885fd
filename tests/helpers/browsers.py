"""A real Chromium for tests, or a reason to skip them."""

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

PATIENCE = 180_000  # milliseconds: a page that hangs fails, a busy machine does not


def running_chromium() -> Iterator[Any]:
    """Start a Chromium for a fixture, and end it."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    named = ("chromium", "chromium-browser", "google-chrome")
    path = os.environ.get("DTGFN_CHROMIUM") or next(filter(None, map(shutil.which, named)), None)
    if path is None:
        pytest.skip("there is no Chromium; install one or name it in DTGFN_CHROMIUM")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()
