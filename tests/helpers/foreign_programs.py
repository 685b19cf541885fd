"""Exported code run where it belongs: SQLite, DuckDB, a C compiler's output, Chromium."""

from __future__ import annotations

import ctypes
import json
import shutil
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dtgfn.data.binning import Binner

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def cells(X: pd.DataFrame) -> list[list[Any]]:
    """Rows of plain Python cells; missing is None."""
    columns = [
        [None if pd.isna(v) else v.item() if isinstance(v, np.generic) else v for v in X[name]]
        for name in X.columns
    ]
    return [list(row) for row in zip(*columns, strict=True)]


def _sql_type(values: list[Any]) -> str:
    kinds = {type(v) for v in values if v is not None}
    return "VARCHAR" if str in kinds else "BOOLEAN" if kinds == {bool} else "DOUBLE"


def _create(X: pd.DataFrame, rows: list[list[Any]], table: str) -> tuple[str, str]:
    """Statements that make the table, with a key, and fill it."""

    def quote(name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    types = [_sql_type([row[j] for row in rows]) for j in range(len(X.columns))]
    pairs = [f"{quote(n)} {t}" for n, t in zip(X.columns, types, strict=True)]
    places = ", ".join("?" * (len(pairs) + 1))
    make = f'CREATE TABLE {quote(table)} ("row key" INTEGER, {", ".join(pairs)})'
    return make, f"INSERT INTO {quote(table)} VALUES ({places})"


def _run_sql(connection: Any, statement: str, X: pd.DataFrame, table: str) -> np.ndarray:
    rows = cells(X)
    make, fill = _create(X, rows, table)
    connection.execute(make)
    connection.executemany(fill, [[k, *row] for k, row in enumerate(rows)])
    found = sorted(connection.execute(statement).fetchall())
    assert [row[0] for row in found] == list(range(len(rows)))
    return np.array([row[1:] for row in found], dtype=float)


def run_sqlite(statement: str, X: pd.DataFrame, table: str = "data") -> np.ndarray:
    """What a statement with the key "row key" selects in SQLite [n, K]."""
    connection = sqlite3.connect(":memory:")
    try:
        return _run_sql(connection, statement, X, table)
    finally:
        connection.close()


def run_duckdb(statement: str, X: pd.DataFrame, table: str = "data") -> np.ndarray:
    """What it selects in DuckDB [n, K]."""
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    with duckdb.connect(":memory:", config={"threads": 1}) as connection:
        return _run_sql(connection, statement, X, table)


def compile_c(source: str, folder: Path) -> ctypes.CDLL:
    """Compile a file as strictly as can be, and load it."""
    if COMPILER is None:
        pytest.skip("there is no C compiler")
    number = len(list(folder.iterdir()))
    code, library = folder / f"trees{number}.c", folder / f"trees{number}.so"
    code.write_text(source, encoding="ascii")  # nothing else is in it
    strict = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O0")
    command = [COMPILER, *strict, "-shared", "-fPIC", str(code), "-o", str(library), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(library))


def run_c(source: str, X: pd.DataFrame, binner: Binner, n_classes: int, folder: Path) -> np.ndarray:
    """What a file of C says of rows [n, K]; ``n_classes`` is 0 for numbers."""
    library = compile_c(source, folder)
    coded = library.dtgfn_category
    coded.restype, coded.argtypes = ctypes.c_double, [ctypes.c_int, ctypes.c_char_p]
    found = []
    for row in cells(X):
        x = (ctypes.c_double * len(row))()
        for j, (cell, spec) in enumerate(zip(row, binner.columns, strict=True)):
            if spec.kind == "category":
                x[j] = coded(j, None if cell is None else cell.encode())
            else:
                x[j] = np.nan if cell is None else float(cell)
        if n_classes:
            p = (ctypes.c_double * n_classes)()
            library.dtgfn_predict_proba(x, p)
            assert library.dtgfn_predict(x) == int(np.argmax(p))
            found.append(list(p))
        else:
            library.dtgfn_predict.restype = ctypes.c_double
            found.append([library.dtgfn_predict(x)])
    return np.array(found)


IMPORT = """async ([code, spelled]) => {
  const rows = JSON.parse(spelled);  // which makes a cell of "__proto__", too
  const url = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
  const trees = await import(url);
  const ask = trees.predictProba ?? ((row) => [trees.predict(row)]);
  return { said: rows.map(ask), labels: rows.map(trees.predict), classes: trees.classes ?? null,
           hacked: window.hacked ?? null };
}"""


def run_javascript(page: Any, module: str, X: pd.DataFrame, by_name: bool = True) -> dict[str, Any]:
    """What a module says of rows in a page: "said" [n, K], "labels" [n], "classes"."""
    rows: list[Any] = cells(X)
    if by_name:
        rows = [dict(zip(X.columns, row, strict=True)) for row in rows]
    found = page.evaluate(IMPORT, [module, json.dumps(rows)])
    assert found["hacked"] is None
    return {**found, "said": np.array(found["said"], dtype=float)}
