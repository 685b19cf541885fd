"""A torch generator of one's own: networks start from a seed, the caller's generator stays put."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def torch_seed(seed: int) -> Iterator[None]:
    """Within, torch draws from ``seed``; afterwards its generator is where it was."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield
