"""The colours, markers and dashes of every figure, told apart by the colour-blind.

They are Okabe and Ito's.  Markers and dashes tell lines apart without colour.
"""

from __future__ import annotations

# Pages replace these two in dark mode; no other colour may equal them.
INK = "#1b1f24"
PAPER = "#fefefe"

FAINT = "#9aa0a6"
QUIET = "#5f656c"  # text that stands back, and still reads on paper
OURS = "#d55e00"
OTHERS = ("#0072b2", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#7f7f7f")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", (0, (5, 2)), (0, (2, 1.5)), (0, (6, 2, 1.5, 2)))

# Neighbours differ in lightness too, so that a black and white print keeps them apart.
CLASSES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#7f7f7f", "#f0e442")


def class_colour(index: int) -> str:
    """Colour of the class of an index; colours return after eight classes."""
    return CLASSES[index % len(CLASSES)]
