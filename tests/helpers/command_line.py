"""The command line for tests: run in this process, on tables of a folder."""

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple
from unittest import mock

import numpy as np
import pandas as pd

from dtgfn.cli import main


class Ending(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def dtgfn(*arguments, stdin=b""):
    """Run the command line in this process, as its console script would; a bug is raised."""
    out, err = io.StringIO(), io.StringIO()
    given = stdin.encode() if isinstance(stdin, str) else stdin
    streams = mock.patch.multiple(
        sys, argv=["dtgfn", *map(str, arguments)], stdin=io.TextIOWrapper(io.BytesIO(given))
    )
    environment = mock.patch.dict("os.environ", {"DTGFN_TRACEBACK": "1"})
    with streams, environment, redirect_stdout(out), redirect_stderr(err):
        try:
            main()
            code = 0
        except SystemExit as ending:
            code = ending.code or 0
    return Ending(code, out.getvalue(), err.getvalue())


def one_sentence(ending, code):
    """Return the one sentence that a refusal consists of."""
    assert ending.returncode == code, ending
    assert "Traceback" not in ending.stderr
    lines = ending.stderr.strip().splitlines()
    assert len(lines) == 1, ending.stderr
    assert lines[0].startswith("dtgfn: ")
    assert lines[0].endswith((".", "?")), lines[0]
    assert len(lines[0]) < 340
    return lines[0].removeprefix("dtgfn: ")


def write_tables(folder):
    """Write the tables that the examples in help and docs name."""
    rng, n = np.random.default_rng(0), 80
    frame = pd.DataFrame(
        {"age": rng.integers(18, 90, n), "colour": rng.choice(["red", "blue", "green"], n)}
    )
    chance = np.where((frame["age"] > 50) & (frame["colour"] != "red"), 0.9, 0.1)
    frame["y"] = np.where(rng.random(n) < chance, "yes", "no")
    frame.to_csv(folder / "data.csv", index=False)
    frame[::3].to_csv(folder / "held.csv", index=False)
    new = frame.drop(columns="y").assign(id=[f"r{place}" for place in range(n)])
    new[:20].to_csv(folder / "new.csv", index=False)
    prices = frame[["age", "colour"]].assign(price=frame["age"] * 2.5 + rng.normal(size=n))
    prices.to_csv(folder / "prices.csv", index=False)
    prices[::4].to_csv(folder / "held-prices.csv", index=False)
    normal = pd.DataFrame(rng.normal(size=(60, 3)), columns=["width", "height", "weight"])
    normal.to_csv(folder / "normal.csv", index=False)
    codes = frame.assign(zip=np.where(chance > 0.5, "01067", "80331"), id=range(n))
    codes.to_csv(folder / "codes.txt", index=False, sep=";")
    told = "column,meaning,unit,categories\nage,age at entry,years,\ny,answer,,yes=agreed\n"
    (folder / "dictionary.csv").write_text(told, encoding="utf-8")
    return frame
