"""The tables of the paper: what each holds, where it comes from, and how it is recognised."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from dtgfn.data.tables import TableError

_JBROWNLEE = (
    "https://raw.githubusercontent.com/jbrownlee/Datasets/d20fcb6402ae34e653d4513b00f39257bb37ed7f"
)
_PYOD = "https://raw.githubusercontent.com/yzhao062/pyod"
_DCC_TREE = "https://raw.githubusercontent.com/jodie-c/DCC-Tree/253d4f7c/datasets"
_RAISIN = "https://raw.githubusercontent.com/ybaher/raisin_classification/017ecac2"
# The checksums of its files are those of copies that are kept as they came.
_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"

_CC_BY = "CC BY 4.0 (UCI's general policy)"
_ODDS = "CC BY 4.0 (UCI's general policy); labels by ODDS, which asks for citation"
_UCI_CITATION = "UCI Machine Learning Repository"
_ODDS_CITATION = "; S. Rayana, ODDS Library, Stony Brook University, 2016"
_SHIPPED = "CC BY 4.0 (UCI's general policy); shipped with scikit-learn"
_ANOMALY = ("normal", "anomaly")


@dataclass(frozen=True)
class Source:
    """A public file that holds a table in another form.

    ``form`` is "text" (cells between ``separator``; None: any white space), of which the last
    cells of a line are features and label, or "mat" (a MATLAB file with X and y).  ``codes`` gives
    the class of a label as it stands there, ``otherwise`` that of any other label.  ``sha256`` is
    that of the file itself: other bytes are not even parsed.
    """

    url: str
    codes: Mapping[str, int]
    sha256: str
    form: Literal["text", "mat"] = "text"
    separator: str | None = ","
    otherwise: int | None = None


@dataclass(frozen=True)
class Entry:
    """One table.

    ``labels`` are the classes as the CSV file spells them, in the order of their codes.
    ``digest`` recognises the values (`dtgfn.datasets.values.digest`), ``sha256`` the CSV file.
    ``shipped`` names scikit-learn's loader; such a table has no file.
    """

    name: str
    title: str
    n_rows: int
    features: tuple[str, ...]
    class_names: tuple[str, ...]
    digest: str
    licence: str
    citation: str
    shipped: str | None = None
    file: str = ""
    sha256: str = ""
    labels: tuple[str, ...] = ()
    label_column: str = "target"
    sources: tuple[Source, ...] = field(default=())

    @property
    def n_features(self) -> int:
        """Number of columns without the label."""
        return len(self.features)


def find_entry(name: str) -> Entry:
    """Entry of a name, or one sentence with the names there are."""
    if name in ENTRIES:
        return ENTRIES[name]
    close = difflib.get_close_matches(str(name), ENTRIES, n=1)
    hint = f" did you mean {close[0]!r}?" if close else ""
    raise TableError(f"There is no dataset {name!r};{hint} there are {', '.join(ENTRIES)}.")


_IRIS_CODES = {
    **{"Iris-setosa": 0, "Iris-versicolor": 1, "Iris-virginica": 2},
    **{"0": 0, "1": 1, "2": 2},
}
_RAISIN_CODES = {"Besni": 0, "Kecimen": 1}
_BREAST_CODES = {"2": 0, "4": 1}
_ECOLI_CODES = {"omL": 1, "imL": 1, "imS": 1}
_TRUTH_CODES = {"0": 0, "1": 1}

_WINE_FEATURES = (
    "alcohol",
    "malic_acid",
    "ash",
    "alcalinity_of_ash",
    "magnesium",
    "total_phenols",
    "flavanoids",
    "nonflavanoid_phenols",
    "proanthocyanins",
    "color_intensity",
    "hue",
    "od280/od315_of_diluted_wines",
    "proline",
)
_CELL_MEASURES = (
    "radius",
    "texture",
    "perimeter",
    "area",
    "smoothness",
    "compactness",
    "concavity",
    "concave points",
    "symmetry",
    "fractal dimension",
)
_IRIS_FEATURES = ("sepal_length", "sepal_width", "petal_length", "petal_width")
_IRIS_CLASSES = ("setosa", "versicolor", "virginica")

_ALL = (
    Entry(
        name="iris",
        title="Iris, the UCI file",
        n_rows=150,
        features=_IRIS_FEATURES,
        class_names=_IRIS_CLASSES,
        digest="bf083279e443c5333cb3df78f538d418b0a5481bd505f613267c22e829daf3d4",
        licence=_CC_BY,
        citation=f"R. A. Fisher, Iris, {_UCI_CITATION}, 1936",
        file="iris_uci.csv",
        sha256="1f28e1717dd0afaf6d6b560ba850a675934f35316bf724849beabcc9c70d4f75",
        labels=("0", "1", "2"),
        sources=(
            Source(
                f"{_DCC_TREE}/iris/iris.data",
                _IRIS_CODES,
                "6f608b71a7317216319b4d27b4d9bc84e6abd734eda7872b71a458569e2656c0",
            ),
            Source(
                f"{_UCI}/iris/iris.data",
                _IRIS_CODES,
                "6f608b71a7317216319b4d27b4d9bc84e6abd734eda7872b71a458569e2656c0",
            ),
        ),
    ),
    Entry(
        name="iris-sklearn",
        title="Iris, scikit-learn's copy (two rows differ from the UCI file)",
        n_rows=150,
        features=_IRIS_FEATURES,
        class_names=_IRIS_CLASSES,
        digest="8e9c6683f044f8b20e962ca0b323ec163d2e892817079ae273252895b89512f0",
        licence=_SHIPPED,
        citation=f"R. A. Fisher, Iris, {_UCI_CITATION}, 1936",
        shipped="load_iris",
    ),
    Entry(
        name="wine",
        title="Wine",
        n_rows=178,
        features=_WINE_FEATURES,
        class_names=("class_0", "class_1", "class_2"),
        digest="11e74c1818cc70e60b5d8e4428cbab7a13779d855a130b0af2510ed6950f9904",
        licence=_SHIPPED,
        citation=f"S. Aeberhard and M. Forina, Wine, {_UCI_CITATION}, 1991",
        shipped="load_wine",
    ),
    Entry(
        name="breast-cancer",
        title="Breast Cancer Wisconsin (Diagnostic)",
        n_rows=569,
        features=(
            *(f"mean {measure}" for measure in _CELL_MEASURES),
            *(f"{measure} error" for measure in _CELL_MEASURES),
            *(f"worst {measure}" for measure in _CELL_MEASURES),
        ),
        class_names=("malignant", "benign"),
        digest="98c06314a5aa0080f1e4e7aa95ba22f53e15acedbb2fd296f9582f9b168d2857",
        licence=_SHIPPED,
        citation=f"W. Wolberg et al., Breast Cancer Wisconsin (Diagnostic), {_UCI_CITATION}, 1993",
        shipped="load_breast_cancer",
    ),
    Entry(
        name="breast-cancer-original",
        title="Breast Cancer Wisconsin (Original)",
        n_rows=699,
        features=(
            "clump_thickness",
            "uniformity_cell_size",
            "uniformity_cell_shape",
            "marginal_adhesion",
            "single_epithelial_cell_size",
            "bare_nuclei",
            "bland_chromatin",
            "normal_nucleoli",
            "mitoses",
        ),
        class_names=("benign", "malignant"),
        digest="0272c61b57069df73c22a927ba34c79aaab6cdce8fa3b442433137297ead3e50",
        licence=_CC_BY,
        citation=f"W. Wolberg, Breast Cancer Wisconsin (Original), {_UCI_CITATION}, 1990",
        file="breast_cancer_original.csv",
        sha256="fd7e3220c56a339f35c3a879ac9f30f3a04ccc478f86c72bcecee2ec8a90fea5",
        labels=("benign", "malignant"),
        sources=(
            Source(
                f"{_JBROWNLEE}/breast-cancer-wisconsin.data",
                _BREAST_CODES,
                "402c585309c399237740f635ef9919dc512cca12cbeb20de5e563a4593f22b64",
            ),
            Source(
                f"{_UCI}/breast-cancer-wisconsin/breast-cancer-wisconsin.data",
                _BREAST_CODES,
                "402c585309c399237740f635ef9919dc512cca12cbeb20de5e563a4593f22b64",
            ),
        ),
    ),
    Entry(
        name="raisin",
        title="Raisin",
        n_rows=900,
        features=(
            "Area",
            "MajorAxisLength",
            "MinorAxisLength",
            "Eccentricity",
            "ConvexArea",
            "Extent",
            "Perimeter",
        ),
        class_names=("Besni", "Kecimen"),
        digest="244b0a9a6440580f1221611dab4c199574ac35ed331f15583637b59bf7c97cee",
        licence=_CC_BY,
        citation=f"İ. Çınar, M. Koklu and Ş. Taşdemir, Raisin, {_UCI_CITATION}, 2020",
        file="raisin.csv",
        sha256="149c45ab1c3a767386a6f68855ae43ae7a7d13a36b60816d8b9aee2335f5ea62",
        labels=("Besni", "Kecimen"),
        sources=(
            Source(
                f"{_RAISIN}/data/raw/raisin_data.csv",
                _RAISIN_CODES,
                "6e14b1e7ad844b931f8fa265d1b81dbbc335b7beb283ae2ff43e89dd1b5b2e80",
            ),
            Source(
                f"{_DCC_TREE}/raisin/raisin.csv",
                _RAISIN_CODES,
                "f204518dc4b819a6694d4c7de232b0ee53066cc59305e547c823298e9ca9d41a",
            ),
        ),
    ),
    Entry(
        name="pima",
        title="Pima Indians Diabetes (zeros stand for missing values)",
        n_rows=768,
        features=(
            "pregnancies",
            "glucose",
            "blood_pressure",
            "skin_thickness",
            "insulin",
            "bmi",
            "diabetes_pedigree",
            "age",
        ),
        class_names=("no diabetes", "diabetes"),
        digest="5ccc387c904aabac1f49b35546b8aea4be9250f0af092c47825d16ab665a9fb3",
        licence="not known: do not redistribute without a further look",
        citation="J. W. Smith et al., Using the ADAP learning algorithm to forecast the onset of "
        "diabetes mellitus, 1988",
        file="pima.csv",
        sha256="71afe3b0a8550509acfd6ee4f2d867b3d2954dd430e644b44f5708a06fd544cc",
        labels=("0", "1"),
        sources=(
            Source(
                f"{_JBROWNLEE}/pima-indians-diabetes.csv",
                _TRUTH_CODES,
                "6bfe5d0f379d17a0e0819b996407e3c09bf80febd4287f2ed212190dfff154af",
            ),
        ),
    ),
    Entry(
        name="thyroid",
        title="Thyroid, anomalies by ODDS",
        n_rows=3772,
        features=("age", "TSH", "T3", "TT4", "T4U", "FTI"),
        class_names=_ANOMALY,
        digest="4cef4a21976a202e1fda002affb8b92c41a993477d686ec775a2509fce6dfabf",
        licence=_ODDS,
        citation=f"R. Quinlan, Thyroid Disease, {_UCI_CITATION}, 1986{_ODDS_CITATION}",
        file="odds_thyroid.csv",
        sha256="cf988a81c7c2ff94a005de68d2a667e9e10621a8047601e853f2815bbd8723b7",
        labels=("0", "1"),
        label_column="label",
        sources=(
            Source(
                f"{_PYOD}/ef6d5e8dc828615f498286c1d6a22cbd02fd4cd2/notebooks/data/thyroid.mat",
                _TRUTH_CODES,
                "49155d7861b977e90808faf68343ff67a67f63090c2744d514dbb67ac68e7e33",
                form="mat",
            ),
        ),
    ),
    Entry(
        name="ecoli",
        title="Ecoli, anomalies: the classes omL, imL and imS",
        n_rows=336,
        features=("mcg", "gvh", "lip", "chg", "aac", "alm1", "alm2"),
        class_names=_ANOMALY,
        digest="ed5cdeff28ee708f1f34fb678e84eacb30583b3c302b7e2ccfb6ce430f749b1e",
        licence=_CC_BY,
        citation=f"K. Nakai, Ecoli, {_UCI_CITATION}, 1996{_ODDS_CITATION}",
        file="odds_ecoli.csv",
        sha256="7bef07a436c99955644ae4414d5ddb3e529ef34a6fa3797f2a55c328b4c63140",
        labels=("0", "1"),
        label_column="label",
        sources=(
            Source(
                f"{_JBROWNLEE}/ecoli.data",
                _ECOLI_CODES,
                "008bd8fbb1d8b34040c3c8c4e987cac2a7ebf116e008b140cc6441be5261ba1d",
                separator=None,
                otherwise=0,
            ),
            Source(
                f"{_UCI}/ecoli/ecoli.data",
                _ECOLI_CODES,
                "008bd8fbb1d8b34040c3c8c4e987cac2a7ebf116e008b140cc6441be5261ba1d",
                separator=None,
                otherwise=0,
            ),
        ),
    ),
    Entry(
        name="vertebral",
        title="Vertebral Column, anomalies by ODDS: the healthy patients",
        n_rows=240,
        features=(
            "pelvic_incidence",
            "pelvic_tilt",
            "lumbar_lordosis_angle",
            "sacral_slope",
            "pelvic_radius",
            "degree_spondylolisthesis",
        ),
        class_names=_ANOMALY,
        digest="d840f0d54ccc6e41ae17a06297ec3400be27c0675aa9fe58f14beb2bf2f064df",
        licence=_ODDS,
        citation=f"G. Barreto and A. Neto, Vertebral Column, {_UCI_CITATION}, 2005{_ODDS_CITATION}",
        file="odds_vertebral.csv",
        sha256="b924aca5ecc80e3b8ed5d0b43f7abfc6afc4295bb0859487020d8a3e2f6626ff",
        labels=("0", "1"),
        label_column="label",
        sources=(
            Source(
                f"{_PYOD}/34f7996e/notebooks/data/vertebral.mat",
                _TRUTH_CODES,
                "84b50b055f118f54b5c976650ccd284ab7c1adee822f8b3eb517c7e2c890d15e",
                form="mat",
            ),
            Source(
                f"{_PYOD}/ef6d5e8dc828615f498286c1d6a22cbd02fd4cd2/notebooks/data/vertebral.mat",
                _TRUTH_CODES,
                "84b50b055f118f54b5c976650ccd284ab7c1adee822f8b3eb517c7e2c890d15e",
                form="mat",
            ),
        ),
    ),
    Entry(
        name="glass",
        title="Glass Identification, anomalies by ODDS: type 6, tableware",
        n_rows=214,
        features=("RI", "Na", "Mg", "Al", "Si", "K", "Ca", "Ba", "Fe"),
        class_names=_ANOMALY,
        digest="85df8250eed72b97af3f452ba25425034b623e66a5f60907d35e611bb4e85606",
        licence=_ODDS,
        citation=f"B. German, Glass Identification, {_UCI_CITATION}, 1987{_ODDS_CITATION}",
        file="odds_glass.csv",
        sha256="b60da0c9a90c0cdb20267dbb1ea8349ef7277d94160a6d1c0b47be9e9a11a15c",
        labels=("0", "1"),
        label_column="label",
        sources=(
            Source(
                f"{_PYOD}/34f7996e/notebooks/data/glass.mat",
                _TRUTH_CODES,
                "2c506e6e1e2ca1e82a905d10a90773151ff812c4bd969c71a12db5b2bb6e7921",
                form="mat",
            ),
            Source(
                f"{_UCI}/glass/glass.data",
                {"6": 1},
                "dd67373f4baf2807345df02cbfef2093d342e61ad0d82a4fb79af43ef8ce449d",
                otherwise=0,
            ),
        ),
    ),
)

ENTRIES: dict[str, Entry] = {entry.name: entry for entry in _ALL}
