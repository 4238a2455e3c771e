"""The services of deploy/compose.yaml as processes of this computer, with the commands that the file gives.

Nothing of a command is replaced but what a container would give it: names of services become ports of this computer,
folders of volumes and secrets become those beside a copy of the file.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.conftest import end_with_parent, find_server, socket_directory
from tests.deploy.files import DEPLOY, commands_of_units, compose, entrypoint, environment, settings_of
from tests.server_groups import free_ports, until

HERE = "127.0.0.1"


@dataclass
class Deployment:
    """A copy of deploy/ in a folder, prepared by prepare.sh; services run as processes."""

    folder: Path
    ports: dict[str, int]
    """The port of each service on this computer."""
    processes: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    @property
    def store_file(self) -> Path:
        """The file with the URL of the store."""
        return self.folder / "secrets" / "store-url"

    def here(self, text: str, service: str) -> str:
        """Return words of a service as they are on this computer."""
        for name, port in self.ports.items():
            text = re.sub(rf"\b{name}([: ])(?:6379|26379)\b", rf"{HERE}\g<1>{port}", text)
        text = re.sub(rf"(announce-ip) {service}$", rf"\1 {HERE}", text, flags=re.MULTILINE)
        text = re.sub(r"^port \d+$", f"port {self.ports.get(service)}", text, flags=re.MULTILINE)
        text = re.sub(r"\b0\.0\.0\.0:(?:9100|7070)\b", f"{HERE}:{self.ports.get(service)}", text)
        text = text.replace("web:7070", f"web:{self.ports.get('web')}")
        text = text.replace("/run/secrets", str(self.folder / "secrets"))
        for inside in ("/data", "/var/lib/omega"):
            text = re.sub(rf"(?<![\w/]){inside}\b", str(self.folder / "data" / service), text)
        return text

    def start(self, *services: str) -> None:
        """Start services with their commands."""
        for service in services:
            facts = compose()[service]
            ours = facts["image"].startswith("omega:")
            words = facts.get("entrypoint", entrypoint() if ours else []) + facts.get("command", [])
            given = {name: self.here(value, service) for name, value in facts.get("environment", {}).items()}
            self.start_process(service, [self.here(word, service) for word in words], given)

    def start_unit(self, unit: str, name: str = "") -> str:
        """Start the program of a systemd unit, as it would be on this computer; return the name of its process.

        Tasks of the agent run as its own user: another one needs root (tests/chaos/test_run_as.py).
        """
        path, called = DEPLOY / "systemd" / unit, unit.replace("@", f"@{name}")
        words = next(words for file, words in commands_of_units() if file == unit)
        places = {
            "/opt/omega/bin/": "", "%i": name, "/etc/omega/store-url": str(self.store_file),
            "/etc/omega/agent-store-url": str(self.store_file), "/var/lib/": f"{self.folder}/",
            "127.0.0.1:9101": "127.0.0.1:0",
        }  # fmt: skip
        for setting, value in settings_of(path)["Service"]:
            if setting == "StateDirectory":
                (self.folder / value).mkdir(mode=0o700)
        if "--run-as" in words:
            at = words.index("--run-as")
            words = words[:at] + words[at + 2 :] + ["--name", "by-unit", "--attribute", "of=systemd"]
        self.start_process(
            called,
            [_replaced(word, places) for word in words],
            {key: _replaced(value, places) for key, value in environment(path, name).items()},
        )
        return called

    def start_process(
        self, name: str, words: list[str], given: dict[str, str], cwd: Path | None = None, umask: int = -1
    ) -> None:
        """Start a program under a name, by default in the folder of the deployment; umask -1: that of this process."""
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=_environment(self.folder) | given,
                cwd=cwd or self.folder, umask=umask, preexec_fn=end_with_parent,  # noqa: PLW1509 - no thread holds a lock that it takes
            )  # fmt: skip

    def printed(self, service: str) -> str:
        """Return what a service printed."""
        return (self.folder / f"{service}.log").read_text(encoding="utf-8")

    def ready(self, service: str, word: str = "Ctrl-C") -> None:
        """Wait until a service printed a word."""
        until(lambda: word in self.printed(service) or self.processes[service].poll() is not None, 60.0)
        assert word in self.printed(service), f"{service} ended: {self.printed(service)}"

    def stop(self) -> None:
        """Stop the roles as Compose does, then end the servers."""
        roles = [each for name, each in self.processes.items() if not name.startswith(("store-", "sentinel-"))]
        for process in roles:
            process.terminate()
        for process in roles:
            with suppress(subprocess.TimeoutExpired):
                process.wait(30)
        for process in self.processes.values():
            process.kill()
            process.wait()

    @property
    def roles(self) -> list[str]:
        """The schedulers, the agents and the console."""
        return [name for name in compose() if name.startswith(("scheduler-", "agent-", "web"))]


def _replaced(text: str, places: Mapping[str, str]) -> str:
    for place, here in places.items():
        text = text.replace(place, here)
    return text


def _environment(folder: Path) -> dict[str, str]:
    """Return an environment with `omega` and `valkey-server` on its path, without settings of the user."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OMEGA_")}
    return kept | {"PATH": os.pathsep.join((str(folder / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]))}


@contextmanager
def deployment() -> Iterator[Deployment]:
    """Prepare a copy of deploy/ by prepare.sh, for this computer; all processes are ended afterwards."""
    program = find_server()
    assert program is not None
    folder = socket_directory() / "deploy"
    shutil.copytree(DEPLOY, folder)
    (folder / "bin").mkdir()
    (folder / "bin" / "valkey-server").symlink_to(program)
    subprocess.run(["sh", str(folder / "prepare.sh")], check=True, timeout=60)
    named = [name for name in compose() if name.startswith(("store-", "sentinel-", "scheduler-", "agent-", "web"))]
    made = Deployment(folder, dict(zip(named, free_ports(len(named)), strict=True)))
    for path in (*(folder / "data").glob("*/*.conf"), made.store_file):
        path.write_text(made.here(path.read_text(encoding="utf-8"), path.parent.name), encoding="utf-8")
    try:
        yield made
    finally:
        made.stop()
        shutil.rmtree(folder.parent, ignore_errors=True)
