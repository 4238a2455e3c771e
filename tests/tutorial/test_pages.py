"""What README.md and docs/ name is there: commands with their options, and the pages that are linked to."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from omega.cli.main import omega
from tests.tutorial.page import BLOCK, DOCS, commands, without_shell

ROOT = DOCS.parent
PAGES = [path.relative_to(ROOT) for path in sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])]
LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)")


def asked(page: Path) -> Iterator[list[str]]:
    """The words after `omega` of every command in the page's blocks, pipelines and quotations apart."""
    for _, text in BLOCK.findall((ROOT / page).read_text(encoding="utf-8")):
        for command in commands(text):
            if command.startswith("omega ") and (words := without_shell(command.split(" | ")[0].rstrip("& "))):
                yield words[1:]


def understood(words: list[str]) -> None:
    """Walk down to the command that is meant and read its options; raises click's error when there is none such."""
    command: click.Command = omega
    context = click.Context(command, info_name="omega")
    while isinstance(command, click.Group):
        _, words, _ = command.make_parser(context).parse_args(words)
        found = command.get_command(context, words[0])
        if found is None:
            raise click.UsageError(f"no command {words[0]}")
        command, words = found, words[1:]
        context = click.Context(command, context, info_name=command.name, **command.context_settings)
    command.make_parser(context).parse_args(words)


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_command_and_option_exists(page: Path) -> None:
    for words in asked(page):
        try:
            understood(words)
        except click.UsageError as error:
            pytest.fail(f"{page}: omega {' '.join(words)}: {error.format_message()}", pytrace=False)


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_page_that_is_linked_to_exists(page: Path) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert [link for link in LINK.findall(text) if not (ROOT / page.parent / link).exists()] == []


PATHS = re.compile(r"`((?:[\w.]+/)*[\w.]+\.(?:py|lua|md|toml)|(?:[\w.]+/)+[\w.]+)`")


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_every_path_that_is_named_exists(page: str) -> None:
    """A path may leave out leading folders, as in a table row that names several files of one folder."""
    found = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    known = {f"/{path}" for path in found} | {f"/{parent}" for path in found for parent in Path(path).parents}
    named = set(PATHS.findall((ROOT / page).read_text(encoding="utf-8")))
    assert len(named) > 5
    assert sorted(path for path in named if not any(each.endswith(f"/{path}") for each in known)) == []
