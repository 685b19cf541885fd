"""The paper's experiments and every method in them, behind ``dtgfn bench``."""
