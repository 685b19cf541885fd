"""A data dictionary: a dict, a table or a CSV file that tells what columns mean."""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dtgfn.data.binning import Binner, ColumnSpec
from dtgfn.data.meanings import Meaning
from dtgfn.data.scales import EPOCH, Scale
from dtgfn.data.tables import label, listing, parse_number

# What the head of a dictionary may call its parts.
HEADS = {
    "column": ("column", "name", "variable", "column name", "variable name", "field"),
    "meaning": ("meaning", "label", "description", "column label", "variable label"),
    "unit": ("unit", "units"),
    "categories": ("categories", "category labels", "values", "value labels", "levels", "codes"),
}
PARTS = ("meaning", "unit", "categories")
SEPARATORS = (",", ";", "\t", "|")
LONGEST = 200  # letters of a meaning, which is to stand in a node of a drawn tree


def with_meanings(
    binner: Binner, labels: Any, target: str | None = None
) -> tuple[Binner, list[str]]:
    """Give columns their meanings; return also the names in the dictionary that no column has.

    Parameters
    ----------
    binner : Binner
        The columns.
    labels : dict, table or path
        See ``read_labels``.
    target : str or None
        Name of what is predicted, if the dictionary may have it too.

    Returns
    -------
    Binner, list of str
        The same columns with what they mean.

    """
    found = dict(read_labels(labels))
    names = binner.column_names
    of_target = found.pop(target, None) if target is not None and target not in names else None
    unknown = [name for name in found if name not in names]
    if of_target is None and len(unknown) == len(found):
        raise ValueError(
            f"labels name {listing(unknown)}, none of which is a column; the columns are "
            f"{listing(names)}."
        )
    columns = tuple(
        replace(spec, meaning=_checked(spec, found[spec.name])) if spec.name in found else spec
        for spec in binner.columns
    )
    kept = binner.target
    if of_target is not None:
        known = binner.target.label if binner.target else None
        kept = replace(of_target, label=of_target.label or known or target)
    return replace(binner, columns=columns, target=kept), unknown


def _on_scale(spec: ColumnSpec, scale: Scale, meaning: Meaning) -> Meaning:
    """Keep what days and ranks are, whatever else the column is called."""
    odd = [text for text, _ in meaning.categories if text not in scale.levels]
    if odd:
        known = f"its levels are {listing(scale.levels)}" if scale.levels else "it holds dates"
        raise ValueError(f"labels give {spec.name!r} the category {odd[0]!r}, but {known}.")
    if not scale.levels:
        return replace(meaning, unit=meaning.unit or EPOCH)
    ranks = tuple((str(k), meaning.category(text)) for k, text in enumerate(scale.levels))
    return replace(meaning, categories=ranks)


def _checked(spec: ColumnSpec, meaning: Meaning) -> Meaning:
    """Refuse labels of categories that a column cannot have."""
    if spec.scale is not None:
        return _on_scale(spec, spec.scale, meaning)
    if not meaning.categories:
        return meaning
    if spec.kind == "number":
        no_number = [text for text, _ in meaning.categories if parse_number(text) is None]
        if no_number:
            raise ValueError(
                f"labels give {spec.name!r} the category {no_number[0]!r}, but it holds numbers; "
                "name numbers, or give it a unit."
            )
        return meaning
    if spec.kind == "boolean":
        given = {text.strip().lower(): shown for text, shown in meaning.categories}
        truths = {"false": ("false", "0", "0.0"), "true": ("true", "1", "1.0")}
        pairs = [(t, given[w]) for t, words in truths.items() for w in words if w in given]
        if len(pairs) < len(given):
            raise ValueError(f"labels give {spec.name!r} other categories than true and false.")
        return replace(meaning, categories=tuple(pairs))
    texts = set(spec.categories)
    if not any(text in texts for text, _ in meaning.categories):
        known = listing([text for text, _ in meaning.categories])
        raise ValueError(
            f"labels give {spec.name!r} the categories {known}, none of which it has; it has "
            f"{listing(spec.categories)}."
        )
    return meaning


def read_labels(labels: Any) -> dict[str, Meaning]:
    """Read a data dictionary.

    Parameters
    ----------
    labels : dict, table or path
        Of a dict each value is a text, the meaning, or a dict with any of "meaning", "unit" and
        "categories", the last a dict too. Of a table, or a CSV file, each row is a column: "column"
        is its name, "meaning", "unit" and "categories" ("m=male; f=female") may be left out.
        A file's cells may be parted by commas, semicolons, tabs or bars.

    Returns
    -------
    dict of str and Meaning
        By the column's name.

    Examples
    --------
    >>> read_labels({"sex": {"meaning": "Sex", "categories": {0: "female", 1: "male"}}})["sex"]
    Meaning(label='Sex', unit=None, categories=(('0', 'female'), ('1', 'male')))

    """
    if isinstance(labels, str | Path):
        found = _read_rows(*_read_file(Path(labels)))
    elif isinstance(labels, Mapping):
        found = {str(name): _meaning(str(name), given) for name, given in labels.items()}
    else:
        found = _read_table(labels)
    if not found:
        raise ValueError("labels are empty; give a meaning to at least one column.")
    return found


def _read_file(path: Path) -> tuple[list[str], list[list[str]]]:
    """Read heads and rows of a CSV file whose cells are all text, as codes such as 007 are."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise FileNotFoundError(f"There is no data dictionary {str(path)!r}.") from None
    except OSError as error:
        raise ValueError(f"{_unreadable(path)}: {error.strerror}.") from None
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = data.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        fault = "it is not text in UTF-8; save it as CSV in that"
        raise ValueError(f"{_unreadable(path)}: {fault}.")
    lines = list(io.StringIO(text, newline=""))
    if lines and lines[0].lower().startswith("sep="):  # how Excel is told the separator
        lines = lines[1:]
    try:
        rows = list(
            csv.reader(lines, delimiter=_separator(lines), skipinitialspace=True, strict=True)
        )
    except csv.Error as error:
        raise ValueError(f"{_unreadable(path)}: {error}.") from None
    rows = [row for row in rows if any(cell.strip() for cell in row)]
    if not rows:
        raise ValueError(f"{_unreadable(path)}: it is empty.")
    return _even_rows(path, rows)


def _unreadable(path: Path) -> str:
    return f"{str(path)!r} cannot be read as a data dictionary"


def _separator(lines: list[str]) -> str:
    """Return what parts the head into most of the names that a dictionary may have."""
    head = next((line for line in lines if line.strip()), "")
    known = {name for names in HEADS.values() for name in names}

    def n_known(separator: str) -> int:
        return sum(cell.strip(' "\r\n').lower() in known for cell in head.split(separator))

    return max(SEPARATORS, key=n_known)


def _even_rows(path: Path, rows: list[list[str]]) -> tuple[list[str], list[list[str]]]:
    """Heads, and rows as long as these: what is missing at their ends is empty."""
    heads = [head.strip() for head in rows[0]]
    for row in rows[1:]:
        while len(row) > len(heads) and not row[-1].strip():
            row.pop()
        if len(row) > len(heads):
            raise ValueError(
                f"{_unreadable(path)}: the row of {row[0]!r} has {len(row)} cells, its head "
                f"{len(heads)}; put a text that holds the separator in quotes."
            )
        row += [""] * (len(heads) - len(row))
    return heads, rows[1:]


def _read_table(table: Any) -> dict[str, Meaning]:
    columns = getattr(table, "columns", None)
    if columns is None:
        raise TypeError(
            f"labels are a {type(table).__name__}; give a dict of column and meaning, a table, or "
            "the path of a CSV file."
        )
    heads = [str(head).strip() for head in columns]
    return _read_rows(heads, zip(*(table[head] for head in columns), strict=True))


def _read_rows(heads: list[str], rows: Iterable[Sequence[Any]]) -> dict[str, Meaning]:
    place = {part: _place(heads, part, known) for part, known in HEADS.items()}
    if place["column"] is None or all(place[part] is None for part in PARTS):
        raise ValueError(
            f"The data dictionary has the columns {listing(heads)}; it needs 'column' and one or "
            "more of 'meaning', 'unit' and 'categories'."
        )
    found: dict[str, Meaning] = {}
    for row in rows:
        cells = {p: "" if at is None else _cell(row[at]) for p, at in place.items()}
        name = cells.pop("column")
        if not name:
            continue
        if name in found:
            raise ValueError(f"The data dictionary has column {name!r} twice; keep one row of it.")
        found[name] = _meaning(name, {part: text for part, text in cells.items() if text})
    return found


def _place(heads: list[str], part: str, known: Iterable[str]) -> int | None:
    at = [i for i, head in enumerate(heads) if head.lower() in known]
    if len(at) > 1:
        raise ValueError(
            f"The data dictionary has {listing([heads[i] for i in at])}, which all may be its "
            f"{part!r}; keep one of them."
        )
    return at[0] if at else None


def _cell(value: Any) -> str:
    return "" if value is None or value != value else label(value).strip()


def _meaning(name: str, given: Any) -> Meaning:
    if isinstance(given, Meaning):
        return given
    if isinstance(given, str):
        given = {"meaning": given}
    if not isinstance(given, Mapping):
        raise TypeError(
            f"labels give {name!r} a {type(given).__name__}; give a text, or a dict with any of "
            f"{listing(PARTS)}."
        )
    extra = [part for part in given if part not in PARTS]
    if extra:
        raise ValueError(f"labels give {name!r} {listing(extra)}; it takes {listing(PARTS)}.")
    texts = {}
    for part in ("meaning", "unit"):
        text = given.get(part)
        if text is not None and not isinstance(text, str):
            raise TypeError(f"labels give {name!r} {text!r} as its {part}; give a text.")
        texts[part] = " ".join(text.split()) if text and text.strip() else None
        if text and len(text) > LONGEST:
            raise ValueError(
                f"labels give {name!r} a {part} of {len(text)} letters; {LONGEST} are the most."
            )
    return Meaning(texts["meaning"], texts["unit"], _categories(name, given.get("categories")))


def _categories(name: str, given: Any) -> tuple[tuple[str, str], ...]:
    """Pairs of a dict, or of a text such as "1=male; 2=female"."""
    if not given:
        return ()
    if isinstance(given, str):
        separator = ";" if ";" in given else "|" if "|" in given else ","
        parts = [part for part in given.split(separator) if part.strip()]
        pairs = [tuple(map(str.strip, part.split("=", 1))) for part in parts]
        if any(len(pair) != 2 for pair in pairs):
            raise ValueError(
                f"labels give {name!r} the categories {given!r}; write '1=male; 2=female'."
            )
    elif isinstance(given, Mapping):
        pairs = [(label(key), str(shown)) for key, shown in given.items()]
    else:
        raise TypeError(
            f"labels give {name!r} categories as a {type(given).__name__}; give a dict, or a text "
            "such as '1=male; 2=female'."
        )
    texts, shown = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    for each in (texts, shown):
        twice = [text for text in dict.fromkeys(each) if each.count(text) > 1]
        if twice:
            raise ValueError(f"labels give {name!r} the category {twice[0]!r} twice.")
    return tuple(zip(texts, shown, strict=True))
