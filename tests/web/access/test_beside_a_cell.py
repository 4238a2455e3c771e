"""`--web` of `omega up` and `omega demo`: the console beside a cell, its restart, and its end."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from omega.cellstate.errors import StoreError
from omega.live.processes.supervisor import ProcessSupervisor
from omega.web import member
from omega.web.server import Serving

SECONDS = 60.0


def test_omega_up_serves_the_console_of_its_cell(store_url: str, tmp_path: Path) -> None:
    words = ["--store", store_url, "--cell", "up-web", "--json", "up", "--machines", "2", "--batch", "1"]
    command = [sys.executable, "-m", "omega.cli.main", *words, "--service", "0", "--web", "--listen", "127.0.0.1:0"]
    environment = {**os.environ, "OMEGA_STATE": str(tmp_path), "OMEGA_USER": "ada"}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        assert "web/127.0.0.1:0" in said["processes"]
        console = said["console"]
        token = Path(console["token_file"]).read_text().strip()
        sent = {"Authorization": f"Bearer {token}"}
        assert httpx.get(f"{console['url']}v1/openapi.json", headers=sent).status_code == 200
        assert not list((tmp_path / "logs").rglob("*.ready")), "the address with the token stays nowhere"
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=SECONDS)
        assert process.returncode == 0
        with pytest.raises(httpx.ConnectError):
            httpx.get(console["url"])
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def group(store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProcessSupervisor:
    monkeypatch.setenv("OMEGA_STATE", str(tmp_path))
    return ProcessSupervisor(store_url, "c", tmp_path / "logs" / "c", bound=True)


def answers(serving: Serving) -> bool:
    try:
        return httpx.get(serving.login).status_code == 303
    except httpx.TransportError:
        return False


def test_a_console_that_was_killed_starts_again_with_its_address_and_token(group: ProcessSupervisor) -> None:
    with group:
        first = member.start(group, member.settings_of("127.0.0.1:0"))
        listen = first.url.removeprefix("http://").rstrip("/")
        group.stop()
        serving = member.start(group, member.settings_of(listen))
        assert answers(serving)
        name = f"web/{listen}"
        group.members[name].kill()
        group.members[name].wait()
        assert [ended[0] for ended in group.restart_dead()] == [name]
        until = time.monotonic() + SECONDS
        while not answers(serving) and time.monotonic() < until:
            group.restart_dead()
            time.sleep(0.1)
        assert answers(serving)


def test_a_console_that_cannot_start_is_one_line(group: ProcessSupervisor) -> None:
    with group:
        taken = member.start(group, member.settings_of("127.0.0.1:0")).url.removeprefix("http://").rstrip("/")
        with pytest.raises(StoreError, match=f"console: ended with code 1: error: address {taken}: address already in"):
            member.start(group, member.settings_of(taken))
