"""The documentation site: `make docs` builds it into build/docs."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "_tools"))

import public

from proximo.version import __version__

project = "Proximo"
author = "the Proximo authors"
copyright = author
version = release = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "mathematics",
    "repository_links",
    "reference_pages",
    "argument_tables",
    "source_pages",
    "deployed_policy",
]
exclude_patterns = ["_tools", "_static"]
nitpicky = True
# signatures name what has no page here: types of other libraries, inner modules, private names and type variables
nitpick_ignore_regex = [
    ("py:.*", r"(?!proximo\b).*"),
    ("py:.*", rf"(?:{'|'.join(re.escape(name) for name in public.INNER)})(?:\..*)?"),
    ("py:.*", r"proximo\..*\b_.*"),
    ("py:.*", r"proximo\..*\.(?:T|Value|Method|WrapperType)"),
]

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 4
suppress_warnings = ["myst.header", "config.cache", "ref.python"]

nb_execution_mode = "force"
nb_execution_in_temp = True  # what they save stays out of the tree
nb_execution_timeout = 120
nb_execution_raise_on_error = True
nb_output_stderr = "remove"
nb_merge_streams = True

autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80
add_module_names = False
toc_object_entries = False

html_theme = "furo"
html_title = "Proximo"
html_static_path = ["_static"]
html_favicon = "_static/favicon.svg"
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}
copybutton_exclude = ".linenos, .gp, .go"


def mark_options(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Let the style keep the flags of the command line on one line: browsers break them behind each hyphen."""
    if "body" in context:
        context["body"] = context["body"].replace('<span class="pre">--', '<span class="pre option">--')


def setup(app: Any) -> None:
    app.connect("html-page-context", mark_options)
