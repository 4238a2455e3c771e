"""A first evening, from the command line: a job is evicted, explained, and finished the next morning.

Read from top to bottom. Machines are played here, so nothing needs to be installed on them.
"""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.conftest import Omega, eventually

pytestmark = pytest.mark.server


@contextmanager
def up(omega: Omega, *words: str) -> Iterator[None]:
    """`omega up` in a terminal of its own: four machines of four cores; Ctrl-C at the end."""
    shared = ["--store", str(omega.url), "--cell", str(omega.cell), "up", "--batch", "1", "--machines", "4"]
    process = subprocess.Popen(
        [sys.executable, "-m", "cli.main", *shared, "--cpu", "4", "--memory", "8Gi", *words],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        assert any(line.startswith("ready: ") for line in process.stdout)
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.stdout.close()
        assert process.wait(60) == 0


def test_a_first_evening(store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMEGA_STATE", str(tmp_path))
    omega = Omega(store_url, "evening")

    with up(omega):
        # A job of sixteen tasks, each an hour long, fills the cell to the brim.
        words = "job run --name crawl --count 16 --cpu 1 --memory 1Gi --duration 1h --precedence 10 --detach"
        omega.run(*words.split())
        eventually(lambda: omega.json("job", "status", "crawl")["state"] == "running")
        assert "cpu 100 % (16 of 16)" in omega.text("cell", "status")

        # Then comes something more important. Would it get room? The plan says how, and changes nothing.
        file = tmp_path / "shop.yaml"
        file.write_text("""
        name: shop
        kind: service
        precedence: 200
        tasks:
          - {name: web, count: 4, resources: {cpu: 1, memory: 1Gi}, duration: 1h}
        """)
        plan = omega.run("job", "plan", str(file), code=1)  # 1: there would be changes
        assert "shop" in plan.stdout
        assert omega.json("cell", "status")["jobs"]["total"] == 1

        # It is submitted, and the store takes from the less important job exactly what it needs, in one transaction.
        omega.run("job", "submit", "--detach", str(file))
        eventually(lambda: omega.json("job", "status", "shop")["state"] == "running")
        eventually(lambda: omega.json("job", "status", "crawl")["counts"]["queued"] == 4)
        assert "of crawl" in omega.text("events", "--kind", "evicted")
        assert "for shop" in omega.text("events", "--kind", "evicted")

        # What of crawl was evicted waits again. Why, and what would help?
        assert omega.json("job", "list")["jobs"][0]["reason"] == "RESOURCES"
        why = omega.text("job", "why", "crawl")
        assert "4 of 16 tasks" in why
        assert "RESOURCES" in why

        # A machine dies; what ran on it waits as well, and nothing is lost.
        said = omega.text("machine", "down", "m3")
        assert said.startswith("machine m3 down · ")
        assert said.endswith(" tasks to be placed again\n")
        assert omega.json("job", "status", "crawl")["counts"]["queued"] > 4
        assert omega.text("cell", "verify").startswith("ok · 4 machines · 20 tasks · 2 jobs")

    # Good night: Ctrl-C ended the schedulers, and the cell keeps everything.
    assert omega.json("cell", "status")["schedulers"]["live"] == []

    # The next morning the machine is mended and the shop is closed. Machines that are played can be quick.
    omega.run("machine", "up", "m3")
    omega.run("job", "stop", "shop")
    with up(omega, "--speed", "7200"):
        assert omega.text("job", "wait", "crawl").endswith("crawl  finished · 16 finished\n")
        omega.run("cell", "verify")
    omega.run("cell", "delete", "--yes")
