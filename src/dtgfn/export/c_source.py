r"""Trees as one file of C99 without a header of its own.

A row is an array of doubles, one for each column of the training table in its order: numbers as
they are, booleans 0 or 1, of a text what the function ``..._category`` gives for it, NaN for
missing. Names and categories enter as string literals of UTF-8, in which all but plain ASCII is
``\ooo``; none is in a comment.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from string import Template
from typing import Any

from dtgfn._version import __version__
from dtgfn.data.binning import ColumnSpec
from dtgfn.explain.tree_set import TreeSet
from dtgfn.export.program import Program, program_of
from dtgfn.posterior.sum_posterior import SumPosterior

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
PLAIN = frozenset(range(0x20, 0x7F)) - frozenset(b'"\\?')  # two ? may begin a trigraph
MOST_BYTES = 4000  # of a literal: C99 promises 4095

DATA = Template("""\
/* Trees written by dtgfn $version. C99; link with -lm.

   A row x holds ${name}_n_columns doubles, in the order of ${name}_columns: numbers as they are,
   booleans as 0 or 1, texts as ${name}_category codes them, NaN for missing cells.
   NaN is told by comparing: do not compile with -ffast-math. */
#include <math.h>
#include <string.h>

enum { COLUMNS = $n_columns, OUTPUTS = $n_outputs };
enum { DRAWS = $n_draws, SUMS = $n_sums, WIDTH = $width };

const int ${name}_n_columns = COLUMNS;
const char *const ${name}_columns[COLUMNS] = {$columns};
$classes
/* The categories of all columns; those of column j are category_first[j] to category_first[j+1]. */
static const int category_first[COLUMNS + 1] = {$category_first};
static const char *const categories[] = {$categories};

/* Tests: 0, number at most; 1, category is not; 2, not missing. Where it holds a row goes to the
   node left, else to the one behind it. Of a leaf column is -1 and left its row of values. */
static const struct { int column, test, left; double number; } nodes[] = {
$nodes
};
static const double values[][WIDTH] = {
$values
};
static const int root[] = {$root};
static const int output[] = {$output};  /* the first sum that a tree adds to */
static const int first[DRAWS + 1] = {$first};  /* the trees of a draw */
static const double start[SUMS] = {$start};
""")

CODE = Template("""\

/* The code of a text in a column: which of its categories, -1 if training has not seen it, NaN
   for missing if text is a null pointer. */
double ${name}_category(int column, const char *text)
{
    int k;
    if (!text)
        return NAN;
    for (k = category_first[column]; k < category_first[column + 1]; k++)
        if (strcmp(categories[k], text) == 0)
            return k - category_first[column];
    return -1.0;
}

static const double *leaf_values(int node, const double *x)
{
    while (nodes[node].column >= 0) {
        double cell = x[nodes[node].column], number = nodes[node].number;
        int test = nodes[node].test;
        int holds = test == 0 ? cell <= number : test == 1 ? cell != number : cell == cell;
        node = nodes[node].left + !holds;
    }
    return values[nodes[node].left];
}

static void outputs(const double *x, double *out)
{
    double sum[SUMS];
    int d, t, k;
    for (k = 0; k < OUTPUTS; k++)
        out[k] = 0.0;
    for (d = 0; d < DRAWS; d++) {
        for (k = 0; k < SUMS; k++)
            sum[k] = start[k];
        for (t = first[d]; t < first[d + 1]; t++) {
            const double *value = leaf_values(root[t], x);
            for (k = 0; k < WIDTH; k++)
                sum[output[t] + k] += value[k];
        }
$link    }
$sharpen}
$predict""")

LINKS = {
    "average": """\
        for (k = 0; k < OUTPUTS; k++)
            out[k] += sum[k];
""",
    "logistic": """\
        out[1] += 1.0 / (1.0 + exp(-sum[0])) / DRAWS;
""",
    "softmax": """\
        double top = sum[0], total = 0.0;
        for (k = 1; k < SUMS; k++)
            top = sum[k] > top ? sum[k] : top;
        for (k = 0; k < SUMS; k++)
            total += sum[k] = exp(sum[k] - top);
        for (k = 0; k < SUMS; k++)
            out[k] += sum[k] / total / DRAWS;
""",
}
SHARPEN = Template("""\
    double top = out[0], total = 0.0;
    for (k = 1; k < OUTPUTS; k++)
        top = out[k] > top ? out[k] : top;
    for (k = 0; k < OUTPUTS; k++)
        total += out[k] = pow(out[k] / top, $sharpness);
    for (k = 0; k < OUTPUTS; k++)
        out[k] /= total;
""")
OF_CLASSES = Template("""
/* The probability of each class of row x, in the order of ${name}_classes. */
void ${name}_predict_proba(const double *x, double *probability)
{
    outputs(x, probability);
}

/* The index of the most probable class of row x. */
int ${name}_predict(const double *x)
{
    double probability[OUTPUTS];
    int k, best = 0;
    outputs(x, probability);
    for (k = 1; k < OUTPUTS; k++)
        best = probability[k] > probability[best] ? k : best;
    return best;
}
""")
OF_NUMBERS = Template("""
/* The number of row x. */
double ${name}_predict(const double *x)
{
    double value;
    outputs(x, &value);
    return value;
}
""")


def to_c(source: TreeSet | SumPosterior, name: str = "dtgfn") -> str:
    """Write trees, or sums of trees, as C; ``name`` begins the name of each public function.

    Examples
    --------
    >>> from dtgfn import infer
    >>> from dtgfn.explain.tree_set import take_tree
    >>> posterior = infer([[1.0], [2.0], [8.0], [9.0]] * 5, ["no", "no", "yes", "yes"] * 5,
    ...                   engine="exact", max_depth=1, n_thresholds=3)
    >>> "int stump_predict(const double *x)" in to_c(take_tree(posterior), name="stump")
    True

    """
    if not isinstance(name, str) or not IDENTIFIER.fullmatch(name):
        raise ValueError(
            f"name={name!r} cannot begin a name of C; give a letter, then letters and digits."
        )
    program = program_of(source)
    return DATA.substitute(_data(program, name)) + CODE.substitute(_code(program, name))


def _data(program: Program, name: str) -> dict[str, Any]:
    columns = program.binner.columns
    texts = [_literals(spec) for spec in columns]
    first = [sum(map(len, texts[:j])) for j in range(len(texts) + 1)]
    labels = ", ".join(c_literal(str(label)) for label in _classes(program))
    classes = f"const char *const {name}_classes[OUTPUTS] = {{{labels}}};\n" if labels else ""
    nodes = program.nodes
    each = zip(
        nodes.column.tolist(),
        nodes.test.tolist(),
        nodes.left.tolist(),
        nodes.number.tolist(),
        strict=True,
    )
    return {
        "version": __version__,
        "name": name,
        "n_columns": len(columns),
        "n_outputs": program.n_outputs,
        "n_sums": len(program.start),
        "width": program.value.shape[1],
        "n_draws": len(program.first) - 1,
        "columns": ", ".join(c_literal(spec.name) for spec in columns),
        "classes": classes,
        "category_first": _list(first),
        "categories": ", ".join(text for known in texts for text in known) or "0",
        "nodes": ",\n".join(f"{{{c}, {test}, {left}, {t!r}}}" for c, test, left, t in each),
        "values": ",\n".join(f"{{{_list(row)}}}" for row in program.value.tolist()),
        "root": _list(program.root.tolist()),
        "output": _list(program.output.tolist()),
        "first": _list(program.first.tolist()),
        "start": _list(program.start.tolist()),
    }


def _code(program: Program, name: str) -> dict[str, str]:
    power = repr(program.sharpness)
    sharpen = "" if program.sharpness == 1 else SHARPEN.substitute(sharpness=power)
    if program.link == "logistic":
        sharpen += "    out[0] = 1.0 - out[1];\n"
    predict = OF_NUMBERS if program.classes is None else OF_CLASSES
    return {
        "name": name,
        "link": LINKS[program.link],
        "sharpen": sharpen,
        "predict": predict.substitute(name=name),
    }


def _classes(program: Program) -> Iterable[Any]:
    return () if program.classes is None else program.classes


def _literals(spec: ColumnSpec) -> list[str]:
    """The categories of a column; refuse what C ends its texts by."""
    texts = spec.categories if spec.scale is None else spec.scale.levels  # in order
    if any("\0" in text for text in texts):
        raise ValueError(
            f"Column {spec.name!r} has a category with a NUL character, where a text ends in C; "
            "replace it and fit again."
        )
    return [c_literal(text) for text in texts]


def c_literal(text: str) -> str:
    r"""Write a text as a literal of C, in UTF-8; a long one in parts, which C puts together.

    >>> print(c_literal('5" */ ö?'))
    "5\042 */ \303\266\077"
    """
    marks = [chr(b) if b in PLAIN else f"\\{b:03o}" for b in text.encode("utf-8", "surrogatepass")]
    parts = [marks[k : k + MOST_BYTES] for k in range(0, len(marks), MOST_BYTES)] or [[]]
    return " ".join('"' + "".join(part) + '"' for part in parts)


def _list(numbers: Iterable[float]) -> str:
    return ", ".join(map(repr, numbers))
