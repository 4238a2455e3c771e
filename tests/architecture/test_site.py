"""The documentation site: every page has a place, and every public name is described.

`make docs` builds the whole site and fails at each warning; CI runs it.
"""

import re
from collections import Counter
from pathlib import Path

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
    assert sorted(DESCRIBED.findall(page)) == sorted({*vars(omega)["__all__"]} - {"pools", "testing"})
    assert page.count(".. automodule:: omega.testing\n") == 1  # takes the names of its __all__
    assert "(fair-share-calculator.md#in-python)" in page  # has the names of omega.pools
