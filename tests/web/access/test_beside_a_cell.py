"""`--web` of `omega up` and `omega demo`: the console beside a cell, its restart, and its end."""

import json
import os
import signal
import socket
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


@pytest.mark.chaos
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


def omega(state: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMEGA_STATE": str(state), "OMEGA_USER": "ada"}
    command = [sys.executable, "-m", "omega.cli.main", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False)


@pytest.mark.parametrize("words", [["up", "--machines", "1"], ["demo"]])
def test_an_address_in_use_is_refused_before_processes_start(store_url: str, tmp_path: Path, words: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = omega(tmp_path, "--store", store_url, "--cell", "c", *words, "--web", "--listen", listen)
    assert ended.returncode == 1
    refused = "stop what listens there, or choose another port with --listen\n"
    assert ended.stderr == f"error: address {listen}: address already in use; {refused}"
    assert not (tmp_path / "logs").exists(), "no process was started"


def test_tokens_go_with_the_console(store_url: str, tmp_path: Path) -> None:
    ended = omega(tmp_path, "--store", store_url, "up", "--tokens", "tokens.txt")
    assert ended.returncode == 2
    assert "--tokens goes with --web" in ended.stderr
    absent = omega(tmp_path, "--store", store_url, "up", "--web", "--tokens", str(tmp_path / "absent"))
    assert "tokens file" in absent.stderr


@pytest.mark.chaos
def test_omega_down_ends_a_console_whose_omega_up_was_killed(store_url: str, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.txt"
    made = omega(tmp_path, "token", "bo", "--role", "reader", "--tokens", str(tokens)).stdout.split()
    words = ["--store", store_url, "--cell", "c", "--json", "up", "--machines", "1", "--batch", "1", "--service", "0"]
    command = [sys.executable, "-m", "omega.cli.main", *words, "--web", "--listen", "127.0.0.1:0"]
    environment = {**os.environ, "OMEGA_STATE": str(tmp_path), "OMEGA_USER": "ada"}
    process = subprocess.Popen(
        [*command, "--tokens", tokens.name], env=environment, stdout=subprocess.PIPE, text=True, cwd=tmp_path
    )
    try:
        assert process.stdout is not None
        console = json.loads(process.stdout.readline())["console"]
        process.kill()
        process.wait()
        sent = {"Authorization": f"Bearer {next(word for word in made if len(word) > 30)}"}
        assert httpx.get(f"{console['url']}v1/cells", headers=sent).status_code == 200
    finally:
        process.kill()
        ended = omega(tmp_path, "--json", "--store", store_url, "down")
        process.communicate()
    assert "web/127.0.0.1:0" in {each["member"] for each in json.loads(ended.stdout)["ended"]}
    with pytest.raises(httpx.ConnectError):
        httpx.get(console["url"])


@pytest.fixture
def group(store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProcessSupervisor:
    monkeypatch.setenv("OMEGA_STATE", str(tmp_path))
    return ProcessSupervisor(store_url, "c", tmp_path / "logs" / "c", bound=True)


def answers(serving: Serving) -> bool:
    try:
        return httpx.get(serving.login).status_code == 303
    except httpx.TransportError:
        return False


@pytest.mark.chaos
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


@pytest.mark.chaos
def test_a_console_that_cannot_start_is_one_line(group: ProcessSupervisor) -> None:
    with group:
        taken = member.start(group, member.settings_of("127.0.0.1:0")).url.removeprefix("http://").rstrip("/")
        with pytest.raises(StoreError, match=f"console: ended with code 1: error: address {taken}: address already in"):
            member.start(group, member.settings_of(taken))
