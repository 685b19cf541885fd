"""Real tables that the policy learns from: of R's packages, with any column as the target.

None of them is in a result, a study or a test of this project, nor is a copy under another name;
``dtgfn bench study amortised`` is measured on others.
"""

from __future__ import annotations

import numpy as np
import pandas

from dtgfn_bench.r_tables import read_r_table
from dtgfn_bench.training.made_tables import MOST_COLUMNS, MOST_ROWS, Table

MOST_CLASSES = 8

TABLES = """
AER: BankWages CPS1985 Fatalities Guns MASchools PSID1982 SwissLabor TeachingRatings GSOEP9402
DAAG: antigua cuckoos mifem science socsupport tinting leafshape17
Ecdat: Crime Griliches Heating Housing Kakadu Caschool Bids Cigarette Airline
HSAUR: BtheB respiratory water
HistData: GaltonFamilies Guerry PearsonLee
KMsurv: bfeed bmt burn kidtran std
MASS: bacteria epil gilgais nlschools OME quine UScereal VA
MatchIt: lalonde
Stat2Data: AHCAvote2017 Caterpillars FirstYearGPA FruitFlies GrinnellHouses Film
asaur: pharmacoSmoking
carData: Baumann CES11 Davis Ericksen Florida Greene Prestige UN Womenlf Ginzberg
causaldata: auto social_insure texas gov_transfers
cluster: plantTraits
datasets: attenu esoph quakes Seatbelts
ggplot2: midwest mpg
heplots: Diabetes NeuroCog Oslo schooldata MockJury
lattice: environmental barley
lme4: grouseticks Arabidopsis
mediation: framing jobs
medicaldata: blood_storage licorice_gargle smartpill supraclavicular
mi: CHAIN
mlmRev: Contraception Gcsemv
modeldata: biomass car_prices ischemic_stroke steroidogenic_toxicity
mosaicData: Births2015 Riders SnowGR Marriage
multgee: arthritis
openintro: absenteeism babies births14 cia_factbook evals hsb2 mariokart census gss2010
plm: EmplUK Produc RiceFarms
pscl: bioChemists UKHouseOfCommons
psych: sat.act Tal.Or
robustbase: ambientNOxCH CrohnD
rpart: car90 solder
stevedata: anes_vote84 Arca ESS9GB ESSBE5 states_war
survival: bladder1 diabetic mgus myeloid rhDNase rotterdam transplant udca1
vcd: Baseball Suicide
wooldridge: athlet1 bwght campus ceosal1 discrim econmath gpa1 htv jtrain2 attend crime1 fringe
"""


def table_names() -> list[tuple[str, str]]:
    """Package and name of every table."""
    lines = [line.split(":") for line in TABLES.strip().splitlines()]
    return [(package, item) for package, items in lines for item in items.split()]


def draw_real_table(rng: np.random.Generator) -> Table | None:
    """Draw a table, a target among its columns, and some of its rows and columns."""
    names = table_names()
    package, item = names[int(rng.integers(len(names)))]
    frame = read_r_table(package, item)
    numbers = frame.apply(as_numbers)
    varying = numbers.columns[numbers.nunique() > 1]
    numbers = numbers[varying].dropna()
    numbers = numbers.iloc[rng.permutation(len(numbers))[:MOST_ROWS]]
    if len(numbers) < 20 or numbers.shape[1] < 2:
        return None
    target = str(rng.choice(numbers.columns))
    y = numbers.pop(target).to_numpy(np.float64)
    kept = rng.permutation(numbers.shape[1])[: int(rng.integers(1, MOST_COLUMNS + 1))]
    name = f"{package} {item} {target}"
    X = numbers.to_numpy(np.float64)[:, np.sort(kept)]
    if len(np.unique(y)) <= MOST_CLASSES:
        return Table(name, X, np.unique(y, return_inverse=True)[1].astype(np.float64), True)
    if rng.random() < 0.3:
        return Table(name, X, y, is_classes=False)
    at = np.quantile(y, np.sort(rng.uniform(0.1, 0.9, int(rng.integers(1, 4)))))
    return Table(name, X, np.searchsorted(at, y).astype(np.float64), is_classes=True)


def as_numbers(column: pandas.Series) -> pandas.Series:
    """A column as numbers, texts by their order."""
    if pandas.api.types.is_numeric_dtype(column):
        return column.astype(np.float64)
    codes = pandas.Series(pandas.factorize(column, sort=True)[0], column.index)
    return codes.astype(np.float64).where(codes >= 0)
