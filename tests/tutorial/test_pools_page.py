"""The pages about pools are true: commands print what is shown, Python runs, and every field of a file is named."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import click.testing
import pytest
from pydantic import BaseModel

from omega.cellstate.redis import RedisCell
from omega.cli.main import omega as program
from omega.pools import file as pool_file
from omega.pools.tree_file import ElementFields, IntegralFields, OptionFields
from tests.tutorial.page import DOCS, SECONDS, blocks, commands, same, without_shell

POOLS, CALCULATOR = "pools.md", "fair-share-calculator.md"
LOOK_SECONDS = 20.0
STARTS = "omega up "


def run(command: str, folder: Path) -> str:
    """What a command prints, on both streams."""
    words = without_shell(command)
    if words and words[0] == "omega":
        result = click.testing.CliRunner().invoke(program, words[1:])
        return result.output
    done = subprocess.run(
        ["sh", "-c", command], cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=True
    )
    return done.stdout


@pytest.mark.server
@pytest.mark.parametrize(("page", "outputs"), [(POOLS, 4), (CALCULATOR, 1)])
def test_the_commands_print_what_the_page_shows(
    page: str,
    outputs: int,
    tmp_path: Path,
    store_url: str,
    cell: RedisCell,
    at_work: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in (("OMEGA_STORE", store_url), ("OMEGA_CELL", cell.name), ("OMEGA_USER", "ada")):
        monkeypatch.setenv(name, value)
    found = [(language, text) for language, text in blocks(page) if language in ("sh", "")]
    shown = 0
    for at, (language, text) in enumerate(found):
        if language != "sh":
            continue
        if text.startswith(STARTS):
            at_work(machines=4, capacity=(4000, 16384))
            continue
        expected = found[at + 1][1] if at + 1 < len(found) and found[at + 1][0] == "" else None
        *before, last = commands(text)
        printed = "".join(run(command, tmp_path) for command in before)
        before_last, deadline = printed, time.monotonic() + LOOK_SECONDS
        printed = before_last + run(last, tmp_path)
        while expected is not None and not same(expected, printed) and time.monotonic() < deadline:
            time.sleep(0.1)
            printed = before_last + run(last, tmp_path)
        assert expected is None or same(expected, printed), printed
        shown += expected is not None
    assert shown == outputs


def test_the_python_runs() -> None:
    examples = [text for language, text in blocks(CALCULATOR) if language == "python"]
    assert examples
    for text in examples:
        subprocess.run([sys.executable, "-c", text], cwd=DOCS.parent, timeout=SECONDS, check=True)


@pytest.mark.parametrize(
    ("page", "model"),
    [
        (CALCULATOR, ElementFields),
        (CALCULATOR, IntegralFields),
        (CALCULATOR, OptionFields),
        ("pool-settings.md", pool_file.FileFields),
    ],
)
def test_every_field_is_named(page: str, model: type[BaseModel]) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    assert [name for name in model.model_fields if f"`{name}`" not in text] == []
