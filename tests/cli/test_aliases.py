"""Words of other schedulers: aliases run the command, other words are answered with the command of that meaning."""

import click
import pytest

from omega.cli.aliases import ALIASES, MEANINGS, TOP_ALIASES
from omega.cli.lazy import Lazy
from omega.cli.main import omega as program
from tests.cli.conftest import Omega


def commands() -> set[str]:
    """Every command, as it is typed."""
    found = set()
    context = program.make_context("omega", [], resilient_parsing=True)
    for name in program.list_commands(context):
        group = program.get_command(context, name)
        found.add(name)
        found |= {f"{name} {inner}" for inner in getattr(group, "list_commands", lambda _: [])(context)}
    return found


def test_every_word_leads_to_a_command_that_exists() -> None:
    known = commands()
    inner = {name.split()[-1] for name in known}
    for words in (*ALIASES.values(), *MEANINGS.values()):
        assert all(word in known or word in inner for word in words), words
    assert all(" ".join(words) in known for words in TOP_ALIASES.values())


def test_aliases_run_the_command(omega: Omega) -> None:
    assert omega.json("ls") == omega.json("ps") == omega.json("job", "ls") == omega.json("job", "list")
    omega.run("job", "submit", "-", "--hold", "--detach", given="{name: web, kind: batch, tasks: [{}]}")
    assert omega.json("delete", "web")["jobs"][0]["state"] == "stopped"
    assert omega.json("machine", "ls")["machines"] == omega.json("machine", "list")["machines"]


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (("nodes",), "did you mean machine list?"),
        (("squeue",), "did you mean job list?"),
        (("logs", "x"), "did you mean job logs?"),
        (("kill", "x"), "did you mean job stop?"),
        (("describe", "x"), "did you mean job status?"),
        (("job", "kill"), "did you mean stop?"),
        (("job", "pause"), "did you mean hold?"),
        (("machine", "cordon"), "did you mean drain?"),
        (("jobs",), "did you mean job list?"),
        (("stat",), "did you mean job status?"),
        (("joblist",), "did you mean job list?"),
        (("kil", "x"), "did you mean job stop?"),
        (("job", "kil"), "did you mean stop?"),
        (("job", "staus"), "did you mean status?"),
        (("job", "squeue"), "did you mean list?"),
        (("job", "watch"), "did you mean omega top?"),
        (("machine", "logs"), "did you mean omega job logs?"),
    ],
)
def test_other_words_are_suggested_by_meaning(typed: tuple[str, ...], said: str) -> None:
    assert said in Omega(None).error(*typed, code=2)


@pytest.mark.chaos
def test_every_word_in_every_group_is_answered() -> None:
    """Words of other systems, names of commands and misspellings of both, at the top level and in each group."""
    known, answered = commands(), 0
    root = program.make_context("omega", [], resilient_parsing=True)
    root.resilient_parsing = False
    words = {*MEANINGS, *ALIASES, *(name for command in known for name in command.split())}
    words |= {f"{word}s" for word in words} | {word[:-1] for word in words if len(word) > 3}
    groups = {name: program.get_command(root, name) for name in program.list_commands(root)}
    inner = [(each, click.Context(each, root, name)) for name, each in groups.items() if isinstance(each, Lazy)]
    for group, context in [(program, root), *inner]:
        for word in sorted(words):
            if word in group.list_commands(context):
                continue
            try:
                group.resolve_command(context, [word])
            except click.UsageError as error:
                if " (did you mean " not in error.message:
                    assert word not in MEANINGS, (context.info_name, word)
                    continue
                hint = error.message.partition(" (did you mean ")[2].rstrip("?)")
                own = "" if context is root else f"{context.info_name} "
                assert hint.removeprefix("omega ") in known or f"{own}{hint}" in known, (context.info_name, word, hint)
                answered += 1
    assert answered > 1_000


def test_a_word_of_no_meaning_gets_no_suggestion() -> None:
    assert "did you mean" not in Omega(None).error("blah", code=2)


def test_output_formats_of_lists(omega: Omega) -> None:
    omega.json("machine", "add", "m1", "--cpu", "2", "--memory", "2Gi")
    assert "machines" in omega.json("machine", "list", "-o", "json")
    assert omega.text("machine", "list", "-o", "name").split() == ["m1"]
    wide = omega.text("machine", "list", "-o", "wide")
    assert {"name", "state", "executor"} <= set(wide.splitlines()[0].split())


def test_version_is_a_command() -> None:
    assert set(Omega(None).json("version")) == {"omega", "python", "schema", "rules"}


@pytest.mark.parametrize("words", [(), ("job",), ("job", "list"), ("store", "backup")])
def test_help_is_a_command_too(words: tuple[str, ...]) -> None:
    nowhere = Omega(None)
    assert nowhere.text("help", *words) == nowhere.text(*words, "--help")


def test_summaries_of_commands_are_whole() -> None:
    context = program.make_context("omega", [], resilient_parsing=True)
    for name in program.list_commands(context):
        assert "..." not in Omega(None).text(name, "--help").partition("Commands:")[2], name
