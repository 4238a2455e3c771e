"""What README.md and docs/ name is there: commands with their options, and the pages that are linked to."""

import re
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
