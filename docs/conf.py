"""How Sphinx builds the documentation: ``sphinx-build -W -b html docs build/site``."""

from __future__ import annotations

import re
import sys
import warnings
from pathlib import Path
from typing import Any

from docutils import nodes

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS), str(DOCS.parent / "src")]

import dtgfn  # noqa: E402  (from this clone, not from wherever it is installed)

project = "dtgfn"
author = "the dtgfn authors"
release = version = dtgfn.__version__
project_copyright = ""

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "mathml",
    "offline",
]
exclude_patterns = ["gallery/GALLERY_HEADER.rst"]
templates_path = ["templates"]
nitpicky = True

myst_enable_extensions = ["attrs_inline", "colon_fence", "dollarmath"]
myst_heading_anchors = 3
html_math_renderer = "mathml"

autosummary_generate = True
autodoc_typehints = "signature"  # exact there; in the docstrings they are in words, with shapes
autodoc_type_aliases = {
    name: name
    for name in ("Bools", "Codes", "Floats", "Float32s", "Int32s", "Int64s", "UInt32s", "UInt64s")
} | {"npt.ArrayLike": "ArrayLike", "Which": "Which"}
# Hints name types of other projects and aliases, which have no page here.
nitpick_ignore_regex = [("py:class", ".*")]
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

sphinx_gallery_conf = {
    "examples_dirs": str(DOCS.parent / "examples"),
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": False,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "remove_config_comments": True,
    "write_computation_times": False,
    "min_reported_time": 3600,  # seconds of a busy machine tell a reader nothing
    "capture_repr": (),  # what is to be seen is printed
    "plot_gallery": "True",
}
# A warning that an example's own line raises fails the build, as an error does.
warnings.filterwarnings("error", module="__main__")

html_theme = "pydata_sphinx_theme"
html_title = "dtgfn"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_copyright = False
html_show_sourcelink = False
html_copy_source = False
# A page opened as a file may not read its neighbours, which summaries would need.
html_show_search_summary = False
html_context = {"default_mode": "auto"}
html_theme_options: dict[str, Any] = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": [],
    "footer_end": [],
    "navbar_end": ["theme-switcher"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": [], "changelog": [], "contributing": []}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def skip_foreign(
    app: Any, what: str, name: str, member: Any, skip: bool, options: Any
) -> bool | None:
    """Leave out what classes inherit from elsewhere: those projects' own pages have it."""
    home = getattr(getattr(member, "fget", member), "__module__", None) or ""
    return True if what in ("class", "exception") and not home.startswith("dtgfn") else None


def name_aliases(
    app: Any, what: str, name: str, thing: Any, options: Any, takes: str | None, gives: str | None
) -> tuple[str | None, str | None]:
    """Write an alias within a union by its name, which autodoc does only for one that is alone."""
    forward = re.compile(r"TypeAliasForwardRef\('(\w+)'\)")
    return takes and forward.sub(r"\1", takes), gives and forward.sub(r"\1", gives)


def trim_code(app: Any, tree: nodes.document) -> None:
    """Drop the empty line that ends a doctest in Markdown, which a reader need not see."""
    for block in tree.findall(nodes.literal_block):
        if block.rawsource == block.astext():  # else it has markup of its own
            text = block.astext().rstrip()
            block.rawsource = text
            block.children = []
            block += nodes.Text(text)


def setup(app: Any) -> None:
    """Connect what is too small for an extension of its own."""
    app.connect("doctree-read", trim_code)
    app.connect("autodoc-skip-member", skip_foreign)
    app.connect("autodoc-process-signature", name_aliases)
