"""Text that grows and shrinks with its axes, so that boxes drawn around it always fit."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.font_manager import FontProperties
from matplotlib.text import Text
from matplotlib.textpath import text_to_path

from dtgfn.plots.colours import INK


class ScaledText(Text):
    """A line of text whose height is in data units, where one unit is a point at scale 1."""

    def __init__(self, x: float, y: float, text: str, size: float, **options: Any) -> None:
        super().__init__(x, y, text, parse_math=False, **options)
        self._units = size

    def _fit(self) -> None:
        figure = self.get_figure(root=True)
        if figure is None or self.axes is None:
            return
        (left, _), (right, _) = self.axes.transData.transform([(0.0, 0.0), (1.0, 0.0)])
        size = max(self._units * (right - left) * 72 / figure.dpi, 0.1)
        if abs(size - self.get_fontsize()) > 1e-6 * size:  # else every draw would ask for another
            self.set_fontsize(size)

    def draw(self, renderer: Any) -> None:
        """Draw at the scale that the axes have now."""
        self._fit()
        super().draw(renderer)

    def get_window_extent(self, renderer: Any = None, dpi: float | None = None) -> Any:
        """Extent in pixels at the scale that the axes have now."""
        self._fit()
        return super().get_window_extent(renderer, dpi)


def write(ax: Axes, x: float, y: float, text: str, size: float = 9.0, **options: Any) -> ScaledText:
    """Add scaled text to axes."""
    options = {"color": INK, "ha": "center", "va": "center", "family": "DejaVu Sans"} | options
    made = ScaledText(x, y, text, size, **options)
    ax._add_text(made) if hasattr(ax, "_add_text") else ax.add_artist(made)
    return made


def text_width(text: str, size: float = 9.0, bold: bool = False) -> float:
    """Width of a line of text in points."""
    font = FontProperties(
        family="DejaVu Sans", size=size, weight="bold" if bold else "normal"
    )  # fmt: skip
    width, _, _ = text_to_path.get_text_width_height_descent(text, font, ismath=False)
    return float(width)
