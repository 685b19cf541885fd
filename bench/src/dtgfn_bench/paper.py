"""The figures that the paper prints, to stand beside ours; published values only.

Each table maps (method, table) to what is `Printed` there, with our names of both.  ``dt-gfn`` is
the paper's own method, as the paper reports it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

TABLES = {
    "iris": "Iris",
    "wine": "Wine",
    "breast-cancer": "Breast cancer (D)",
    "breast-cancer-original": "Breast cancer (O)",
    "raisin": "Raisin",
    "pima": "Pima",
    "thyroid": "Thyroid",
    "ecoli": "Ecoli",
    "vertebral": "Vertebral",
    "glass": "Glass",
}


@dataclass(frozen=True)
class Number:
    """A number as printed: "0.98±0.04" or "0.98"."""

    text: str

    @property
    def value(self) -> float:
        """The number itself."""
        return float(self.text.partition("±")[0])

    @property
    def spread(self) -> float | None:
        """What stands after "±", if anything does."""
        spread = self.text.partition("±")[2]
        return float(spread) if spread else None

    def __str__(self) -> str:
        return self.text.replace("±", " ± ")


@dataclass(frozen=True)
class Printed:
    """A score (accuracy or F1) and, of trees, the mean number of nodes."""

    score: Number
    size: Number | None = None


@dataclass(frozen=True)
class Cost:
    """Seconds on an RTX 8000: training per epoch, and drawing, for ensembles of 1 and 100 trees."""

    train_1: float
    draw_1: float
    train_100: float
    draw_100: float


PrintedTable = dict[tuple[str, str], Printed]


def _lines(text: str) -> Iterator[list[str]]:
    for line in text.strip().splitlines():
        yield line.split()


def _scores(text: str) -> PrintedTable:
    """Read a first line of tables, then lines of a method and its scores; "-" is not printed."""
    (tables, *lines) = _lines(text)
    return {
        (method, table): Printed(Number(score))
        for method, *scores in lines
        for table, score in zip(tables, scores, strict=True)
        if score != "-"
    }


def _scores_and_sizes(text: str) -> PrintedTable:
    """Read the same, with a size (or "-") after each score."""
    (tables, *lines) = _lines(text)
    return {
        (method, table): Printed(Number(score), None if size == "-" else Number(size))
        for method, *numbers in lines
        for table, score, size in zip(tables, numbers[::2], numbers[1::2], strict=True)
    }


# Depth 5, 5 splits, the best of 1000 trees: by log-posterior of Bayesian methods, else by training
# accuracy.
SINGLE_TREES = _scores_and_sizes("""
iris wine breast-cancer raisin
smc          0.9518±0.02 16.18±1.72  0.9311±0.04 16.25±2.66  0.931±0.01   32.32±2.68  0.866±0.01  46.58±2.12
mcmc         0.923±0.04  13.4±1.5    0.955±0.02  13.82±1.21  0.92±0.02    25.62±2.67  0.864±0.02  35.29±1.93
maptree      0.8733±0.04 3.80±0.45   0.9139±0.02 4.8±0.45    0.9281±0.02  5±0         0.8344±0.03 7.80±1.10
bcart        0.9267±0.03 56.2±31.8   0.9389±0.02 49.8±34.26  0.9018±0.03  20.6±12.09  0.8678±0.01 23.80±8.26
tsallis      0.9267±0.04 16.6±1.5    0.944±0.315 19±1.26     0.937±0.017  22.2±0.98   0.864±0.01  28.2±1.6
cart-gini    0.9494±0.02 14.6±1.5    0.876±0.05  17.8±4.12   0.923±0.02   34.6±6.25   0.852±0.023 29.8±0.98
cart-entropy 0.9468±0.02 14.6±1.5    0.9357±0.04 16.6±3.2    0.9168±0.022 29.4±1.96   0.868±0.016 27.4±0.08
dpdt         0.947±0.027 14.8±0.98   0.889±0.068 20.6±2.94   0.919±0.024  24.6±2.33   0.853±0.016 27.2±2.03
quant-bnb    0.953±0.029 15±0        0.817±0.023 12.2±6.26   0.933±0.023  15±0        0.859±0.011 15±0
dt-gfn       0.98±0.04   8.6±3.44    0.97±0.03   8.6±1.5     0.95±0.02    6.2±0.98    0.9±0.002   27±2.83
""")  # noqa: E501

# 1000 trees, the same splits.
ENSEMBLES = _scores_and_sizes("""
iris wine breast-cancer raisin
forest          0.96±0.01    14.73±0.9    0.9833±0.01 18.89±0.78  0.9474±0.02   33.71±0.93  0.8689±0.01 151.12±2.53
xgboost         0.9533±0.03  4.56±0.34    0.9556±0.03 3.51±0.08   0.9579±0.02   6.86±0.16   0.8611±0.02 28.33±0.24
catboost        0.96±0.03    379.771±1.90 0.978±0.01  380.52±0.85 0.9544±0.01   126.72±0.4  0.88±0.02   126.73±0.10
lightgbm        0.9533±0.03  9.39±0.58    0.9889±0.01 12.34±0.34  0.9579±0.01   47.04±0.64  0.8622±0.02 59.63±0.17
mlp             0.9667±0.03  -            0.8500±0.15 -           0.9140±0.01   -           0.5167±0.03 -
tab-transformer 0.7933±0.049 -            0.978±0.021 -           0.9316±0.0211 -           0.8544±0.03 -
ft-transformer  0.953±0.016  -            0.967±0.02  -           0.961±0.013   -           0.847±0.028 -
dt-gfn          0.973±0.04   11.11±2.94   0.983±0.01  8±1.29      0.954±0.02    5.67±0.19   0.883±0.03  26.31±1.25
""")  # noqa: E501

# Pima split by body mass index or by age: accuracy inside and outside the training distribution;
# 1000 trees, one seed.
SHIFT = _scores("""
                bmi-in bmi-out age-in age-out
forest          0.803  0.637   0.8625 0.66
xgboost         0.77   0.598   0.788  0.61
catboost        0.803  0.606   0.838  0.645
lightgbm        0.803  0.59    0.825  0.624
mlp             0.7541 0.57    0.825  0.513
tab-transformer 0.771  0.62    0.825  0.559
ft-transformer  0.836  0.585   0.775  0.535
dt-gfn          0.94   0.755   0.925  0.7
""")

# F1; dt-gfn with one tree and a rule of two standard deviations, the others told the number of
# anomalies.
ANOMALIES = _scores("""
                 thyroid ecoli vertebral glass
drocc            0.727   -     0.27      0.222
goad             0.725   0.693 0.269     0.257
icl              0.768   0.7   0.26      0.272
copod            0.308   0.256 0.017     0.11
isolation-forest 0.789   0.589 0.13      0.11
knn              0.573   0.778 0.1       0.11
pidforest        0.72    0.256 0.12      0.089
rrcf             0.319   0.289 0.08      0.156
dt-gfn           0.794   0.812 0.404     0.315
""")

# Further Bayesian trees, 70 % of the rows for training.
AUXILIARY = _scores("""
         iris          wine        breast-cancer-original raisin
bcart    0.908±0.022   0.916±0.046 0.939±0.014            0.843±0.010
smc      0.909±0.022   0.978±0.022 0.924±0.010            0.842±0.010
wu       -             -           0.922±0.017            0.843±0.012
hmc-df   0.906±0.026   0.950±0.039 0.940±0.010            0.847±0.004
hmc-dfi  0.917±0.023   0.948±0.022 0.952±0.007            0.838±0.007
dcc-tree 0.911±1.2e-16 0.958±0.02  0.952±0.004            0.844±0.002
dt-gfn   0.977         0.981       0.98                   0.856
""")

# (table, depth) -> seconds.
COST = {
    (table, int(depth)): Cost(*map(float, seconds))
    for table, depth, *seconds in _lines("""
iris          2  1.09 0.0074  1.09 0.4239
iris          4  4.21 0.0169  4.29 0.4468
wine          2  1.36 0.0032  1.85 0.283
wine          4  3.95 0.0047  4.50 0.4953
breast-cancer 2  1.57 0.0073  2.26 0.195
breast-cancer 4  3.31 0.0145  3.73 0.5303
raisin        2  1.79 0.015   2.47 0.23
raisin        4  5.05 0.0037  6.23 0.4804
""")
}

# (depth, binary features) -> how many trees there are, no deeper than that.
SEARCH_SPACE = {
    (1, 10): 1.000e1,
    (1, 20): 2.000e1,
    (2, 10): 1.000e3,
    (2, 20): 8.000e3,
    (3, 10): 5.329e6,
    (3, 20): 9.411e8,
    (4, 10): 5.609e13,
    (4, 20): 8.358e18,
}
