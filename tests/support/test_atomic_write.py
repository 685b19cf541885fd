"""Files that appear whole or not at all, and what killed writers leave behind."""

import os
import signal
import subprocess
import sys
import time

import pytest

from dtgfn._support import atomic_write as whole_files
from dtgfn._support.atomic_write import replacing, write_atomically

DIES = """
import os, sys
from pathlib import Path
from dtgfn._support.atomic_write import replacing
with replacing(Path(sys.argv[1])) as stream:
    stream.write(b"half")
    stream.flush()
    os.kill(os.getpid(), 9)
"""


def killed_in(folder):
    done = subprocess.run([sys.executable, "-c", DIES, folder / "a"])
    assert done.returncode == -signal.SIGKILL
    (left,) = (path for path in folder.iterdir() if path.name.startswith(".dtgfn-"))
    return left


def test_what_a_killed_writer_left_is_removed_by_the_next(tmp_path):
    left = killed_in(tmp_path)
    others = [tmp_path / name for name in (".dtgfn-notes.tmp", ".dtgfn-0123456789abcdef", "x.tmp")]
    for path in others:
        path.write_text("mine")
    write_atomically(tmp_path / "b", b"whole")
    assert not left.exists()
    assert {path.name for path in tmp_path.iterdir()} == {"b", *(path.name for path in others)}


def test_a_living_writer_keeps_its_file(tmp_path):
    with replacing(tmp_path / "a") as stream:
        stream.write(b"slow")
        write_atomically(tmp_path / "b", b"quick")
        write_atomically(tmp_path / "a", b"early")
    assert (tmp_path / "a").read_bytes() == b"slow"
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b"}


def test_many_writers_do_not_take_each_other_for_dead(tmp_path):
    code = (
        "import sys\nfrom pathlib import Path\n"
        "from dtgfn._support.atomic_write import write_atomically\n"
        "for k in range(200):\n    write_atomically(Path(sys.argv[1]), b'x' * 1000)\n"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", code, tmp_path / f"file{k % 2}"]) for k in range(4)
    ]
    assert [process.wait() for process in running] == [0] * 4
    assert {path.name for path in tmp_path.iterdir()} == {"file0", "file1"}


def test_where_there_are_no_locks_only_old_files_are_left_over(tmp_path, monkeypatch):
    left = killed_in(tmp_path)
    monkeypatch.setattr(whole_files, "_lock", lambda descriptor: None)
    write_atomically(tmp_path / "b", b"whole")
    assert left.exists()
    long_ago = time.time() - 2 * whole_files.LONG_AGO
    os.utime(left, (long_ago, long_ago))
    write_atomically(tmp_path / "b", b"whole")
    assert not left.exists()


def test_what_only_looks_left_over_stops_no_writer(tmp_path):
    name = ".dtgfn-0123456789abcdef.tmp"
    (tmp_path / name).mkdir()
    write_atomically(tmp_path / "b", b"whole")
    (tmp_path / name).rmdir()
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / name)
        write_atomically(tmp_path / "b", b"whole")
        (tmp_path / name).unlink()
    (tmp_path / "precious").write_text("kept")
    (tmp_path / name).symlink_to(tmp_path / "precious")
    write_atomically(tmp_path / "b", b"whole")
    assert (tmp_path / "precious").read_text() == "kept"


def test_a_failing_writer_leaves_nothing(tmp_path):
    def fail():
        with replacing(tmp_path / "a") as stream:
            stream.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert list(tmp_path.iterdir()) == []
