"""Trees as one module of JavaScript without dependencies.

A row is an object by column names, or an array in the order of the training table. Names and
categories enter as JSON in plain ASCII without "<", so that the module may also stand inside a
page; none is in a comment.
"""

from __future__ import annotations

import json
from string import Template
from typing import Any

from dtgfn._version import __version__
from dtgfn.data.binning import ColumnSpec
from dtgfn.explain.tree_set import TreeSet
from dtgfn.export.json_document import plain_label
from dtgfn.export.program import program_of
from dtgfn.posterior.sum_posterior import SumPosterior

MODULE = Template("""\
// Trees written by dtgfn $version. A row is an object by column names, or an array in their order:
// numbers, true or false, texts; null, undefined or NaN for missing cells.
export const columns = $columns;
$classes
// Tests: 0, number at most; 1, category is not; 2, not missing. Where it holds a row goes to the
// node left, else to the one behind it. Of a leaf column is -1 and left its row of values.
const nodes = $nodes;
const values = $values;
const root = $root;
const output = $output; // the first sum that a tree adds to
const first = $first; // the trees of a draw
const start = $start;
const draws = first.length - 1;

function numberOf(value, { name, kind, categories }) {
  if (value === null || value === undefined || Number.isNaN(value)) return NaN;
  if (kind === "category") {
    const spelled = typeof value === "boolean" ? (value ? "True" : "False") : String(value);
    return categories.indexOf(spelled);
  }
  if (kind === "level") {
    const rank = categories.indexOf(String(value));
    if (rank < 0) throw new TypeError("column " + JSON.stringify(name) + " holds no level");
    return rank;
  }
  const number = typeof value === "boolean" ? Number(value) : value;
  const fits = kind === "boolean" ? number === 0 || number === 1 : Number.isFinite(number);
  if (!fits) throw new TypeError("column " + JSON.stringify(name) + " holds no " + kind);
  return number;
}

function cells(row) {
  if (Array.isArray(row)) {
    if (row.length !== columns.length) {
      throw new TypeError("the row has " + row.length + " cells, not " + columns.length);
    }
    return columns.map((column, j) => numberOf(row[j], column));
  }
  return columns.map((column) => {
    if (!Object.hasOwn(row, column.name)) {
      throw new TypeError("the row lacks column " + JSON.stringify(column.name));
    }
    return numberOf(row[column.name], column);
  });
}

function leafValues(node, x) {
  while (nodes.column[node] >= 0) {
    const cell = x[nodes.column[node]];
    const number = nodes.number[node];
    const test = nodes.test[node];
    const holds = test === 0 ? cell <= number : test === 1 ? cell !== number : cell === cell;
    node = nodes.left[node] + (holds ? 0 : 1);
  }
  return values[nodes.left[node]];
}

function outputs(row) {
  const x = cells(row);
  const out = new Array($n_outputs).fill(0);
  for (let d = 0; d < draws; d++) {
    const sum = start.slice();
    for (let t = first[d]; t < first[d + 1]; t++) {
      leafValues(root[t], x).forEach((value, k) => { sum[output[t] + k] += value; });
    }
$link  }
$sharpen  return out;
}
$predict""")

LINKS = {
    "average": """\
    sum.forEach((value, k) => { out[k] += value; });
""",
    "logistic": """\
    out[1] += 1 / (1 + Math.exp(-sum[0])) / draws;
""",
    "softmax": """\
    const top = Math.max(...sum);
    const power = sum.map((value) => Math.exp(value - top));
    const total = power.reduce((a, b) => a + b);
    power.forEach((value, k) => { out[k] += value / total / draws; });
""",
}
SHARPEN = Template("""\
  const top = Math.max(...out);
  const power = out.map((value) => Math.pow(value / top, $sharpness));
  const total = power.reduce((a, b) => a + b);
  power.forEach((value, k) => { out[k] = value / total; });
""")
OF_CLASSES = """
/** The probability of each class, in the order of classes. */
export function predictProba(row) {
  return outputs(row);
}

/** The most probable class. */
export function predict(row) {
  const probability = outputs(row);
  return classes[probability.indexOf(Math.max(...probability))];
}
"""
OF_NUMBERS = """
/** The number. */
export function predict(row) {
  return outputs(row)[0];
}
"""


def _cells_of(spec: ColumnSpec) -> dict[str, Any]:
    """Kind of a column's cells, and the texts that they may be; those of levels are in order."""
    if spec.scale is not None and spec.scale.levels:
        return {"kind": "level", "categories": list(spec.scale.levels)}
    return {"kind": spec.kind, "categories": list(spec.categories)}


def to_javascript(source: TreeSet | SumPosterior) -> str:
    """Write trees, or sums of trees, as a module with ``predict`` and ``predictProba``.

    Examples
    --------
    >>> from dtgfn import infer
    >>> from dtgfn.explain.tree_set import take_tree
    >>> posterior = infer([[1.0], [2.0], [8.0], [9.0]] * 5, ["no", "no", "yes", "yes"] * 5,
    ...                   engine="exact", max_depth=1, n_thresholds=3)
    >>> 'export const classes = ["no", "yes"];' in to_javascript(take_tree(posterior))
    True

    """
    program = program_of(source)
    columns = [{"name": spec.name, **_cells_of(spec)} for spec in program.binner.columns]
    of_classes = program.classes is not None
    labels = [plain_label(c) for c in (() if program.classes is None else program.classes)]
    power = repr(program.sharpness)
    sharpen = "" if program.sharpness == 1 else SHARPEN.substitute(sharpness=power)
    if program.link == "logistic":
        sharpen += "  out[0] = 1 - out[1];\n"
    return MODULE.substitute(
        version=__version__,
        columns=_literal(columns),
        classes=f"export const classes = {_literal(labels)};\n" if of_classes else "",
        nodes=_literal({name: part.tolist() for name, part in program.nodes._asdict().items()}),
        values=_literal(program.value.tolist()),
        root=_literal(program.root.tolist()),
        output=_literal(program.output.tolist()),
        first=_literal(program.first.tolist()),
        start=_literal(program.start.tolist()),
        n_outputs=program.n_outputs,
        link=LINKS[program.link],
        sharpen=sharpen,
        predict=OF_CLASSES if of_classes else OF_NUMBERS,
    )


def _literal(value: Any) -> str:
    """JSON in plain ASCII, which JavaScript reads as it is; without "<" no page ends in it."""
    return json.dumps(value, allow_nan=False).replace("<", "\\u003c")
