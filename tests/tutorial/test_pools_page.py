"""docs/pools.md is true: its commands print what it shows, its Python runs, and it names every field of a file."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from omega.pools import ElementFields, IntegralFields, OptionFields
from tests.tutorial.page import DOCS, SECONDS, blocks, commands, same

PAGE = (DOCS / "pools.md").read_text(encoding="utf-8")


def test_the_commands_print_what_the_page_shows(tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    found = blocks("pools.md")
    shown = [(text, found[at + 1][1]) for at, (language, text) in enumerate(found) if language == "sh"]
    assert shown
    for text, expected in shown:
        printed = "".join(
            subprocess.run(
                ["sh", "-c", command], cwd=tmp_path, env=os.environ | {"PATH": path}, capture_output=True, text=True,
                timeout=SECONDS, check=True,
            ).stdout
            for command in commands(text)
        )  # fmt: skip
        assert same(expected, printed), printed


def test_the_python_runs() -> None:
    examples = [text for language, text in blocks("pools.md") if language == "python"]
    assert examples
    for text in examples:
        subprocess.run([sys.executable, "-c", text], cwd=DOCS.parent, timeout=SECONDS, check=True)


@pytest.mark.parametrize("model", [ElementFields, IntegralFields, OptionFields])
def test_every_field_is_named(model: type[ElementFields]) -> None:
    assert [name for name in model.model_fields if not re.search(rf"`{name}`", PAGE)] == []
