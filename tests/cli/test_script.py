"""`omega job submit SCRIPT`: directives are options of `job run`, typed options replace them, errors name the line."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from omega.cellstate.errors import BadInput
from omega.cellstate.redis import RedisCell
from omega.cli.job.run import command as run
from omega.cli.lazy import CommonOption
from omega.cli.options import pairs
from omega.client.client import Client
from omega.jobfile.script import MOST, OPTIONS, defaults
from tests.cli.conftest import Omega, join

HELLO = """#!/bin/bash
# a remark
#OMEGA --cpu 500m --time-limit 10m  # of each task
#OMEGA --env A=1 --env "B=x y"

#OMEGA --constraint "has ssd" --count 3
echo "$0 $1 $2 $A $B"
"""


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., str]:
    """Write a script; returns its path."""

    def write(text: str = HELLO, name: str = "hello.sh") -> str:
        (tmp_path / name).write_text(text, newline="")
        return str(tmp_path / name)

    return write


def submitted(cell: RedisCell, omega: Omega, *words: str, given: str | None = None) -> tuple[Any, dict[str, Any]]:
    """Submit, and return the job and the spec of its group."""
    job_id = omega.json("job", "submit", "--detach", *words, given=given)["jobs"][0]["id"]
    job = cell.jobs.get(job_id)
    assert job is not None
    return job, job.spec["groups"][0]


def test_directives_are_the_options_of_run(omega: Omega, cell: RedisCell, script: Callable[..., str]) -> None:
    job, group = submitted(cell, omega, script(), "one")
    assert (job.name, job.groups[0].total, job.groups[0].need) == ("hello", 3, (500, 0))
    assert group["command"] == ["/bin/bash", "-c", HELLO, "hello.sh", "one"]
    assert (group["time_limit"], group["constraints"]) == (600_000, ["has ssd"])
    assert job.spec["environment"] == {"A": "1", "B": "x y"}
    assert job.spec["submitted_in"] == str(Path.cwd())


def test_typed_options_replace_directives(omega: Omega, cell: RedisCell, script: Callable[..., str]) -> None:
    typed = ("--cpu", "2", "--env", "A=9", "--constraint", "has gpu", "--name", "other")
    job, group = submitted(cell, omega, *typed, script(), "--", "-x", "--cpu")
    assert (job.name, job.groups[0].total, job.groups[0].need) == ("other", 3, (2_000, 0))
    assert group["command"][4:] == ["-x", "--cpu"]
    assert group["constraints"] == ["has gpu"]
    assert job.spec["environment"] == {"A": "9", "B": "x y"}


def test_a_second_job_of_a_script_has_a_name_of_its_own(
    omega: Omega, cell: RedisCell, script: Callable[..., str]
) -> None:
    first, second = (submitted(cell, omega, script())[0] for _ in range(2))
    assert (first.name, second.name) == ("hello", f"hello-{second.id[:4]}")


@pytest.mark.parametrize("first", ["#!/bin/sh", "#!/usr/bin/env bash", "#!/usr/bin/env -S bash -e", "#!python3.11 -u"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_first_line_names_the_interpreter(
    omega: Omega, cell: RedisCell, script: Callable[..., str], first: str, end: str
) -> None:
    body = "import sys; print(sys.argv[1:])" if "python" in first else "echo \"['$1', '$2']\""
    _, group = submitted(cell, omega, script(end.join((first, "#OMEGA --cpu 1", body, ""))), "a b", "c")
    command = group["command"]
    if "python" in first:
        assert command[:3] == ["python3.11", "-u", "-c"]
        return
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout == "['a b', 'c']\n"


def test_a_script_comes_from_stdin(omega: Omega, cell: RedisCell) -> None:
    job, group = submitted(cell, omega, "-", "x", given="#!/bin/sh\n#OMEGA --hold\necho\n")
    assert (job.name, job.held, group["command"][3:]) == ("sh", True, ["stdin", "x"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("#!/bin/sh\n\n#OMEGA --cpus 2\n", "{}:3: no option --cpus; did you mean --cpu?"),
        ("#!/bin/sh\n#OMEGA --time-limit 10x\n", "{}:2: --time-limit: '10x' is not a duration"),
        ("#!/bin/sh\n#OMEGA --cpu 1\n#OMEGA --memory much\n", "{}:3: --memory: "),
        ("#!/bin/sh\n#OMEGA --constraint 'rack ='\n", "{}:2: --constraint: "),
        ("#!/bin/sh\n#OMEGA --count 0\n", "{}:2: --count: 0 is not allowed; want at least 1"),
        ("#!/bin/sh\n#OMEGA --array 9-1\n", "{}:2: --array: "),
        ("#!/bin/sh\n#OMEGA --weight much\n", "{}:2: --weight: 'much' is not a number"),
        ("#!/bin/sh\n#OMEGA --gang-min 1.5\n", "{}:2: --gang-min: '1.5' is not a whole number"),
        ("#!/bin/sh\n#OMEGA --gang=yes\n", "{}:2: --gang: takes no value"),
        ("#!/bin/sh\n#OMEGA --cpu\n", "{}:2: --cpu: its value is missing"),
        ("#!/bin/sh\n#OMEGA --env A=1 --env A=2\n", "{}:2: --env: A is given twice"),
        ("#!/bin/sh\n#OMEGA --env A\n", "{}:2: --env: 'A' is not NAME=VALUE"),
        ("#!/bin/sh\n#OMEGA --env 'A=1\n", "{}:2: no closing quotation"),
        ("#!/bin/sh\n#OMEGA stray\n", "{}:2: unexpected word 'stray'"),
        ("#!/bin/sh\n#OMEGA --store redis://x\n", "{}:2: no option --store;"),
        ("#!/usr/bin/awk -f\n", "{}:1: no interpreter that takes a script as an argument"),
        ("#!\n", "{}:1: no interpreter"),
    ],
)
def test_errors_name_the_line(omega: Omega, cell: RedisCell, script: Callable[..., str], text: str, said: str) -> None:
    path = script(text)
    assert omega.error("job", "submit", path).startswith(said.format(path))
    assert cell.jobs.live_count() == 0


def test_a_directive_after_a_command_warns(omega: Omega, script: Callable[..., str]) -> None:
    path = script("#!/bin/sh\necho\n#OMEGA --cpu 1\n#OMEGATRON\n")
    warned = omega.run("job", "submit", path, "--detach").stderr
    assert f"warning: {path}:3: has no effect after the first command, in line 2" in warned
    assert f"{path}:4" not in warned


def test_options_of_a_script_do_not_go_with_a_job_file(omega: Omega, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("{name: a, tasks: [{}]}")
    path = str(tmp_path / "job.yaml")
    assert f"--cpu goes with a script, which begins with #!; {path} is" in omega.error(
        "job", "submit", "--cpu", "1", path, code=2
    )


def test_a_plan_takes_what_submit_takes(omega: Omega, cell: RedisCell, script: Callable[..., str]) -> None:
    join(cell, 4)
    text = HELLO.replace('--constraint "has ssd" ', "")
    planned = omega.json("job", "plan", "--simulate", "--cpu", "3", script(text), "one")["jobs"][0]
    assert (planned["name"], planned["placed"], planned["unplaced"]) == ("hello", 3, 0)
    assert omega.json("job", "list")["jobs"] == []
    omega.run("job", "submit", "--detach", script(text))
    assert omega.json("job", "plan", "--simulate", script(text))["jobs"][0]["name"].startswith("hello-")
    assert "hello" in omega.error("job", "plan", "--name", "hello", script(text))


def test_directives_take_the_options_of_run_as_it_takes_them(omega: Omega) -> None:
    own = [each for each in run.params if isinstance(each, click.Option) and not isinstance(each, CommonOption)]
    options = {name: each for each in own for name in (*each.opts, *each.secondary_opts)}
    del options["--cells-policy"]  # goes with --cell, which is no directive either
    assert options.keys() == OPTIONS.keys()
    usual = click.Command("run", params=list(run.params)).make_context("run", []).params
    assert defaults() == {name: value for name, value in usual.items() if name not in ("words", "cells_policy")}
    for name, (parameter, form) in OPTIONS.items():
        option = options[name]
        assert parameter == option.name
        if isinstance(form, bool):
            assert (option.is_flag, form) == (True, name in option.opts)
        elif isinstance(form, tuple):
            assert isinstance(option.type, click.types._NumberRangeBase)
            assert (option.type.min, option.type.max or MOST) == form[1:]
            assert isinstance(option.type, click.IntRange) == (form[0] is int)
        else:
            assert option.multiple == (form != "text")
            assert (option.callback is pairs) == (form == "pairs")


def test_a_client_takes_what_the_command_line_takes(
    omega: Omega, cell: RedisCell, script: Callable[..., str], tmp_path: Path
) -> None:
    text = HELLO + "\n#OMEGA --cpu 9\n"
    typed, _ = submitted(cell, omega, script(text))
    omega.text("job", "stop", "hello")
    with Client(store=str(omega.url), cell=cell.name, user="ada") as client:
        planned = client.plan(script(text))
        assert [planned["jobs"][0]["name"], len(planned["warnings"])] == ["hello", 2]
        answer = client.submit(script(text))
        assert answer["warnings"][0] == f"{script(text)}:9: has no effect after the first command, in line 7"
        job = cell.jobs.get(answer["jobs"][0]["id"])
        assert job is not None
        assert (job.name, job.groups[0].need, job.spec, job.submitter) == (
            "hello", typed.groups[0].need, typed.spec, typed.submitter,
        )  # fmt: skip
        assert client.submit(Path(script(text)))["jobs"][0]["name"].startswith("hello-"), "its name is taken"
        held = client.submit(script("#!/bin/sh\n#OMEGA --hold --name wait\n:\n"))["jobs"][0]
        assert cell.jobs.get(held["id"]).held  # type: ignore[union-attr]
        with pytest.raises(BadInput, match="has --hold"):
            client.submit(script("#!/bin/sh\n#OMEGA --hold\n:\n"), {"name": "other", "tasks": [{}]})
        with pytest.raises(BadInput, match=r":2: --cpu: .*'x'"):
            client.submit(script("#!/bin/sh\n#OMEGA --cpu x\n:\n"))
