"""The GFlowNet engine called with keywords, those of ``Run`` and its own options together."""

from dataclasses import fields

from dtgfn.engines.contract import Run
from dtgfn.engines.gfn.engine import ENGINE
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.trees.score import Rows, Score

OF_RUN = {field.name for field in fields(Run)}


def run_gfn(rows: Rows, score: Score, **given) -> TreePosterior:
    run = Run(**{name: value for name, value in given.items() if name in OF_RUN})
    options = {name: value for name, value in given.items() if name not in OF_RUN}
    return ENGINE.infer(rows, score, run, ENGINE.read_options(options))
