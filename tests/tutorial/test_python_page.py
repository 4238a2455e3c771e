"""docs/python.md is true: its blocks are run in order, on a cell with simulated machines and a scheduler."""

import runpy
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Omega, at_work, cell, omega
from tests.tutorial.page import blocks

__all__ = ["at_work", "cell", "omega"]
NAMED = '"unix:///path/to/store.sock", "default"'


@pytest.mark.server
@pytest.mark.chaos
def test_the_page(omega: Omega, at_work: Callable[..., None], tmp_path: Path) -> None:
    at_work(machines=3)
    text = "\n".join(text for language, text in blocks("python.md") if language == "python")
    assert text.count(NAMED) == 2
    page = tmp_path / "page.py"
    text = text.replace(NAMED, f"{omega.url!r}, {omega.cell!r}, user={omega.user!r}")
    page.write_text(text.replace('"default" in', f"{omega.cell!r} in"))
    runpy.run_path(str(page))
