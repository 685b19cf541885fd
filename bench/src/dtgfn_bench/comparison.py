"""Tables and figures that most experiments share: methods against each other and the paper."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from dtgfn_bench.experiment import Block, Figure, Record
from dtgfn_bench.markup import OUR_MARK, plain
from dtgfn_bench.paper import TABLES, Printed
from dtgfn_bench.plots import critical_difference
from dtgfn_bench.statistics import Ranks, compare, rank_methods, summary

# Names in the order to show them, or names and what to call them.
Names = Sequence[str] | Mapping[str, str]
Scores = dict[tuple[str, str], dict[int, float]]  # (method, table) -> seed -> score
LONGEST_REASON = 200
DEPENDENCE = (
    "Splits of one table share rows, so they are less independent than the tests take them to be."
)


def comparison_block(
    records: Sequence[Record],
    metric: str,
    tables: Names,
    methods: Names,
    paper: Mapping[tuple[str, str], Printed],
    *,
    size: bool = True,
    higher_is_better: bool = True,
    ours: Collection[str] = (),
    heading: str = "",
    digits: int = 3,
) -> Block:
    """Show a row for each method and a column for each table, the paper's figures beside ours.

    A method without records shows what the paper prints of it, one with fewer seeds than others of
    its column how many.  The best mean of a column is bold, among those that have the most seeds.
    """
    scores = _scores(records, metric)
    sizes = _scores(records, "size") if size else {}
    notes = _Footnotes(_labels(methods), _labels(tables))
    best = {
        table: _best(scores, table, list(methods), higher_is_better, digits) for table in tables
    }
    most = {table: max(_n_seeds(scores, method, table) for method in methods) for table in tables}
    rows = [["Method", *_labels(tables).values()]]
    for method, label in _labels(methods).items():
        row = [f"{OUR_MARK} **{plain(label)}**" if method in ours else plain(label)]
        for table in tables:
            lines = _score_lines(
                scores.get((method, table), {}),
                paper.get((method, table)),
                method in best[table],
                digits,
            )
            if 0 < _n_seeds(scores, method, table) < most[table]:
                lines.append(f"{_n_seeds(scores, method, table)} of {most[table]} seeds")
            if size:
                lines += _size_lines(sizes.get((method, table), {}), paper.get((method, table)))
            here = [r for r in records if (r.cell.method, r.cell.table) == (method, table)]
            row.append("\n".join(notes.add(lines, here)))
        rows.append(row)
    return Block(heading=heading, rows=rows, text=notes.text())


def paired_block(
    records: Sequence[Record],
    metric: str,
    ours: str,
    rivals: Names,
    *,
    tables: Names | None = None,
    higher_is_better: bool = True,
    label: str = "",
    metric_label: str = "",
    heading: str = "",
    digits: int = 3,
) -> Block:
    """Compare our method, on each table, with the rival that has the best mean there.

    ``label`` and ``metric_label`` are what to call our method and the metric.
    """
    scores = _scores(records, metric)
    if tables is None:
        tables = list(dict.fromkeys(record.cell.table for record in records))
    sign = 1 if higher_is_better else -1
    rows = [["Table", "Best rival", "Difference", "95 % interval", "p", "Win / tie / loss"]]
    all_ours: list[float] = []
    all_theirs: list[float] = []
    for table, table_label in _labels(tables).items():
        mine = scores.get((ours, table), {})
        rival = _best_rival(scores, table, list(rivals), mine, sign)
        if rival is None:
            rows.append([plain(table_label), "nothing to compare", "", "", "", ""])
            continue
        theirs = scores[rival, table]
        seeds = sorted(mine.keys() & theirs.keys())
        a, b = [mine[seed] for seed in seeds], [theirs[seed] for seed in seeds]
        all_ours += a
        all_theirs += b
        rows.append(
            [plain(table_label), plain(_labels(rivals)[rival]), *_paired_cells(a, b, sign, digits)]
        )
    if len(rows) > 2 and all_ours:
        cells = _paired_cells(all_ours, all_theirs, sign, digits)
        rows.append(["All", "the best on each", *cells])
    n_pairs = max((len(scores.get((ours, table), {})) for table in tables), default=0)
    return Block(
        heading=heading,
        rows=rows,
        text=_paired_text(label or ours, metric_label or metric, n_pairs),
    )


def rank_block(
    records: Sequence[Record],
    metric: str,
    tables: Names,
    *,
    methods: Names | None = None,
    ours: Collection[str] = (),
    higher_is_better: bool = True,
    heading: str = "",
    name: str = "ranks",
) -> Block:
    """Show mean ranks over (table, seed), and say what the figure rests on."""
    ranks, absent = _ranks(records, metric, tables, methods, higher_is_better)
    if ranks is None:
        return Block(heading=heading, text="Too few methods have finished to be ranked.")
    sentences = [
        f"Mean ranks over {ranks.n_blocks} blocks, one for each table and seed; a bar joins "
        "methods that Nemenyi's test does not tell apart at the 5 % level "
        f"(Friedman's test over all: p {_p_equals(ranks.p_value)}).",
        DEPENDENCE,
    ]
    if absent:
        sentences.append(f"Left out, for want of some blocks: {plain(', '.join(absent))}.")
    return Block(
        heading=heading,
        text=" ".join(sentences),
        figure=_rank_figure(ranks, metric, ours, methods, name),
    )


def seconds_block(
    records: Sequence[Record], tables: Names, methods: Names, ours: Collection[str]
) -> Block:
    """Show how long fits took; methods differ in what they were cut to, so it is no ranking."""
    return comparison_block(
        records,
        "fit_cpu_seconds",
        tables,
        methods,
        {},
        size=False,
        higher_is_better=False,
        ours=ours,
        heading="CPU seconds per fit, compiling included where a process had to",
        digits=1,
    )


def also_beside(
    paper: Mapping[tuple[str, str], Printed], variants: Mapping[str, str]
) -> dict[tuple[str, str], Printed]:
    """The paper's figures, each also beside a variant of its method."""
    found = dict(paper)
    for variant, method in variants.items():
        found |= {(variant, table): p for (name, table), p in paper.items() if name == method}
    return found


class _Footnotes:
    """Numbers the reasons why cells lack something, each reason once."""

    def __init__(self, methods: Mapping[str, str], tables: Mapping[str, str]) -> None:
        self.methods = methods
        self.tables = tables
        self.reasons: list[str] = []

    def add(self, lines: list[str], records: Sequence[Record]) -> list[str]:
        """Return a cell's lines with what is to be said of records that are not done."""
        lines = list(lines)
        unfinished = []
        kinds = [(each.status, each.reason) for each in records if each.status != "done"]
        for status, reason in dict.fromkeys(kinds):
            those = [each for each in records if (each.status, each.reason) == (status, reason)]
            some = f": {len(those)} of {len(records)} seeds" if len(those) < len(records) else ""
            called = "not installed" if status == "missing" else "failed"
            unfinished.append(f"{called}{some} ({self._number(those)})")
        if not records and not lines:
            return ["–"]
        done = any(record.status == "done" for record in records)
        return lines + unfinished if done else unfinished + lines

    def _number(self, records: Sequence[Record]) -> int:
        """Number the reason that these records of one cell of the table share."""
        cell = records[0].cell
        where = self.methods[cell.method]
        if records[0].status != "missing":  # a library is missing on every table
            seeds = ", ".join(str(each.cell.seed) for each in records)
            where += f" on {self.tables[cell.table]}, seed{'s' * (len(records) > 1)} {seeds}"
        reason = f"{where}: {_short(records[0].reason)}"
        if reason not in self.reasons:
            self.reasons.append(reason)
        return self.reasons.index(reason) + 1

    def text(self) -> str:
        return "\n".join(
            f"{number}. {plain(reason)}" for number, reason in enumerate(self.reasons, 1)
        )


def _scores(records: Sequence[Record], metric: str) -> Scores:
    """Sort what is done by method and table; refuse two records of one seed."""
    scores: Scores = {}
    for record in records:
        if record.status != "done":
            continue
        cell = record.cell
        by_seed = scores.setdefault((cell.method, cell.table), {})
        if cell.seed in by_seed:
            raise ValueError(
                f"Two records of {cell.method} on {cell.table} with seed {cell.seed}; choose one "
                "variant first."
            )
        value = record.metrics.get(metric)
        by_seed[cell.seed] = math.nan if value is None else float(value)
    return scores


def _labels(names: Names) -> dict[str, str]:
    if isinstance(names, Mapping):
        return dict(names)
    return {name: TABLES.get(name, name) for name in names}


def _best(
    scores: Scores, table: str, methods: Sequence[str], higher_is_better: bool, digits: int
) -> set[str]:
    """Methods whose mean, as shown, no other exceeds."""
    found = {method: summary(list(scores.get((method, table), {}).values())) for method in methods}
    most = max((one.n for one in found.values()), default=0)
    means = {method: round(one.mean, digits) for method, one in found.items() if one.n == most > 0}
    if len(means) < 2:
        return set()
    top = max(means.values()) if higher_is_better else min(means.values())
    return {method for method, mean in means.items() if mean == top}


def _n_seeds(scores: Scores, method: str, table: str) -> int:
    return summary(list(scores.get((method, table), {}).values())).n


def _score_lines(
    by_seed: Mapping[int, float], printed: Printed | None, best: bool, digits: int
) -> list[str]:
    found = summary(list(by_seed.values()))
    lines = []
    if found.n:
        mean = f"{found.mean:.{digits}f}"
        spread = f" ± {found.spread:.{digits}f}" if found.n > 1 else ""
        lines.append((f"**{mean}**" if best else mean) + spread)
    elif by_seed:
        lines.append("undefined")
    if printed is not None:
        lines.append(f"paper {printed.score}")
    return lines


def _size_lines(by_seed: Mapping[int, float], printed: Printed | None) -> list[str]:
    found = summary(list(by_seed.values()))
    theirs = printed.size if printed is not None else None
    parts = []
    if found.n:
        parts.append(f"{found.mean:.1f} nodes")
    if theirs is not None:
        parts.append(f"paper {theirs.value:g}" if found.n else f"paper {theirs.value:g} nodes")
    return [", ".join(parts)] if parts else []


def _best_rival(
    scores: Scores, table: str, rivals: Sequence[str], mine: Mapping[int, float], sign: int
) -> str | None:
    """Return the rival with the best mean over our seeds, among those that share the most."""
    found = {}
    for rival in rivals:
        theirs = scores.get((rival, table), {})
        shared = summary([theirs[seed] for seed in mine.keys() & theirs.keys()])
        if shared.n:
            found[rival] = (shared.n, sign * shared.mean)
    return max(found, key=lambda rival: found[rival]) if found else None


def _paired_cells(a: Sequence[float], b: Sequence[float], sign: int, digits: int) -> list[str]:
    paired = compare(a, b)
    if paired.n == 0:
        return ["undefined", "", "", ""]
    sides = [round(sign * (x - y), 12) for x, y in zip(a, b, strict=True) if not math.isnan(x - y)]
    win, tie = sum(side > 0 for side in sides), sum(side == 0 for side in sides)
    interval = "one pair only"
    if paired.n > 1:
        interval = f"{paired.low:+.{digits}f} to {paired.high:+.{digits}f}"
    return [
        f"{paired.difference:+.{digits}f}",
        interval,
        _p_value(paired.p_value),
        f"{win} / {tie} / {len(sides) - win - tie}",
    ]


def _paired_text(label: str, metric: str, n_pairs: int) -> str:
    smallest = min(1.0, 2 * 0.5**n_pairs)
    return (
        f"Difference is the mean {plain(metric)} of {plain(label)} less that of the rival, by "
        "pairs of the same seed; the interval is a paired bootstrap's, p that of Wilcoxon's exact "
        f"signed-rank test. On one table, with {n_pairs} pairs, p cannot fall below "
        f"{smallest:.3g}. The rival was chosen by these same scores, which favours it. "
        + DEPENDENCE
    )


def _ranks(
    records: Sequence[Record],
    metric: str,
    tables: Names,
    methods: Names | None,
    higher_is_better: bool,
) -> tuple[Ranks | None, list[str]]:
    """Rank the methods that have every block which most methods have; name the others."""
    scores = _scores(records, metric)
    if methods is None:
        methods = list(dict.fromkeys(record.cell.method for record in records))
    labels = _labels(methods)
    blocks = {
        method: {
            (table, seed): score
            for table in tables
            for seed, score in scores.get((method, table), {}).items()
            if not math.isnan(score)
        }
        for method in labels
    }
    measured = [set(by_block) for by_block in blocks.values() if by_block]
    count = Counter(block for each in measured for block in each)
    common = sorted(block for block, times in count.items() if 2 * times > len(measured))
    complete = [method for method in labels if common and blocks[method].keys() >= set(common)]
    absent = [labels[method] for method in labels if method not in complete]
    if len(complete) < 2:
        return None, absent
    table = np.array([[blocks[method][block] for method in complete] for block in common])
    return rank_methods(complete, table, higher_is_better=higher_is_better), absent


def _rank_figure(
    ranks: Ranks, metric: str, ours: Collection[str], methods: Names | None, name: str
) -> Figure:
    labels = _labels(methods) if methods is not None else {}
    called = {each: labels.get(each, each) for each in ranks.names}
    shown = Ranks(
        tuple(called.values()),
        ranks.mean_rank,
        ranks.critical_difference,
        ranks.p_value,
        tuple(tuple(called[each] for each in group) for group in ranks.groups),
        ranks.n_blocks,
        ranks.alpha,
    )
    listed = ", ".join(
        f"{each} {rank:.2f}" for each, rank in zip(shown.names, shown.mean_rank, strict=True)
    )
    our_labels = {called[each] for each in ours if each in called}
    return Figure(
        name=name,
        alt=f"Mean rank by {metric}, best first: {listed}.",
        draw=lambda figure: critical_difference(figure, shown, our_labels),
        inches=(8.0, max(3.0, 1.6 + 0.14 * len(shown.names))),
    )


def _short(reason: str) -> str:
    line = " ".join(reason.split())
    return line if len(line) <= LONGEST_REASON else line[: LONGEST_REASON - 1] + "…"


def _p_equals(p_value: float) -> str:
    text = _p_value(p_value)
    return text if text.startswith("<") else f"= {text}"


def _p_value(p_value: float) -> str:
    return "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"
