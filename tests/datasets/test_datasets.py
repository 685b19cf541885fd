"""The registry of tables: found, fetched, checked; no test leaves this machine."""

import dataclasses
import hashlib
import http.server
import os
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from thoroughness import examples

from dtgfn.data.tables import TableError
from dtgfn.datasets import fetch, load_dataset, lookup
from dtgfn.datasets.convert import convert
from dtgfn.datasets.fetch import cache_folder
from dtgfn.datasets.lookup import whereabouts
from dtgfn.datasets.registry import ENTRIES, Entry, Source
from dtgfn.datasets.values import csv_text, digest, read_csv

DATA = os.environ.get("DTGFN_DATA_DIR")
needs_data = pytest.mark.skipif(not DATA, reason="set DTGFN_DATA_DIR to the tables' folder")
FILES = [name for name, entry in ENTRIES.items() if entry.file]
SHIPPED = [name for name, entry in ENTRIES.items() if entry.shipped]

# rows, columns, rows per class
SIZES = {
    "iris": (150, 4, [50, 50, 50]),
    "iris-sklearn": (150, 4, [50, 50, 50]),
    "wine": (178, 13, [59, 71, 48]),
    "breast-cancer": (569, 30, [212, 357]),
    "breast-cancer-original": (699, 9, [458, 241]),
    "raisin": (900, 7, [450, 450]),
    "pima": (768, 8, [500, 268]),
    "thyroid": (3772, 6, [3679, 93]),
    "ecoli": (336, 7, [327, 9]),
    "vertebral": (240, 6, [210, 30]),
    "glass": (214, 9, [205, 9]),
}

TINY_X = np.array([[1.0, 0.25], [2.0, np.nan], [3.0, -0.5]])
TINY_Y = np.array([0, 1, 0])
RAW = b"id,size,weight,kind\n7,1,0.250,good\n8,2,?,bad\n9,3,-0.5,good\n"
CSV = "size,weight,target\n1,0.25,good\n2,,bad\n3,-0.5,good\n"


def tiny(*urls: str) -> Entry:
    sha256 = hashlib.sha256(RAW).hexdigest()
    sources = tuple(Source(url, {"good": 0, "bad": 1}, sha256) for url in urls)
    return Entry(
        name="tiny",
        title="Tiny",
        n_rows=3,
        features=("size", "weight"),
        class_names=("good", "bad"),
        digest=digest(TINY_X, TINY_Y),
        licence="none",
        citation="none",
        file="tiny.csv",
        labels=("good", "bad"),
        sources=sources,
    )


@pytest.fixture
def registered(monkeypatch, tmp_path):
    """Put a tiny table of three rows into the registry; its raw file is on this disk."""
    raw = tmp_path / "raw.data"
    raw.write_bytes(RAW)
    entry = tiny(raw.as_uri())
    monkeypatch.setitem(ENTRIES, "tiny", entry)
    monkeypatch.setenv("DTGFN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("DTGFN_DATA_DIR", raising=False)
    return raw


@pytest.fixture
def server(monkeypatch):
    """Serve the raw file; "/short" breaks off and "/absent" is not there."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            found = self.path != "/absent"
            content = RAW if found else b"nothing here"
            self.send_response(200 if found else 404)
            if self.path == "/short":
                self.send_header("Content-Length", str(len(RAW) + 100))
            else:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{listening.server_port}"
        listening.shutdown()
        thread.join()


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def check_tiny(data):
    np.testing.assert_array_equal(data.X, TINY_X)
    np.testing.assert_array_equal(data.y, TINY_Y)
    assert data.feature_names == ("size", "weight")
    assert data.class_names == ("good", "bad")


@pytest.mark.parametrize("name", SHIPPED)
def test_tables_of_scikit_learn_are_the_expected_ones(name):
    check_sizes(name)


@needs_data
@pytest.mark.parametrize("name", FILES)
def test_tables_in_files_are_the_expected_ones(name):
    check_sizes(name)


def check_sizes(name):
    data = load_dataset(name)
    assert (*data.X.shape, np.bincount(data.y).tolist()) == SIZES[name]
    assert data.X.dtype == np.float64
    assert data.n_classes == len(data.class_names)
    assert len(data.feature_names) == data.X.shape[1]
    assert data.name == name
    assert np.isnan(data.X).sum() == (16 if name == "breast-cancer-original" else 0)


def test_the_list_of_sizes_names_every_table():
    assert set(SIZES) == set(ENTRIES)


@needs_data
def test_the_copies_of_iris_differ_in_two_rows():
    differ = (load_dataset("iris").X != load_dataset("iris-sklearn").X).any(axis=1)
    assert np.flatnonzero(differ).tolist() == [34, 37]


def raw_form(name: str, source: Source) -> bytes:
    """The public file of a source, made from our file by undoing the conversion."""
    entry = ENTRIES[name]
    header, *lines = (Path(DATA) / entry.file).read_text().splitlines()
    rows = [line.split(",") for line in lines]
    if source.form == "mat":
        return mat_file(rows)
    if name == "iris":
        text = {"0": "Iris-setosa", "1": "Iris-versicolor", "2": "Iris-virginica"}
        made = [",".join([*row[:-1], text[row[-1]]]) for row in rows] + [""]
    elif name == "breast-cancer-original":
        text = {"benign": "2", "malignant": "4"}
        made = [
            ",".join(["1000025", *(cell or "?" for cell in row[:-1]), text[row[-1]]])
            for row in rows
        ]
    elif name == "raisin":
        made = ["," + header, *(f"{number},{line}" for number, line in enumerate(lines))]
    elif name == "ecoli":
        seen = iter(["omL"] * 5 + ["imL"] * 2 + ["imS"] * 2)
        kinds = [next(seen) if row[-1] == "1" else "cp" for row in rows]
        made = [
            "  ".join(["AAT_ECOLI", *(f"{float(cell):.2f}" for cell in row[:-1]), kind])
            for row, kind in zip(rows, kinds, strict=True)
        ]
    elif name == "glass":
        made = [
            ",".join([str(number), *row[:-1], "6" if row[-1] == "1" else "7"])
            for number, row in enumerate(rows, start=1)
        ]
    else:
        made = lines
    return "\r\n".join(made).encode()


def mat_file(rows: list[list[str]]) -> bytes:
    import io

    from scipy.io import savemat

    values = np.array(rows, dtype=float)
    stream = io.BytesIO()
    savemat(stream, {"X": values[:, :-1], "y": values[:, -1:]})
    return stream.getvalue()


@needs_data
@pytest.mark.parametrize(
    ("name", "place"), [(name, i) for name in FILES for i in range(len(ENTRIES[name].sources))]
)
def test_public_files_become_our_files_byte_for_byte(name, place):
    entry = ENTRIES[name]
    source = entry.sources[place]
    data = convert(entry, source, raw_form(name, source))
    assert hashlib.sha256(csv_text(entry, data).encode()).hexdigest() == entry.sha256


def test_fetching_converts_checks_and_keeps(registered, tmp_path):
    told = []
    assert whereabouts("tiny") is None
    check_tiny(load_dataset("tiny", tell=told.append))
    kept = tmp_path / "cache" / "tiny.csv"
    assert kept.read_text() == CSV
    assert left_in(kept.parent) == ["tiny.csv"]
    assert registered.as_uri() in told[0]
    assert str(kept) in told[1]
    assert whereabouts("tiny") == str(kept)
    registered.unlink()
    check_tiny(load_dataset("tiny"))  # without the source now


def test_progress_goes_to_standard_error(registered, capsys):
    load_dataset("tiny")
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("dtgfn: fetching tiny from file:")


def test_a_given_folder_comes_before_the_cache(registered, tmp_path, monkeypatch):
    load_dataset("tiny", tell=lambda line: None)
    monkeypatch.setenv("DTGFN_DATA_DIR", str(tmp_path / "given"))
    assert whereabouts("tiny") == str(tmp_path / "cache" / "tiny.csv")
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "tiny.csv").write_text(CSV)
    assert whereabouts("tiny") == str(tmp_path / "given" / "tiny.csv")
    check_tiny(load_dataset("tiny"))


DAMAGE = {
    "cut between lines": (
        CSV[: CSV.index("2,,")],
        "holds 1 x 2 numbers, but Tiny has 3 x 2.*delete the file",
    ),
    "cut in a line": (CSV[: CSV.index(",,bad")], "Line 3 of .* has 1 cell"),
    "cut in a label": (CSV[:-3], "has a label 'go' that Tiny has not; delete the file"),
    "another value": (CSV.replace("0.25", "0.26"), "the checksum differs; delete the file"),
    "another label": (CSV.replace("bad", "good"), "the checksum differs; delete the file"),
    "text": (CSV.replace("0.25", "much"), "Column 'weight' of .* holds no numbers; delete"),
    "empty": ("", "is empty"),
    "a page": ("<html>\n<b>sign in</b>\n", "no column 'target'"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_of_the_user_is_refused(damage, registered, tmp_path, monkeypatch):
    text, sentence = DAMAGE[damage]
    (tmp_path / "tiny.csv").write_text(text)
    monkeypatch.setenv("DTGFN_DATA_DIR", str(tmp_path))
    with pytest.raises(TableError, match=sentence) as refusal:
        load_dataset("tiny")
    assert "tiny.csv" in str(refusal.value) or "target" in str(refusal.value)


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_of_the_cache_is_fetched_anew(damage, registered, tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "tiny.csv").write_text(DAMAGE[damage][0])
    told = []
    check_tiny(load_dataset("tiny", tell=told.append))
    assert (tmp_path / "cache" / "tiny.csv").read_text() == CSV
    assert len(told) == 3


BAD_SOURCES = {
    "cut": (RAW[: RAW.index(b"8,2")], "holds 1 x 2 numbers, but Tiny has 3 x 2: it is cut short"),
    "cut in a line": (RAW[: RAW.index(b",?,bad")], "has a line that is not 3 cells"),
    "another value": (RAW.replace(b"0.250", b"0.251"), "the checksum differs"),
    "another label": (RAW.replace(b"bad", b"odd"), "has a label 'odd' that is not known"),
    "empty": (b"", "has a line that is not 3 cells"),
    "binary": (bytes(range(256)), "has a line that is not 3 cells"),
}


@pytest.mark.parametrize("wrong", BAD_SOURCES)
def test_a_wrong_file_of_a_source_is_not_converted(wrong):
    content, sentence = BAD_SOURCES[wrong]
    entry = tiny("here")
    with pytest.raises(TableError, match=sentence):
        convert(entry, entry.sources[0], content)


@pytest.mark.parametrize("wrong", [*BAD_SOURCES, "another end of lines"])
def test_a_wrong_download_is_refused_unparsed_and_nothing_is_kept(
    wrong, registered, tmp_path, monkeypatch
):
    content, _ = BAD_SOURCES.get(wrong, (RAW.replace(b"\n", b"\r\n"), ""))
    sentence = f"{len(content)} bytes came, whose checksum differs: another file"
    monkeypatch.setattr(fetch, "convert", lambda *_: pytest.fail("it was parsed"))
    registered.write_bytes(content)
    with pytest.raises(TableError) as refusal:
        load_dataset("tiny", tell=lambda line: None)
    told = str(refusal.value)
    assert sentence in told
    assert told.startswith("tiny.csv could not be fetched (file:")
    assert told.endswith("set DTGFN_DATA_DIR to the folder that holds it.")
    assert told.count(registered.as_uri()) == 1
    assert left_in(tmp_path / "cache") == []


def test_a_broken_matlab_file_is_refused():
    entry = ENTRIES["glass"]
    for content in (b"", b"MATLAB 5.0 MAT-file" + bytes(200), b"<html>"):
        with pytest.raises(TableError, match=r"glass\.mat is no MATLAB file with X and y"):
            convert(entry, entry.sources[0], content)


def test_the_next_source_is_tried(server, tmp_path):
    told = []
    entry = tiny(f"{server}/absent", f"{server}/short", f"{server}/whole")
    check_tiny(fetch.fetch(entry, tmp_path / "cache", told.append))
    assert len(told) == 4
    assert left_in(tmp_path / "cache") == ["tiny.csv"]


def test_every_source_that_failed_is_named(server, tmp_path):
    gone = (tmp_path / "gone.data").as_uri()
    entry = tiny(f"{server}/absent", f"{server}/short", gone)
    with pytest.raises(TableError) as refusal:
        fetch.fetch(entry, tmp_path / "cache", lambda line: None)
    told = str(refusal.value)
    assert f"{server}/absent: answered 404; " in told
    assert f"{server}/short: cut short, {len(RAW)} of {len(RAW) + 100} bytes came" in told
    assert f"{gone}: " in told
    assert "\n" not in told
    assert left_in(tmp_path / "cache") == []


def test_a_server_that_is_not_there_is_one_sentence(monkeypatch, tmp_path):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with pytest.raises(TableError, match=r"could not be fetched \(http.*refused\); get it by"):
        fetch.fetch(tiny("http://127.0.0.1:9/x"), tmp_path, lambda line: None)


def test_a_file_that_is_far_too_large_is_refused(registered, monkeypatch):
    monkeypatch.setattr(fetch, "_LARGEST", 10)
    with pytest.raises(TableError, match="more than 10 bytes came"):
        load_dataset("tiny", tell=lambda line: None)


def test_a_write_that_breaks_off_leaves_nothing(registered, tmp_path, monkeypatch):
    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(KeyboardInterrupt):
        load_dataset("tiny", tell=lambda line: None)
    assert left_in(tmp_path / "cache") == []


def test_a_cache_that_cannot_be_written_is_one_sentence(registered, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("DTGFN_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(TableError, match=r"tiny.csv cannot be kept .* set DTGFN_CACHE_DIR"):
        load_dataset("tiny", tell=lambda line: None)


def test_an_unknown_name_is_met_with_the_names_there_are():
    with pytest.raises(TableError, match=r"no dataset 'rasin'; did you mean 'raisin'\?.*glass"):
        load_dataset("rasin")


@pytest.mark.parametrize(
    ("platform", "variable", "tail"),
    [
        ("linux", "XDG_CACHE_HOME", ("dtgfn",)),
        ("win32", "LOCALAPPDATA", ("dtgfn", "Cache")),
        ("darwin", None, ("Library", "Caches", "dtgfn")),
    ],
)
def test_the_cache_is_where_the_platform_wants_it(platform, variable, tail, monkeypatch, tmp_path):
    monkeypatch.delenv("DTGFN_CACHE_DIR", raising=False)
    monkeypatch.setattr("sys.platform", platform)
    if variable is None:
        monkeypatch.setattr(Path, "home", lambda: tmp_path)
    else:
        monkeypatch.setenv(variable, str(tmp_path))
    assert cache_folder() == tmp_path.joinpath(*tail)


def test_no_source_is_without_encryption():
    for entry in ENTRIES.values():
        assert bool(entry.shipped) != bool(entry.sources)
        assert all(source.url.startswith("https://") for source in entry.sources)


numbers = st.floats(allow_infinity=False, width=64) | st.integers(-5, 5).map(float)


@examples(30)
@given(st.data())
def test_csv_form_and_back_changes_no_value(tmp_path_factory, data):
    X = data.draw(arrays(np.float64, (3, 2), elements=numbers))
    y = data.draw(arrays(np.int64, 3, elements=st.integers(0, 1)))
    entry = dataclasses.replace(tiny(), digest=digest(X, y))
    path = tmp_path_factory.mktemp("csv") / "tiny.csv"
    made = lookup.make_dataset(entry, X, y, "made")
    path.write_text(csv_text(entry, made))
    if np.isnan(X).all(axis=0).any():
        return  # a column without any number has no kind
    np.testing.assert_array_equal(read_csv(entry, path).X, X)


@given(arrays(np.float64, (3, 2), elements=numbers), st.integers(0, 5), st.data())
def test_the_digest_tells_tables_apart(X, place, data):
    y = np.array([0, 1, 0])
    other = X.copy()
    other.flat[place] = data.draw(numbers)
    same = np.array_equal(X, other, equal_nan=True)
    assert (digest(X, y) == digest(other, y)) == same
    assert digest(X, y) != digest(X, 1 - y)
    assert digest(X, y) != digest(X.reshape(2, 3), y)
