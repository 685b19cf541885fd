"""The house: what imports what, and what importing the package costs."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import dtgfn

SOURCE = Path(dtgfn.__file__).parent

# Reading order is data-flow order: a file imports only from files above it.
ORDER = [
    "forks",
    "visible",
    "colours",
    "checks",
    "whole_files",
    "progress",
    "pieces",
    "tables",
    "files",
    "datasets.registry",
    "datasets.values",
    "datasets.convert",
    "datasets.fetch",
    "datasets.lookup",
    "datasets",
    "specs",
    "binning",
    "binning_state",
    "leaves",
    "custom_leaf",
    "kernels",
    "trees",
    "score",
    "posterior",
    "importance",
    "targets",
    "training",
    "container",
    "engines.exact.problem",
    "engines.exact.graph",
    "engines.exact.one_level",
    "engines.exact.two_levels",
    "engines.exact.inside",
    "engines.exact.support",
    "engines.exact.budget",
    "engines.exact.best",
    "engines.exact.sampling",
    "engines.exact.ranking",
    "engines.exact.averaging_pairs",
    "engines.exact.averaging",
    "engines.exact.cost",
    "engines.exact.engine",
    "engines.exact",
    "engines.splitmix",
    "engines.node_terms",
    "engines.compiling",
    "engines.turns",
    "engines.level_order",
    "engines.convergence",
    "engines.gfn.sampler",
    "engines.gfn.objectives",
    "engines.gfn.settings",
    "engines.gfn.replay",
    "engines.gfn.state",
    "engines.gfn.callbacks",
    "engines.gfn.checkpoint",
    "engines.gfn.evaluation",
    "engines.gfn.trackers",
    "engines.gfn.trainer",
    "engines.gfn.carry",
    "engines.gfn.free.mdp",
    "engines.gfn.free.trajectories",
    "engines.gfn.free.choice",
    "engines.gfn.free.policy",
    "engines.gfn.free.actors",
    "engines.gfn.free.compiled",
    "engines.gfn.free.sampler",
    "engines.gfn.free",
    "engines.gfn.fixed.lookahead",
    "engines.gfn.fixed.neighbours",
    "engines.gfn.fixed.levels",
    "engines.gfn.fixed.ceilings",
    "engines.gfn.fixed.children",
    "engines.gfn.fixed.flows",
    "engines.gfn.fixed.mdp",
    "engines.gfn.fixed.best",
    "engines.gfn.fixed.policy",
    "engines.gfn.fixed.scouts",
    "engines.gfn.fixed.hope",
    "engines.gfn.fixed.paths",
    "engines.gfn.fixed.drawing",
    "engines.gfn.fixed.balance",
    "engines.gfn.fixed.sampler",
    "engines.gfn.fixed",
    "engines.gfn.engine",
    "engines.gfn",
    "engines.referee",
    "engines.mcmc_state",
    "engines.mcmc_moves",
    "engines.mcmc_run",
    "engines.mcmc",
    "engines.smc_lookahead",
    "engines.smc_sweep",
    "engines.smc",
    "forest",
    "predict",
    "class_prior",
    "uncertainty",
    "regression",
    "distances",
    "comparison",
    "diagnostics",
    "temperature",
    "bagging",
    "trust_items",
    "verdict",
    "inference",
    "selection",
    "nodes",
    "consensus",
    "tree_sets",
    "conditions",
    "variants",
    "importances",
    "partial_dependence",
    "streaming",
    "background",
    "emptiness",
    "explain",
    "rules",
    "shapley",
    "export.dot",
    "export.mermaid",
    "export.json_document",
    "export.sklearn_tree",
    "export.onnx_graph",
    "export",
    "estimators.columns",
    "estimators.explained",
    "estimators.base",
    "estimators.classifier",
    "estimators.regressor",
    "estimators.anomaly",
    "estimators",
    "file_limits",
    "posterior_state",
    "detector_state",
    "storage",
    "summary",
    "held_out",
    "report.columns",
    "report.fit_facts",
    "report.training_curves",
    "report.tree_nodes",
    "report.detector_facts",
    "report.explorer",
    "report.example_rows",
    "report.gather",
    "report.page",
    "report",
    "plots.scaled_text",
    "plots.frame",
    "plots.placing",
    "plots.boxes",
    "plots.tree",
    "plots.overlay",
    "plots.forest",
    "plots.sizes",
    "plots.importances",
    "plots.history",
    "plots.exact_vs_sampled",
    "plots.calibration",
    "plots.dependence",
    "plots",
    "bench.contract",
    "bench.experiment",
    "bench.names",
    "bench.versions",
    "bench.store",
    "bench.splits",
    "bench.methods.classes",
    "bench.methods.cuts",
    "bench.methods.entropy_cut",
    "bench.methods.single_tree",
    "bench.methods.posterior",
    "bench.methods.developed",
    "bench.methods.detectors_ours",
    "bench.methods.samplers",
    "bench.methods.wu_tree",
    "bench.methods.wu_moves",
    "bench.methods.wu",
    "bench.methods.greedy",
    "bench.methods.tsallis",
    "bench.methods.dpdt",
    "bench.methods.optimal",
    "bench.methods.maptree_search",
    "bench.methods.maptree",
    "bench.methods.forests",
    "bench.methods.boosters",
    "bench.methods.balanced",
    "bench.methods.additive",
    "bench.methods.bart",
    "bench.methods.network_training",
    "bench.methods.tab_transformer",
    "bench.methods.deep",
    "bench.methods.pretrained",
    "bench.methods.soft_tree",
    "bench.methods.nuts",
    "bench.methods.rjhmc",
    "bench.methods.dcc_tree",
    "bench.methods.detector_scaling",
    "bench.methods.detector_seeding",
    "bench.methods.drocc",
    "bench.methods.goad",
    "bench.methods.icl",
    "bench.methods.copod",
    "bench.methods.neighbours",
    "bench.methods.pidforest",
    "bench.methods.rrcf",
    "bench.methods",
    "bench.measure",
    "bench.cells",
    "bench.paper",
    "bench.statistics",
    "bench.plots",
    "bench.markup",
    "bench.pages",
    "bench.comparison",
    "bench.experiments.single_trees",
    "bench.experiments.ensembles",
    "bench.experiments.shift",
    "bench.experiments.anomaly",
    "bench.experiments.bayesian_trees",
    "bench.experiments.xor",
    "bench.experiments.budget",
    "bench.experiments.cost",
    "bench.experiments.search_space",
    "bench.experiments.fidelity",
    "bench.experiments",
    "bench.runner",
    "cli.options",
    "cli.console",
    "cli.parameters",
    "cli.sentences",
    "cli.outputs",
    "cli.inputs",
    "cli.models",
    "cli.held_out",
    "cli.fit",
    "cli.predict",
    "cli.show",
    "cli.report",
    "cli.demo",
    "cli.diagnose",
    "cli.export",
    "cli.bench",
    "cli.data",
    "cli.app",
    "cli",
    "cli.__main__",
]


def modules():
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if name not in ("", "engines", "bench"):
            yield name, path


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dtgfn."):
            module = node.module.removeprefix("dtgfn.")
            inner = {f"{module}.{alias.name}" for alias in node.names}
            yield from inner & set(ORDER) or {module}


def test_every_file_has_its_place_in_the_order():
    assert sorted(name for name, _ in modules()) == sorted(ORDER)


def test_files_import_only_from_files_above_them():
    for name, path in modules():
        for other in imported(path):
            assert ORDER.index(other) < ORDER.index(name), f"{name} imports {other}"


def test_every_file_says_its_responsibility_in_its_first_line():
    for name, path in modules():
        first = (ast.get_docstring(ast.parse(path.read_text())) or "").splitlines()
        assert first, f"{name} does not say what it is for"
        assert first[0].endswith("."), f"the first line of {name} is no sentence"


def test_importing_the_package_is_cheap_and_does_not_import_torch():
    code = (
        "import sys, dtgfn\n"
        "heavy = {'torch', 'numba', 'sklearn', 'pandas'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "from dtgfn import DTGFNClassifier, load\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_everything_public_can_be_had_and_nothing_else():
    assert all(getattr(dtgfn, name) is not None for name in dtgfn.__all__)
    assert set(dir(dtgfn)) == set(dtgfn.__all__)


def test_no_placeholder_is_left_in_the_docs():
    root = SOURCE.parent.parent
    for page in [root / "README.md", *(root / "docs").glob("*.md")]:
        if page.exists():
            assert not re.search(r"@[A-Z]+@", page.read_text()), page.name
