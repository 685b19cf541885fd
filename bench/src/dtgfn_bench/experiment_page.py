"""An experiment's result page, made from the records of its cells."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from dtgfn_bench.experiment import Block, Experiment, Record
from dtgfn_bench.keys import cell_identity, current_key, current_revisions
from dtgfn_bench.method_lookup import METHODS
from dtgfn_bench.pages import Header, write_page
from dtgfn_bench.store import Store


def write_experiment_page(experiment: Experiment, store: Store, folder: Path, quick: bool) -> Path:
    """Write an experiment's page from the records of its cells."""
    records = wanted_records(experiment, quick, store)
    header = Header(
        title=experiment.title,
        command=f"dtgfn bench run {experiment.name}{' --quick' if quick else ''}",
        machine="; ".join(sorted({r.machine for r in records if r.machine})),
        date=_dates(records),
        commit=", ".join(dict.fromkeys(r.commit for r in records if r.commit)),
        versions=_libraries(records),
        state=_state(experiment, records, quick),
    )
    notes = folder / "notes" / f"{experiment.name}.md"
    text = notes.read_text(encoding="utf-8") if notes.exists() else ""
    blocks = [*experiment.render(records)]
    if experiment.runs_methods:
        blocks += _method_notes(records)
    write_page(folder, experiment.name, header, blocks, text)
    return folder / f"{experiment.name}.md"


def wanted_records(experiment: Experiment, quick: bool, store: Store) -> list[Record]:
    """Of every cell the record of the present revisions and libraries, or else the newest."""
    newest = {cell_identity(record.cell): record for record in store.newest()}
    found = []
    for cell in experiment.cells(quick):
        current = store.get(current_key(experiment, cell))
        record = current or newest.get(cell_identity(cell))
        if record is not None:
            found.append(record)
    return found


def _state(experiment: Experiment, records: Sequence[Record], quick: bool) -> str:
    """How many cells there are, and what became of them."""
    n_cells = len(experiment.cells(quick))
    count = Counter(record.status for record in records)
    parts = [f"{count['done']} of {n_cells} cells"]
    if count["missing"]:
        parts.append(f"{count['missing']} lack a library")
    if count["failed"]:
        parts.append(f"{count['failed']} failed")
    stale = [r for r in records if r.key != current_key(experiment, r.cell)]
    earlier = [r for r in stale if r.revisions != current_revisions(experiment, r.cell)]
    other = [r for r in stale if r.revisions == current_revisions(experiment, r.cell)]
    for group, what in ((earlier, "an earlier revision"), (other, "another version of a library")):
        if group:
            names = ", ".join(sorted({r.cell.method for r in group}))
            parts.append(f"{len(group)} were measured with {what} ({names})")
    unnamed = [r for r in records if r.status == "done" and not r.commit]
    if unnamed:
        parts.append(f"{len(unnamed)} name no commit, so which code measured them is not known")
    loads = [load for r in records if (load := r.metrics.get("load")) is not None]
    if loads:
        parts.append(f"while the machine's load was {min(loads):.0f} to {max(loads):.0f}")
    return "; ".join(parts)


def _libraries(records: Sequence[Record]) -> dict[str, str]:
    """Versions that the records name, all of them where they differ."""
    found: dict[str, set[str]] = {}
    for record in records:
        for library in filter(None, record.libraries.split(", ")):
            name, _, version = library.partition(" ")
            found.setdefault(name, set()).add(version)
    return {name: " and ".join(sorted(versions)) for name, versions in found.items()}


def _dates(records: Sequence[Record]) -> str:
    days = sorted({record.date for record in records if record.date})
    return " to ".join(dict.fromkeys((days[0], days[-1]))) if days else ""


def _method_notes(records: Sequence[Record]) -> list[Block]:
    """What was run under each name, and where it departs from its authors."""
    rows = [["method", "what was run"]]
    first = {record.cell.method: record.cell for record in reversed(records)}
    for name in dict.fromkeys(record.cell.method for record in records):
        method = METHODS.get(name)
        if method is None:
            continue
        usual, run = dict(method.settings), json.loads(json.dumps(dict(first[name].settings)))
        usual = json.loads(json.dumps(usual))
        changed = {key: value for key, value in run.items() if usual.get(key) != value}
        note = f"{method.note} Here with {json.dumps(changed)}." if changed else method.note
        rows.append([f"★ {method.label}" if method.ours else method.label, note])
    return [Block("Methods", rows)] if len(rows) > 1 else []
