"""What people get wrong, and what stores do: each has its one line, exit 1, and nothing is changed."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from omega.cellstate import refused_writes
from omega.cellstate.keys import SCHEMA
from omega.cellstate.model import JobSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.server import connect
from omega.jobfile.form import fields_at
from tests.answering import answering
from tests.cli.conftest import Omega

JOB = "name: crawl\ntasks:\n  - count: 2\n    resources:\n      {}\n"


@pytest.fixture
def empty_store(store_url: str) -> Iterator[str]:
    """Another database of the real server, without a cell."""
    url = f"{store_url}?db=7"
    yield url
    with connect(url) as client:
        client.flushdb()


# Words


@pytest.mark.parametrize(
    "words",
    [
        ("job", "run", "--detach", "--", "\udcff"),
        ("job", "status", "\udcff"),
        ("machine", "add", "m", "--cpu", "1", "--attribute", "a=\udcff"),
    ],
)
def test_bytes_that_are_no_text(omega: Omega, cell: RedisCell, words: tuple[str, ...]) -> None:
    said = omega.error(*words)
    assert "\\udcff" in said
    assert said.endswith("is not valid UTF-8; write it in UTF-8")
    assert (cell.jobs.all(), cell.machines.all()) == ([], [])


def test_types_of_options_are_named_in_plain_words(omega: Omega) -> None:
    assert "'x' is not a whole number; see omega events --help" in omega.error("events", "--since", "x", code=2)
    assert "'x' is not a number; see omega pool set --help" in omega.error("pool", "set", "a", "--weight", "x", code=2)


def test_a_directory_that_was_removed(omega: Omega, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert omega.json("job", "run", "--detach", "--name", "a", "--", "true")["jobs"][0]["name"] == "a"


# Cells


def test_unknown_cell(empty_store: str) -> None:
    said = Omega(empty_store, "nope").error("job", "list")
    assert said == f"unknown cell 'nope' on {empty_store}; it has: none; make one with omega cell create nope"
    Omega(empty_store).run("cell", "create", "one")
    said = Omega(empty_store, "nope").error("job", "list")
    assert said == f"unknown cell 'nope' on {empty_store}; it has: one; make one with omega cell create nope"


@pytest.mark.parametrize("name", ["", "a b", "{}", "{", "a}b", "é{", "\udcff"])
def test_a_name_that_no_cell_can_have(empty_store: str, name: str) -> None:
    for words in (("job", "list"), ("cell", "delete", "--yes"), ("cell", "create", name)):
        assert Omega(empty_store, name).error(*words) == f"cell name {name!r}: use letters, digits, . _ -"


def test_no_cell_yet(empty_store: str) -> None:
    said = Omega(empty_store).error("cell", "status")
    assert said == f"unknown cell 'default' on {empty_store}; it has: none; make one with omega cell create default"


def test_the_only_cell_is_meant(empty_store: str) -> None:
    omega = Omega(empty_store)
    omega.run("cell", "create", "one")
    assert omega.json("cell", "status")["cell"] == "one"


def test_two_cells_on_one_store(empty_store: str) -> None:
    omega = Omega(empty_store)
    for name in ("one", "two"):
        omega.run("cell", "create", name, "--machines", "1", "--cpu", "1")
    said = omega.error("job", "list")
    assert said == f"the store at {empty_store} has 2 cells: one, two; choose one with --cell or OMEGA_CELL"
    Omega(empty_store, "one").run("job", "run", "--name", "same")
    Omega(empty_store, "two").run("job", "run", "--name", "same")
    Omega(empty_store, "one").run("job", "stop", "same")
    assert Omega(empty_store, "two").json("job", "status", "same")["state"] == "pending"
    Omega(empty_store, "one").run("cell", "delete", "--yes")
    assert Omega(empty_store).json("cell", "verify")["ok"]


def test_of_several_cells_the_one_called_default_is_meant(empty_store: str) -> None:
    omega = Omega(empty_store)
    for name in ("demo", "default", "prod"):
        omega.run("cell", "create", name)
    assert omega.json("cell", "status")["cell"] == "default"
    assert "has 3 cells" in omega.error("cell", "delete", "--yes"), "not for what cannot be undone"


def test_a_cell_of_a_newer_omega(omega: Omega, cell: RedisCell) -> None:
    cell.client.hset(f"omega:1:{{{cell.name}}}:meta", "schema", SCHEMA + 1)
    assert omega.error("job", "list") == (
        f"cell {cell.name}: written with schema {SCHEMA + 1}, this Omega has schema {SCHEMA}; "
        "use the newer Omega, or name another cell with --cell"
    )


# Stores


def test_store_out_of_reach() -> None:
    url = "redis://127.0.0.1:1"
    said = Omega(url).error("cell", "list")
    assert said == f"no answer from the store at {url}: Connection refused; start the server or check --store"
    said = Omega("unix:///no/such.sock").error("job", "list")
    assert said.startswith("no answer from the store at unix:///no/such.sock: No such file or directory; start the ser")


def test_what_is_no_store() -> None:
    said = Omega("http://example.org").error("cell", "list")
    assert said == (
        "store 'http://example.org': not a URL of a store; "
        "write redis://MACHINE:PORT/DB, rediss://… (TLS), unix:///PATH?db=DB, redis+sentinel://MACHINE:PORT,…/NAME or "
        "redis+cluster://MACHINE:PORT,…"
    )


@pytest.fixture
def info() -> dict[str, str]:
    """What the fake server says of itself."""
    return {"redis_version": "5.0.14", "maxmemory_policy": "noeviction"}


@pytest.fixture
def fake_store(info: dict[str, str]) -> Iterator[str]:
    """A server that answers every command with INFO."""

    def told() -> bytes:
        text = "".join(f"{name}:{value}\r\n" for name, value in info.items())
        return f"${len(text)}\r\n{text}\r\n".encode()

    with answering(told) as url:
        yield url


def test_a_server_that_is_too_old(fake_store: str) -> None:
    said = Omega(fake_store).error("cell", "list")
    assert said == f"the store at {fake_store} is redis 5.0.14, too old; use Redis 6.2 or newer, or Valkey"


def test_a_server_that_forgets(fake_store: str, info: dict[str, str]) -> None:
    info |= {"redis_version": "7.2.4", "maxmemory_policy": "allkeys-lru"}
    said = Omega(fake_store).error("cell", "list")
    assert said.endswith(
        "drops data when it is full (maxmemory-policy allkeys-lru); "
        "run CONFIG SET maxmemory-policy noeviction there, and set it in its configuration"
    )


def test_store_start_and_stop_are_for_the_own_store(store_url: str) -> None:
    for word in ("start", "stop"):
        assert Omega(store_url).error("store", word) == (
            f"the store at {store_url} is not embedded; start and stop it where it runs, "
            "or leave out --store and OMEGA_STORE"
        )


def test_status_of_a_given_store(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Omega(store_url).json("store", "status")
    assert set(found) == {
        "embedded",
        "running",
        "url",
        "directory",
        "persistence",
        "server",
        "pid",
        "version",
        "uptime_seconds",
        "memory_bytes",
        "loading",
        "cells",
        "warnings",
        "allocator",
        "advice",
        "refuses_writes",
        "script_bytes",
        "primary",
        "replicas",
    }
    assert (found["embedded"], found["running"], found["url"]) == (False, True, store_url)
    assert (found["directory"], found["persistence"], found["loading"]) == (None, "none", False)
    (warning,) = found["warnings"]
    assert warning == (
        f"the store at {store_url} keeps its data in memory only and loses every cell when it ends; "
        "set appendonly yes there, or back it up with omega store backup"
    )
    said = Omega(store_url).run("store", "status")
    assert said.stderr == f"warning: {warning}\n"
    monkeypatch.setattr(refused_writes, "MUCH_FOR_SCRIPTS", 1)
    _, scripts = Omega(store_url).json("store", "status")["warnings"]
    assert re.fullmatch(r"\d+ scripts take \d+ MiB; SCRIPT FLUSH on the server frees them, .*", scripts)
    assert Omega(store_url).run("store", "status").stderr.endswith("Omega loads its own again\n")
    monkeypatch.undo()
    with connect(store_url) as client:
        client.config_set("save", "3600 1")
        try:
            found = Omega(store_url).json("store", "status")
            assert (found["persistence"], len(found["warnings"])) == ("snapshots", 1)
            client.config_set("appendonly", "yes")
            found = Omega(store_url).json("store", "status")
            assert (found["persistence"], found["warnings"]) == ("append-only files", [])
        finally:
            client.config_set("appendonly", "no")
            client.config_set("save", "")


# Jobs


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (JOB.format("gpu: 1"), "stdin:5: tasks[0].resources.gpu: unknown resource 'gpu'; this cell has cpu, memory"),
        (JOB.format("cpu: -2"), "stdin:5: tasks[0].resources.cpu: -2 is negative; amounts start at 0"),
        (
            JOB.format("memory: 1e12Ti"),
            (
                "stdin:5: tasks[0].resources.memory: '1e12Ti' is too large; "
                "the most is 99999999999999 of the smallest unit"
            ),
        ),
        (
            JOB.format("cpu: lots"),
            "stdin:5: tasks[0].resources.cpu: 'lots' is not an amount; write for example 500m, 2, 256Mi or 1Gi",
        ),
        (
            "a: 1\n---\nb: 2\n",
            "stdin:2: not readable as YAML or JSON: several documents, write the jobs as one list; fix it there",
        ),
        ("name: a\n", "stdin:1: tasks: is missing"),
        ("name: a\ncolour: red\ntasks: [{}]\n", f"stdin:2: colour: unknown field; allowed: {', '.join(fields_at(()))}"),
        (
            "- name: a\n  tasks: [{}]\n- name: a\n  tasks: [{}]\n",
            "stdin:3: name: 'a' is that of the job at stdin:1; choose another",
        ),
    ],
)
def test_job_files_with_mistakes(omega: Omega, text: str, message: str) -> None:
    assert omega.error("job", "submit", "-", given=text) == message
    assert omega.json("job", "list")["total"] == 0


def test_job_files_that_cannot_be_read(omega: Omega, tmp_path: Path) -> None:
    said = omega.error("job", "submit", str(tmp_path / "none.yaml"))
    assert said == f"job file {tmp_path}/none.yaml: No such file or directory; give a file that can be read"
    (tmp_path / "picture.yaml").write_bytes(b"name: \xff\xfe")
    said = omega.error("job", "submit", str(tmp_path / "picture.yaml"))
    assert said == f"job file {tmp_path}/picture.yaml: not UTF-8 text at byte 6; save it as such"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--cpu", "-1"), "cpu: '-1' is negative; amounts start at 0"),
        (("--memory", "1e12Ti"), "memory: '1e12Ti' is too large; the most is 99999999999999 of the smallest unit"),
        (("--resource", "gpu=1"), "unknown resource 'gpu'; this cell has cpu, memory"),
        (("--gang", "--count", "5001"), "job a: a gang of 5001 tasks; the most in one transaction is 5000"),
        (("--kind", "Big"), "job kind 'Big': use a lower-case letter, then up to 31 letters, digits, _ -"),
        (("--duration", "soon"), "'soon' is not a duration; write for example 30s, 5m, 1h30m or 250ms"),
    ],
)
def test_jobs_from_the_command_line_with_mistakes(omega: Omega, words: tuple[str, ...], message: str) -> None:
    assert omega.error("job", "run", "--name", "a", *words) == message
    assert omega.json("job", "list")["total"] == 0


@pytest.mark.parametrize("given", [("rack",), ("rack=",), ("rack=r1,,r2",), ("rack=r1", "rack=r2"), ("1=a",)])
def test_attributes_of_machines_with_mistakes(omega: Omega, given: tuple[str, ...]) -> None:
    words = [word for text in given for word in ("--attribute", text)]
    for command in (("up", "--machines", "2"), ("machine", "add", "m", "--count", "2", "--cpu", "1")):
        said = omega.error(*command, *words, code=2)
        assert "is not NAME=VALUE,…; write rack=r1,r2" in said or "is given twice" in said


def test_duplicate_name(omega: Omega, cell: RedisCell) -> None:
    cell.jobs.submit([JobSpec("4f1c", "crawl", "batch", (TaskGroup((1, 1), 1),))], 1, "ada")
    taken = "job crawl: the name is taken by the live job 4f1c; wait for it, stop it, or choose another name"
    assert omega.error("job", "run", "--name", "crawl") == taken
    assert omega.error("job", "submit", "-", given="name: crawl\ntasks: [{}]\n") == taken


def test_a_file_goes_in_whole_or_not_at_all(omega: Omega, cell: RedisCell) -> None:
    cell.jobs.submit([JobSpec("4f1c", "crawl", "batch", (TaskGroup((1, 1), 1),))], 1, "ada")
    two = "- {name: new, tasks: [{}]}\n- {name: crawl, tasks: [{}]}\n"
    assert "the name is taken by the live job 4f1c" in omega.error("job", "submit", "-", given=two)
    assert omega.json("job", "list")["total"] == 1


def test_an_id_that_belongs_to_another_job(omega: Omega) -> None:
    omega.run("job", "submit", "-", given="name: a\nid: one\ntasks: [{}]\n")
    said = omega.error("job", "submit", "-", given="name: a\nid: one\ntasks: [{count: 2}]\n")
    assert said == "job a: the id one is that of another job, or of this one with other contents; choose another id"


@pytest.mark.parametrize("words", [("status",), ("stop",), ("wait",)])
def test_unknown_job(omega: Omega, words: tuple[str, ...]) -> None:
    assert omega.error("job", *words, "nope") == f"job 'nope': not in cell {omega.cell}; see omega job list"
    assert omega.error("job", *words, "") == f"job '': not in cell {omega.cell}; see omega job list"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("store", "backup", ""), 1),
        (("store", "backup", "{}/" + "9" * 5000), 1),
        (("store", "restore", "{}"), 2),
        (("job", "submit", "{}"), 1),
        (("job", "submit", "9" * 5000), 1),
        (("job", "plan", "{}"), 1),
        (("pool", "compute", "{}"), 2),
        (("cell", "status", "--cell", "9" * 5000), 1),
        (("scheduler", "run", "--file", "{}"), 1),
        (("cell", "limits", "batch", "--jobs", "9" * 5000), 1),
        (("job", "run", "--array", "0-9:" + "9" * 5000, "--name", "a"), 1),
        (("job", "resize", "a", "9" * 5000), 2),
        (("job", "run", "--array", "0-" + "9" * 5000, "--name", "a"), 1),
        (("job", "wait", "a", "--timeout", "9" * 500), 1),
    ],
)
def test_files_and_names_that_cannot_be(omega: Omega, tmp_path: Path, words: tuple[str, ...], code: int) -> None:
    """A folder where a file is wanted, no name, a name that is too long: a line of at most a thousand letters."""
    result = omega.run(*(word.replace("{}", str(tmp_path)) for word in words), code=code)
    assert result.stderr.startswith("error: ")
    assert (result.stderr.count("\n"), len(result.stderr) < 1_100) == (1, True)


def test_a_folder_as_store_file(tmp_path: Path) -> None:
    said = Omega(None).error("--store-file", str(tmp_path), "job", "list")
    assert said == f"store file {tmp_path}: is a directory; give a file that holds the URL of a store"
