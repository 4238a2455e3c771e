"""A primary is killed whose replica lacks the last changes: real agents, a scheduler, a client and commands go on."""

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from omega.cellstate.errors import OmegaError, Refused
from omega.cellstate.store import connect_cell
from omega.cellstate.verify import verify
from omega.client.client import Client
from tests.conftest import end_with_parent
from tests.integration.stage import until
from tests.server_groups import sentinels

pytestmark = pytest.mark.server


PROGRAM = str(Path(sys.executable).with_name("omega"))


class Commands:
    """Commands of the program on one store, each a process, with what they print."""

    def __init__(self, url: str, top: Path) -> None:
        self.url, self.top = url, top
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        kept = {name: value for name, value in os.environ.items() if not name.startswith("OMEGA")}
        self.environment = kept | {"OMEGA_STATE": str(top / "state"), "OMEGA_STORE": url}

    def start(self, name: str, *words: str) -> None:
        """Start a command."""
        with (self.top / name).open("wb") as said:
            self.running[name] = subprocess.Popen(
                [PROGRAM, *words], env=self.environment, stdout=said,
                stderr=subprocess.STDOUT, preexec_fn=end_with_parent,  # noqa: PLW1509 - no thread holds a lock
            )  # fmt: skip

    def said(self, name: str) -> str:
        return (self.top / name).read_text()

    def end(self) -> None:
        """End all of them: agents end their tasks."""
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            process.wait(30)


@contextmanager
def commands(url: str, top: Path) -> Iterator[Commands]:
    made = Commands(url, top)
    try:
        yield made
    finally:
        made.end()


def placed(client: Client, name: str) -> bool:
    try:
        return bool(client.status(name)["counts"]["placed"])
    except Refused:
        return False


@pytest.mark.chaos
def test_work_goes_on_after_a_failover_that_lost_changes(tmp_path: Path) -> None:
    book = tmp_path / "book"

    def job(name: str, count: int, script: str) -> dict[str, object]:
        words = ["sh", "-c", f"echo start {name} >> {book}; {script}; echo end {name} >> {book}"]
        need = {"cpu": "100m", "memory": "16Mi"}
        return {"name": name, "tasks": [{"count": count, "resources": need, "command": words}]}

    def written(line: str) -> int:
        return Counter(book.read_text().splitlines())[line] if book.exists() else 0

    with sentinels(replicas=1) as group, commands(group.url, tmp_path) as run:
        subprocess.run([PROGRAM, "cell", "create", "default"], env=run.environment, check=True)
        run.start("scheduler", "scheduler", "run", "batch", "--log-level", "info")
        for agent in ("a1", "a2"):
            run.start(agent, "agent", "--name", agent, "--cpu", "2", "--memory", "1Gi")
        with Client(group.url, "default", user="ada") as client:
            waits = f"while ! [ -e {tmp_path}/go ]; do sleep 0.1; done"
            client.submit(job("keep", 2, "sleep 600"), job("short", 2, waits))
            until(lambda: written("start keep") == written("start short") == 2, "the first tasks run")
            run.start("follow", "events", "--follow", "--kind", "submit")
            until(lambda: "short" in run.said("follow"), "somebody reads events")
            (replica,) = group.replicas()
            replica.cut_off()
            client.submit(job("lost", 3, "sleep 600"))
            run.start("run", "job", "run", "--name", "ran", "--cpu", "100m", "--memory", "16Mi", "--", "sleep", "4")
            until(lambda: written("start lost") == 3 and placed(client, "ran"), "lost tasks run")
            (tmp_path / "go").touch()
            until(lambda: client.status("short")["state"] == "finished", "tasks end, unknown to the replica")
            time.sleep(0.5)
            old = group.primary()
            old.kill()
            group.next_after(old)
            with closing(connect_cell(group.url, "default")) as cell:
                until(lambda: client.status("short")["state"] == "finished", "the lost ends are reported again")
                assert written("start short") == written("end short") == 2, "no task ran twice"
                until(lambda: cell.cuts().number == 1, "the cut is reported")
                with pytest.raises(OmegaError, match="job lost: submitted at version"):
                    client.status("lost")
                client.submit(job("after", 2, "true"))
                assert client.wait("after", 60.0)["state"] == "finished"
                assert client.wait("lost", 1.0)["submitted_again"] == 1
                until(lambda: written("start lost") == 6, "they run again")
                assert run.running["run"].wait(60) == 0, run.said("run")
                assert "the store lost 1 job, submitted again by the same id: ran" in run.said("run")
                assert written("end lost") == written("end keep") == 0
                assert written("start keep") == 2
                until(lambda: "after" in run.said("follow"), "events are followed")
                assert "the store lost versions" in run.said("follow")
                (cut,) = cell.cuts().kept
                report = verify(cell)
                assert report.ok, report.violations
                assert report.cuts == (cut,)
