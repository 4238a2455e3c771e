"""The program as a whole: help, options everywhere, errors in one line, exit codes, quick start."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from omega.cellstate.redis import RedisCell
from omega.cli.lazy import Lazy
from omega.cli.main import omega as program
from tests.cli.conftest import Omega, join

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("redis", "numpy", "rich", "pydantic", "yaml", "anyio", "omega.cellstate.redis", "omega.schedulers")


def start(*words: str, within: Path = ROOT, **environment: str) -> "subprocess.Popen[str]":
    """Start the program as a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "omega.cli.main", *words],
        cwd=within,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def leaves(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command that is no group, with its names."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from leaves(command, (*path, name))
        else:
            yield (*path, name), command


def test_help_lists_every_command_that_is_there() -> None:
    text = Omega(None).text("--help")
    for name in ("store", "cell", "machine", "job", "scheduler", "events"):
        assert f"\n  {name} " in text


def test_short_help_is_the_same() -> None:
    assert Omega(None).text("job", "-h") == Omega(None).text("job", "--help")


def test_every_command_takes_the_common_options_and_explains_itself() -> None:
    found = dict(leaves(program))
    assert ("cell", "verify") in found
    for path, command in found.items():
        options = {name for parameter in command.params for name in parameter.opts}
        assert {"--json", "--store", "--cell", "-h", "--help"} <= options, path
        assert command.help, path


def test_the_help_of_a_command_names_the_common_options_and_only_the_program_explains_them() -> None:
    explained = ("\n  --store-file FILE", "\n  --cell NAME", "\n  --json", "\n  -h, --help")
    assert all(option in Omega(None).text("--help") for option in explained)
    for path, _ in leaves(program):
        text = Omega(None).text(*path, "--help")
        assert not [option for option in explained if option in text], path
        assert text.splitlines()[-1].startswith("  Common options: --store"), path
        assert "--cell, --json; see omega --help." in text, path
    assert "\n  --store URL" in Omega(None).text("sim", "run", "--help"), "it has a meaning of its own there"
    assert "-h, --help" not in Omega(None).text("job", "--help")


def test_completion_offers_the_common_options() -> None:
    shell = ShellComplete(program, {}, "omega", "_OMEGA_COMPLETE")
    for words in ([], ["job", "list"], ["store", "status"]):
        offered = {item.value for item in shell.get_completions(words, "--")}
        assert {"--store", "--store-file", "--cell", "--json", "--help"} <= offered, words


def test_summaries_in_groups_are_whole_sentences() -> None:
    for path, _ in leaves(program):
        if len(path) == 2:
            group = program.get_command(click.Context(program), path[0])
            if isinstance(group, Lazy):
                assert group.table[path[1]][1].endswith(".")


def imported(*words: str, names: tuple[str, ...]) -> str:
    """Which modules a command brought along, of these; in a process of its own."""
    check = (
        "import sys\nfrom omega.cli.main import main\nsys.argv = ['omega', *sys.argv[1:]]\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert end.code == 0\n"
        f"print([name for name in {names!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", check, *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stderr


@pytest.mark.parametrize("words", [("--help",), ("job", "--help"), ("cell", "status", "--help"), ("--version",)])
def test_help_imports_nothing_heavy(words: tuple[str, ...]) -> None:
    assert imported(*words, names=HEAVY) == "[]\n"


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_listing_pending_jobs_imports_no_arrays_and_no_schedulers(
    omega: Omega, cell: RedisCell, more: tuple[str, ...]
) -> None:
    join(cell, 3)
    assert omega.json("job", "run", "--name", "a", "--cpu", "1", "--detach")["jobs"]
    assert [job["reason"] for job in omega.json("job", "list")["jobs"]] == ["NO_SCHEDULER"]
    words = ("--store", str(omega.url), "--cell", cell.name, "job", "list", *more)
    unused = ("numpy", "rich", "pydantic", "lark", "anyio", "omega.schedulers.scheduler", "omega.cellstate.snapshot")
    assert imported(*words, names=unused) == "[]\n"


def test_a_plain_simulation_imports_no_files_no_parser_and_no_fair_shares() -> None:
    unused = (
        "pydantic",
        "yaml",
        "lark",
        "redis",
        "anyio",
        "omega.jobfile",
        "omega.pools",
        "omega.simulation.pool_history",
    )
    assert imported("sim", "run", "--days", "0.001", "--machines", "50", names=unused).splitlines()[-1] == "[]"


def test_version() -> None:
    assert Omega(None).text("--version").startswith("omega ")


def test_no_command_is_wrong_usage_and_shows_help() -> None:
    assert "Commands:" in Omega(None).run(code=2).stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("jib",), "omega: No such command 'jib' (did you mean job?)"),
        (("job", "lst"), "omega job: No such command 'lst' (did you mean list?)"),
        (("zzz",), "omega: No such command 'zzz'"),
        (("job", "list", "--nope"), "omega job list: No such option '--nope'"),
        (("job", "wait"), "omega job wait: Missing argument 'JOB…'"),
        (("job", "list", "--limit", "0"), "omega job list: Invalid value for '--limit': 0 is not in the range x>=1"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_2(words: tuple[str, ...], message: str) -> None:
    said = Omega(None).error(*words, code=2)
    assert said.startswith(message)
    assert said.endswith(" --help")


def test_options_may_stand_before_and_after_the_command(store_url: str, omega: Omega) -> None:
    after = Omega(None).run("cell", "status", "--json", "--store", store_url, "--cell", str(omega.cell))
    before = Omega(None).run("--json", "--store", store_url, "--cell", str(omega.cell), "cell", "status")
    assert json.loads(after.stdout) == json.loads(before.stdout)


def test_an_option_wins_over_the_environment(store_url: str, omega: Omega, monkeypatch: pytest.MonkeyPatch) -> None:
    with start("cell", "status", "--json", OMEGA_STORE=store_url, OMEGA_CELL=str(omega.cell)) as process:
        assert json.loads(process.communicate()[0])["cell"] == omega.cell
    with start("cell", "status", "--json", "--cell", "other", OMEGA_STORE=store_url, OMEGA_CELL="x") as process:
        assert "unknown cell 'other'" in process.communicate()[1]


def test_ctrl_c_exits_130(omega: Omega, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("omega.cli.app.App.cells", interrupted)
    assert Omega(omega.url).run("cell", "list", code=130).stdout == ""


def test_ctrl_c_ends_a_process_quietly(omega: Omega) -> None:
    words = ("--store", str(omega.url), "--cell", str(omega.cell), "events", "--follow", "--json")
    omega.run("cell", "limits", "batch", "--jobs", "3")
    with start(*words) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["kind"] == "limit"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
        assert (process.returncode, out, err.strip()) == (130, "", "")


def test_a_reader_that_goes_away_ends_it_quietly(omega: Omega) -> None:
    omega.run("cell", "limits", "batch", "--jobs", "3")
    words = ("--store", str(omega.url), "--cell", str(omega.cell), "events", "--follow", "--json")
    with start(*words) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        omega.run("cell", "limits", "batch", "--jobs", "4")
        assert process.wait(timeout=30) == 141
        assert process.stderr.read() == ""


def test_json_errors_are_one_line_on_stderr(omega: Omega) -> None:
    assert omega.error("job", "status", "nope", "--json") == f"job 'nope': not in cell {omega.cell}; see omega job list"


def test_nothing_in_a_pipe_is_coloured_or_cut(omega: Omega) -> None:
    name = "a-machine-with-a-very-long-name-" * 3
    omega.run("machine", "add", name, "--cpu", "1", "--attribute", f"rack={'r' * 200}")
    text = omega.text("machine", "list")
    assert name in text
    assert "r" * 200 in text
    assert "\x1b" not in text
    assert all(line == line.rstrip() for line in text.splitlines())
