"""Report: everything about a fitted model in one HTML file, or as a plain dict."""

from __future__ import annotations

import html
import json
import tempfile
import webbrowser
from pathlib import Path
from typing import Any

from dtgfn._support.atomic_write import write_whole
from dtgfn.report.gather import gather


class Report:
    """What was fitted, how far to trust it, its trees, and rows to try; see ``gather``.

    Parameters
    ----------
    model : DTGFNClassifier, DTGFNRegressor or DTGFNAnomalyDetector
        Fitted or loaded.
    X, y : table, array or None
        Held-out rows and, if known, their targets.
    title : str or None
        Headline of the report.
    n_trees : int
        Most probable trees to draw.

    Examples
    --------
    >>> from dtgfn import DTGFNClassifier
    >>> model = DTGFNClassifier(inference="exact", max_depth=1).fit([[1.0], [2.0]] * 9, [0, 1] * 9)
    >>> Report(model).to_dict()["trust"]["sentence"]
    'This is the exact answer: a sum over all trees, nothing is approximated.'

    """

    def __init__(
        self,
        model: Any,
        X: Any = None,
        y: Any = None,
        *,
        title: str | None = None,
        n_trees: int = 12,
    ) -> None:
        self._report = gather(model, X, y, title=title, n_trees=n_trees)

    def __repr__(self) -> str:
        return f"Report({self._report['title']!r}); .save(path) writes it, .open() shows it"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as a dict of plain JSON values."""
        return self._report

    def to_json(self, indent: int | None = None) -> str:
        """Write the dict as JSON."""
        return json.dumps(self._report, indent=indent, ensure_ascii=False, allow_nan=False)

    def to_html(self) -> str:
        """Write one HTML page that needs nothing else."""
        from dtgfn.report.page import render_page

        return render_page(self._report)

    def save(self, path: str | Path) -> None:
        """Write the HTML page to a file, whole or not at all."""
        write_whole(Path(path), self.to_html().encode())

    def open(self) -> None:
        """Show the page in a browser, from a temporary file."""
        folder = Path(tempfile.mkdtemp(prefix="dtgfn-report-"))
        self.save(folder / "report.html")
        webbrowser.open((folder / "report.html").as_uri())

    def _repr_html_(self) -> str:
        """Show the page in a notebook, in a frame of its own so that styles do not mix."""
        page = html.escape(self.to_html(), quote=True)
        style = "width:100%;height:80vh;border:1px solid #8888;border-radius:6px"
        return f'<iframe title="dtgfn report" srcdoc="{page}" style="{style}"></iframe>'
