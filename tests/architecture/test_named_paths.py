"""Every file and folder of the project that a page names exists."""

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT

NAMED = re.compile(
    r"`((?:[\w.-]+/)*[\w.-]+\.(?:py|lua|md|toml)|(?:cellstate|schedulers|omega|cli|tests|benchmarks|docs)/[\w./-]+)`"
)
PAGES = [path.relative_to(ROOT) for path in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])]


def missing(text: str, known: Iterable[str]) -> list[str]:
    """Return the named paths that are no end of a known path: a page may leave out leading folders."""
    ends = {path[at:] for path in (f"/{each}" for each in known) for at, sign in enumerate(path) if sign == "/"}
    return sorted(path for path in set(NAMED.findall(text)) if f"/{path.rstrip('/')}" not in ends)


@pytest.fixture(scope="module")
def known() -> set[str]:
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    return {*files, *(str(folder) for path in files for folder in Path(path).parents)}


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_path_that_a_page_names_exists(page: Path, known: set[str]) -> None:
    assert missing((ROOT / page).read_text(encoding="utf-8"), known) == []


def test_pages_about_the_source_name_paths() -> None:
    for page in ("ARCHITECTURE.md", "CONTRIBUTING.md"):
        assert len(NAMED.findall((ROOT / page).read_text(encoding="utf-8"))) > 20


def test_a_path_that_does_not_exist_is_found() -> None:
    known = {"cellstate/lua/commit.lua", "cellstate/lua"}
    text = "`commit.lua`, `lua/commit.lua`, `cellstate/lua`, `batch/0`; `ommit.lua`, `lua/comit.lua`, `cli/bench`"
    assert missing(text, known) == ["cli/bench", "lua/comit.lua", "ommit.lua"]
