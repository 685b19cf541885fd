"""How much memory there is, and what users say of it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from dtgfn._support.memory import allowed_memory, available_memory, read_memory_budget


@pytest.mark.parametrize(
    ("given", "n_bytes"),
    [("2GB", 2 * 10**9), (" 1.5 gib", 3 << 29), ("500 MB", 5 * 10**8), (7, 7), (None, None)],
)
def test_a_budget_is_bytes_or_a_size_with_its_unit(given, n_bytes):
    assert read_memory_budget(given) == n_bytes


@pytest.mark.parametrize("given", ["lots", "2 GX", "7", "", "-1GB", 0, -5, True, 1.5])
def test_what_is_no_size_is_refused_in_a_sentence(given):
    with pytest.raises(
        ValueError, match=r"memory_budget=.* is out of range; give a whole number of"
    ):
        read_memory_budget(given)


def test_a_limit_of_the_address_space_counts():
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30)); "
        "from dtgfn._support.memory import available_memory; print(available_memory())"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 0 < int(told.stdout) < 3 << 30


def test_without_a_budget_a_share_of_what_is_free_is_allowed():
    assert 0 < allowed_memory(None) < available_memory()
    assert allowed_memory(10) == 10
