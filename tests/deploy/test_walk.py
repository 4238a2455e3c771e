"""The walk of the page of deployment with systemd: its lines and the commands of its units, up to a job that ran.

Without root and without systemd: users are written down, each computer is a folder, and `systemctl` starts what the
installed units name.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from omega.client.store_file import read
from tests.cli.conftest import Omega
from tests.conftest import find_server
from tests.deploy.files import settings_of
from tests.deploy.processes import Deployment, deployment
from tests.server_groups import until
from tests.tutorial.page import DOCS

pytestmark = pytest.mark.server
PLACES = ("/etc/", "/var/lib/", "/run/", "/opt/", "/usr/bin/valkey-server")
"""Where a computer has what the page and the units name."""
FOLDERS = {"StateDirectory": "var/lib", "RuntimeDirectory": "run"}


def lines() -> list[list[list[str]]]:
    """Return the commands of the page, line by line, without comments."""
    page = (DOCS / "deploy.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```\n(groupadd.*?)^```", page[page.index("## systemd") :], re.MULTILINE | re.DOTALL)
    found = []
    for line in block.splitlines():
        words = shlex.split(line.replace(";", " ; "), comments=True)
        ends = [at for at, word in enumerate(words) if word == ";"]
        found.append([words[low:high] for low, high in zip([0, *(at + 1 for at in ends)], [*ends, None], strict=True)])
    return found


class Computer:
    """One computer, at first without users and files of Omega, but with Omega and a server installed."""

    def __init__(self, made: Deployment, number: int) -> None:
        self.made, self.number, self.root = made, number, made.folder / f"c{number}"
        self.users, self.groups = {"root", "www-data"}, {"root"}
        for folder in ("etc/systemd/system", "var/lib", "run", "opt/omega/bin", "usr/bin", "checkout"):
            (self.root / folder).mkdir(parents=True)
        program = find_server()
        assert program is not None
        (self.root / "usr/bin/valkey-server").symlink_to(program)
        (self.root / "opt/omega/bin/omega").symlink_to(Path(sys.executable).with_name("omega"))
        self.checkout = self.root / "checkout"
        (self.checkout / "deploy").symlink_to(made.folder)
        (self.checkout / "store-url").write_text(made.store_file.read_text("utf-8"), "utf-8")
        for kind in ("store", "sentinel"):  # what the page says of these files
            text = (made.folder / "data" / f"{kind}-{number}" / f"{kind}.conf").read_text("utf-8")
            text = text.replace(f"{made.folder}/data/{kind}-{number}", self.here(f"/var/lib/omega-{kind}"))
            (self.checkout / f"{kind}.conf").write_text(text, "utf-8")

    def here(self, word: str) -> str:
        """Return a word with its places below the root of this computer."""
        return re.sub(rf"(?<![\w/.])(?={'|'.join(PLACES)})", str(self.root), word)

    def type(self, words: list[str]) -> None:
        """Do what a command of the page does."""
        match words:
            case ["groupadd", "--system", name]:
                self.groups.add(name)
            case ["useradd", "--system", name]:
                self.users.add(name)
                self.groups.add(name)
            case ["usermod", "-aG", group, name]:
                assert (group in self.groups, name in self.users) == (True, True)
            case ["install", *rest]:
                self.install(rest)
            case ["systemctl", "daemon-reload"]:
                pass
            case ["systemctl", "enable", "--now", *units]:
                for unit in units:
                    self.start(unit)
            case ["sudo", "-u", user, *rest]:
                assert user in self.users
                until(lambda: self.run(rest).returncode == 0, 120.0)  # a person waits for the replicas
            case _:
                raise AssertionError(f"the page has a command that no computer of this test knows: {words}")

    def run(self, words: list[str], cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
        kept = {name: value for name, value in os.environ.items() if not name.startswith("OMEGA_")}
        return subprocess.run(
            [self.here(word) for word in words], cwd=cwd or self.checkout, env=kept, capture_output=True, text=True,
            check=False, timeout=60,
        )  # fmt: skip

    def install(self, words: list[str]) -> None:
        """Install files; their owner must be a user, and nobody else may read a file with a password."""
        words = list(words)
        if "-o" in words:
            at = words.index("-o")
            assert words[at + 1] in self.users
            del words[at : at + 2]
        words = [path for word in words for path in (self.matching(word))]
        done = self.run(["install", *words])
        assert done.returncode == 0, done.stderr

    def matching(self, word: str) -> list[str]:
        """Return the files that a pattern names; the word itself when it is none."""
        return [str(path) for path in sorted(self.checkout.glob(word))] if "*" in word else [word]

    def start(self, unit: str) -> None:
        """Start an installed unit; that of a timer runs once."""
        name, _, suffix = unit.partition(".")
        template, _, instance = name.partition("@")
        file = self.root / "etc/systemd/system" / f"{template}{'@' * ('@' in name)}.service"
        if suffix == "timer":
            assert file.with_suffix(".timer").exists()
        settings = settings_of(file)["Service"]
        said = dict(settings)
        for setting, folder in settings:
            if setting in FOLDERS:
                made = self.root / FOLDERS[setting] / folder
                made.mkdir(exist_ok=True)
                made.chmod(int(said.get(f"{setting}Mode", "0755"), 8))
            assert setting not in ("User", "Group") or folder in self.users | self.groups, (unit, folder)
        given = self.environment(settings, instance)
        commands = [value for setting, value in settings if setting in ("ExecStart", "ExecStartPost")]
        called = f"{name.removeprefix('omega-')}-{self.number}"
        for command in commands:
            words = [self.here(word) for word in self.words(command, instance, given)]
            if "--run-as" in words:  # needs root: tests/chaos/test_run_as.py
                at = words.index("--run-as")
                del words[at : at + 2]
            cwd, umask = Path(self.here(said.get("WorkingDirectory", "/var/lib/"))), int(said.get("UMask", "0022"), 8)
            self.made.start_process(called, words, given, cwd, umask)
            if suffix == "timer":
                assert self.made.processes[called].wait(120) == 0, self.made.printed(called)
        if suffix != "timer" and template not in ("omega-store", "omega-sentinel"):
            self.made.ready(called)

    def words(self, command: str, instance: str, given: dict[str, str]) -> list[str]:
        for name, value in given.items():
            command = command.replace(f"${{{name}}}", value)
        found = [word.replace("%i", instance).replace("$$", "$").replace("%%", "%") for word in shlex.split(command)]
        return [word.replace("127.0.0.1:9101", "127.0.0.1:0") for word in found]

    def environment(self, settings: list[tuple[str, str]], instance: str) -> dict[str, str]:
        """Return what a unit sets, later settings over earlier ones; a file that is there only on demand may miss."""
        found: dict[str, str] = {}
        for setting, value in settings:
            if setting == "Environment":
                name, _, text = self.here(value).partition("=")
                found[name] = text
            elif setting == "EnvironmentFile":
                file = Path(self.here(value.removeprefix("-").replace("%i", instance)))
                if file.exists() or value[0] != "-":
                    listed = [line for line in file.read_text("utf-8").splitlines() if line and line[0] != "#"]
                    found |= {line.partition("=")[0]: line.partition("=")[2] for line in listed}
        for setting, value in settings:
            if setting == "UnsetEnvironment":
                found.pop(value)
        return found


def test_the_lines_of_the_page_lead_to_a_job_that_ran() -> None:
    walk = lines()
    (servers,) = [at for at, line in enumerate(walk) if line[0][3:4] == ["omega-store"]]
    with deployment() as made:
        computers = [Computer(made, number) for number in (1, 2, 3)]
        for computer in computers:
            for line in walk[: servers + 1]:
                for words in line:
                    computer.type(words)
        for line in walk[servers + 1 :]:
            for words in line:
                computers[0].type(words)
        omega = Omega(read(str(made.store_file)), "prod")
        for kind in ("batch", "service"):
            asked = ("--follow", "--name", kind, "--kind", kind, "--cpu", "1m", "--memory", "1Mi")
            omega.run("job", "run", *asked, "--", "true")
            assert omega.json("job", "status", kind)["state"] == "finished"
        assert omega.json("cell", "verify")["ok"]
        root = computers[0].root
        assert {path.name for path in (root / "var/lib/omega-backup").iterdir()} > {"latest.omega"}
        assert (root / "run/omega-serve/web.sock").is_socket()
        secret = [root / "etc/omega" / name for name in ("store-url", "agent-store-url", "tokens")]
        secret += [root / f"var/lib/omega-{kind}/{kind}.conf" for kind in ("store", "sentinel")]
        assert {path.name: path.stat().st_mode & 0o77 for path in secret} == {path.name: 0 for path in secret}
