"""Records survive crashes, are written once, and a broken file is refused with a sentence."""

import pytest
from dtgfn_bench.experiment import Cell, Record
from dtgfn_bench.store import Store, StoreError


def record(key, status="done", seed=1, **metrics):
    cell = Cell("xor", "binary", "forest", seed, {"n_trees": 5}, {"noise": 2})
    return Record(cell, key, {"experiment": 1, "method": 1}, status, metrics)


def test_what_is_added_is_read_again(tmp_path):
    store = Store(tmp_path / "deep" / "xor.jsonl")
    store.add(record("a", accuracy=0.5, size=None))
    again = Store(tmp_path / "deep" / "xor.jsonl")
    assert again.get("a") == record("a", accuracy=0.5, size=None)
    assert again.get("b") is None


def test_a_line_cut_short_by_a_crash_is_dropped_and_overwritten(tmp_path):
    path = tmp_path / "xor.jsonl"
    store = Store(path)
    store.add(record("a"))
    store.add(record("b", seed=2))
    whole = path.read_bytes()
    for cut in range(whole.index(b"\n") + 1, len(whole)):
        path.write_bytes(whole[:cut])
        torn = Store(path)
        assert len(torn) == 1
        torn.add(record("b", seed=2))
        assert path.read_bytes() == whole


def test_a_done_record_is_written_once_and_a_failed_one_again(tmp_path):
    path = tmp_path / "xor.jsonl"
    store = Store(path)
    store.add(record("a", status="failed"))
    store.add(record("a", accuracy=1.0))
    store.add(record("a", accuracy=0.0))
    assert len(path.read_text().splitlines()) == 2
    assert Store(path).get("a").metrics == {"accuracy": 1.0}


def test_the_newest_record_of_a_cell_counts_whatever_its_revision(tmp_path):
    store = Store(tmp_path / "xor.jsonl")
    store.add(record("old", accuracy=0.1))
    store.add(record("new", accuracy=0.2))
    store.add(record("other", seed=2))
    assert [r.key for r in store.newest()] == ["new", "other"]


def test_compacting_keeps_only_what_is_asked_for_and_leaves_no_other_file(tmp_path):
    path = tmp_path / "xor.jsonl"
    store = Store(path)
    for key in "abc":
        store.add(record(key))
    Store(path).add(record("d", seed=4))  # by another run, of which this store knows nothing
    store.compact(lambda known: [known.get("b"), known.get("d")])
    assert len(Store(path)) == 2
    assert [file.name for file in tmp_path.iterdir()] == ["xor.jsonl"]


def test_reading_does_not_touch_a_line_that_another_run_is_writing(tmp_path):
    path = tmp_path / "xor.jsonl"
    Store(path).add(record("a"))
    path.write_bytes(path.read_bytes() + b'{"half')
    before = path.read_bytes()
    assert len(Store(path)) == 1
    assert path.read_bytes() == before


def test_runs_may_share_a_file(tmp_path):
    path = tmp_path / "xor.jsonl"
    stores = [Store(path) for _ in range(3)]
    for seed in range(30):
        stores[seed % 3].add(record(f"key {seed}", seed=seed))
    assert len(Store(path)) == 30


@pytest.mark.parametrize("line", ["{", "[]", "{}", '{"experiment": "xor"}', "nonsense"])
def test_a_broken_line_is_named(tmp_path, line):
    path = tmp_path / "xor.jsonl"
    Store(path).add(record("a"))
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(StoreError, match=r"Line 2 of .*xor.jsonl.* is not a record"):
        Store(path)
