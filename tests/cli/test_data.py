"""The commands of ``dtgfn data``."""

import dataclasses
import json

import pytest
from typer.testing import CliRunner

from dtgfn.cli.data import app
from dtgfn.cli.options import MisuseError
from dtgfn.data.tables import TableError
from dtgfn.datasets.registry import ENTRIES

RUN = CliRunner()


@pytest.fixture(autouse=True)
def offline(monkeypatch, tmp_path):
    """Leave no table but scikit-learn's, and no source that is not on this disk."""
    monkeypatch.delenv("DTGFN_DATA_DIR", raising=False)
    monkeypatch.setenv("DTGFN_CACHE_DIR", str(tmp_path))
    for name, entry in ENTRIES.items():
        sources = tuple(
            dataclasses.replace(source, url=(tmp_path / f"{name}.absent").as_uri())
            for source in entry.sources
        )
        monkeypatch.setitem(ENTRIES, name, dataclasses.replace(entry, sources=sources))


def test_every_table_is_listed_with_where_it_is():
    done = RUN.invoke(app, ["list"])
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["name", "rows", "columns", "classes", "found", "licence"]
    assert len(lines) == 1 + len(ENTRIES)
    row = {line.split()[0]: line for line in lines}
    assert "569   30       2        scikit-learn" in row["breast-cancer"]
    assert "to be fetched" in row["raisin"]
    assert "CC BY 4.0" in row["raisin"]


def test_the_list_as_json_is_one_object():
    tables = json.loads(RUN.invoke(app, ["list", "--json"]).stdout)["tables"]
    assert [table["name"] for table in tables] == list(ENTRIES)
    assert {table["found"] for table in tables} == {None, "scikit-learn"}


def test_fetching_says_where_a_table_is():
    done = RUN.invoke(app, ["fetch", "wine"])
    assert done.exit_code == 0
    assert done.stdout == "wine: scikit-learn\n"


def test_fetching_goes_on_after_a_failure_and_tells_of_it_in_the_end():
    done = RUN.invoke(app, ["fetch", "raisin", "wine"])
    assert "wine: scikit-learn\n" in done.stdout
    assert isinstance(done.exception, TableError)
    assert "raisin.csv could not be fetched" in str(done.exception)


@pytest.mark.parametrize("arguments", [[], ["wine", "--all"]])
def test_fetching_needs_names_or_all(arguments):
    done = RUN.invoke(app, ["fetch", *arguments])
    assert isinstance(done.exception, MisuseError)
    assert str(done.exception) == "Name the tables to fetch, or give --all."


def test_an_unknown_name_is_refused_before_anything_is_fetched():
    done = RUN.invoke(app, ["fetch", "wine", "rasin"])
    assert isinstance(done.exception, TableError)
    assert done.stdout == ""
