"""Users by `omega store acl` on each server there is: role by script and by raw write, as docs/stores.md has it."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from omega.cellstate.acl import ALLOWED, SCRIPTS, line
from omega.cellstate.keys import ROLES
from omega.cellstate.redis.scripts import script
from tests.cli.conftest import Omega
from tests.conftest import ROOT, absent, find_server, socket_directory, wait_for
from tests.server_programs import Absent, installed

pytestmark = pytest.mark.server
WRITES: dict[str, tuple[str, ...]] = {
    "SET": ("x",), "DEL": (), "UNLINK": (), "HSET": ("f", "v"), "HDEL": ("f",), "HINCRBY": ("f", "1"), "RPUSH": ("v",),
    "LPUSH": ("v",), "LPOP": (), "LTRIM": ("0", "-1"), "SADD": ("v",), "SREM": ("v",), "ZADD": ("1", "v"),
    "ZREM": ("v",), "XADD": ("*", "f", "v"), "XTRIM": ("MAXLEN", "9"), "PEXPIRE": ("9",), "PERSIST": (),
    "RENAME": ("omega:1:{prod}:y",), "COPY": ("omega:1:{prod}:y",), "RESTORE": ("0", "x"), "APPEND": ("x",),
}  # fmt: skip
"""Commands that write, and what follows the key."""
DANGEROUS = (
    ("FLUSHALL",),
    ("FLUSHDB",),
    ("CONFIG", "SET", "maxmemory", "0"),
    ("SCRIPT", "FLUSH"),
    ("SHUTDOWN", "NOSAVE"),
    ("ACL", "SETUSER", "x"),
    ("KEYS", "*"),
    ("DEBUG", "SLEEP", "0"),
    ("REPLICAOF", "NO", "ONE"),
    ("MONITOR",),
)


@pytest.fixture(scope="module", params=["embedded", "Redis 7.0", "Redis 6.2"])
def acl_server(request: pytest.FixtureRequest) -> Iterator[str]:
    """A server of its own, by the URL of its socket."""
    if request.param == "embedded":
        program: tuple[str, ...] = (find_server() or absent("no server"),)
    else:
        try:
            program = installed(request.param).command
        except Absent as error:
            pytest.skip(str(error))
    directory = socket_directory()
    socket, log = directory / "store.sock", directory / "log"
    command = [*program, "--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", str(directory)]
    with log.open("wb") as output:
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
    try:
        wait_for(server, socket, log)
        yield f"unix://{socket}"
    finally:
        server.kill()
        server.wait()
        shutil.rmtree(directory, ignore_errors=True)


def version_of(client: Any) -> tuple[int, ...]:
    return tuple(int(part) for part in client.info("server")["redis_version"].split(".")[:2])


@pytest.fixture
def users(acl_server: str) -> Iterator[dict[str, Any]]:
    """A connection for each role."""
    with redis.Redis.from_url(acl_server) as client:
        client.flushall()
        for role in ROLES:
            client.execute_command("ACL", "SETUSER", *line(role, "prod", version_of(client), "secret").split()[1:])
    url = acl_server.removeprefix("unix://")
    made = {role: redis.Redis.from_url(f"unix://omega-{role}:secret@{url}") for role in ROLES}
    yield made
    for each in made.values():
        each.close()


def permitted(client: Any, *words: str) -> bool:
    """Whether the server lets this user run a command; what it answers otherwise does not matter."""
    try:
        client.execute_command(*words)
    except redis.exceptions.NoPermissionError:
        return False
    except redis.exceptions.ResponseError as error:
        return not any(word in str(error) for word in ("NOPERM", "permission", "not allowed"))
    return True


def test_a_role_runs_its_scripts_and_no_others(users: dict[str, Any]) -> None:
    """A server checks a user before it looks for the script, so that none has to be loaded, and nothing runs."""
    found = {
        role: {name for name in SCRIPTS if permitted(client, "EVALSHA", script(name).sha, "1", "omega:1:{prod}:meta")}
        for role, client in users.items()
    }
    assert found == {role: set(names) for role, names in ALLOWED.items()}


def test_the_table_of_the_page_is_what_the_server_permits(users: dict[str, Any]) -> None:
    page = (ROOT / "docs" / "stores.md").read_text()
    for role, client in users.items():
        assert row(role, client) in page, row(role, client)


def row(role: str, client: Any) -> str:
    """Return the row of a role in the page, measured on this server."""
    purpose = {
        "reader": "dashboards, `omega top`, `omega job list`, `omega cell verify`, `omega store backup`",
        "submitter": "`omega job run`, `stop`, `hold`, `resize`, `update`",
        "scheduler": "`omega scheduler run`",
        "executor": "`omega agent`, `omega machine simulate`, MapReduce workers",
        "person": "all commands, `omega cell create` and `omega store restore` among them",
    }[role]
    scripts = [name for name in SCRIPTS if permitted(client, "EVALSHA", script(name).sha, "1", "omega:1:{prod}:meta")]
    raw = [name for name, rest in WRITES.items() if permitted(client, name, "omega:1:{prod}:x", *rest)]
    reads, writes = permitted(client, "SMEMBERS", "omega:1:cells"), permitted(client, "SADD", "omega:1:cells", "prod")
    cells = "reads and writes" if writes else "reads" if reads else "no"
    script_cell = "all" if len(scripts) == len(SCRIPTS) else ", ".join(scripts)
    raw_cell = ", ".join(name.lower() for name in raw) or "none"
    evals = "yes" if permitted(client, "EVAL", "return 1", "0") else "no"
    return f"| {role} | {purpose} | {script_cell} | {raw_cell} | {cells} | {evals} |"


def test_no_role_does_what_endangers_the_store_or_other_cells(users: dict[str, Any]) -> None:
    for role, client in users.items():
        assert [words for words in DANGEROUS if permitted(client, *words)] == [], role
        for command in ("GET", "DEL", "HGETALL"):
            assert not permitted(client, command, "omega:1:{other}:meta"), role
        assert not permitted(client, "EVALSHA", script("sync").sha, "1", "omega:1:{other}:meta"), role


@pytest.mark.parametrize("version", ["6.2", "7.0", "7.2", "9.1"])
def test_setinfo_is_in_the_line_from_7_2_on(version: str) -> None:
    text = Omega("redis://nowhere.invalid", "prod").text("store", "acl", "reader", "--server-version", version)
    assert ("client|setinfo" in text) == (version in ("7.2", "9.1"))
    assert text.startswith("user omega-reader reset off ~omega:1:{prod}:* ~omega:1:cells resetchannels -@all ")


def test_the_password_is_hashed_and_bad_input_is_one_line(tmp_path: Path) -> None:
    omega, secret = Omega("redis://nowhere.invalid", "prod"), tmp_path / "secret"
    secret.write_text("hidden\n")
    secret.chmod(0o644)
    assert "is open to other users (mode 644)" in omega.error(
        "store", "acl", "person", "--server-version", "7", "--password-file", str(secret)
    )
    secret.chmod(0o600)
    text = omega.text("store", "acl", "person", "--server-version", "7.2", "--password-file", str(secret))
    assert "hidden" not in text
    assert re.search(r" on #[0-9a-f]{64} ", text)
    assert "is not a version" in omega.error("store", "acl", "person", "--server-version", "new")
    secret.write_text("")
    assert "is empty" in omega.error("store", "acl", "person", "--server-version", "7", "--password-file", str(secret))
    assert "cannot be read" in omega.error(
        "store", "acl", "person", "--server-version", "7", "--password-file", str(tmp_path / "none")
    )
