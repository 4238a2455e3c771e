"""The documentation site: every page has a place, every public name is described, and a build finds what is wrong.

`make docs` builds the whole site and fails at each warning; CI runs it.
"""

import re
import shutil
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest

import omega
from tests.architecture.sources import ROOT

TOCTREE = re.compile(r"^```\{toctree\}\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DESCRIBED = re.compile(r"^\.\. auto(?:class|exception|function):: (\w+)$", re.MULTILINE)


def placed(page: Path) -> list[Path]:
    """Return the pages to which the navigation of `page` gives a place, patterns included."""
    lines = [line for tree in TOCTREE.findall(page.read_text(encoding="utf-8")) for line in tree.splitlines()]
    entries = [re.sub(r".*<(.*)>", r"\1", line) for line in lines if line and not line.startswith(":")]
    return [found.resolve() for entry in entries for found in page.parent.glob(f"{entry}.md")]


def test_every_page_has_one_place() -> None:
    first = ROOT / "docs" / "index.md"
    pages = Counter([*placed(first), *placed(ROOT / "docs" / "decisions" / "README.md")])
    there = {path for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")] if path != first}
    without = sorted(str(path.relative_to(ROOT)) for path in there - pages.keys())
    assert not without, f"give {', '.join(without)} a line in docs/index.md"
    assert pages == Counter(there)


def test_every_public_name_is_described_once() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert sorted(DESCRIBED.findall(page)) == sorted({*vars(omega)["__all__"]} - {"testing"})
    assert page.count(".. automodule:: omega.testing\n") == 1  # takes the names of its __all__


def test_ci_builds_the_site() -> None:
    assert "make docs" in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert "sphinx-build -q -E -W " in (ROOT / "Makefile").read_text(encoding="utf-8")


@pytest.mark.skipif(find_spec("sphinx") is None, reason="Sphinx is not installed; install it with: make docs")
def test_a_build_finds_broken_links_and_pages_without_a_place(tmp_path: Path) -> None:
    """A small site under the settings of ours: what is right passes, and everything wrong is reported."""
    shutil.copytree(ROOT / "docs" / "site", tmp_path / "docs" / "site")
    pages = {
        "README.md": "# First\n\n[a heading](docs/page.md#a-part) [a file](tool.py)\n",
        "docs/page.md": "# Page\n\n## A part\n\n[none](../README.md#no) [none](no.md) [folder](site)\n",
        "docs/alone.md": "# Alone\n",
        "docs/index.md": "# Site\n\n```{toctree}\n../README\npage\n```\n",
        "tool.py": "pass\n",
    }
    for name, text in pages.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    build = [sys.executable, "-m", "sphinx", "-q", "-c", "docs/site", ".", "out"]
    done = subprocess.run(build, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert {line.partition(" WARNING: ")[2] for line in done.stderr.splitlines()} == {
        "'myst' cross-reference target not found: 'no.md' [myst.xref_missing]",
        "'myst' cross-reference target not found: 'site' [myst.xref_missing]",
        "document isn't included in any toctree [toc.not_included]",
        "local id not found in doc 'README': 'no' [myst.xref_missing]",
    }
    assert 'href="docs/page.html#a-part"' in (tmp_path / "out" / "README.html").read_text(encoding="utf-8")
    assert [path.name for path in (tmp_path / "out" / "_downloads").rglob("*.*")] == ["tool.py"]
