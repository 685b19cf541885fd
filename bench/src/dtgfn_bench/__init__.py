"""The paper's experiments and every method in them, behind ``dtgfn bench``."""

__version__ = "0.1.0"  # here and nowhere else
