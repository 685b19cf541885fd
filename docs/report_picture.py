"""Photograph the report of the demo for the README: ``python docs/report_picture.py``.

Needs the extra ``browser`` and a Chromium, on the path or named in ``DTGFN_CHROMIUM``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Locator, Page, sync_playwright

IMAGES = Path(__file__).parent / "images"
WIDTH = 1180
PHONE = 390  # of a picture of its own, which is as large there as here


def choose_doubtful_row(page: Page) -> None:
    """Pick the row of the list that the model is least sure of."""
    rows = page.evaluate(
        "JSON.parse(document.querySelector('script[type$=json]').textContent).rows"
    )
    doubt = [row["uncertainty"]["total"] for row in rows]
    page.locator("#explorer select").first.select_option(index=doubt.index(max(doubt)))


def photograph(report: Path) -> None:
    """Show the trees and the answer to a row, up to its path; to a phone the trees alone."""
    chromium = os.environ.get("DTGFN_CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": 900})
        page.goto(report.as_uri())
        choose_doubtful_row(page)
        take(page, "report", WIDTH, page.get_by_text("Its path through"))
        phone = browser.new_page(
            viewport={"width": PHONE, "height": 800}, device_scale_factor=2, is_mobile=True
        )
        phone.goto(report.as_uri())
        choose_doubtful_row(phone)
        take(phone, "report-phone", PHONE, phone.get_by_text("This tree as text"))
        browser.close()


def take(page: Page, name: str, width: int, end: Locator) -> None:
    """Photograph the page from the trees to what ends the picture."""
    top, low = page.locator("#trees").bounding_box(), end.bounding_box()
    assert top is not None
    assert low is not None
    clip = {"x": 0, "y": top["y"] - 20, "width": width, "height": low["y"] - top["y"] + 10}
    page.screenshot(path=IMAGES / f"{name}.png", clip=clip, full_page=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        command = [sys.executable, "-m", "dtgfn.cli", "demo", "--quiet", "--report", str(page)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        photograph(page)
