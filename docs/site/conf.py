"""Settings of the documentation site; `make docs` builds it into build/docs."""

import json
import re
import sys
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

import click
from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

from omega.cli.lazy import CommonOption
from omega.cli.main import omega as program

sys.path.insert(0, str(Path(__file__).parent))
from openapi import page as routes_of

project = "Omega"
version = release = installed("omega-scheduler")
html_title = f"Omega {version}"

# The sources are the pages of the checkout where they stand, so that a link means the same here and on GitHub.
# A link to a file that is not a page copies the file into the site. docs/index.md gives every page its place.
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_click"]
include_patterns = ["*.md", "docs/**.md"]
exclude_patterns = [".*", "build", "dist"]
root_doc = "docs/index"
html_extra_path = ["index.html"]  # leads from the site's root to docs/index.html

myst_heading_anchors = 4
suppress_warnings = ["misc.highlighting_failure"]
default_role = "code"
smartquotes = False  # `--` begins an option
toc_object_entries_show_parents = "hide"
autodoc_default_options = {
    "members": "",
    "member-order": "bysource",
    "inherited-members": "object, BaseException, OmegaError, int, tuple, Enum, Generic, Ordering, Instrument",
}
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 100
autodoc_inherit_docstrings = False  # a method that only overrides one stands with the class that describes it
program.table.pop("bench", None)  # its commands are in a checkout only

html_theme = "furo"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_search_scorer = str(Path(__file__).with_name("search.js"))
html_copy_source = html_show_copyright = False
html_use_index = html_domain_indices = False

PRIVATE = re.compile(r", _\w+: [^=]+ = (\(\)|[^,()]+)")
"""An argument that a class has for itself."""


def hide_common_options(_: Sphinx, context: click.Context, __: list[str]) -> None:
    """Leave the options that every command accepts to the section of the program, as `--help` does."""
    for option in context.command.params:
        if context.parent and isinstance(option, CommonOption):
            option.hidden = True


def name_in_full(app: Sphinx, document: nodes.document) -> None:
    """Title the section of each command with the command's whole name."""
    if app.env.docname == "docs/commands":
        for section in document.findall(lambda node: isinstance(node, nodes.section) and node.parent is not document):
            section[0].replace_self(nodes.title(text=section["names"][0]))


def add_routes(app: Sphinx, page: str, source: list[str]) -> None:
    """Append the routes of the committed OpenAPI document to the page of the HTTP API."""
    if page == "docs/http-api":
        document = Path(app.srcdir, "docs", "openapi.json")
        app.env.note_dependency(str(document))
        source[0] += "\n".join(["", *routes_of(json.loads(document.read_text(encoding="utf-8")))])


def list_classes_only(_: Sphinx, __: str, kind: str, content: addnodes.desc_content) -> None:
    """Leave methods and attributes out of the contents of a page."""
    if kind in ("method", "attribute", "property"):
        for signature in content.parent.findall(addnodes.desc_signature):
            signature["_toc_name"] = ""


def show_public_arguments(*event: Any) -> tuple[str, str | None]:
    """Show no private arguments, none for a class without a constructor (a protocol), and defaults as valid Python."""
    *_, arguments, returns = event
    if arguments == "(*args, **kwargs)":
        return "", returns
    return arguments and re.sub(PRIVATE, "", arguments.replace("<factory>", "...")), returns


def setup(app: Sphinx) -> None:
    """Connect the functions above."""
    app.connect("sphinx-click-process-description", hide_common_options)
    app.connect("source-read", add_routes)
    app.connect("doctree-read", name_in_full, priority=400)  # before the contents are collected
    app.connect("object-description-transform", list_classes_only)
    app.connect("autodoc-process-signature", show_public_arguments)
