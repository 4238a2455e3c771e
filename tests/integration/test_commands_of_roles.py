"""Every command as every role, with and without --cell: an answer, or one line of error; never a traceback."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import pytest
import redis

from omega.cellstate.acl import line
from omega.cellstate.keys import ROLES
from omega.cli.main import omega as program
from tests.cli.conftest import Omega
from tests.integration.stage import own_server

pytestmark = pytest.mark.server
WORDS: Mapping[str, str] = {
    "job submit": "{job}", "job run": "--detach --name more -- true", "job plan": "{job}", "job list": "",
    "job status": "crawl", "job weight": "crawl 2",
    "job why": "crawl", "job wait": "crawl --timeout 0", "job logs": "crawl", "job stop": "crawl", "job hold": "crawl",
    "job release": "crawl", "job tasks": "crawl", "job rerun": "crawl", "job history": "crawl", "job revert": "crawl",
    "usage": "", "job resize": "crawl 2", "job update": "crawl {job}",
    "machine add": "m9 --cpu 1 --memory 1Gi",
    "machine list": "", "machine status": "m0", "machine drain": "m0", "machine up": "m0", "machine down": "m0",
    "machine remove": "m1", "machine set": "m0 a=b", "machine resize": "m0 --cpu 3",
    "cell create": "prod", "cell list": "",
    "cell status": "", "cell durability": "none", "cell verify": "", "cell record": "{record} --force --for 0.1s",
    "cell limits": "batch --jobs 5", "cell delete": "", "cell upgrade": "", "store status": "",
    "store acl": "reader", "store backup": "- ", "store restore": "{file}", "pool list": "",
    "pool show": "p", "pool set": "p --weight 2", "pool remove": "p", "pool import": "{pools}", "pool export": "",
    "pool plan": "{pools}", "scheduler list": "", "scheduler status": "", "mapreduce progress": "crawl", "events": "",
    "top": "--once",
}  # fmt: skip
"""The words after each command that connects to a store and ends by itself."""
OTHERS = {
    "agent", "up", "down", "demo", "machine simulate", "scheduler run", "mapreduce worker", "pool watch", "store start",
    "store stop", "serve",
}  # fmt: skip
"""Commands that run until they are stopped, or concern the embedded store; test_users.py has roles at work."""
WITHOUT_A_STORE = ("sim", "experiment", "bench", "completion", "version", "scheduler", "pool", "help", "job", "machine")


@pytest.fixture(scope="module")
def stores() -> Iterator[Mapping[str, str]]:
    """The URL of a store by role; it has a cell with two machines and a job."""
    with own_server() as server, redis.Redis.from_url(server.url) as client:
        info = client.info("server")
        assert isinstance(info, dict)
        version, path = tuple(map(int, info["redis_version"].split("."))), server.url.removeprefix("unix://")
        for role in ROLES:
            client.execute_command("ACL", "SETUSER", *line(role, "prod", version, password=role).split()[1:])
        admin = Omega(server.url, "prod")
        admin.run("cell", "create", "prod", "--machines", "2", "--cpu", "4", "--memory", "4Gi")
        admin.run("job", "run", "--name", "crawl", "--detach")
        yield {role: f"unix://omega-{role}:{role}@{path}" for role in ROLES}


def leaves(group: click.Group, before: str = "") -> Iterator[str]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from leaves(command, f"{before}{name} ")
        else:
            yield f"{before}{name}"


def test_the_table_has_every_command() -> None:
    known = WORDS.keys() | OTHERS
    missing = [each for each in leaves(program) if each not in known and each.split()[0] not in WITHOUT_A_STORE[:5]]
    assert [
        each
        for each in missing
        if each not in ("scheduler policies", "scheduler test", "pool compute", "cell backtest", "trace info", "token")
    ] == []


@pytest.mark.parametrize("role", ROLES)
def test_every_command_answers_or_ends_with_one_line(stores: Mapping[str, str], role: str, tmp_path: Path) -> None:
    files = {"job": tmp_path / "job.yaml", "pools": tmp_path / "pools.yaml", "file": tmp_path / "x.omega"}
    files["record"] = tmp_path / "x.rec.gz"
    files["job"].write_text("name: other\ntasks:\n  - {name: t, resources: {cpu: 1}, duration: 1s}\n")
    files["pools"].write_text("pools:\n  - {name: p}\n")
    files["file"].write_text("nothing")
    for cell in ("prod", None):
        omega = Omega(stores[role], cell)
        for command, words in WORDS.items():
            rest = words.format_map(files).split()
            result = _run(omega, (*command.split(), *rest))
            if result.exit_code == 1 and result.stderr:
                errors = [text for text in result.stderr.splitlines() if text.startswith("error: ")]
                assert len(errors) <= 1, (command, cell, result.stderr)
                assert "Traceback" not in result.stderr
    listed = Omega(stores[role], None).json("store", "status")["cells"]
    assert listed == (["prod"] if role in ("reader", "person") else None)
    if listed is None:
        said = _run(Omega(stores[role], None), ("job", "list")).stderr.strip()
        assert said.endswith("lists its cells for readers and persons only; name yours with --cell")


@pytest.mark.parametrize("role", ["reader", "person"])
def test_readers_can_record(stores: Mapping[str, str], role: str, tmp_path: Path) -> None:
    found = Omega(stores[role], "prod").json("cell", "record", str(tmp_path / "x.rec.gz"), "--for", "0.1s")
    assert found["why"] == "time"


def _run(omega: Omega, words: tuple[str, ...]) -> click.testing.Result:
    named = [("--store", omega.url), ("--cell", omega.cell)]
    before = [word for option, value in named if value is not None for word in (option, value)]
    environment = {"OMEGA_STORE": None, "OMEGA_CELL": None, "OMEGA_USER": "ada"}
    result = click.testing.CliRunner().invoke(program, [*before, *words], env=environment)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise AssertionError(words) from result.exception
    return result
