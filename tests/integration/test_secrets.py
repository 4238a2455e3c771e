"""The store's password: in no environment, no argv, no log and no file of any process that Omega starts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from omega.cellstate.model import JobSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.server import connect
from omega.jobfile.reader import JobFile, load
from tests.integration.stage import submit, until
from tests.integration.with_password import guarded_server, program

pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="this system has no /proc"),
]
MAPREDUCE = """
name: words
kind: mapreduce
workers: 1
resources: {{cpu: 100m, memory: 256Mi}}
input: {{files: [{place}/text], shard: 500Ki}}
map: {{command: [sh, -c, "cat /proc/$PPID/environ > {place}/worker; env > {place}/mapper; touch {place}/on; sleep 60"]}}
reduce: {{command: [cat], count: 1}}
output: {place}/out
"""


def leaks(secret: str) -> list[str]:
    """Processes whose environment or argv holds a text; all that this user (in CI: root) may read."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        for name in ("environ", "cmdline"):
            try:
                held = secret.encode() in (place / name).read_bytes()
            except OSError:
                continue
            if held:
                found.append(f"{name} of {(place / 'cmdline').read_bytes()[:80]!r}")
    return found


def files_with(secret: str, top: Path) -> list[Path]:
    """Files below a directory that hold a text."""
    return [path for path in top.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]


def test_no_process_shows_the_password(tmp_path: Path) -> None:
    with guarded_server() as (url, password):
        show_none(url, password, tmp_path)


def show_none(url: str, password: str, tmp_path: Path) -> None:
    """Start everything that Omega starts, and search it for the password."""
    state, store = tmp_path / "state", tmp_path / "store"
    state.mkdir()
    store.write_text(url)
    store.chmod(0o600)
    (tmp_path / "text").write_text("a b c\n")
    with connect(url) as client:
        cell = RedisCell.create(client, "secret", url=url)
        with (
            program("up", "--batch", "0", "--service", "0", "--mapreduce", "1", state=state, store=store),
            program("scheduler", "run", "batch", "--instances", "2", state=state, store=store),
        ):
            until(
                lambda: len([1 for _, alive, _ in cell.schedulers.members().values() if alive]) == 3,
                "three schedulers live",
            )
            until(lambda: any(agent.lives for agent in cell.executors.agents().values()), "the agent lives")
            extra = {"command": ["sh", "-c", f"env > {tmp_path}/task; touch {tmp_path}/runs; sleep 60"], "grace": 100}
            (job,) = load(
                [JobFile("m.yaml", MAPREDUCE.format(place=tmp_path), local=True)], cell.dimensions, lambda: "mr"
            )
            cell.schedulers.members()
            submit(cell, [JobSpec("t", "t", "batch", (TaskGroup((100, 64), 1, 0, extra),)), job])
            until(lambda: (tmp_path / "runs").exists() and (tmp_path / "on").exists(), "task and mapper run")
            assert leaks(password) == []
            assert leaks(f"OMEGA_STATE={state}"), "and the search finds what is there"
            found = [path for path in files_with(password, tmp_path) if path != store]
            assert found == []
            assert "OMEGA_STORE" not in (tmp_path / "mapper").read_text() + (tmp_path / "task").read_text()
        cell.close()


PEEK = """
import ctypes, os, sys, time
sys.path.insert(0, sys.argv[1])
from omega.live.agent.process_control import hide_memory
if os.geteuid() == 0:
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # a change of user hides it too
seen = []
for hide in (False, True):
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        if hide:
            hide_memory()
        os.write(theirs, b".")
        time.sleep(60)
    os.read(ours, 1)
    for name in ("environ", "mem"):
        try:
            open(f"/proc/{child}/{name}", "rb").close()
            seen.append("open")
        except PermissionError:
            seen.append("refused")
    os.kill(child, 9)
print(*seen)
"""


def test_another_process_of_the_user_cannot_read_one_that_hides() -> None:
    root = Path(__file__).resolve().parents[2]
    said = subprocess.run(
        [sys.executable, "-I", "-S", "-c", PEEK, str(root)], check=True, capture_output=True, text=True
    )
    assert said.stdout.split() == ["open", "open", "refused", "refused"]


@pytest.mark.parametrize(("mode", "said"), [(0o644, "open to other users"), (0o620, "open to other users")])
def test_a_store_file_that_others_reach_is_refused(tmp_path: Path, mode: int, said: str) -> None:
    store = tmp_path / "store"
    store.write_text("redis://:hunter2@nowhere")
    store.chmod(mode)
    done = subprocess.run(
        [sys.executable, "-m", "omega.cli.main", "--store-file", str(store), "cell", "list"],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "OMEGA_STORE_FILE": "/nowhere"},
    )
    assert done.returncode == 1
    assert said in done.stderr
    assert "hunter2" not in done.stderr
