"""Trees as one SELECT of CASE expressions.

Portable SQL: identifiers in double quotes, texts in single ones, doubles with an exponent (others
are decimals to some databases), NULL for missing. An average of several trees adds up one CASE for
each tree and class; sums of trees, and sharpened averages, take EXP or POWER of such sums in an
outer SELECT. Additions are nested in pairs: databases limit how deep an expression may be.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dtgfn._version import __version__
from dtgfn.data.tables import listing
from dtgfn.explain.tree_set import TreeSet
from dtgfn.export.program import AT_MOST, IS_NOT, PRESENT, Program, program_of
from dtgfn.posterior.sum_posterior import SumPosterior

MOST_LEAVES = 100_000  # written, those of an average once for each class
MOST_SUMS = 1000  # of SQLite's 2000 columns of a SELECT
EXACT_DIGITS = 15  # which every reader of decimals takes for the same double


def to_sql(
    source: TreeSet | SumPosterior, table: str | Sequence[str] = "data", keep: Sequence[str] = ()
) -> str:
    """Write trees, or sums of trees, as a SELECT from a table with the training columns.

    ``table`` is its name, or the parts of it, as ("schema", "name"). ``keep`` names columns of it,
    such as a key, that are selected too. There is a column for each class, "P(class)", or "value".

    Examples
    --------
    >>> from dtgfn import infer
    >>> from dtgfn.explain.tree_set import take_tree
    >>> posterior = infer([[1.0], [2.0], [8.0], [9.0]] * 5, ["no", "no", "yes", "yes"] * 5,
    ...                   engine="exact", max_depth=1, n_thresholds=3)
    >>> print(to_sql(take_tree(posterior), keep=["id"]))
    -- Trees written by dtgfn ...
    SELECT
      t."id",
      CASE WHEN t."x0" <= 5.0e0
        THEN 9.9019607843137258e-01
        ELSE 9.8039215686274526e-03
      END AS "P(no)",
      CASE WHEN t."x0" <= 5.0e0
        THEN 9.8039215686274526e-03
        ELSE 9.9019607843137258e-01
      END AS "P(yes)"
    FROM "data" AS t

    """
    program = program_of(source)
    _check(program)
    parts = [table] if isinstance(table, str) else list(table)
    kept = [f"t.{identifier(name)}" for name in keep]
    place = f"{'.'.join(map(identifier, parts))} AS t"
    names = ["value"]
    if program.classes is not None:
        names = [f"P({label})" for label in program.classes]
    said = [f"-- Trees written by dtgfn {__version__}; missing cells are NULL."]
    outputs = _sums(program)
    if program.link != "average" or program.sharpness != 1:
        s = _unlike(keep)
        inner = [f"{each} AS {s}{k}" for k, each in enumerate(outputs)]
        place = f"(\n{_select([*kept, *inner], place)}\n) AS t"
        outputs = _outer(program, [f"t.{s}{k}" for k in range(len(outputs))])
        if program.link == "logistic":  # the second class is summed once
            place = f"(\n{_select([*kept, f'{outputs[1]} AS {s}'], place)}\n) AS t"
            outputs = [f"1.0e0 - t.{s}", f"t.{s}"]
    named = zip(outputs, names, strict=True)
    said.append(_select([*kept, *(f"{each} AS {identifier(name)}" for each, name in named)], place))
    return "\n".join(said)


def _select(columns: list[str], place: str) -> str:
    return "SELECT\n  " + ",\n  ".join(columns) + f"\nFROM {place}"


def _unlike(names: Sequence[str]) -> str:
    """A name that none of these begins with."""
    own = "s"
    while any(name.casefold().startswith(own) for name in names):
        own += "s"
    return own


def _check(program: Program) -> None:
    """Refuse what is too large, and columns that most databases take for one."""
    n_leaves, n_sums = program.value.size, len(program.start) * (len(program.first) - 1)
    if n_leaves > MOST_LEAVES or n_sums > MOST_SUMS:
        raise ValueError(
            f"A statement of {n_leaves:,} leaves and {n_sums:,} sums is more than databases take "
            f"(at most {MOST_LEAVES:,} and {MOST_SUMS:,} are written); export one tree, fit with "
            "fewer n_trees or n_draws, or export to c, javascript or onnx."
        )
    used = sorted({c for c in program.nodes.column.tolist() if c >= 0})
    specs = [program.binner.columns[c] for c in used]
    dates = [spec.name for spec in specs if spec.scale is not None and not spec.scale.levels]
    if dates:
        raise ValueError(
            f"Columns {listing(dates)} are dates, which every database counts in its own way; fit "
            "to a column of days, or export to c, javascript or onnx, which take days."
        )
    by_name: dict[str, list[str]] = {}
    for column in used:
        name = program.binner.columns[column].name
        by_name.setdefault(name.casefold(), []).append(name)
    alike = next((names for names in by_name.values() if len(names) > 1), None)
    if alike:
        raise ValueError(
            f"Columns {listing(alike)} differ by case alone, which most databases do not see; "
            "rename one and fit again."
        )


def _sums(program: Program) -> list[str]:
    """Write the sums of all draws, one after the other."""
    width, n_sums = program.value.shape[1], len(program.start)
    sums: list[list[str]] = []
    for draw in range(len(program.first) - 1):
        terms: list[list[str]] = [[double(b)] if b else [] for b in program.start.tolist()]
        for tree in range(int(program.first[draw]), int(program.first[draw + 1])):
            begin = int(program.output[tree])
            for k in range(begin, min(begin + width, n_sums)):
                terms[k].append(_case(program, int(program.root[tree]), k - begin, "  "))
        sums += terms
    return [_added(terms) for terms in sums]


def _case(program: Program, node: int, output: int, indent: str) -> str:
    """Write what a node adds to an output; a test on a missing cell fails."""
    nodes = program.nodes
    left = int(nodes.left[node])
    if nodes.column[node] < 0:
        return double(float(program.value[left, output]))
    spec = program.binner.columns[int(nodes.column[node])]
    column, number, kind = f"t.{identifier(spec.name)}", float(nodes.number[node]), nodes.test[node]
    sides = [left, left + 1]
    if kind == IS_NOT:
        asked = f"{column} = {literal(spec.categories[int(number)])}"
        sides.reverse()
    elif kind == PRESENT:
        asked = f"{column} IS NOT NULL"
    elif spec.kind == "boolean":
        asked = f"NOT {column}"
    elif spec.scale is not None:  # an ordered category
        low = ", ".join(map(literal, spec.scale.levels[: math.floor(number) + 1]))
        asked = f"{column} IN ({low})"
    else:
        assert kind == AT_MOST
        asked = f"{column} <= {double(number)}"
    then, other = (_case(program, side, output, indent + "  ") for side in sides)
    ends = [f"CASE WHEN {asked}", f"  THEN {then}", f"  ELSE {other}", "END"]
    return f"\n{indent}".join(ends)


def _added(terms: list[str]) -> str:
    """Add up in pairs of pairs."""
    if len(terms) < 2:
        return terms[0] if terms else "0.0e0"
    half = len(terms) // 2
    return f"({_added(terms[:half])}\n  + {_added(terms[half:])})"


def _outer(program: Program, sums: list[str]) -> list[str]:
    """Write what is made of the sums."""
    n_draws, n_sums = len(program.first) - 1, len(program.start)
    share = double(1 / n_draws)
    if program.link == "logistic":
        second = _added([f"1.0e0 / (1.0e0 + EXP(-{each}))" for each in sums])
        return ["", f"{share} * {second}"]
    if program.link == "softmax":
        draws = [sums[k : k + n_sums] for k in range(0, len(sums), n_sums)]
        # The largest need not be taken off first: log shares are far from where EXP ends.
        totals = [_added([f"EXP({each})" for each in draw]) for draw in draws]
        pairs = list(zip(draws, totals, strict=True))
        return [
            f"{share} * {_added([f'EXP({draw[k]}) / {total}' for draw, total in pairs])}"
            for k in range(n_sums)
        ]
    power = [f"POWER({each}, {double(program.sharpness)})" for each in sums]
    return [f"{each} / {_added(power)}" for each in power]


def identifier(name: str) -> str:
    """Quote a name.

    >>> identifier('the "id"; DROP TABLE x')
    '"the ""id""; DROP TABLE x"'
    """
    if not name or not _can_be_said(name):
        raise ValueError(f"SQL has no name {name!r}; rename the column.")
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Quote a text.

    >>> literal("it's")
    "'it''s'"
    """
    if not _can_be_said(text):
        raise ValueError(f"SQL cannot hold the category {text!r}; replace it and fit again.")
    return "'" + text.replace("'", "''") + "'"


def _can_be_said(text: str) -> bool:
    """Whether it has neither NUL nor half a character."""
    return "\0" not in text and not any("\ud800" <= c <= "\udfff" for c in text)


def double(number: float) -> str:
    """Write a double so that every database reads the same one.

    Readers of decimals differ in the last bit where there are more than 15 digits, unless there
    are 17: these lie so near to their double that no rounding leads to another one.

    >>> double(2.5), double(1e300), double(0.1 + 0.2)
    ('2.5e0', '1.0e300', '3.0000000000000004e-01')
    """
    if not math.isfinite(number):
        raise ValueError(f"SQL has no number {number}; export to another format.")
    short = repr(number)
    digits = short.lstrip("-").partition("e")[0].replace(".", "").strip("0")
    if len(digits) > EXACT_DIGITS:
        return f"{number:.16e}"
    mantissa, _, exponent = short.partition("e")
    mantissa += "" if "." in mantissa else ".0"
    return f"{mantissa}e{int(exponent or 0)}"
